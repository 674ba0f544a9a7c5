// Operators that compute each element by itself, alone or with others that broadcast.
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "compiler/import/mxnet/importer.h"
#include "compiler/import/term.h"

namespace rvm::mxnet {
namespace {

using importing::Term;

constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;

Term Input(NodeContext& c, size_t i) { return {c, c.In(i)}; }
Term Apply(const Term& x, std::string_view op, double other) { return x.Apply(op, x.Like(other)); }

// ---- of one operand

Operands Same(NodeContext& c) { return {c.In(0)}; }
Operands Dropout(NodeContext& c) {
  if (c.Text("mode", "training") == "always") return {c.Unsupported("`mode=always`, which draws random numbers")};
  return {c.In(0)};
}
Operands Unary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0)})}; }

// The nearest integer, the lower one of two.
Operands Rint(NodeContext& c) {
  const Term x = Input(c, 0);
  if (c.failed() || !c.DTypeOf(x).is_float()) return {x};
  const Term low = Floor(x), high = x.Apply("ceil");
  return {Select(x - low <= high - x, low, high)};
}
Operands Square(NodeContext& c) { return {c.Mul(c.In(0), c.In(0))}; }
Operands Reciprocal(NodeContext& c) { return {1.0 / Input(c, 0)}; }
Operands CubeRoot(NodeContext& c) {
  const Term x = Input(c, 0), root = x.Apply("sign") * Apply(Abs(x), "power", 1.0 / 3);
  return {c.row().variant == "inverse" ? 1.0 / root : root};
}
Operands Scaled(NodeContext& c) {
  constexpr double kDegreesOfRadian = 57.29577951308232;
  const Term x = Input(c, 0);
  return {c.row().variant == "degrees" ? x * kDegreesOfRadian : x * (1 / kDegreesOfRadian)};
}
Operands LogicalNot(NodeContext& c) {
  const Term x = Input(c, 0);
  return {Cast(x == 0.0, c.DTypeOf(x))};
}
Operands HardSigmoid(NodeContext& c) {
  const Term x = Input(c, 0) * c.Float("alpha", 0.2) + c.Float("beta", 0.5);
  return {c.Op("clip", {x}, {{"a_min", 0.0}, {"a_max", 1.0}})};
}
Operands SmoothL1(NodeContext& c) {
  const Term x = Input(c, 0), size = Abs(x);
  const double sigma = c.Float("scalar", 1), squared = sigma * sigma;
  if (!(squared > 0)) return {c.Fail("its scalar is not above 0")};
  return {Select(size < 1 / squared, x * x * (0.5 * squared), size - 0.5 / squared)};
}
Operands Clip(NodeContext& c) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {c.Op("clip", {c.In(0)}, {{"a_min", c.Float("a_min", -kInfinity)}, {"a_max", c.Float("a_max", kInfinity)}})};
}
Operands CastTo(NodeContext& c) { return {c.Cast(c.In(0), c.DType("dtype", kFloat32))}; }
Operands DivSqrtDim(NodeContext& c) {
  Operand x = c.In(0);
  const Term extent(c, c.Cast(c.emit().FromDim(c.ExtentOf(x, -1)), c.DTypeOf(x)));
  return {Term(c, x) / Sqrt(extent)};
}

// ---- activations

Term Softrelu(const Term& x) { return x.Apply("nn.softplus"); }
Term Softsign(const Term& x) { return x / (Abs(x) + 1.0); }
Term Gelu(const Term& x) { return x * ((x * std::sqrt(0.5)).Apply("erf") + 1.0) * 0.5; }
Term Leaky(const Term& x, double slope) { return Select(x > 0.0, x, x * slope); }

Operand Activated(NodeContext& c, const Term& x, std::string_view kind) {
  if (kind == "relu") return x.Apply("nn.relu");
  if (kind == "sigmoid" || kind == "tanh") return x.Apply(kind);
  if (kind == "softrelu") return Softrelu(x);
  if (kind == "softsign") return Softsign(x);
  if (kind == "log_sigmoid") return -Softrelu(-x);
  if (kind == "mish") return x * Softrelu(x).Apply("tanh");
  return c.Unsupported(absl::StrCat("the activation `", ReadableText(kind.substr(0, 40)), "`"));
}
Operands NamedActivation(NodeContext& c) { return {Activated(c, Input(c, 0), c.row().variant)}; }
Operands Activation(NodeContext& c) { return {Activated(c, Input(c, 0), c.Text("act_type", ""))}; }

// Slopes by channel, along axis 1, or one for all.
Operand Prelu(NodeContext& c, Operand x, Operand slopes) {
  const int64_t rank = c.RankOf(x);
  if (c.failed()) return x;
  if (c.RankOf(slopes) == 1 && rank > 2) {
    Dims around(static_cast<size_t>(rank), Dim(1));
    around[1] = c.ExtentOf(slopes, 0);
    slopes = c.Reshape(slopes, around);
  }
  const Term t(c, x);
  return Select(t > 0.0, t, t * Term(c, slopes));
}

Operands LeakyRelu(NodeContext& c) {
  const Term x = Input(c, 0);
  const std::string kind = c.Text("act_type", "leaky");
  if (kind == "leaky") return {Leaky(x, c.Float("slope", 0.25))};
  if (kind == "rrelu") return {Leaky(x, (c.Float("lower_bound", 0.125) + c.Float("upper_bound", 0.334)) / 2)};
  if (kind == "elu") return {Select(x > 0.0, x, x.Apply("expm1") * c.Float("slope", 0.25))};
  if (kind == "selu") return {Select(x > 0.0, x, x.Apply("expm1") * kSeluAlpha) * kSeluScale};
  if (kind == "gelu") return {Gelu(x)};
  if (kind == "prelu") return {Prelu(c, x, c.In(1))};
  return {c.Unsupported(absl::StrCat("the activation `", ReadableText(kind.substr(0, 40)), "`"))};
}
Operands NnvmLeakyRelu(NodeContext& c) { return {Leaky(Input(c, 0), c.Float("alpha", 0.01))}; }
Operands NnvmPrelu(NodeContext& c) { return {Prelu(c, c.In(0), c.In(1))}; }

// ---- of two operands, and of one and a scalar

Term Combined(const Term& a, const Term& b, std::string_view op) {
  if (op == "hypot") return Sqrt(a * a + b * b);
  // MXNet defines the remainder of a division by zero as 0.
  if (op == "floor_mod") return Select(b == 0, 0, a.Apply(op, Select(b == 0, 1, b)));
  return a.Apply(op, b);
}
Operands Binary(NodeContext& c) { return {Combined(Input(c, 0), Input(c, 1), c.row().variant)}; }
Operands BinaryScalar(NodeContext& c) {
  const Term x = Input(c, 0);
  return {Combined(x, x.Like(c.Float("scalar", 0)), c.row().variant)};
}
Operands ReversedScalar(NodeContext& c) {
  const Term x = Input(c, 0);
  return {Combined(x.Like(c.Float("scalar", 0)), x, c.row().variant)};
}

// Comparisons give 0 and 1 in the dtype of their operands, and so do logical operators.
Operands Compare(NodeContext& c) {
  const Term x = Input(c, 0);
  return {Cast(x.Apply(c.row().variant, Input(c, 1)), c.DTypeOf(x))};
}
Operands CompareScalar(NodeContext& c) {
  const Term x = Input(c, 0);
  return {Cast(Apply(x, c.row().variant, c.Float("scalar", 0)), c.DTypeOf(x))};
}
Operands Logical(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Cast(c.Op(c.row().variant, {c.Condition(x), c.Condition(c.In(1))}), c.DTypeOf(x))};
}
Operands LogicalScalar(NodeContext& c) {
  Operand x = c.In(0);
  Operand other = c.emit().Constant(Literal::ScalarInt(kBool, c.Float("scalar", 0) != 0));
  return {c.Cast(c.Op(c.row().variant, {c.Condition(x), other}), c.DTypeOf(x))};
}

Operands AddAll(NodeContext& c) {
  Operand sum = c.In(0);
  for (size_t i = 1; i < c.num_inputs(); ++i) sum = c.Add(sum, c.In(i));
  return {sum};
}

// A condition with one axis chooses rows.
Operands Where(NodeContext& c) {
  Operand condition = c.Condition(c.In(0)), x = c.In(1), y = c.In(2);
  const int64_t rank = c.RankOf(x);
  if (c.failed()) return {};
  if (c.RankOf(condition) == 1 && rank > 1) {
    Dims around(static_cast<size_t>(rank), Dim(1));
    around[0] = c.ExtentOf(condition, 0);
    condition = c.Reshape(condition, around);
  }
  return {c.Where(condition, x, y)};
}

// Losses give what they compare with their labels.
Operands LogisticOutput(NodeContext& c) { return {c.Op("sigmoid", {c.In(0)})}; }

constexpr OperatorRow kRows[] = {
    {"Activation", Activation},
    {"BlockGrad", Same},
    {"Cast", CastTo},
    {"Dropout", Dropout},
    {"ElementWiseSum", AddAll},
    {"IdentityAttachKLSparseReg", Same},
    {"LeakyReLU", LeakyRelu},
    {"LinearRegressionOutput", Same},
    {"LogisticRegressionOutput", LogisticOutput},
    {"MAERegressionOutput", Same},
    {"MakeLoss", Same},
    {"SVMOutput", Same},
    {"_Div", Binary, "divide"},
    {"_DivScalar", BinaryScalar, "divide"},
    {"_Equal", Compare, "equal"},
    {"_EqualScalar", CompareScalar, "equal"},
    {"_Greater", Compare, "greater"},
    {"_GreaterEqualScalar", CompareScalar, "greater_equal"},
    {"_GreaterScalar", CompareScalar, "greater"},
    {"_Greater_Equal", Compare, "greater_equal"},
    {"_Hypot", Binary, "hypot"},
    {"_HypotScalar", BinaryScalar, "hypot"},
    {"_Lesser", Compare, "less"},
    {"_LesserEqualScalar", CompareScalar, "less_equal"},
    {"_LesserScalar", CompareScalar, "less"},
    {"_Lesser_Equal", Compare, "less_equal"},
    {"_Maximum", Binary, "maximum"},
    {"_MaximumScalar", BinaryScalar, "maximum"},
    {"_Minimum", Binary, "minimum"},
    {"_MinimumScalar", BinaryScalar, "minimum"},
    {"_Minus", Binary, "subtract"},
    {"_MinusScalar", BinaryScalar, "subtract"},
    {"_Mod", Binary, "floor_mod"},
    {"_ModScalar", BinaryScalar, "floor_mod"},
    {"_Mul", Binary, "multiply"},
    {"_MulScalar", BinaryScalar, "multiply"},
    {"_NotEqualScalar", CompareScalar, "not_equal"},
    {"_Not_Equal", Compare, "not_equal"},
    {"_Plus", Binary, "add"},
    {"_PlusScalar", BinaryScalar, "add"},
    {"_Power", Binary, "power"},
    {"_PowerScalar", BinaryScalar, "power"},
    {"_RDivScalar", ReversedScalar, "divide"},
    {"_RMinusScalar", ReversedScalar, "subtract"},
    {"_RModScalar", ReversedScalar, "floor_mod"},
    {"_RPowerScalar", ReversedScalar, "power"},
    {"__add_scalar__", BinaryScalar, "add"},
    {"__add_symbol__", Binary, "add"},
    {"__div_scalar__", BinaryScalar, "divide"},
    {"__div_symbol__", Binary, "divide"},
    {"__mul_scalar__", BinaryScalar, "multiply"},
    {"__mul_symbol__", Binary, "multiply"},
    {"__pow_scalar__", BinaryScalar, "power"},
    {"__pow_symbol__", Binary, "power"},
    {"__rdiv_scalar__", ReversedScalar, "divide"},
    {"__rpow_scalar__", ReversedScalar, "power"},
    {"__rsub_scalar__", ReversedScalar, "subtract"},
    {"__sub_scalar__", BinaryScalar, "subtract"},
    {"__sub_symbol__", Binary, "subtract"},
    {"_add", Binary, "add"},
    {"_contrib_div_sqrt_dim", DivSqrtDim},
    {"_copy", Same},
    {"_copyto", Same},
    {"_div", Binary, "divide"},
    {"_div_scalar", BinaryScalar, "divide"},
    {"_equal", Compare, "equal"},
    {"_equal_scalar", CompareScalar, "equal"},
    {"_grad_add", Binary, "add"},
    {"_greater", Compare, "greater"},
    {"_greater_equal", Compare, "greater_equal"},
    {"_greater_equal_scalar", CompareScalar, "greater_equal"},
    {"_greater_scalar", CompareScalar, "greater"},
    {"_hypot", Binary, "hypot"},
    {"_hypot_scalar", BinaryScalar, "hypot"},
    {"_lesser", Compare, "less"},
    {"_lesser_equal", Compare, "less_equal"},
    {"_lesser_equal_scalar", CompareScalar, "less_equal"},
    {"_lesser_scalar", CompareScalar, "less"},
    {"_logical_and", Logical, "logical_and"},
    {"_logical_and_scalar", LogicalScalar, "logical_and"},
    {"_logical_or", Logical, "logical_or"},
    {"_logical_or_scalar", LogicalScalar, "logical_or"},
    {"_logical_xor", Logical, "logical_xor"},
    {"_logical_xor_scalar", LogicalScalar, "logical_xor"},
    {"_maximum", Binary, "maximum"},
    {"_maximum_scalar", BinaryScalar, "maximum"},
    {"_minimum", Binary, "minimum"},
    {"_minimum_scalar", BinaryScalar, "minimum"},
    {"_minus", Binary, "subtract"},
    {"_minus_scalar", BinaryScalar, "subtract"},
    {"_mod", Binary, "floor_mod"},
    {"_mod_scalar", BinaryScalar, "floor_mod"},
    {"_mul", Binary, "multiply"},
    {"_mul_scalar", BinaryScalar, "multiply"},
    {"_not_equal", Compare, "not_equal"},
    {"_not_equal_scalar", CompareScalar, "not_equal"},
    {"_plus", Binary, "add"},
    {"_plus_scalar", BinaryScalar, "add"},
    {"_power", Binary, "power"},
    {"_power_scalar", BinaryScalar, "power"},
    {"_rdiv_scalar", ReversedScalar, "divide"},
    {"_rminus_scalar", ReversedScalar, "subtract"},
    {"_rmod_scalar", ReversedScalar, "floor_mod"},
    {"_rpower_scalar", ReversedScalar, "power"},
    {"_sub", Binary, "subtract"},
    {"abs", Unary, "abs"},
    {"add_n", AddAll},
    {"amp_cast", CastTo},
    {"arccos", Unary, "acos"},
    {"arccosh", Unary, "acosh"},
    {"arcsin", Unary, "asin"},
    {"arcsinh", Unary, "asinh"},
    {"arctan", Unary, "atan"},
    {"arctanh", Unary, "atanh"},
    {"broadcast_add", Binary, "add"},
    {"broadcast_div", Binary, "divide"},
    {"broadcast_equal", Compare, "equal"},
    {"broadcast_greater", Compare, "greater"},
    {"broadcast_greater_equal", Compare, "greater_equal"},
    {"broadcast_hypot", Binary, "hypot"},
    {"broadcast_lesser", Compare, "less"},
    {"broadcast_lesser_equal", Compare, "less_equal"},
    {"broadcast_logical_and", Logical, "logical_and"},
    {"broadcast_logical_or", Logical, "logical_or"},
    {"broadcast_logical_xor", Logical, "logical_xor"},
    {"broadcast_maximum", Binary, "maximum"},
    {"broadcast_minimum", Binary, "minimum"},
    {"broadcast_minus", Binary, "subtract"},
    {"broadcast_mod", Binary, "floor_mod"},
    {"broadcast_mul", Binary, "multiply"},
    {"broadcast_not_equal", Compare, "not_equal"},
    {"broadcast_plus", Binary, "add"},
    {"broadcast_power", Binary, "power"},
    {"broadcast_sub", Binary, "subtract"},
    {"cast", CastTo},
    {"cbrt", CubeRoot},
    {"ceil", Unary, "ceil"},
    {"clip", Clip},
    {"copy", Same},
    {"cos", Unary, "cos"},
    {"cosh", Unary, "cosh"},
    {"degrees", Scaled, "degrees"},
    {"dropout", Same},
    {"elemwise_add", Binary, "add"},
    {"elemwise_div", Binary, "divide"},
    {"elemwise_mul", Binary, "multiply"},
    {"elemwise_sub", Binary, "subtract"},
    {"elemwise_sum", AddAll},
    {"erf", Unary, "erf"},
    {"exp", Unary, "exp"},
    {"expm1", Unary, "expm1"},
    {"fix", Unary, "trunc"},
    {"floor", Unary, "floor"},
    {"hard_sigmoid", HardSigmoid},
    {"identity", Same},
    {"leaky_relu", NnvmLeakyRelu},
    {"log", Unary, "log"},
    {"log10", Unary, "log10"},
    {"log1p", Unary, "log1p"},
    {"log2", Unary, "log2"},
    {"log_sigmoid", NamedActivation, "log_sigmoid"},
    {"logical_not", LogicalNot},
    {"make_loss", Same},
    {"mish", NamedActivation, "mish"},
    {"negative", Unary, "negative"},
    {"ones_like", Unary, "ones_like"},
    {"prelu", NnvmPrelu},
    {"radians", Scaled, "radians"},
    {"rcbrt", CubeRoot, "inverse"},
    {"reciprocal", Reciprocal},
    {"relu", Unary, "nn.relu"},
    {"rint", Rint},
    {"round", Unary, "round"},
    {"rsqrt", Unary, "rsqrt"},
    {"sigmoid", Unary, "sigmoid"},
    {"sign", Unary, "sign"},
    {"sin", Unary, "sin"},
    {"sinh", Unary, "sinh"},
    {"smooth_l1", SmoothL1},
    {"softsign", NamedActivation, "softsign"},
    {"sqrt", Unary, "sqrt"},
    {"square", Square},
    {"stop_gradient", Same},
    {"tan", Unary, "tan"},
    {"tanh", Unary, "tanh"},
    {"trunc", Unary, "trunc"},
    {"where", Where},
    {"zeros_like", Unary, "zeros_like"},
};

}  // namespace

std::span<const OperatorRow> ElementwiseOperators() { return kRows; }

}  // namespace rvm::mxnet
