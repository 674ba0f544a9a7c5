// Activation functions, and functions whose textbook formulas lose accuracy.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a floating-point tensor"}};
constexpr Input kAtan2Inputs[] = {{"y", "a floating-point tensor"}, {"x", "another of that dtype, broadcast"}};
constexpr AttrSpec kGeluAttrs[] = {
    {"approximate", AttrType::kString, "\"none\"", "\"none\": with `erf`; \"tanh\": an approximation with `tanh`"}};
constexpr AttrSpec kSoftplusAttrs[] = {{"beta", AttrType::kFloat, "1", "the sharpness of the bend at 0; positive"}};

constexpr AttrSpec kEluAttrs[] = {
    {"alpha", AttrType::kFloat, "1", "the result tends to -alpha for x towards -infinity"}};

constexpr Example kEluExamples[] = {{"nn.elu([-1f, -0.0000001f, 0f, 2f])", "[-0.6321206f, -0.0000001f, 0f, 2f]"},
                                    {"nn.elu([-100f, 3f], alpha=2f)", "[-2f, 3f]"}};
constexpr Example kGeluExamples[] = {{"nn.gelu([-1f, 0f, 2f])", "[-0.15865526f, 0f, 1.9544997f]"},
                                     {"nn.gelu([-1f, 0f, 2f], approximate=\"tanh\")", "[-0.158808f, 0f, 1.9545977f]"},
                                     {"nn.gelu([-1f64, 2f64])", "[-0.15865525393145707f64, 1.9544997361036416f64]"}};
constexpr Example kSiluExamples[] = {{"nn.silu([-2f, 0f, 1f])", "[-0.23840584f, 0f, 0.7310586f]"}};
constexpr Example kSoftplusExamples[] = {{"nn.softplus([-200f, -1f, 0f, 100f])", "[0f, 0.3132617f, 0.6931472f, 100f]"},
                                         {"nn.softplus([1f], beta=2f)", "[1.0634640f]"}};
constexpr Example kLog1pExamples[] = {{"log1p([0f, 0.0000001f, 1f])", "[0f, 0.0000001f, 0.6931472f]"},
                                      {"log1p([-1f, -0.5f])", "[-inff, -0.6931472f]"}};
constexpr Example kExpm1Examples[] = {{"expm1([0f, 0.0000001f, 1f, -100f])", "[0f, 0.0000001f, 1.7182818f, -1f]"}};
constexpr Example kAtan2Examples[] = {
    {"atan2([1f, 1f, -1f, -1f], [1f, -1f, -1f, 1f])", "[0.7853982f, 2.3561945f, -2.3561945f, -0.7853982f]"},
    {"atan2([0f, -0f, 0f, 2f], [-1f, -1f, 0f, 0f])", "[3.1415927f, -3.1415927f, 0f, 1.5707964f]"}};

// f of each element, computed in float32 for the half types.
std::vector<Tensor> Map(const ComputeContext& context, const std::function<Expr(const Expr& x)>& f) {
  const te::TensorSpec& out = context.output();
  DataType wide = Accumulator(out.dtype);
  return {te::ComputeTensor("map", out.dtype, out.dims, [&](std::span<const Expr> i) {
    return te::Cast(out.dtype, f(te::Cast(wide, context.input(0)(i))));
  })};
}

Expr Number(const Expr& like, double value) { return te::FloatConst(like.dtype(), value); }

// x * (1 + f(x)) / 2 with an odd f.
Expr Gated(const Expr& x, const Expr& f) { return x * Number(x, 0.5) * (Number(x, 1) + f); }

Solve GeluRelation(TypeContext& context) {
  const std::string& form = context.attrs().GetString("approximate");
  if (form == "none" || form == "tanh") return FloatIdentityRelation(context);
  return context.Fail(DiagnosticKind::kBadAttribute,
                      absl::StrCat("`approximate` is \"", form, "\"; expected \"none\" or \"tanh\""));
}

std::vector<Tensor> ComputeGelu(const ComputeContext& context) {
  bool by_tanh = context.attrs().GetString("approximate") == "tanh";
  return Map(context, [&](const Expr& x) {
    if (!by_tanh) return Gated(x, te::Unary(UnaryOp::kErf, x * Number(x, 0.7071067811865476)));
    Expr cubic = x + Number(x, 0.044715) * x * x * x;
    return Gated(x, te::Unary(UnaryOp::kTanh, Number(x, 0.7978845608028654) * cubic));
  });
}

std::vector<Tensor> ComputeSilu(const ComputeContext& context) {
  return Map(context, [](const Expr& x) { return x * te::Unary(UnaryOp::kSigmoid, x); });
}

// W. Kahan's method: the rounding error of 1 + x cancels that of its logarithm.
Expr Log1p(const Expr& x) {
  Expr one = Number(x, 1), sum = one + x, rounded = sum - one;
  Expr quotient = te::Binary(BinaryOp::kDivide, x, rounded) * te::Unary(UnaryOp::kLog, sum);
  Expr is_exact = te::Binary(BinaryOp::kOr, Equal(rounded, Number(x, 0)), Equal(rounded, x));
  return te::Select(is_exact, te::Select(Equal(rounded, x), te::Unary(UnaryOp::kLog, sum), x), quotient);
}

// Near 0 a polynomial, of (e^x - 1 - x) / x^2; elsewhere the subtraction cancels little.
Expr Expm1InFloat32(const Expr& x) {
  Expr series = Number(x, 1.984980703e-04);
  for (double coefficient : {1.399617716e-03, 8.333579050e-03, 4.166535857e-02, 1.666666399e-01, 5.000000385e-01}) {
    series = series * x + Number(x, coefficient);
  }
  Expr near = te::Select(Equal(x, Number(x, 0)), x, x * x * series + x);
  Expr far = te::Unary(UnaryOp::kExp, x) - Number(x, 1);
  return te::Select(Less(te::Unary(UnaryOp::kAbs, x), Number(x, 0.5)), near, far);
}

Expr Expm1(const Expr& x) {
  if (x.dtype() != kFloat64) return Expm1InFloat32(x);
  Expr one = Number(x, 1), power = te::Unary(UnaryOp::kExp, x), less = power - one;
  Expr quotient = less * te::Binary(BinaryOp::kDivide, x, te::Unary(UnaryOp::kLog, power));
  // For |x| > 1 the subtraction cancels little, so the plain formula is accurate.
  Expr is_far = Less(Number(x, 1), te::Unary(UnaryOp::kAbs, x));
  return te::Select(Equal(power, one), x, te::Select(is_far, less, quotient));
}

std::vector<Tensor> ComputeLog1p(const ComputeContext& context) { return Map(context, Log1p); }
std::vector<Tensor> ComputeExpm1(const ComputeContext& context) { return Map(context, Expm1); }

std::vector<Tensor> ComputeElu(const ComputeContext& context) {
  double alpha = context.attrs().GetDouble("alpha");
  return Map(context, [&](const Expr& x) { return te::Select(Less(x, Number(x, 0)), Expm1(x) * Number(x, alpha), x); });
}

Solve SoftplusRelation(TypeContext& context) {
  double beta = context.attrs().GetDouble("beta");
  if (beta > 0) return FloatIdentityRelation(context);
  return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`beta` is ", beta, "; expected a positive number"));
}

// max(x, 0) + log1p(exp(-|x|)): the power cannot overflow.
std::vector<Tensor> ComputeSoftplus(const ComputeContext& context) {
  double beta = context.attrs().GetDouble("beta");
  return Map(context, [&](const Expr& data) {
    Expr x = beta == 1 ? data : data * Number(data, beta);
    Expr power = te::Unary(UnaryOp::kExp, te::Unary(UnaryOp::kNegative, te::Unary(UnaryOp::kAbs, x)));
    Expr value = te::Binary(BinaryOp::kMaximum, x, Number(x, 0)) + Log1p(power);
    return beta == 1 ? value : value * Number(x, 1 / beta);
  });
}

Solve Atan2Relation(TypeContext& context) {
  if (Solve solve = BroadcastRelation(context); solve != Solve::kDone) return solve;
  const auto* tensor = ir::DynCast<ir::TensorType>(context.arg(0));
  if (!tensor->dtype.is_concrete()) return Solve::kStuck;
  return tensor->dtype.dtype.is_float() ? Solve::kDone
                                        : FailDType(context, 0, tensor->dtype.dtype, "a floating-point dtype");
}

// Returns whether the sign bit is set: -0 is negative.
Expr IsNegative(const Expr& x) {
  DataType bits = x.dtype() == kFloat64 ? kInt64 : kInt32;
  return Less(te::Bitcast(bits, x), te::IntConst(bits, 0));
}

// Returns the arctangent of a quotient of at most 1, mapped to the octant of the point (x, y).
Expr Atan2(const Expr& y, const Expr& x) {
  constexpr double kPi = 3.14159265358979323846;
  Expr zero = Number(x, 0), high = te::Unary(UnaryOp::kAbs, y), wide = te::Unary(UnaryOp::kAbs, x);
  Expr is_steep = Less(wide, high);
  Expr greater = te::Select(is_steep, high, wide), lesser = te::Select(is_steep, wide, high);
  Expr quotient = te::Binary(BinaryOp::kDivide, lesser, greater);
  // 0 / 0 and infinity / infinity.
  quotient = te::Select(Equal(lesser, greater), te::Select(Equal(greater, zero), zero, Number(x, 1)), quotient);
  Expr angle = te::Unary(UnaryOp::kAtan, quotient);
  angle = te::Select(is_steep, Number(x, kPi / 2) - angle, angle);
  angle = te::Select(IsNegative(x), Number(x, kPi) - angle, angle);
  angle = te::Select(IsNegative(y), te::Unary(UnaryOp::kNegative, angle), angle);
  return te::Select(te::Unary(UnaryOp::kIsNan, x), x, te::Select(te::Unary(UnaryOp::kIsNan, y), y, angle));
}

std::vector<Tensor> ComputeAtan2(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  DataType wide = Accumulator(out.dtype);
  return {te::ComputeTensor("atan2", out.dtype, out.dims, [&](std::span<const Expr> i) {
    auto read = [&](size_t n) {
      return te::Cast(wide, context.input(n)(BroadcastIndices(i, context.input(n).dims(), out.dims)));
    };
    return te::Cast(out.dtype, Atan2(read(0), read(1)));
  })};
}

constexpr OpDef Activation(std::string_view name, std::string_view summary, std::span<const Example> examples,
                           Compute compute) {
  return Op(name, summary, kInputs, {}, FloatIdentityRelation, FusionClass::kElementwise, compute, examples);
}

constexpr OpDef kOps[] = {
    WithGradient(Op("nn.elu", "x where x >= 0, else alpha * (exp(x) - 1), accurate near 0", kInputs, kEluAttrs,
                    FloatIdentityRelation, FusionClass::kElementwise, ComputeElu, kEluExamples),
                 EluGradient),
    WithGradient(Op("nn.gelu", "x times the probability that a standard normal variable is below x", kInputs,
                    kGeluAttrs, GeluRelation, FusionClass::kElementwise, ComputeGelu, kGeluExamples),
                 GeluGradient),
    WithGradient(Op("nn.softplus", "log(1 + exp(beta * x)) / beta", kInputs, kSoftplusAttrs, SoftplusRelation,
                    FusionClass::kElementwise, ComputeSoftplus, kSoftplusExamples),
                 SoftplusGradient),
    WithGradient(Activation("nn.silu", "x * sigmoid(x)", kSiluExamples, ComputeSilu), SiluGradient),
    WithGradient(Activation("log1p", "log(1 + x), accurate near 0", kLog1pExamples, ComputeLog1p), Log1pGradient),
    WithGradient(Activation("expm1", "exp(x) - 1, accurate near 0", kExpm1Examples, ComputeExpm1), Expm1Gradient),
    WithGradient(Op("atan2", "the angle of the point (x, y), from -pi to pi", kAtan2Inputs, {}, Atan2Relation,
                    FusionClass::kBroadcast, ComputeAtan2, kAtan2Examples),
                 Atan2Gradient),
};

}  // namespace

std::span<const OpDef> ActivationOps() { return kOps; }

}  // namespace rvm::ops
