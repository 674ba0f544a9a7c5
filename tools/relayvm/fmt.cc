// relayvm fmt: prints a program in canonical form.
#include <iostream>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "compiler/driver/program_files.h"
#include "compiler/text/printer.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--write", "", "rewrite the files instead of printing them"},
    {"--check", "", "change nothing; fail and name the files that are not in canonical form"},
};

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  if (options.positional().empty()) return absl::InvalidArgumentError("no file given; expected .relay files");
  if (options.Has("--write") && options.Has("--check")) {
    return absl::InvalidArgumentError("`--write` and `--check` exclude each other");
  }
  std::string unformatted;
  for (const std::string& path : options.positional()) {
    RVM_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Read(path));
    driver::ProgramFiles files;
    files.set_only_declares();
    std::string text = text::Format(file.id(), file.diagnostics(), &files);
    RVM_RETURN_IF_ERROR(file.Report(absl::OkStatus()));
    if (options.Has("--check")) {
      if (text != file.text()) absl::StrAppend(&unformatted, unformatted.empty() ? "" : ", ", path);
    } else if (!options.Has("--write")) {
      std::cout << text;
    } else if (text != file.text()) {
      RVM_RETURN_IF_ERROR(ReplaceFile(path, text));
    }
  }
  if (unformatted.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("not in canonical form: ", unformatted, "; `relayvm fmt --write` puts them into it"));
}

}  // namespace

const Verb kFmtVerb = {
    .name = "fmt",
    .summary = "print a program in canonical form",
    .usage = "FILE.relay... [options]",
    .options = kOptions,
    .more = R"(
Both spellings of Relay become one; comments stay. What is printed reads back to an equal program.

Example:
  relayvm fmt --write model.relay
)",
    .run = Run,
};

}  // namespace rvm::tools
