// Arithmetic element by element.
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

Operands Unary(NodeContext& c) { return {c.Op(c.row().variant, {c.In("self")})}; }

Operands FloatUnary(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Op(c.row().variant, {c.Floating(x)})};
}

Operands Binary(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  c.Promote({&a, &b});
  return {c.Op(c.row().variant, {a, b})};
}

Operands Logical(NodeContext& c) {
  return {c.Op(c.row().variant, {c.Cast(c.In("self"), kBool), c.Cast(c.In("other"), kBool)})};
}

Operands LogicalNot(NodeContext& c) { return {c.Op("logical_not", {c.Cast(c.In("self"), kBool)})}; }

// add, sub and rsub, whose second operand has a factor. A sum of truths is their `or`.
Operands Sum(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  bool is_turned = c.row().name == "rsub";
  c.Promote({&a, &b});
  Operand& scaled = b;
  if (c.Has("alpha") && c.Float("alpha", 1) != 1) scaled = c.Mul(scaled, c.Number(c.Float("alpha", 1), scaled));
  if (c.DTypeOf(a).is_bool() && c.row().variant == "add") return {c.Op("logical_or", {a, b})};
  return {c.Op(c.row().variant, {is_turned ? b : a, is_turned ? a : b})};
}

Operands Division(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  std::string mode = c.row().name == "floor_divide" ? "floor" : c.Text("rounding_mode", "");
  c.Promote({&a, &b});
  if (mode == "floor") return {c.Op("floor_divide", {a, b})};
  if (mode == "trunc") return {c.Op("trunc_divide", {a, b})};
  if (!mode.empty()) return {c.Unsupported(absl::StrCat("rounding mode `", mode, "`"))};
  if (!c.DTypeOf(a).is_float()) {
    a = c.Cast(a, kFloat32);
    b = c.Cast(b, kFloat32);
  }
  return {c.Div(a, b)};
}

Operands Power(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("exponent");
  c.Promote({&a, &b});
  std::optional<double> exponent;
  if (b->constant && b->constant->num_elements() == 1) exponent = b->constant->DoubleAt(0);
  if (exponent == 1) return {a};
  if (exponent == 2) return {c.Mul(a, a)};
  if (exponent == 3) return {c.Mul(c.Mul(a, a), a)};
  if (exponent == 0.5) return {c.Op("sqrt", {a})};
  if (exponent == -0.5) return {c.Op("rsqrt", {a})};
  if (exponent == -1 && c.DTypeOf(a).is_float()) return {c.Div(c.Number(1, a), a)};
  return {c.Op("power", {a, b})};
}

Operands Round(NodeContext& c) {
  Operand x = c.In("self");
  if (!c.DTypeOf(x).is_float()) return {x};
  int64_t decimals = c.Int("decimals", 0);
  if (decimals == 0) return {c.Op("round_half_even", {x})};
  Operand scale = c.Number(std::pow(10.0, static_cast<double>(decimals)), x);
  return {c.Div(c.Op("round_half_even", {c.Mul(x, scale)}), scale)};
}

Operands Where(NodeContext& c) {
  Operand condition = c.In("condition"), a = c.In("self"), b = c.In("other");
  c.Promote({&a, &b});
  return {c.Where(c.Cast(condition, kBool), a, b)};
}

Operands Clamp(NodeContext& c) {
  Operand x = c.In("self"), low = c.Has("min") ? c.In("min") : nullptr, high = c.Has("max") ? c.In("max") : nullptr;
  std::vector<Operand*> operands = {&x};
  if (low != nullptr) operands.push_back(&low);
  if (high != nullptr) operands.push_back(&high);
  c.Promote(operands);
  if (low != nullptr) x = c.Op("maximum", {x, low});
  if (high != nullptr) x = c.Op("minimum", {x, high});
  return {x};
}

Operands MaskedFill(NodeContext& c) {
  Operand x = c.In("self");
  Operand value = c.Cast(c.In("value"), c.DTypeOf(x));
  return {c.Where(c.Cast(c.In("mask"), kBool), value, x)};
}

// Returns the elements of `source`, in its order, where the mask is true.
Operands MaskedScatter(NodeContext& c) {
  Operand x = c.In("self"), source = c.Cast(c.In("source"), c.DTypeOf(x));
  Operand mask = c.BroadcastTo(c.Cast(c.In("mask"), kBool), c.DimsOf(x));
  Operand count = c.Op("cumsum", {c.Cast(importing::Flat(c, mask), kInt64)}, {{"axis", 0}});
  Operand place = c.Op("maximum", {c.Sub(count, c.Integer(1)), c.Integer(0)});
  Operand picked = c.Op("take", {importing::Flat(c, source), place}, {{"axis", 0}});
  return {c.failed() ? nullptr : c.Where(mask, c.Reshape(picked, c.DimsOf(x)), x)};
}

// addcmul and addcdiv.
Operands AddProduct(NodeContext& c) {
  Operand x = c.In("self"), a = c.In("tensor1"), b = c.In("tensor2");
  c.Promote({&x, &a, &b});
  Operand product = c.Op(c.row().variant, {a, b});
  double value = c.Float("value", 1);
  return {c.Add(x, value == 1 ? product : c.Mul(product, c.Number(value, product)))};
}

Operands Lerp(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("end"), weight = c.In("weight");
  c.Promote({&a, &b});
  return {c.Add(a, c.Mul(c.Cast(weight, c.DTypeOf(a)), c.Sub(b, a)))};
}

// Returns the elements of `src` in the shape and dtype of `self`.
Operands Copy(NodeContext& c) {
  Operand self = c.In("self");
  return {c.BroadcastTo(c.Cast(c.In("src"), c.DTypeOf(self)), c.DimsOf(self))};
}

Operands Fill(NodeContext& c) {
  Operand self = c.In("self");
  Operand value = c.Has("value") ? c.Cast(c.In("value"), c.DTypeOf(self)) : c.Number(0, self);
  return {c.Op("full_like", {self, c.Scalar(value)})};
}

Operands Reciprocal(NodeContext& c) {
  Operand x = c.Floating(c.In("self"));
  return {c.Div(c.Number(1, x), x)};
}

Operands Square(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Mul(x, x)};
}

Operands Isfinite(NodeContext& c) { return {c.Op("isfinite", {c.Floating(c.In("self"))})}; }

constexpr OperatorRow kRows[] = {
    {"abs", Unary, "abs"},
    {"absolute", Unary, "abs"},
    {"bitwise_not", Unary, "bitwise_not"},
    {"ceil", Unary, "ceil"},
    {"floor", Unary, "floor"},
    {"isinf", Unary, "isinf"},
    {"isnan", Unary, "isnan"},
    {"fix", Unary, "trunc"},
    {"neg", Unary, "negative"},
    {"negative", Unary, "negative"},
    {"relu", Unary, "nn.relu"},
    {"sgn", Unary, "sign"},
    {"sign", Unary, "sign"},
    {"trunc", Unary, "trunc"},
    {"acos", FloatUnary, "acos"},
    {"acosh", FloatUnary, "acosh"},
    {"asin", FloatUnary, "asin"},
    {"asinh", FloatUnary, "asinh"},
    {"atan", FloatUnary, "atan"},
    {"atanh", FloatUnary, "atanh"},
    {"cos", FloatUnary, "cos"},
    {"cosh", FloatUnary, "cosh"},
    {"erf", FloatUnary, "erf"},
    {"exp", FloatUnary, "exp"},
    {"expm1", FloatUnary, "expm1"},
    {"log", FloatUnary, "log"},
    {"log10", FloatUnary, "log10"},
    {"log1p", FloatUnary, "log1p"},
    {"log2", FloatUnary, "log2"},
    {"rsqrt", FloatUnary, "rsqrt"},
    {"sigmoid", FloatUnary, "sigmoid"},
    {"silu", FloatUnary, "nn.silu"},
    {"sin", FloatUnary, "sin"},
    {"sinh", FloatUnary, "sinh"},
    {"sqrt", FloatUnary, "sqrt"},
    {"tan", FloatUnary, "tan"},
    {"tanh", FloatUnary, "tanh"},
    {"bitwise_and", Binary, "bitwise_and"},
    {"bitwise_or", Binary, "bitwise_or"},
    {"bitwise_xor", Binary, "bitwise_xor"},
    {"__and__", Binary, "bitwise_and"},
    {"__or__", Binary, "bitwise_or"},
    {"__xor__", Binary, "bitwise_xor"},
    {"__lshift__", Binary, "left_shift"},
    {"__rshift__", Binary, "right_shift"},
    {"bitwise_left_shift", Binary, "left_shift"},
    {"bitwise_right_shift", Binary, "right_shift"},
    {"eq", Binary, "equal"},
    {"fmod", Binary, "trunc_mod"},
    {"ge", Binary, "greater_equal"},
    {"greater", Binary, "greater"},
    {"greater_equal", Binary, "greater_equal"},
    {"gt", Binary, "greater"},
    {"le", Binary, "less_equal"},
    {"less", Binary, "less"},
    {"less_equal", Binary, "less_equal"},
    {"lt", Binary, "less"},
    {"maximum", Binary, "maximum"},
    {"minimum", Binary, "minimum"},
    {"mul", Binary, "multiply"},
    {"multiply", Binary, "multiply"},
    {"ne", Binary, "not_equal"},
    {"not_equal", Binary, "not_equal"},
    {"remainder", Binary, "floor_mod"},
    {"logical_and", Logical, "logical_and"},
    {"logical_not", LogicalNot},
    {"logical_or", Logical, "logical_or"},
    {"logical_xor", Logical, "logical_xor"},
    {"add", Sum, "add"},
    {"sub", Sum, "subtract"},
    {"subtract", Sum, "subtract"},
    {"rsub", Sum, "subtract"},
    {"div", Division},
    {"divide", Division},
    {"true_divide", Division},
    {"floor_divide", Division},
    {"addcdiv", AddProduct, "divide"},
    {"addcmul", AddProduct, "multiply"},
    {"clamp", Clamp},
    {"clamp_max", Clamp},
    {"clamp_min", Clamp},
    {"clip", Clamp},
    {"copy", Copy},
    {"fill", Fill},
    {"zero", Fill},
    {"isfinite", Isfinite},
    {"lerp", Lerp},
    {"masked_fill", MaskedFill},
    {"masked_scatter", MaskedScatter},
    {"pow", Power},
    {"reciprocal", Reciprocal},
    {"round", Round},
    {"square", Square},
    {"where", Where},
};

}  // namespace

std::span<const OperatorRow> MathOperators() { return kRows; }

}  // namespace rvm::torch::convert
