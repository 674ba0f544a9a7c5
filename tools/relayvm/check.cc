// relayvm check: is this program well formed and well typed?
#include <iostream>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "compiler/driver/compile.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/import.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--params", "FILE",
     "also check the weights in FILE against the free variables and the parameters of @main; may be repeated"},
    kImportOption,
    kFreezeOption,
    kShapeOption,
    kSignatureOption,
    kCacheDTypeOption,
    kActivationDTypeOption,
    {"--types", "", "print the type of each function"},
};

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, kProgramFiles));
  driver::CompileOptions compile;
  compile.params_files = options.Values("--params");
  RVM_ASSIGN_OR_RETURN(ProgramFile program, ReadProgram(path, options, compile));
  driver::BoundWeights weights;
  diagnostics::Diagnostics& diagnostics = program.file.diagnostics();
  absl::StatusOr<ir::Module> module =
      driver::TypeModule(std::move(program.module), diagnostics, compile.params_files, &weights, compile.weights);
  absl::Status status = module.ok() ? driver::CheckInstances(*module, diagnostics) : module.status();
  RVM_RETURN_IF_ERROR(program.file.Report(status));
  ShowWeights(weights, compile.params_files);
  if (!options.Has("--types")) return absl::OkStatus();
  for (const ir::GlobalFunction& function : module->functions) {
    std::cout << "@" << function.name << ": " << ir::TypeToString(function.function->type) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

const Verb kCheckVerb = {
    .name = "check",
    .summary = "report the errors of a program",
    .usage = "FILE.relay|" RVM_MODEL_FILES "|FILE.json [options]",
    .options = kOptions,
    .more = R"(
Parses and types the program. Weights need not be there: a free variable has its annotation.
Nothing is printed where nothing is wrong. All that a model has and that is not supported is said at once.

Example:
  relayvm check model.relay --types
)",
    .run = Run,
};

}  // namespace rvm::tools
