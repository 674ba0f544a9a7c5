// Signatures and documentation of names, as editors show them.
#ifndef RVM_TOOLS_LSP_DESCRIBE_H_
#define RVM_TOOLS_LSP_DESCRIBE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"
#include "tools/lsp/analysis.h"

namespace rvm::tools::lsp {

struct Signature {
  struct Parameter {
    size_t begin;  // in `label`, in bytes
    size_t end;
    std::string doc;
    std::string attribute;  // the name, if it is an attribute
  };
  std::string label;  // `nn.dense(data, weight, units=None)`
  std::vector<Parameter> parameters;
  std::string doc;  // Markdown
};

Signature SignatureOf(const ops::OpDef& op);
Signature SignatureOf(const ir::Constructor& constructor);
// `name` with its mark. Without the inferred types, if the function has none.
Signature SignatureOf(std::string_view name, const ir::Function& function);
// Returns nullopt unless the variable is a function.
std::optional<Signature> SignatureOf(const ir::Var& var);

// `type List[A] { Cons(A, List[A]), Nil }`
std::string DefinitionText(const ir::AdtDef& adt);
// `%x: Tensor[(n), float32]`
std::string VariableText(const ir::Var& var);
// Inputs, attributes and examples, in Markdown.
std::string OperatorDoc(const ops::OpDef& op);
// Returns the comment above the definition of a name: of the text, or of the Prelude.
std::string CommentOf(const Analysis& analysis, const text::NamePlace& place);
std::string CommentOfDefinition(const Analysis& analysis, std::string_view marked_name);

// Everything about the name at `place`, in Markdown.
std::string DescribeName(const Analysis& analysis, const text::NamePlace& place);
// `text` as a block of code.
std::string CodeBlock(std::string_view text);

}  // namespace rvm::tools::lsp

#endif  // RVM_TOOLS_LSP_DESCRIBE_H_
