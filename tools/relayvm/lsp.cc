// relayvm lsp: the language server of editors.
#include <iostream>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tools/lsp/server.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--stdio", "", "talk by standard input and output, which is the only way; editors give this option"},
};

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  if (!options.positional().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("saw `", options.positional()[0], "`; expected no file: the editor sends the texts"));
  }
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);  // a thread that reads must not flush what another one writes
  return lsp::Server(std::cin, std::cout).Run();
}

}  // namespace

const Verb kLspVerb = {
    .name = "lsp",
    .summary = "serve an editor: errors, types, completion, navigation",
    .usage = "[options]",
    .options = kOptions,
    .more = R"(
Speaks the Language Server Protocol 3.17. An editor starts it for files `.relay`; docs/editors.md says how.
)",
    .run = Run,
};

}  // namespace rvm::tools
