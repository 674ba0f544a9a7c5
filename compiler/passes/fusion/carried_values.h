// Values that one step of a recursion hands to the next: what is computed from them must wait for that step.
#ifndef RVM_COMPILER_PASSES_FUSION_CARRIED_VALUES_H_
#define RVM_COMPILER_PASSES_FUSION_CARRIED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/module.h"
#include "compiler/passes/call_graph.h"

namespace rvm::passes {

// The state of a recurrent cell, for example: it depends on a product of the step before. Products over a list of
// inputs do not, and can be computed for all steps at once. Does not look at which field of a value depends on what.
class CarriedValues {
 public:
  explicit CarriedValues(const ir::Module& module);

  // Returns whether the variable depends on a result of a product that goes around a cycle of calls, as an argument, as
  // a result, or through a reference.
  bool IsCarried(const ir::Var* var) const;

 private:
  // A set of Dependence.
  using Facts = uint8_t;
  enum Dependence : Facts {
    kProduct = 1,  // on the result of a product
    kCarried = 2,  // on one that went around a cycle of calls
  };

  Facts Visit(const ir::Expr* expr);
  Facts VisitOnThisStack(const ir::Expr* expr);
  Facts VisitCall(const ir::Call& call);
  void Bind(const ir::Pattern& pattern, Facts facts);
  void Add(Facts& to, Facts facts);
  // Returns whether a call of `callee` in the function at hand may lead back to it.
  bool IsInCycle(size_t callee);

  const ir::Module& module_;
  const CallGraph calls_;
  absl::flat_hash_map<const ir::Var*, Facts> facts_;
  std::vector<Facts> results_;              // by function
  std::vector<std::vector<bool>> reached_;  // by function: those that it calls, in some steps; empty: not known yet
  Facts references_ = 0;                    // of all their contents
  size_t function_ = 0;                     // at hand
  bool changed_ = false;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_FUSION_CARRIED_VALUES_H_
