// Marks that a program places operators by: `on_device`, `device_copy`.
#ifndef RVM_COMPILER_PASSES_PLACEMENT_MARKS_H_
#define RVM_COMPILER_PASSES_PLACEMENT_MARKS_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/expr.h"

namespace rvm::passes {

// Returns the call if it is one of an operator that only says where its argument is, else null.
const ir::Call* AsMark(const ir::Expr* expr);

// Operator calls of a function that are marked.
class Marks {
 public:
  explicit Marks(const ir::Expr* body);

  bool has_any() const { return has_any_; }
  // Returns the virtual device of the call; null if no mark places it.
  const std::string* Find(const ir::Call& call) const;

 private:
  void Place(const ir::Expr* value, const std::string& device);

  absl::flat_hash_map<const ir::Var*, const ir::Expr*> values_;
  absl::flat_hash_map<const ir::Call*, std::string> places_;
  bool has_any_ = false;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PLACEMENT_MARKS_H_
