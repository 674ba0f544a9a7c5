// Reverser: the reversed code of an expression.
//
// An expression of type R becomes one that gives its value and its *pullback*, a function from the adjoint of the value
// to the adjoints of chosen variables: a pair of type `(Flat(R), fn (Adjoint(R)) -> (Adjoint(V)...))`
// (lifted_types.h). A block of lets becomes a block of lets, forward, and one pullback, the steps' shares in reverse.
// Branches, functions and closures become branches, functions and closures that give such pairs. So there is one
// closure per block, whatever the number of operators in it, and no tape.
//
// Correct for references and sharing, because the accumulator of a boxed tensor belongs to the value and not to its
// place: putting a tensor into a box makes it, and in reverse that step comes after all uses, takes the contents and
// leaves zero.
//
// B. A. Pearlmutter, J. M. Siskind: "Reverse-mode AD in a functional framework" (2008), one pullback per block in place
// of one per primitive; references as in J. Roesch et al., "Relay" (2019).
#ifndef RVM_COMPILER_PASSES_DIFFERENTIATE_REVERSE_H_
#define RVM_COMPILER_PASSES_DIFFERENTIATE_REVERSE_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/build.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/differentiate/derivatives.h"

namespace rvm::passes {

// The adjoint of a flat variable, as far as something flows: a variable for a tensor, a tree of them for a tuple.
struct Adjoint {
  ir::Var* tensor = nullptr;
  std::vector<Adjoint> fields;

  bool empty() const;
  // Returns the adjoint of a tuple of which only the field at `path` has one.
  static Adjoint AtPath(Adjoint adjoint, const std::vector<size_t>& path);
};

// A variable and its adjoint.
struct Seed {
  ir::Var* var;
  ir::Var* adjoint;
};

// Code that is being reversed.
struct Reversed {
  std::vector<ir::Binding> chain;
  absl::flat_hash_map<const ir::Var*, Adjoint> adjoints;
};

struct Block {
  std::vector<ir::Binding> chain;                     // forward
  std::vector<std::function<void(Reversed&)>> steps;  // run from the last to the first
};

// A flat variable whose adjoint is asked for, and the type that it had in the program.
struct Wanted {
  ir::Var* var;
  const ir::Type* type;
};

class Reverser : public Lifter {
 public:
  explicit Reverser(Derivatives& derivatives) : Lifter(derivatives, Mode::kReverse) {}

  // Returns the reversed function, for arguments of which some are constant: no adjoints are computed for these.
  ir::Function* ReverseFunction(const ir::Function& function, const std::vector<bool>& constant);
  // `fn (params) { .. }` at the parameters' own types, as `transform` says: what `grad(function)` is. Null if an error
  // was reported.
  ir::Function* Transformed(const ir::Function& function, ops::Transform transform, ir::Span span);

  // Returns the adjoint, at the value's own type, of a lifted value: boxed, what its accumulators hold, which are
  // emptied; flat, `adjoint`, a value of type Adjoint(type).
  ir::Expr* TakeBoxed(ir::Var* lifted, const ir::Type* type, std::vector<ir::Binding>& chain, ir::Span span);
  ir::Expr* TakeFlat(ir::Var* lifted, ir::Var* adjoint, const ir::Type* type, std::vector<ir::Binding>& chain,
                     ir::Span span);
  // Returns the tangents of variables of straight-line code of operators, transposed: for `code` that computes each
  // variable of `seeds` linearly from `inputs`, the sum over `seeds` of its adjoint's share for each input. Null: none.
  // Appends to `chain`. The values of the inputs do not matter, their shapes do.
  std::vector<ir::Var*> Transpose(const std::vector<ir::Binding>& code, const std::vector<ir::Var*>& inputs,
                                  const std::vector<Seed>& seeds, std::vector<ir::Binding>& chain);

 private:
  bool CheckSignature(const ir::Function& function, ops::Transform transform, ir::Span span);
  // Returns a value of type `type` for one of type Adjoint(type) and the value that it belongs to.
  ir::Expr* FromAdjoint(ir::Var* adjoint, ir::Var* value, const ir::Type* type, std::vector<ir::Binding>& chain,
                        ir::Span span);
  // Code for `reversed`, a reversed function of type `type`, that runs it once for its value and again for its
  // pullback.
  ir::Function* Recomputing(ir::Var* reversed, const ir::FuncType& type, ir::Span span);
  ir::Expr* AdjointOf(ir::Var* value, const ir::Type* type, std::vector<ir::Binding>& chain, ir::Span span);

  // ---- adjoints
  void Add(Reversed& code, const ir::Var* var, Adjoint share, ir::Span span);
  void Merge(Reversed& code, Adjoint& sum, Adjoint share, ir::Span span);
  Adjoint Spread(Reversed& code, ir::Var* adjoint, const ir::Type* type, ir::Span span);
  ir::Expr* Materialise(Reversed& code, const Adjoint& adjoint, ir::Var* value, const ir::Type* type, ir::Span span);

  // ---- blocks
  ir::Expr* ReverseBody(Block& block, ir::Expr* body, const ir::Type* result, const std::vector<Wanted>& wanted);
  ir::Var* Bind(Block& block, std::string_view name, ir::Expr* value, ir::Span span);
  // Field `index` of a flat tuple.
  ir::Var* BindField(Block& block, ir::Var* tuple, size_t index, const ir::Type* field, std::string_view name,
                     ir::Span span);
  // `let name: type = value`.
  ir::Var* Declared(Block& block, ir::Var* value, std::string_view name, const ir::Type* type, ir::Span span);
  ir::Var* Box(Block& block, ir::Var* value, const ir::Type* type, ir::Span span);
  // In reverse, adds the adjoint that `var`, which was unboxed, has in the block to the accumulator in its box.
  void Accumulate(Block& block, ir::Var* var, ir::Span span);
  ir::Var* Unbox(Block& block, ir::Var* box, const ir::Type* type, std::string_view name, ir::Span span);

  // ---- expressions: appends to the block; the flat variable of the value
  ir::Var* Eval(ir::Expr* expr, Block& block);
  ir::Var* EvalNode(ir::Expr* expr, Block& block);
  void EvalLet(const ir::Let& let, Block& block);
  ir::Var* EvalTuple(const ir::Tuple& tuple, Block& block);
  ir::Var* EvalFunction(const ir::Function& function, Block& block, ir::Var* self,
                        const std::vector<bool>& constant = {});
  ir::Var* EvalCall(const ir::Call& call, Block& block);
  ir::Var* EvalConstructor(const ir::Call& call, const ir::Constructor& constructor, Block& block);
  // `custom_vjp`, `checkpoint`: the reversed function that they make.
  ir::Var* EvalTransform(const ir::Call& call, ops::Transform transform, Block& block);
  ir::Var* EvalCustomVjp(const ir::Call& call, Block& block);
  ir::Var* EvalCheckpoint(const ir::Call& call, Block& block);
  // Returns the value of an expression, which the pullback computes anew.
  ir::Var* EvalRecomputed(ir::Expr* expr, Block& block);
  ir::Var* EvalOperator(const ir::Call& call, const ops::OpDef& op, Block& block);
  ir::Var* EvalBranches(const ir::Expr& expr, Block& block, ir::Var* scrutinee);
  // Returns a tensor with the extents that are declared of the contents of a reference.
  ir::Var* AsContents(Block& block, ir::Var* value, const ir::Type* contents, ir::Span span);
  ir::Var* EvalReference(ir::Expr* expr, Block& block);
  ir::Pattern* ReversePattern(const ir::Pattern& pattern, const ir::Type* type, bool boxed, ir::Var* scrutinee,
                              std::vector<size_t>& path, Block& block);
  // `pair`: a value and its pullback, which has the adjoints of `wanted`. `has_effects`: of the pullback.
  ir::Var* BindPair(Block& block, ir::Expr* pair, const ir::Type* result, std::vector<Wanted> wanted, bool has_effects,
                    ir::Span span);

  // Returns the variable that stands for one of the program. One from outside of what is reversed is a constant.
  ir::Var* Lookup(const ir::Var* var, ir::Span span);
  ir::Var* LiftConstant(const ir::Var* var, ir::Span span);
  bool IsActive(const ir::Var* var) const { return active_.contains(var); }
  void Activate(const ir::Var* var, const ir::Type* type) {
    if (types_.HasFloats(type)) active_.insert(var);
  }
  ir::Var* Unknown(const ir::Type* type, ir::Span span) { return At(span).Var("unknown", types_.Flat(type)); }

  absl::flat_hash_map<const ir::Var*, ir::Var*> vars_;
  absl::flat_hash_set<const ir::Var*> active_;           // of the reversed code: adjoints flow to them
  absl::flat_hash_map<const ir::Var*, ir::Var*> boxes_;  // of tensors of the reversed code that were unboxed
  Block constants_;                                      // lifted constants, before what is reversed
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_DIFFERENTIATE_REVERSE_H_
