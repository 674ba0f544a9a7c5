// Calls among global functions, after specialisation.
#ifndef RVM_COMPILER_PASSES_CALL_GRAPH_H_
#define RVM_COMPILER_PASSES_CALL_GRAPH_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/module.h"
#include "compiler/ir/walk.h"

namespace rvm::passes {

class CallGraph {
 public:
  explicit CallGraph(const ir::Module& module);

  // Indices into the module's functions: callees before callers, except in cycles.
  const std::vector<size_t>& callees_first() const { return order_; }
  const std::vector<size_t>& callees(size_t function) const { return callees_[function]; }
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

// Returns the module without functions that the entries do not reach, the rest in the same order.
ir::Module DropUnreachable(const ir::Module& module, const std::vector<std::string>& entries);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_CALL_GRAPH_H_
