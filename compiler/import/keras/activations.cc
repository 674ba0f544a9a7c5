// Activation functions, and the layers that are one.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/keras/importer.h"
#include "compiler/import/term.h"

namespace rvm::keras {
namespace {

using importing::Term;

Term Relu(const Term& x) { return x.Apply("nn.relu"); }
Term Clip(const Term& x, double least, double greatest) {
  return {x.steps(), x.steps().Op("clip", {x}, {{"a_min", least}, {"a_max", greatest}})};
}
Term Elu(const Term& x, double alpha) { return Select(x > 0.0, x, x.Apply("expm1") * alpha); }
Term HardSigmoid(const Term& x) { return Clip(x + 3, 0, 6) * (1.0 / 6); }
// Computes the function of Keras 1 and 2, which has another slope.
Term OldHardSigmoid(const Term& x) { return Clip(x * 0.2 + 0.5, 0, 1); }
Term Softplus(const Term& x) { return x.Apply("nn.softplus"); }
Term Along(const Term& x, std::string_view op, int64_t axis) {
  return {x.steps(), x.steps().Op(op, {x}, {{"axis", axis}})};
}

Term Celu(const Term& x) { return Elu(x, 1); }
Term Elu1(const Term& x) { return Elu(x, 1); }
Term Exponential(const Term& x) { return Exp(x); }
Term Gelu(const Term& x) { return x.Apply("nn.gelu"); }
Term Glu(const Term& x) {
  Steps& c = x.steps();
  const int64_t last = c.RankOf(x) - 1;
  const Dim whole = c.ExtentOf(x, last), half = FloorDiv(whole, 2);
  return Term(c, c.SliceAxis(x, last, 0, half)) * Term(c, c.SliceAxis(x, last, half, whole)).Apply("sigmoid");
}
Term HardShrink(const Term& x) { return Select(Abs(x) > 0.5, x, 0.0); }
Term HardSilu(const Term& x) { return x * HardSigmoid(x); }
Term HardTanh(const Term& x) { return Clip(x, -1, 1); }
Term LeakyRelu(const Term& x) { return {x.steps(), x.steps().Op("nn.leaky_relu", {x}, {{"alpha", 0.2}})}; }
Term Linear(const Term& x) { return x; }
Term LogSigmoid(const Term& x) { return -Softplus(-x); }
Term LogSoftmax(const Term& x) { return Along(x, "nn.log_softmax", -1); }
Term Mish(const Term& x) { return x * Softplus(x).Apply("tanh"); }
Term Relu6(const Term& x) { return Clip(x, 0, 6); }
Term Selu(const Term& x) { return Elu(x, 1.6732632423543772848) * 1.0507009873554804934; }
Term Sigmoid(const Term& x) { return x.Apply("sigmoid"); }
Term Silu(const Term& x) { return x * Sigmoid(x); }
Term Softmax(const Term& x) { return Along(x, "nn.softmax", -1); }
Term SoftShrink(const Term& x) { return Select(x > 0.5, x - 0.5, Select(x < -0.5, x + 0.5, 0.0)); }
Term Softsign(const Term& x) { return x / (Abs(x) + 1); }
Term SparsePlus(const Term& x) { return Select(x > -1.0, Select(x < 1.0, (x + 1) * (x + 1) * 0.25, x), 0.0); }
Term SparseSigmoid(const Term& x) { return Clip((x + 1) * 0.5, 0, 1); }
// Keeps what is above a threshold. As Keras computes it, the threshold adds up the running sums of all that is within,
// where the projection onto the simplex takes the last one: rows need not add up to 1.
Term Sparsemax(const Term& x) {
  Steps& c = x.steps();
  const int64_t last = c.RankOf(x) - 1;
  const Term sorted = -Along(-x, "sort", last);
  const Term sums = Along(sorted, "cumsum", last);
  const Term ranks = Cast(Term(c, c.Iota(c.ExtentOf(x, last))) + 1, c.DTypeOf(x));
  const Term is_within = sorted - (sums - 1) / ranks > 0.0;
  auto sum = [&](const Term& terms) {
    return Term(c, c.Op("sum", {terms}, {{"axis", ir::AttrValue::List{last}}, {"keepdims", true}}));
  };
  const Term count = sum(Cast(is_within, c.DTypeOf(x)));
  return Relu(x - (sum(Select(is_within, sums, 0.0)) - 1) / count);
}
Term Squareplus(const Term& x) { return (x + Sqrt(x * x + 4)) * 0.5; }
Term Tanh(const Term& x) { return x.Apply("tanh"); }
Term TanhShrink(const Term& x) { return x - Tanh(x); }

struct FunctionRow {
  std::string_view name;
  Term (*apply)(const Term&);
};
constexpr FunctionRow kFunctions[] = {
    {"celu", Celu},
    {"elu", Elu1},
    {"exponential", Exponential},
    {"gelu", Gelu},
    {"glu", Glu},
    {"hard_shrink", HardShrink},
    {"hard_sigmoid", HardSigmoid},
    {"hard_silu", HardSilu},
    {"hard_swish", HardSilu},
    {"hard_tanh", HardTanh},
    {"leaky_relu", LeakyRelu},
    {"linear", Linear},
    {"log_sigmoid", LogSigmoid},
    {"log_softmax", LogSoftmax},
    {"mish", Mish},
    {"relu", Relu},
    {"relu6", Relu6},
    {"selu", Selu},
    {"sigmoid", Sigmoid},
    {"silu", Silu},
    {"soft_shrink", SoftShrink},
    {"softmax", Softmax},
    {"softplus", Softplus},
    {"softsign", Softsign},
    {"sparse_plus", SparsePlus},
    {"sparse_sigmoid", SparseSigmoid},
    {"sparsemax", Sparsemax},
    {"squareplus", Squareplus},
    {"swish", Silu},
    {"tanh", Tanh},
    {"tanh_shrink", TanhShrink},
};

Operand Apply(LayerContext& c, Operand x, std::string_view name) {
  if (c.failed()) return x;
  const Term term(c, x);
  if (name == "hard_sigmoid" && c.importer().version() < 3) return OldHardSigmoid(term);
  for (const FunctionRow& row : kFunctions) {
    if (row.name == name) return row.apply(term);
  }
  return c.Unsupported(absl::StrCat("the activation `", std::string(name), "`"));
}

// ---- layers

Values ActivationLayer(LayerContext& c) { return {{c.Activated(c.In())}}; }
Values EluLayer(LayerContext& c) { return {{Elu(Term(c, c.In()), c.Number("alpha", 1))}}; }

Values LeakyReluLayer(LayerContext& c) {
  const double alpha = c.Number("negative_slope", c.Number("alpha", 0.3));
  return {{c.Op("nn.leaky_relu", {c.In()}, {{"alpha", alpha}})}};
}

Values ReluLayer(LayerContext& c) {
  const Term x(c, c.In());
  const double slope = c.Number("negative_slope", 0), threshold = c.Number("threshold", 0);
  if (c.failed()) return {};
  Term y = threshold == 0 ? Relu(x) : Select(x > threshold, x, 0.0);
  if (c.Member("max_value") != nullptr) y = Clip(y, 0, c.Number("max_value", 0));
  if (slope != 0) y = y - Relu(-x + threshold) * slope;
  return {{y}};
}

Values ThresholdedReluLayer(LayerContext& c) {
  const Term x(c, c.In());
  return {{Select(x > c.Number("theta", 1), x, 0.0)}};
}

Values PReluLayer(LayerContext& c) {
  const Term x(c, c.In());
  Operand alpha = c.Weight("alpha");
  if (c.failed()) return {};
  return {{Relu(x) - Term(c, alpha) * Relu(-x)}};
}

Values SoftmaxLayer(LayerContext& c) {
  Operand x = c.In();
  std::vector<int64_t> axes = c.Ints("axis");
  if (axes.empty()) axes = {-1};
  if (c.failed()) return {};
  if (Operand mask = c.Mask()) {
    const double least = c.DTypeOf(x) == kFloat16 ? -3e4 : -1e9;
    x = c.Add(x, c.Where(mask, c.Number(0, x), c.Number(least, x)));
  }
  if (axes.size() == 1) return {{c.Op("nn.softmax", {x}, {{"axis", axes[0]}})}};
  const ir::Attrs over = {{"axis", ir::IntList(axes)}, {"keepdims", true}};
  const Term y = Exp(Term(c, x) - Term(c, c.Op("max", {x}, over)));
  return {{y / Term(c, c.Op("sum", {y}, over))}};
}

constexpr LayerRow kRows[] = {
    {"Activation", ActivationLayer, "", true},
    {"ELU", EluLayer, "", true},
    {"LeakyReLU", LeakyReluLayer, "", true},
    {"PReLU", PReluLayer, "", true},
    {"ReLU", ReluLayer, "", true},
    {"Softmax", SoftmaxLayer, "", true},
    {"ThresholdedReLU", ThresholdedReluLayer, "", true},
};

}  // namespace

Operand Activate(LayerContext& c, Operand x, const JsonValue* activation) {
  if (activation == nullptr || c.failed()) return x;
  if (activation->AsString() != nullptr) return Apply(c, x, *activation->AsString());
  const JsonValue* config = Member(activation, "config");
  if (config == nullptr) return c.Fail("its activation is neither a name nor a layer");
  // A function of Keras, or one of the user's.
  if (config->AsString() != nullptr) return Apply(c, x, *config->AsString());
  const Values results = c.CallPart(*activation, "activation", {{.values = {{x}}}});
  return results.empty() ? c.emit().Placeholder() : results[0].tensor;
}

std::span<const LayerRow> ActivationLayers() { return kRows; }

}  // namespace rvm::keras
