// relayvm grad: the gradient of a function as a program.
#include <iostream>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "compiler/driver/gradient.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--of", "NAME", "the function (main)"},
    {"--wrt", "NAMES", "parameters of it, between commas: %w1,%w2; all with floating-point numbers"},
    {"-o", "FILE.relay", "write the program there instead of printing it"},
};

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, "a .relay file"));
  RVM_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Read(path));
  driver::GradientRequest request{.function = options.Value("--of", "main"), .reads_imports = true};
  if (request.function.starts_with("@")) request.function.erase(0, 1);
  if (options.Has("--wrt")) request.parameters = absl::StrSplit(options.Value("--wrt", ""), ',');
  absl::StatusOr<std::string> text = driver::GradientProgram(file.id(), request, file.diagnostics());
  RVM_RETURN_IF_ERROR(file.Report(text.status()));
  if (options.Has("-o")) return ReplaceFile(options.Value("-o", ""), *text);
  std::cout << *text;
  return absl::OkStatus();
}

}  // namespace

const Verb kGradVerb = {
    .name = "grad",
    .summary = "print the gradient of a function as a program",
    .usage = "FILE.relay [options]",
    .options = kOptions,
    .more = R"(
The program has a function @NAME_grad with the parameters of @NAME. It gives the result of @NAME and a tuple of the
gradients of it, in the order of --wrt; of a result that is no scalar, those of the sum of its elements. Weights that
are free variables are constant: make them parameters to have their gradients. See docs/gradients.md.

Example:
  relayvm grad model.relay --of loss --wrt %w1,%w2 -o loss_grad.relay
)",
    .run = Run,
};

}  // namespace rvm::tools
