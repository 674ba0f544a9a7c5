// OpDef: everything the compiler knows about one operator, in one definition.
//
// The parser's attributes, the printer's defaults, the type rule, the run-time shape rule (the same function), what
// fusion may do, the computation that the reference evaluator and every back-end execute, the row of docs/operators.md
// and a test of the examples are all derived from it.
#ifndef RVM_COMPILER_OPS_OP_DEF_H_
#define RVM_COMPILER_OPS_OP_DEF_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/literal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/attrs.h"
#include "compiler/ir/type.h"
#include "compiler/ops/scalar_instruction.h"
#include "kernels/te/tensor.h"

namespace rvm::ops {

using diagnostics::DiagnosticKind;

// Freedom of fusion with an operator (the predecessor's pattern letters).
enum class FusionClass : uint8_t {
  kElementwise,  // E: output element i reads element i of each input
  kBroadcast,    // B: ... after broadcasting
  kInjective,    // I: each output element reads one element of each input
  kReduction,    // R: reduces axes
  kContraction,  // C: dense, conv: elementwise consumers fuse as its epilogue
  kOpaque,       // O: stays alone
};

struct Input {
  std::string_view name;
  std::string_view doc;
  bool is_tuple = false;  // a tuple of any number of tensors
  // The shape of the result depends on the values of this small integer tensor (TypeContext::ValueDim). Fusion keeps
  // it as an input of the kernel.
  bool decides_shape = false;
  // A call may omit it, together with all inputs that follow.
  bool is_optional = false;
  // Like decides_shape, but only where the value is known to the compiler (TypeContext::KnownValue).
  bool may_decide_shape = false;
  // Counts, lengths or sizes: a floating-point argument is converted to int64 (ops/build_call.h: WithIntegerCounts).
  bool is_count = false;
};

enum class AttrType : uint8_t {
  kBool,
  kInt,
  kFloat,
  kString,
  kDType,
  kInts,       // a list of integers; one integer is accepted as a list of one, and [] as a default that has elements
  kIntOrInts,  // keeps the form that was written (split's indices_or_sections)
  kAny,
};

struct AttrSpec {
  std::string_view name;
  AttrType type;
  // Relay text of the default ("-1", "None", "\"\"", "[1, 1]"), or "" if it must be given.
  std::string_view default_text;
  std::string_view doc;
  bool may_be_none = false;
};

// Outcome of a type relation.
enum class Solve : uint8_t {
  kDone,    // holds, and the result is unified
  kStuck,   // needs to know more about its argument types; will be retried
  kFailed,  // cannot hold; an error was reported
};

// A type relation's view of one call. The type checker implements it during inference; lowering implements it to derive
// the run-time shape rule, where every `?` of an argument is a distinct Dim::Var, so that the dims of the result are
// expressions of the inputs' dims.
class TypeContext {
 public:
  virtual ~TypeContext() = default;

  virtual ir::Arena& arena() = 0;
  virtual const ir::Attrs& attrs() const = 0;  // complete and checked against the schema
  virtual size_t num_args() const = 0;
  // The argument's fully resolved type. May be a hole or contain holes.
  virtual const ir::Type* arg(size_t i) = 0;
  // The argument's value if it is a compile-time constant, else null.
  virtual const Literal* arg_value(size_t i) = 0;
  virtual const ir::Type* result() = 0;

  // Unifies two types, filling holes. Reports an error and returns false if they differ.
  virtual bool Unify(const ir::Type* a, const ir::Type* b) = 0;
  // Requires two dims to be equal. If they are provably different, reports an error that starts with `what`
  // ("`nn.dense`: reduction dim of `data` and `weight`") and returns false. If that cannot be decided, records a
  // run-time check and returns true.
  virtual bool RequireEqual(const Dim& a, const Dim& b, std::string_view what,
                            diagnostics::DiagnosticKind kind = diagnostics::DiagnosticKind::kShapeMismatch) = 0;
  // Like RequireEqual, but either may also be 1; returns the broadcast dim.
  virtual Dim RequireBroadcast(const Dim& a, const Dim& b, std::string_view what) = 0;
  // Like RequireEqual, for a >= b.
  virtual bool RequireAtLeast(const Dim& a, const Dim& b, std::string_view what) = 0;
  // Element `element`, in row-major order, of argument `arg`, an integer tensor of constant dims whose
  // Input::decides_shape is set: a constant if the argument is one, else a dim known at run time. May be negative.
  virtual Dim ValueDim(size_t arg, int64_t element) = 0;
  // Element `element` of argument `arg` where that is known to type inference or to an importer: a constant or a dim
  // over the extents of the program's tensors, whose variables are not negative (base/dim_bounds.h). nullopt elsewhere,
  // in particular where the run-time shape rule is derived: there use ValueDim.
  virtual std::optional<Dim> KnownValue([[maybe_unused]] size_t arg, [[maybe_unused]] int64_t element) {
    return std::nullopt;
  }
  // Gives an integer attribute of the call another value, by which the program is compiled: one that makes the result
  // what inference says of it.
  virtual void ResolveAttr([[maybe_unused]] std::string_view name, [[maybe_unused]] int64_t value) {}
  // Returns a data-dependent dim: known only after the operator has run.
  virtual Dim DataDependentDim() = 0;
  // Reports an error at argument `arg` (-1: at the call). Returns Solve::kFailed.
  virtual Solve Fail(diagnostics::DiagnosticKind kind, std::string message, int arg = -1) = 0;

  // Unify(result(), type) as a Solve.
  Solve Result(const ir::Type* type) { return Unify(result(), type) ? Solve::kDone : Solve::kFailed; }
};

using TypeRelation = Solve (*)(TypeContext&);

// The inputs of a Compute function: a te tensor for each tensor among the arguments (tuples are flattened in order),
// the attributes, and the dtype and dims of each result as the type relation derived them from the inputs' dims.
class ComputeContext {
 public:
  ComputeContext(std::span<const te::Tensor> inputs, const ir::Attrs& attrs, std::span<const te::TensorSpec> outputs)
      : inputs_(inputs), attrs_(attrs), outputs_(outputs) {}
  size_t num_inputs() const { return inputs_.size(); }
  const te::Tensor& input(size_t i) const { return inputs_[i]; }
  const ir::Attrs& attrs() const { return attrs_; }
  size_t num_outputs() const { return outputs_.size(); }
  const te::TensorSpec& output(size_t i = 0) const { return outputs_[i]; }

 private:
  std::span<const te::Tensor> inputs_;
  const ir::Attrs& attrs_;
  std::span<const te::TensorSpec> outputs_;
};

// One te tensor per output, dtype and extents as ComputeContext::output(i).
using Compute = std::vector<te::Tensor> (*)(const ComputeContext&);

// A call of an operator and its value as Relay text: "nn.relu([-1f, 2f])" and "[0f, 2f]". docs/operators.md shows the
// examples, and a test runs them in the evaluator and at each level. Arguments are literals or tuples of literals.
struct Example {
  std::string_view call;
  std::string_view result;
};

class Pullback;  // pullback.h

// The gradient rule of an operator: gives the arguments their shares of the adjoint of the result.
using Gradient = void (*)(Pullback&);
// The rule of operators that are constant wherever they have a derivative, and of those that hide one.
inline void NothingFlows(Pullback&) {}

// Transformation of a function that an operator stands for (passes/differentiate).
enum class Transform : uint8_t { kNone, kGrad, kVjp, kJvp, kCustomVjp, kCheckpoint };

struct OpDef {
  std::string_view name;     // "nn.dense"
  std::string_view summary;  // one line
  std::span<const Input> inputs;
  std::span<const AttrSpec> attrs = {};
  TypeRelation type_relation = nullptr;
  FusionClass fusion = FusionClass::kOpaque;
  Compute compute = nullptr;
  // On scalars, where there are instructions for it.
  const ScalarInstructions* scalar = nullptr;
  // The result has the input's elements in the same order under another shape (reshape, squeeze, ...). Compiled to a
  // view, without a kernel.
  bool is_reshape = false;
  // For operators whose number of results is data-dependent: a call is rewritten to `fill_op(args...,
  // count_op(args...))` with the same attributes (compiler/passes/fusion/count_results.cc). `compute` is then used for
  // calls whose shape is known, or is null.
  std::string_view count_op = "";
  int64_t num_counts = 0;  // 0: count_op gives a scalar; otherwise a vector of this length
  std::string_view fill_op = "";
  // Binary operator text ("+") for the parser and the printer, or "".
  std::string_view infix = "";
  std::span<const Example> examples = {};
  // Null: the operator has no rule. An error where a gradient would flow through it.
  Gradient gradient = nullptr;
  Transform transform = Transform::kNone;
};

// Returns the fields that most operators set.
constexpr OpDef Op(std::string_view name, std::string_view summary, std::span<const Input> inputs,
                   std::span<const AttrSpec> attrs, TypeRelation relation, FusionClass fusion, Compute compute,
                   std::span<const Example> examples = {}) {
  return {.name = name,
          .summary = summary,
          .inputs = inputs,
          .attrs = attrs,
          .type_relation = relation,
          .fusion = fusion,
          .compute = compute,
          .examples = examples};
}

constexpr OpDef WithGradient(OpDef op, Gradient gradient) {
  op.gradient = gradient;
  return op;
}

// Returns the fewest arguments that a call must have.
inline size_t NumRequiredInputs(const OpDef& op) {
  size_t count = op.inputs.size();
  while (count > 0 && op.inputs[count - 1].is_optional) --count;
  return count;
}

// Returns whether the shape of the result depends on the values of argument `arg`.
inline bool DecidesShape(const OpDef& op, size_t arg) { return arg < op.inputs.size() && op.inputs[arg].decides_shape; }

// Returns whether argument `arg` has counts, which may be floating-point numbers.
inline bool IsCount(const OpDef& op, size_t arg) {
  return arg < op.inputs.size() && (op.inputs[arg].decides_shape || op.inputs[arg].is_count);
}

// All operators, sorted by name.
std::span<const OpDef* const> AllOps();
// Null if no operator has this name. O(log n).
const OpDef* FindOp(std::string_view name);
// Returns the operator written `infix`, e.g. "+", or null.
const OpDef* FindInfix(std::string_view infix);

// Completes `attrs` with defaults and checks names and types against the schema, reporting
// misspelt names with suggestions. False if an error was reported.
bool CompleteAttrs(const OpDef& op, ir::Span call_span, ir::Attrs& attrs, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_OP_DEF_H_
