// Elementwise operators of one tensor.
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/identity.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a tensor of any shape"}};
constexpr Input kLikeInputs[] = {{"data", "a tensor of any shape"}, {"like", "a tensor whose dtype is taken"}};
constexpr AttrSpec kClipAttrs[] = {{"a_min", AttrType::kFloat, "", "the least value"},
                                   {"a_max", AttrType::kFloat, "", "the greatest value"}};
constexpr AttrSpec kCastAttrs[] = {{"dtype", AttrType::kDType, "", "the dtype of the result"}};
constexpr Example kReinterpretExamples[] = {{"reinterpret([1f, -0f], dtype=\"int32\")", "[1065353216, -2147483648]"},
                                            {"reinterpret([True, False], dtype=\"uint8\")", "[1u8, 0u8]"},
                                            {"reinterpret([0i8, 1i8], dtype=\"bool\")", "[False, True]"}};
constexpr AttrSpec kLeakyAttrs[] = {{"alpha", AttrType::kFloat, "0.25f", "the slope for negative values"}};

template <typename F>
std::vector<Tensor> Map(const ComputeContext& context, F&& f) {
  const Tensor& in = context.input(0);
  return {
      te::ComputeTensor("map", context.output().dtype, in.dims(), [&](std::span<const Expr> i) { return f(in(i)); })};
}

template <UnaryOp op>
std::vector<Tensor> ComputeUnary(const ComputeContext& context) {
  return Map(context, [](Expr x) { return te::Unary(op, x); });
}

std::vector<Tensor> ComputeRound(const ComputeContext& context) {
  return Map(context, [](const Expr& x) { return RoundHalfAway(x); });
}

std::vector<Tensor> ComputeCast(const ComputeContext& context) {
  DataType dtype = context.output().dtype;
  return Map(context, [&](Expr x) { return te::Cast(dtype, x); });
}

std::vector<Tensor> ComputeClip(const ComputeContext& context) {
  DataType dtype = context.output().dtype;
  Expr low = te::Const(dtype, context.attrs().GetDouble("a_min"));
  Expr high = te::Const(dtype, context.attrs().GetDouble("a_max"));
  return Map(context, [&](Expr x) {
    return te::Binary(te::BinaryOp::kMinimum, te::Binary(te::BinaryOp::kMaximum, x, low), high);
  });
}

std::vector<Tensor> ComputeRelu(const ComputeContext& context) {
  return Map(context, [&](Expr x) { return te::Binary(te::BinaryOp::kMaximum, x, te::Const(x.dtype(), 0)); });
}

std::vector<Tensor> ComputeLeakyRelu(const ComputeContext& context) {
  double alpha = context.attrs().GetDouble("alpha");
  return Map(context, [&](Expr x) {
    Expr zero = te::Const(x.dtype(), 0);
    return te::Select(te::Binary(te::BinaryOp::kGreater, x, zero), x, x * te::Const(x.dtype(), alpha));
  });
}

template <int value>
std::vector<Tensor> ComputeFillLike(const ComputeContext& context) {
  DataType dtype = context.output().dtype;
  return Map(context, [&](Expr) { return te::Const(dtype, value); });
}

Solve WithDType(TypeContext& context, DataType dtype) {
  bool failed = false;
  const ir::TensorType* tensor = TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  if (tensor == nullptr) return Solve::kStuck;
  DataType from = tensor->dtype.dtype;
  if (from.lanes != dtype.lanes) {
    return FailDType(context, 0, from, absl::StrCat("a dtype of as many lanes as `", dtype.ToString(), "`"));
  }
  return ResultTensor(context, tensor->shape.dims, dtype);
}

Solve CastRelation(TypeContext& context) { return WithDType(context, DTypeAttr(context.attrs(), "dtype", kFloat32)); }

Solve PredicateRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* tensor = TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  return tensor == nullptr ? Solve::kStuck : WithDType(context, BoolOf(tensor->dtype.dtype));
}

Solve ReinterpretRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* tensor = TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  if (tensor == nullptr) return Solve::kStuck;
  DataType to = DTypeAttr(context.attrs(), "dtype", tensor->dtype.dtype);
  if (to.bytes() == tensor->dtype.dtype.bytes()) return WithDType(context, to);
  return FailDType(context, 0, tensor->dtype.dtype, absl::StrCat("a dtype of as many bytes as ", to.ToString()));
}

std::vector<Tensor> ComputeReinterpret(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  DataType dtype = context.output().dtype;
  // The byte of a bool must be 0 or 1.
  bool has_bool = dtype.is_bool() || data.dtype().is_bool();
  return {te::ComputeTensor("reinterpret", dtype, data.dims(), [&](std::span<const Expr> i) {
    return has_bool ? te::Cast(dtype, data(i)) : te::Bitcast(dtype, data(i));
  })};
}

Solve CastLikeRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* like = TensorArg(context, 1, &failed);
  if (failed) return Solve::kFailed;
  return like == nullptr ? Solve::kStuck : WithDType(context, like->dtype.dtype);
}

Solve LogicalNotRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* tensor = TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  if (tensor == nullptr) return Solve::kStuck;
  if (!tensor->dtype.dtype.is_bool()) {
    return context.Fail(diagnostics::DiagnosticKind::kDTypeMismatch,
                        "argument 1 has dtype `" + tensor->dtype.dtype.ToString() + "`; expected `bool`", 0);
  }
  return ResultTensor(context, tensor->shape.dims, tensor->dtype.dtype);
}

Solve IntegralIdentityRelation(TypeContext& context) {
  if (!context.Unify(context.arg(0), context.result())) return Solve::kFailed;
  bool failed = false;
  const ir::TensorType* tensor = TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  if (tensor == nullptr) return Solve::kStuck;
  if (tensor->dtype.dtype.is_integral()) return Solve::kDone;
  return context.Fail(diagnostics::DiagnosticKind::kDTypeMismatch,
                      "argument 1 has dtype `" + tensor->dtype.dtype.ToString() + "`; expected an integer dtype", 0);
}

template <UnaryOp op>
constexpr OpDef Float(std::string_view name, std::string_view summary, const ScalarInstructions* scalar = nullptr) {
  return {.name = name,
          .summary = summary,
          .inputs = kInputs,
          .type_relation = FloatIdentityRelation,
          .fusion = FusionClass::kElementwise,
          .compute = ComputeUnary<op>,
          .scalar = scalar};
}
template <UnaryOp op>
constexpr OpDef Number(std::string_view name, std::string_view summary, const ScalarInstructions* scalar = nullptr) {
  return {.name = name,
          .summary = summary,
          .inputs = kInputs,
          .type_relation = IdentityRelation,
          .fusion = FusionClass::kElementwise,
          .compute = ComputeUnary<op>,
          .scalar = scalar};
}
template <UnaryOp op>
constexpr OpDef Predicate(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .inputs = kInputs,
          .type_relation = PredicateRelation,
          .fusion = FusionClass::kElementwise,
          .compute = ComputeUnary<op>};
}

constexpr OpDef kOps[] = {
    WithGradient(Float<UnaryOp::kExp>("exp", "e to the power of x"), ExpGradient),
    WithGradient(Float<UnaryOp::kLog>("log", "natural logarithm"), LogGradient),
    WithGradient(Float<UnaryOp::kLog2>("log2", "logarithm to base 2"), Log2Gradient),
    WithGradient(Float<UnaryOp::kLog10>("log10", "logarithm to base 10"), Log10Gradient),
    WithGradient(Float<UnaryOp::kSqrt>("sqrt", "square root", &scalar::kSqrt), SqrtGradient),
    WithGradient(Float<UnaryOp::kRsqrt>("rsqrt", "1 / sqrt(x)"), RsqrtGradient),
    WithGradient(Float<UnaryOp::kSigmoid>("sigmoid", "1 / (1 + exp(-x))"), SigmoidGradient),
    WithGradient(Float<UnaryOp::kTanh>("tanh", "hyperbolic tangent"), TanhGradient),
    WithGradient(Float<UnaryOp::kErf>("erf", "error function"), ErfGradient),
    WithGradient(Float<UnaryOp::kSin>("sin", "sine"), SinGradient),
    WithGradient(Float<UnaryOp::kCos>("cos", "cosine"), CosGradient),
    WithGradient(Float<UnaryOp::kTan>("tan", "tangent"), TanGradient),
    WithGradient(Float<UnaryOp::kAsin>("asin", "inverse sine"), AsinGradient),
    WithGradient(Float<UnaryOp::kAcos>("acos", "inverse cosine"), AcosGradient),
    WithGradient(Float<UnaryOp::kAtan>("atan", "inverse tangent"), AtanGradient),
    WithGradient(Float<UnaryOp::kSinh>("sinh", "hyperbolic sine"), SinhGradient),
    WithGradient(Float<UnaryOp::kCosh>("cosh", "hyperbolic cosine"), CoshGradient),
    WithGradient(Float<UnaryOp::kAsinh>("asinh", "inverse hyperbolic sine"), AsinhGradient),
    WithGradient(Float<UnaryOp::kAcosh>("acosh", "inverse hyperbolic cosine"), AcoshGradient),
    WithGradient(Float<UnaryOp::kAtanh>("atanh", "inverse hyperbolic tangent"), AtanhGradient),
    WithGradient(Float<UnaryOp::kExp>("fast_exp", "exp, for compatibility"), ExpGradient),
    WithGradient(Float<UnaryOp::kTanh>("fast_tanh", "tanh, for compatibility"), TanhGradient),
    WithGradient(Float<UnaryOp::kErf>("fast_erf", "erf, for compatibility"), ErfGradient),
    WithGradient(Number<UnaryOp::kFloor>("floor", "greatest integer <= x"), NothingFlows),
    WithGradient(Number<UnaryOp::kCeil>("ceil", "least integer >= x"), NothingFlows),
    WithGradient(Op("round", "nearest integer, halves away from 0", kInputs, {}, IdentityRelation,
                    FusionClass::kElementwise, ComputeRound),
                 NothingFlows),
    WithGradient(Number<UnaryOp::kRound>("round_half_even", "nearest integer, halves to even"), NothingFlows),
    WithGradient(Number<UnaryOp::kTrunc>("trunc", "integer part"), NothingFlows),
    WithGradient(Number<UnaryOp::kSign>("sign", "-1, 0 or 1"), NothingFlows),
    WithGradient(Number<UnaryOp::kAbs>("abs", "absolute value"), AbsGradient),
    WithGradient(Number<UnaryOp::kNegative>("negative", "-x", &scalar::kNegative), NegativeGradient),
    {.name = "bitwise_not",
     .summary = "complement of each bit",
     .inputs = kInputs,
     .type_relation = IntegralIdentityRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeUnary<UnaryOp::kBitwiseNot>},
    Predicate<UnaryOp::kIsNan>("isnan", "whether x is NaN"),
    Predicate<UnaryOp::kIsInf>("isinf", "whether x is infinite"),
    Predicate<UnaryOp::kIsFinite>("isfinite", "whether x is finite"),
    {.name = "logical_not",
     .summary = "not x",
     .inputs = kInputs,
     .type_relation = LogicalNotRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeUnary<UnaryOp::kLogicalNot>,
     .scalar = &scalar::kLogicalNot},
    {.name = "copy",
     .summary = "x",
     .inputs = kInputs,
     .type_relation = IdentityRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeIdentity,
     .scalar = &scalar::kCopy,
     .gradient = IdentityGradient},
    {.name = "clip",
     .summary = "min(max(x, a_min), a_max)",
     .inputs = kInputs,
     .attrs = kClipAttrs,
     .type_relation = IdentityRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeClip,
     .gradient = ClipGradient},
    {.name = "cast",
     .summary = "x converted to `dtype`; floats truncate and saturate",
     .inputs = kInputs,
     .attrs = kCastAttrs,
     .type_relation = CastRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeCast,
     .scalar = &scalar::kCastScalar,
     .gradient = CastGradient},
    {.name = "reinterpret",
     .summary = "the bits of x as another dtype of that size; NaNs of 16 bits may change",
     .inputs = kInputs,
     .attrs = kCastAttrs,
     .type_relation = ReinterpretRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeReinterpret,
     .examples = kReinterpretExamples},
    {.name = "cast_like",
     .summary = "x converted to the dtype of `like`",
     .inputs = kLikeInputs,
     .type_relation = CastLikeRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeCast,
     .gradient = CastGradient},
    {.name = "zeros_like",
     .summary = "zeros of x's type",
     .inputs = kInputs,
     .type_relation = IdentityRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeFillLike<0>,
     .gradient = NothingFlows},
    {.name = "ones_like",
     .summary = "ones of x's type",
     .inputs = kInputs,
     .type_relation = IdentityRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeFillLike<1>,
     .gradient = NothingFlows},
    {.name = "nn.relu",
     .summary = "max(x, 0)",
     .inputs = kInputs,
     .type_relation = IdentityRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeRelu,
     .gradient = ReluGradient},
    {.name = "nn.leaky_relu",
     .summary = "x where x > 0, else alpha * x",
     .inputs = kInputs,
     .attrs = kLeakyAttrs,
     .type_relation = FloatIdentityRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeLeakyRelu,
     .gradient = LeakyReluGradient},
};

}  // namespace

std::span<const OpDef> UnaryOps() { return kOps; }

}  // namespace rvm::ops
