// The answers to requests about a document. Each is the JSON of the field `result`.
#ifndef RVM_TOOLS_LSP_REQUESTS_H_
#define RVM_TOOLS_LSP_REQUESTS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/lsp/document.h"

namespace rvm::tools::lsp {

std::string Hover(Document& document, size_t offset);
// Returns the place where the name is bound; null for operators and names of the Prelude.
std::string GoToDefinition(Document& document, std::string_view uri, size_t offset);
std::string References(Document& document, std::string_view uri, size_t offset, bool includes_definition);
std::string Highlights(Document& document, size_t offset);
std::string DocumentSymbols(Document& document);
std::string SignatureHelp(Document& document, size_t offset);
// completion.cc
std::string Completions(Document& document, size_t offset);
// Returns the edits that bring the text into canonical form; null if it has syntax errors.
std::string Formatting(Document& document);

// rename.cc
// kFailedPrecondition if the name cannot be renamed, as an operator cannot.
absl::StatusOr<std::string> PrepareRename(Document& document, size_t offset);
// kFailedPrecondition also if the new name is none, or would give a name another meaning.
absl::StatusOr<std::string> Rename(Document& document, std::string_view uri, size_t offset, std::string_view name);

// Returns the parameters of `textDocument/publishDiagnostics`. `has_related`: the client shows places related to a
// diagnostic.
std::string DiagnosticsOf(Document& document, std::string_view uri, bool has_related);

}  // namespace rvm::tools::lsp

#endif  // RVM_TOOLS_LSP_REQUESTS_H_
