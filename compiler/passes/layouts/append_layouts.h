// Decides in which order of axes functions keep the tensors that they append to.
#ifndef RVM_COMPILER_PASSES_LAYOUTS_APPEND_LAYOUTS_H_
#define RVM_COMPILER_PASSES_LAYOUTS_APPEND_LAYOUTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

// For each tensor of a value (those of a tuple in order, nested ones in place) the axis that is moved to the front; 0
// if none is. A value of another type counts as one tensor.
using Layout = std::vector<int64_t>;

// Returns the number of elements of a layout of values of type `type`.
size_t NumLeaves(const ir::Type* type);
// `type` with the axes in the order of `layout`.
const ir::Type* Arranged(ir::Arena& arena, const ir::Type* type, const Layout& layout);
// Returns the axis along which `call`, of `concatenate`, joins tensors of known rank; counted from the front.
int64_t JoinedAxis(const ir::Call& call);

// The analysis behind lay_out_appends.cc. A slot is a tensor of a variable or of the result of a global function. Slots
// between which values flow unchanged, through names, tuples, branches, parameters and results, and from the first
// operand of `concatenate` to its result, are nodes of a graph. What lies on a cycle with such an append is appended to
// again and again: it is kept with the joined axis in front, if all appends of the cycle join along one axis.
class AppendLayouts {
 public:
  // `module` is in A-normal form and outlives the analysis.
  explicit AppendLayouts(const ir::Module& module);

  bool empty() const { return num_arranged_ == 0; }
  Layout OfVar(const ir::Var& var) const;
  Layout OfParam(std::string_view function, size_t param) const;
  Layout OfResult(std::string_view function) const;
  bool ChangesSignature(std::string_view function) const;

 private:
  struct Edge {
    size_t from, to;
    int64_t axis;  // along which is appended; -1: the value itself
  };

  size_t SlotsOf(const ir::Var& var);
  size_t NewSlots(const ir::Type* type);
  Layout LayoutAt(size_t slot, const ir::Type* type) const;
  void Visit(const ir::Expr* expr, size_t to);
  void VisitStep(const ir::Expr* expr, size_t to);
  void VisitCall(const ir::Call& call, size_t to);
  void BindPattern(const ir::Pattern& pattern, const ir::Expr* value);
  void BindPattern(const ir::Pattern& pattern, const ir::Type* type, size_t from);
  void Connect(size_t from, size_t to, const ir::Type* type);
  void Alias(size_t from, size_t to, const ir::Type* type);
  void Solve();
  void Arrange(const std::vector<size_t>& cycle, const std::vector<std::vector<size_t>>& edges_from,
               const std::vector<size_t>& cycle_of);

  absl::flat_hash_map<std::string_view, const ir::GlobalFunction*> functions_;
  absl::flat_hash_map<const ir::Var*, size_t> slots_;
  absl::flat_hash_map<std::string_view, size_t> results_;  // first slots of results
  std::vector<const ir::Type*> types_;                     // by slot
  std::vector<int64_t> axes_;                              // by slot, the layout
  std::vector<Edge> edges_;
  std::vector<Edge> aliases_;  // edges to variables of patterns, in the order of the program
  size_t num_appends_ = 0;
  size_t num_arranged_ = 0;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_LAYOUTS_APPEND_LAYOUTS_H_
