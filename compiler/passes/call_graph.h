// Which global functions call which, after specialisation.
#ifndef RVM_COMPILER_PASSES_CALL_GRAPH_H_
#define RVM_COMPILER_PASSES_CALL_GRAPH_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

// Calls `visit(expr)` for every expression in `root`, parents first, in evaluation order; no
// recursion. `visit` returns false to skip what is inside.
template <typename F>
void ForEachExpr(const ir::Expr* root, F&& visit);

// Appends the children of `expr`, the last first.
void PushChildren(const ir::Expr* expr, std::vector<const ir::Expr*>& stack);

class CallGraph {
 public:
  explicit CallGraph(const ir::Module& module);

  // Indices into the module's functions: callees before callers, except in cycles.
  const std::vector<size_t>& callees_first() const { return order_; }
  bool is_recursive(size_t function) const { return is_recursive_[function]; }
  size_t num_calls(size_t function) const { return num_calls_[function]; }
  // Null if the module has no function of that name.
  const size_t* Find(std::string_view name) const;

 private:
  void FindCycles();

  absl::flat_hash_map<std::string, size_t> index_;
  std::vector<std::vector<size_t>> callees_;
  std::vector<size_t> order_;
  std::vector<bool> is_recursive_;
  std::vector<size_t> num_calls_;
};

// The module without functions that the entries do not reach, the rest in the same order.
ir::Module DropUnreachable(const ir::Module& module, const std::vector<std::string>& entries);

template <typename F>
void ForEachExpr(const ir::Expr* root, F&& visit) {
  std::vector<const ir::Expr*> stack = {root};
  while (!stack.empty()) {
    const ir::Expr* expr = stack.back();
    stack.pop_back();
    if (visit(expr)) PushChildren(expr, stack);
  }
}

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_CALL_GRAPH_H_
