// Forward: the dual code of an expression.
//
// An expression of type R becomes one that gives its value and its *tangent*, the derivative of the value along given
// tangents of chosen variables: a value of type Boxed(R) (lifted_types.h), in which each floating-point tensor is a
// pair of both. Blocks, branches, functions, closures, data types and references keep their shape, so a loop stays a
// loop and nothing is kept for later. Where nothing flows, the code is that of the program.
//
// The tangents of an operator come from its gradient rule, whose shares are linear in the adjoint of the result: the
// transposed rule takes tangents of the arguments to those of the result (Reverser::Transpose). So one rule serves both
// modes, which agree at kinks, too.
//
// J. M. Siskind, B. A. Pearlmutter: "Nesting forward-mode AD in a functional framework" (2008), without tags: the
// transformation is lexical. Transposition as in R. Frostig et al.: "Decomposing reverse-mode automatic
// differentiation" (2021), the other way round.
#ifndef RVM_COMPILER_PASSES_DIFFERENTIATE_FORWARD_H_
#define RVM_COMPILER_PASSES_DIFFERENTIATE_FORWARD_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/passes/differentiate/derivatives.h"

namespace rvm::passes {

class Forward : public Lifter {
 public:
  explicit Forward(Derivatives& derivatives) : Lifter(derivatives, Mode::kForward) {}

  // Returns the dual function, for arguments of which some are constant: these have no tangents.
  ir::Function* ForwardFunction(const ir::Function& function, const std::vector<bool>& constant);
  // `fn (params, tangents) { .. }` at the parameters' own types: what `jvp(function)` is. Null if an error was
  // reported.
  ir::Function* Transformed(const ir::Function& function, ir::Span span);

  // Returns the value of type Boxed(type) of a value and its tangent; and back: part 0 or 1 of `boxed`.
  ir::Expr* Pair(ir::Var* value, ir::Var* tangent, const ir::Type* type, std::vector<ir::Binding>& chain,
                 ir::Span span);
  ir::Expr* Part(ir::Var* boxed, size_t part, const ir::Type* type, std::vector<ir::Binding>& chain, ir::Span span);

 private:
  // A value of type T in dual code. `var` has the type Boxed(T) if `is_pair`, else Flat(T). A floating-point tensor
  // that is no pair may have a tangent; without one it is constant, as any value with floats is that is no pair.
  struct Dual {
    ir::Var* var;
    ir::Var* tangent = nullptr;
    bool is_pair = false;

    bool flows() const { return is_pair || tangent != nullptr; }
  };
  // A block of lets within another one.
  struct Block {
    const Block* outer;
    std::vector<ir::Binding> chain;
    absl::flat_hash_map<const ir::Var*, Dual> parts;  // of pairs that were taken apart here
  };

  ir::Var* Bind(Block& block, std::string_view name, ir::Expr* value, ir::Span span);
  Dual BoxedVar(ir::Var* var, const ir::Type* type) { return {var, nullptr, types_.HasFloats(type)}; }
  // Returns a tensor as its value and its tangent.
  Dual TakeApart(const Dual& dual, Block& block, ir::Span span);
  // Returns the dual as a value of type Boxed(type).
  ir::Expr* AsBoxed(const Dual& dual, const ir::Type* type, Block& block, ir::Span span);

  // ---- expressions: appends to the block
  Dual Eval(ir::Expr* expr, Block& block);
  Dual EvalNode(ir::Expr* expr, Block& block);
  void EvalLet(const ir::Let& let, Block& block);
  Dual EvalTuple(const ir::Tuple& tuple, Block& block);
  ir::Function* EvalFunction(const ir::Function& function, const Block* outer, const std::vector<bool>& constant = {});
  Dual EvalCall(const ir::Call& call, Block& block);
  Dual EvalConstructor(const ir::Call& call, const ir::Constructor& constructor, Block& block);
  Dual EvalTransform(const ir::Call& call, const ops::OpDef& op, Block& block);
  Dual EvalOperator(const ir::Call& call, const ops::OpDef& op, Block& block);
  Dual EvalIf(const ir::If& branch, Block& block);
  Dual EvalMatch(const ir::Match& match, Block& block);
  Dual EvalReference(ir::Expr* expr, Block& block);
  ir::Pattern* DualPattern(const ir::Pattern& pattern, const ir::Type* type, bool boxed);
  // Returns the tangents of the results of an operator; null where nothing flows.
  std::vector<ir::Var*> Tangents(const ir::Call& call, const ops::OpDef& op,
                                 const std::vector<std::vector<Dual>>& arguments, const std::vector<ir::Var*>& results,
                                 Block& block);

  Dual Lookup(const ir::Var* var, ir::Span span);
  Dual LiftConstant(const ir::Var* var, ir::Span span);

  absl::flat_hash_map<const ir::Var*, Dual> vars_;
  Block constants_ = {};  // lifted constants, before all that is transformed
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_DIFFERENTIATE_FORWARD_H_
