// "Did you mean" for a name that no operator has: its spelling conventions, its typing errors, and the names that other
// libraries give to operators.
#ifndef RVM_COMPILER_OPS_SUGGEST_OPERATOR_H_
#define RVM_COMPILER_OPS_SUGGEST_OPERATOR_H_

#include <climits>
#include <span>
#include <string>
#include <string_view>

namespace rvm::ops {

// A row of foreign_names.def.
struct ForeignName {
  std::string_view other;
  std::string_view name;  // an operator, or `@f` of the Prelude
  std::string_view hint;  // how to call it; may be empty
};
std::span<const ForeignName> ForeignNames();

struct Suggestion {
  std::string_view name;   // empty if there is none
  std::string_view hint;   // of a foreign name
  int distance = INT_MAX;  // NameDistance; 0 for a foreign name
};

// Returns the operator that `name` means: under another library's name, in another namespace, in another spelling, or
// misspelt.
Suggestion SuggestOperator(std::string_view name);

// "; did you mean `OPERATOR`?"; empty if there is none.
std::string DidYouMeanOperator(std::string_view name);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_SUGGEST_OPERATOR_H_
