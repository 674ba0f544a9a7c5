// Linear models and support vector machines of ai.onnx.ml.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/loops.h"
#include "compiler/import/onnx/scores.h"
#include "compiler/import/term.h"

namespace rvm::onnx::convert {
namespace {

using importing::Rolled;
using importing::Step;
using importing::Term;

constexpr int64_t kMaxClasses = 64;  // of pairwise coupling, whose sweep over classes is unrolled
constexpr size_t kMaxPairWeights = size_t{1} << 26;

Operand Matrix(NodeContext& c, int64_t rows, std::span<const float> values) {
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  return c.emit().Constant(Literal::FromValues<float>(kFloat32, {rows, columns}, values));
}

Operand Float32Rows(NodeContext& c) { return c.Cast(FloatRows(c), kFloat32); }

// ---- linear models

Operands LinearClassifier(NodeContext& c) {
  const std::optional<PostTransform> transform = ReadPostTransform(c);
  const auto labels = ClassLabels(c, "classlabels_ints", "classlabels_strings");
  const std::vector<float> intercepts = c.Floats("intercepts");
  Operand x = Float32Rows(c);
  if (c.failed()) return {};
  const auto count = static_cast<int64_t>(intercepts.empty() ? labels->size() : intercepts.size());
  Operand scores = Products(c, x, c.Floats("coefficients"), count, "coefficients");
  if (!intercepts.empty()) scores = c.Add(scores, FloatVector(c, intercepts));
  if (count == 1) {
    const bool has_both = labels->size() == 2;
    Operand is_positive = c.Op("greater", {c.Squeeze(scores, {1}), c.Number(0, scores)});
    Operand label = LabelsIf(c, is_positive, has_both ? (*labels)[1] : 1, has_both ? (*labels)[0] : 0);
    return {label, BinaryScores(c, scores, *transform, has_both ? SecondClass::kComplement : SecondClass::kNone)};
  }
  if (static_cast<int64_t>(labels->size()) < count) return {c.Fail("it has fewer labels than intercepts")};
  return {BestLabels(c, scores, *labels), Transformed(c, scores, *transform)};
}

Operands LinearRegressor(NodeContext& c) {
  const std::optional<PostTransform> transform = ReadPostTransform(c);
  const int64_t targets = c.Int("targets", 1);
  const std::vector<float> intercepts = c.Floats("intercepts");
  Operand x = Float32Rows(c);
  if (c.failed()) return {};
  Operand y = Products(c, x, c.Floats("coefficients"), targets, "coefficients");
  if (static_cast<int64_t>(intercepts.size()) == targets) y = c.Add(y, FloatVector(c, intercepts));
  if (targets == 1) return {BinaryScores(c, y, *transform, SecondClass::kNone)};
  return {Transformed(c, y, *transform)};
}

// ---- kernels of support vectors

// Returns the kernel (rows, vectors) of each row with each vector.
Operand KernelOf(NodeContext& c, Operand rows, std::span<const float> vectors, int64_t count) {
  const std::string kind = c.Text("kernel_type", "LINEAR");
  std::vector<float> params = c.Floats("kernel_params");
  if (!params.empty() && params.size() != 3) return c.Fail("`kernel_params` has not 3 elements: gamma, coef0, degree");
  params.resize(3, 0);
  if (kind == "RBF") {
    const Dim features = c.ExtentOf(rows, 1);
    const auto size = static_cast<int64_t>(vectors.size());
    if (size % count != 0 || (features.is_const() && features.constant() != size / count)) {
      return c.Fail("its support vectors have not as many elements as its input has features");
    }
    Term apart = Term(c, c.Unsqueeze(rows, {1})) - Term(c, Matrix(c, count, vectors));
    Term square(c, c.Op("sum", {apart * apart}, {{"axis", ir::AttrValue::List{int64_t{-1}}}}));
    return Exp(square * -params[0]);
  }
  Term product(c, Products(c, rows, vectors, count, "elements of support vectors"));
  if (kind == "LINEAR") return product;
  Term shifted = product * params[0] + params[1];
  if (kind == "SIGMOID") return shifted.Apply("tanh");
  if (kind != "POLY") return c.Fail(absl::StrCat("`kernel_type` is ", kind, "; expected LINEAR, POLY, RBF or SIGMOID"));
  if (params[2] == 2) return shifted * shifted;
  if (params[2] == 3) return shifted * shifted * shifted;
  return shifted.Apply("power", Term(c, c.Number(params[2], shifted)));
}

Operands SvmRegressor(NodeContext& c) {
  const int64_t count = c.Int("n_supports", 0);
  const std::vector<float> coefficients = c.Floats("coefficients"), rho = c.Floats("rho");
  Operand x = Float32Rows(c);
  if (c.failed()) return {};
  if (rho.empty()) return {c.Fail("`rho` is missing")};
  Operand y = count > 0 ? KernelOf(c, x, c.Floats("support_vectors"), count) : x;
  y = c.Add(Products(c, y, coefficients, 1, "coefficients"), c.Number(rho[0], y));
  if (c.Int("one_class", 0) == 0) return {y};
  return {c.Where(c.Op("greater", {y, c.Number(0, y)}), c.Number(1, y), c.Number(-1, y))};
}

// ---- classifiers with one decision for each pair of classes

struct Pairs {
  int64_t classes = 0;
  std::vector<std::pair<int64_t, int64_t>> all;  // first < second

  explicit Pairs(int64_t count) : classes(count) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = i + 1; j < count; ++j) all.emplace_back(i, j);
    }
  }
  int64_t count() const { return static_cast<int64_t>(all.size()); }
};

// Returns the weights of the kernels of all vectors in each decision (pairs, vectors). The coefficients (classes - 1,
// vectors) leave out that of each vector against its own class.
std::optional<std::vector<float>> PairWeights(NodeContext& c, const Pairs& pairs, std::span<const int64_t> sizes) {
  const std::vector<float> coefficients = c.Floats("coefficients");
  std::vector<size_t> starts = {0};
  for (int64_t size : sizes) starts.push_back(starts.back() + static_cast<size_t>(std::max<int64_t>(size, 0)));
  const size_t vectors = starts.back();
  const bool has_sizes = static_cast<int64_t>(sizes.size()) == pairs.classes && *std::ranges::min_element(sizes) >= 0;
  if (!has_sizes || coefficients.size() != static_cast<size_t>(pairs.classes - 1) * vectors) {
    c.Fail("`vectors_per_class` and `coefficients` do not fit its labels");
    return std::nullopt;
  }
  if (pairs.all.size() > kMaxPairWeights / vectors) {
    c.Unsupported(absl::StrCat(pairs.classes, " classes with ", vectors, " support vectors, more than are imported"));
    return std::nullopt;
  }
  std::vector<float> weights(pairs.all.size() * vectors, 0);
  for (size_t pair = 0; pair < pairs.all.size(); ++pair) {
    const auto i = static_cast<size_t>(pairs.all[pair].first), j = static_cast<size_t>(pairs.all[pair].second);
    for (size_t at = starts[i]; at < starts[i + 1]; ++at)
      weights[pair * vectors + at] = coefficients[(j - 1) * vectors + at];
    for (size_t at = starts[j]; at < starts[j + 1]; ++at) weights[pair * vectors + at] = coefficients[i * vectors + at];
  }
  return weights;
}

// Returns how often each class won (rows, classes): a decision above 0 is for the first class of its pair.
Operand Votes(NodeContext& c, const Pairs& pairs, Operand decisions) {
  std::vector<float> sides(static_cast<size_t>(pairs.classes * pairs.count()), 0);
  std::vector<float> losses(static_cast<size_t>(pairs.classes), 0);
  for (size_t pair = 0; pair < pairs.all.size(); ++pair) {
    const auto [i, j] = pairs.all[pair];
    sides[static_cast<size_t>(i) * pairs.all.size() + pair] = 1;
    sides[static_cast<size_t>(j) * pairs.all.size() + pair] = -1;
    losses[static_cast<size_t>(j)] += 1;
  }
  Operand wins = c.Cast(c.Op("greater", {decisions, c.Number(0, decisions)}), kFloat32);
  return c.Add(c.Op("nn.dense", {wins, Matrix(c, pairs.classes, sides)}), FloatVector(c, losses));
}

// Returns the matrix (rows, classes, classes) of a quadratic form whose minimum over distributions has the classes'
// probabilities. `r` has the probability of the first of a pair of classes in its row and column.
Operand CouplingForm(NodeContext& c, const Term& r, int64_t classes) {
  std::vector<float> unit(static_cast<size_t>(classes * classes), 0);
  for (int64_t i = 0; i < classes; ++i) unit[static_cast<size_t>(i * classes + i)] = 1;
  constexpr int64_t kTurned[] = {0, 2, 1};
  Term turned(c, c.Transpose(r, kTurned));
  Term diagonal(c, c.Op("sum", {r * r}, {{"axis", ir::AttrValue::List{int64_t{1}}}, {"keepdims", true}}));
  return diagonal * Term(c, Matrix(c, classes, unit)) - turned * r;
}

// Returns the probabilities of classes (rows, classes) for the pairwise ones, by the fixed point iteration of Wu, Lin
// and Weng (2004): sweeps over the classes until no component of the gradient is above a bound, at most 100.
Operand Coupled(NodeContext& c, const Pairs& pairs, Operand first_wins) {
  const int64_t n = pairs.classes, count = pairs.count();
  std::vector<int64_t> sources(static_cast<size_t>(n * n), 2 * count);
  for (int64_t pair = 0; pair < count; ++pair) {
    const auto [i, j] = pairs.all[static_cast<size_t>(pair)];
    sources[static_cast<size_t>(i * n + j)] = pair;
    sources[static_cast<size_t>(j * n + i)] = count + pair;
  }
  const Term wins(c, first_wins);
  const Dim rows = c.ExtentOf(wins, 0);
  Operand zero = c.BroadcastTo(c.emit().Number(0, kFloat32), {rows, 1});
  Operand all = c.Concatenate({wins, wins.Like(1) - wins, zero}, 1);
  Term r(c, c.Reshape(c.Op("take", {all, c.emit().Vector(sources)}, {{"axis", 1}}), {rows, n, n}));
  const Term form(c, CouplingForm(c, r, n));
  const ir::Attrs last = {{"axis", ir::AttrValue::List{int64_t{-1}}}};
  const ir::Attrs kept = {{"axis", ir::AttrValue::List{int64_t{-1}}}, {"keepdims", true}};
  auto gradient = [&](const Term& p) { return Term(c, c.Op("sum", {form * Term(c, c.Unsqueeze(p, {1}))}, last)); };
  auto column = [&](const Term& x, int64_t i) { return Term(c, c.SliceAxis(x, 1, i, i + 1)); };
  Operand start = c.BroadcastTo(c.emit().Number(1.0 / static_cast<double>(n), kFloat32), {rows, n});
  auto sweep = [&](Operand, const Operands& state) -> Step {
    const Term before(c, state[0]);
    Term p = before, g = gradient(p);
    Term whole(c, c.Op("sum", {p * g}, kept));
    Term error(c, c.Op("max", {Abs(g - whole)}, kept));
    const Term goes_on = error >= 0.005 / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      std::vector<float> unit(static_cast<size_t>(n), 0);
      unit[static_cast<size_t>(i)] = 1;
      Term row(c, c.Squeeze(c.SliceAxis(form, 1, i, i + 1), {1}));
      Term own = column(row, i), gi = column(g, i), step = (whole - gi) / own, scale = step + 1;
      p = (p + step * Term(c, FloatVector(c, unit))) / scale;
      whole = (whole + step * (step * own + gi * 2)) / scale / scale;
      g = (g + step * row) / scale;
    }
    return {.condition = Any(goes_on), .state = {c.Where(goes_on, p, before)}};
  };
  Rolled rolled = Roll(c, c.Integer(100), nullptr, {start}, sweep);
  return rolled.state[0];
}

// Returns the probabilities of the first class of each pair, by the sigmoids that `prob_a` and `prob_b` give.
Operand PairProbabilities(NodeContext& c, Operand decisions) {
  Term at =
      Term(c, decisions) * Term(c, FloatVector(c, c.Floats("prob_a"))) + Term(c, FloatVector(c, c.Floats("prob_b")));
  Term p = at.Like(1) - at.Apply("sigmoid");
  return Min(Max(p, p.Like(1e-7)), p.Like(1 - 1e-7));
}

// A machine without support vectors: a row of coefficients for each class.
Operands LinearMachine(NodeContext& c, Operand x, std::span<const int64_t> labels, float rho, PostTransform transform) {
  const std::vector<float> coefficients = c.Floats("coefficients");
  Operand scores = Products(c, x, coefficients, static_cast<int64_t>(labels.size()), "coefficients");
  scores = c.Add(scores, c.Number(rho, scores));
  Operand label = BestLabels(c, scores, labels);
  if (labels.size() == 2 && c.Floats("prob_a").empty()) {
    const bool is_positive = std::ranges::all_of(coefficients, [](float value) { return value >= 0; });
    Operand greatest = c.Op("max", {scores}, {{"axis", ir::AttrValue::List{int64_t{1}}}});
    Operand is_second = is_positive ? c.Op("greater_equal", {greatest, c.Number(0.5, greatest)})
                                    : c.Op("greater", {greatest, c.Number(0, greatest)});
    label = c.Where(is_second, c.Integer(labels[1]), label);
  }
  return {label, Transformed(c, scores, transform)};
}

Operands SvmClassifier(NodeContext& c) {
  const std::optional<PostTransform> transform = ReadPostTransform(c);
  const auto labels = ClassLabels(c, "classlabels_ints", "classlabels_strings");
  const std::vector<float> rho = c.Floats("rho");
  const size_t num_a = c.Floats("prob_a").size(), num_b = c.Floats("prob_b").size();
  Operand x = Float32Rows(c);
  if (c.failed()) return {};
  if (rho.empty()) return {c.Fail("`rho` is missing")};
  const std::vector<int64_t> sizes = c.Ints("vectors_per_class");
  int64_t vectors = 0;
  for (int64_t size : sizes) vectors += size;
  if (vectors <= 0) return LinearMachine(c, x, *labels, rho[0], *transform);
  const Pairs pairs(static_cast<int64_t>(labels->size()));
  const auto count = static_cast<size_t>(pairs.count());
  if (count == 0 || rho.size() != count || num_a != num_b || (num_a != 0 && num_a != count)) {
    return {c.Fail(absl::StrCat("its ", labels->size(), " labels make ", count, " pairs; `rho` has ", rho.size(),
                                " elements, `prob_a` ", num_a, ", `prob_b` ", num_b))};
  }
  std::optional<std::vector<float>> weights = PairWeights(c, pairs, sizes);
  if (!weights) return {};
  Operand kernels = KernelOf(c, x, c.Floats("support_vectors"), vectors);
  Operand decisions = c.Add(c.Op("nn.dense", {kernels, Matrix(c, pairs.count(), *weights)}), FloatVector(c, rho));
  Operand label = BestLabels(c, Votes(c, pairs, decisions), *labels);
  if (num_a != 0) {
    if (pairs.classes > kMaxClasses)
      return {c.Unsupported(absl::StrCat("probabilities of over ", kMaxClasses, " classes"))};
    return {label, Transformed(c, Coupled(c, pairs, PairProbabilities(c, decisions)), *transform)};
  }
  if (count > 1) return {label, Transformed(c, decisions, *transform)};
  const bool is_plain = *transform == PostTransform::kNone;
  return {label, BinaryScores(c, decisions, *transform, is_plain ? SecondClass::kOpposite : SecondClass::kComplement)};
}

constexpr OperatorRow kRows[] = {
    {"ai.onnx.ml.LinearClassifier", LinearClassifier},
    {"ai.onnx.ml.LinearRegressor", LinearRegressor},
    {"ai.onnx.ml.SVMClassifier", SvmClassifier},
    {"ai.onnx.ml.SVMRegressor", SvmRegressor},
};

}  // namespace

std::span<const OperatorRow> LinearModelOperators() { return kRows; }

}  // namespace rvm::onnx::convert
