// Shared parts of reverse mode (reverse.h) and forward mode (forward.h).
#ifndef RVM_COMPILER_PASSES_DIFFERENTIATE_DERIVATIVES_H_
#define RVM_COMPILER_PASSES_DIFFERENTIATE_DERIVATIVES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/build.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/differentiate/lifted_types.h"

namespace rvm::passes {

// Functions between the values of a data type T and those of Boxed(T).
enum class Conversion : uint8_t {
  kLift,     // T -> Boxed(T), in either mode; nothing flows yet
  kTake,     // reverse mode, Boxed(T) -> T: what the accumulators hold, which are emptied
  kPair,     // forward mode, (T, T) -> Boxed(T): a value and its tangent, of one structure
  kValue,    // forward mode, Boxed(T) -> T
  kTangent,  // forward mode, Boxed(T) -> T
};

// State shared by all derivatives in a module.
class Derivatives {
 public:
  Derivatives(const ir::Module& module, diagnostics::Diagnostics& diagnostics)
      : arena(*module.arena),
        reverse_types(module, Mode::kReverse),
        forward_types(module, Mode::kForward),
        diagnostics(diagnostics) {}
  virtual ~Derivatives() = default;

  // Returns the literal that a variable was bound to by a let, free of gradients itself; null if there is none.
  virtual const ir::Function* LiteralOf(const ir::Var* var) = 0;
  // Returns the name of the derivative of a global function in `mode`, to be made if it does not exist, where no
  // derivatives flow for the flat arguments that are `constant`. `use` is for messages.
  virtual std::string Derived(const ir::GlobalExpr& use, Mode mode, const std::vector<bool>& constant) = 0;
  // Returns the name of a global function, to be made if it does not exist. `mode` matters for kLift only.
  virtual std::string Converter(const ir::AdtType& adt, Conversion conversion, Mode mode) = 0;

  LiftedTypes& types(Mode mode) { return mode == Mode::kReverse ? reverse_types : forward_types; }

  ir::Arena& arena;
  LiftedTypes reverse_types, forward_types;
  diagnostics::Diagnostics& diagnostics;
};

// The base of both modes.
class Lifter {
 public:
  Lifter(Derivatives& derivatives, Mode mode) : shared_(derivatives), types_(derivatives.types(mode)) {}

  // Returns a value at its own type, lifted: to Boxed(type), else to Flat(type). Null if an error was reported.
  ir::Expr* Lift(ir::Var* value, const ir::Type* type, bool boxed, std::vector<ir::Binding>& chain, ir::Span span);

 protected:
  ir::Builder At(ir::Span span) { return {shared_.arena, span}; }
  ir::Expr* ZerosLike(ir::Var* var, ir::Span span);
  void Refuse(ir::Span span, diagnostics::DiagnosticKind kind, std::string message);
  // Returns the name of the derivative in messages: "gradient" or "tangent".
  std::string_view Asked() const { return types_.mode() == Mode::kReverse ? "gradient" : "tangent"; }
  // Returns a call of a converter.
  ir::Expr* Convert(Conversion conversion, std::vector<ir::Expr*> args, const ir::Type* type, ir::Span span);
  // `var` at a type that has its tensors, in tuples, with other extents.
  ir::Expr* As(const ir::Type* type, ir::Var* var, std::vector<ir::Binding>& chain, ir::Span span);
  // `type` with the extents that `param`, which it flows to, has as numbers: derivatives stand in tuples and function
  // types, whose extents are not checked when the program runs.
  const ir::Type* WithExtentsOf(const ir::Type* param, const ir::Type* type);
  // Returns whether the operator has a gradient rule; else an error is reported.
  bool HasRule(const ops::OpDef& op, ir::Span span);
  // Runs the rule. Reports an error if it refuses the call.
  void ApplyRule(const ops::OpDef& op, ops::Pullback& pullback, ir::Span span);
  // Returns whether derivatives by all arguments of the function exist; else an error is reported.
  bool CheckArguments(const ir::Function& function, ir::Span span);
  // Returns a function or a reference in a value of type `type`; null if there is none.
  const ir::Type* FindUncopied(const ir::Type* type);

  Derivatives& shared_;
  LiftedTypes& types_;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_DIFFERENTIATE_DERIVATIVES_H_
