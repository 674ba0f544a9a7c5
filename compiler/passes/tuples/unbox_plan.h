// Decides which products cross calls field by field.
#ifndef RVM_COMPILER_PASSES_TUPLES_UNBOX_PLAN_H_
#define RVM_COMPILER_PASSES_TUPLES_UNBOX_PLAN_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

// The analysis behind unbox_tuples.cc. A place is a parameter or the result of a global function. Unboxing is decided
// for all places at once: the largest set such that
//  - a parameter in it is only taken apart, passed on to a parameter in it, or (once per loop) returned;
//  - the tails of a function whose result is in it are tuples written there, variables, and calls of functions whose
//    results are in it;
//  - some use takes a field of it;
//  - a parameter whose type has a constructor is given values that calls write: otherwise their cells are there anyway,
//    and a cell that is taken apart is the memory of the next one.
// Results are decided once parameters are done: a parameter that is passed on by field may remove a reason not to, and
// a call that is rewritten for its fields is no longer a tail call.
class UnboxPlan {
 public:
  // `module` outlives the plan. Entries that nothing calls keep their signatures.
  UnboxPlan(const ir::Module& module, const std::vector<std::string>& entries);

  bool empty() const { return num_unboxed_ == 0; }
  bool IsUnboxed(std::string_view function, size_t param) const;
  bool ReturnsFields(std::string_view function) const;
  // Either of these.
  bool ChangesSignature(std::string_view function) const;

 private:
  struct Place {
    bool is_unboxed = false;        // first: it may be
    bool is_wanted = false;         // a use takes a field
    bool is_made = true;            // a call writes it
    std::vector<size_t> needs;      // places that are unboxed, too, or this one is not
    std::vector<size_t> wanted_by;  // if one of these is wanted, so is this one
    std::vector<size_t> made_by;    // if one of these is made, so is this one
  };
  struct Signature {
    size_t first;  // place of parameter 0; that of the result follows the parameters
    size_t num_params;
    const ir::Type* result_type;
    size_t result() const { return first + num_params; }
  };

  void AddParams(const ir::GlobalFunction& global, bool is_recursive);
  // Finds the parameters that calls in `body` write values of.
  void FindMadeParams(const ir::Expr* body);
  void AddResult(const ir::GlobalFunction& global);
  void FindWantedResults(const ir::Expr* body);
  void Solve();
  void DropUnsupported();
  // Calls `reach` for every unboxed place that has an edge, over others, to one for which `reaches` holds.
  template <typename Reaches, typename Reach>
  void Propagate(std::vector<size_t> Place::* edges, Reaches reaches, Reach reach);
  // Returns the place of parameter `param`.
  size_t ParamOf(std::string_view function, size_t param) const { return signatures_.at(function).first + param; }
  size_t ResultOf(std::string_view function) const { return signatures_.at(function).result(); }

  ir::Arena& arena_;
  absl::flat_hash_map<std::string_view, Signature> signatures_;
  std::vector<Place> places_;  // by function, callees first
  size_t num_unboxed_ = 0;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_TUPLES_UNBOX_PLAN_H_
