// relayvm explain: the meaning of a kind of diagnostic, with a program that causes it.
#include <algorithm>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

using diagnostics::DiagnosticKind;

void PrintAll() {
  for (DiagnosticKind kind : diagnostics::AllDiagnosticKinds()) {
    std::cout << diagnostics::DiagnosticTag(kind) << ": " << diagnostics::DiagnosticSummary(kind) << '\n';
  }
}

void PrintOne(DiagnosticKind kind) {
  std::cout << diagnostics::DiagnosticTag(kind) << ": " << diagnostics::DiagnosticSummary(kind) << '\n';
  std::string_view example = diagnostics::DiagnosticExample(kind);
  if (example.empty()) return;
  std::cout << "\nFor example, this program:\n\n";
  for (size_t begin = 0; begin < example.size();) {
    size_t end = std::min(example.find('\n', begin), example.size());
    std::cout << "  " << example.substr(begin, end - begin) << '\n';
    begin = end + 1;
  }
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions({}, args));
  if (options.positional().empty()) {
    PrintAll();
    return absl::OkStatus();
  }
  for (const std::string& name : options.positional()) {
    std::vector<std::string> tags;
    bool found = false;
    for (DiagnosticKind kind : diagnostics::AllDiagnosticKinds()) {
      tags.push_back(diagnostics::DiagnosticTag(kind));
      if (name != tags.back() && name != diagnostics::DiagnosticName(kind)) continue;
      found = true;
      PrintOne(kind);
    }
    if (found) continue;
    std::vector<std::string_view> known(tags.begin(), tags.end());
    std::string near = DidYouMean(name, known);
    return absl::InvalidArgumentError(absl::StrCat("no kind of diagnostic is named `", name, "`",
                                                   near.empty() ? "; `relayvm explain` lists them" : near));
  }
  return absl::OkStatus();
}

}  // namespace

const Verb kExplainVerb = {
    .name = "explain",
    .summary = "say what a kind of diagnostic means",
    .usage = "[KIND...]",
    .options = {},
    .more = R"(
KIND is what a message shows in brackets at its end. Without one, all kinds are listed.

Example:
  relayvm explain ambiguous-constructor
)",
    .run = Run,
};

}  // namespace rvm::tools
