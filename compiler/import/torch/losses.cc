// Losses and distances of training, of which an exported program may compute one.
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "compiler/import/shapes.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"
#include "compiler/import/torch/norms.h"

namespace rvm::torch::convert {
namespace {

using importing::Term;

// ATen's numbers of reductions.
enum Reduction : int64_t { kNone, kMean, kSum };

Term SumAlong(const Term& x, int64_t axis, bool keepdims = false) {
  return {x.steps(), x.steps().Op("sum", {x}, {{"axis", ir::AttrValue::List{axis}}, {"keepdims", keepdims}})};
}

Term Total(const Term& x) { return x.steps().RankOf(x) == 0 ? x : x.Apply("sum"); }

// Returns the losses of the elements, or their mean or sum, as `reduction` says.
Operands ReducedLoss(NodeContext& c, const Term& loss) {
  int64_t reduction = c.Int("reduction", kMean);
  if (c.failed() || reduction == kNone || c.RankOf(loss) == 0) return {loss};
  return {loss.Apply(reduction == kMean ? "mean" : "sum")};
}

// Returns an input and another one in the floating-point dtype that ATen computes them in.
std::pair<Term, Term> FloatTerms(NodeContext& c, const char* first = "self", const char* second = "target") {
  Operand x = c.In(first), y = c.In(second);
  c.Promote({&x, &y});
  return {Term(c, c.Floating(x)), Term(c, c.Floating(y))};
}

// Returns the greater of x and `least`.
Term AtLeast(const Term& x, double least) { return Max(x, x.Like(least)); }

// Returns log(1 + exp(x)) without overflow.
Term Softplus(const Term& x) { return AtLeast(x, 0) + Exp(-Abs(x)).Apply("log1p"); }

// Returns x log y, 0 where x is 0.
Term TimesLog(const Term& x, const Term& y) { return Select(x == 0, 0, x * Log(Select(x == 0, 1, y))); }

Term Weighted(NodeContext& c, const Term& loss) {
  return c.Has("weight") ? loss * Term(c, c.Cast(c.In("weight"), c.DTypeOf(loss))) : loss;
}

Operands MseLoss(NodeContext& c) {
  auto [x, y] = FloatTerms(c);
  Term difference = x - y;
  return ReducedLoss(c, difference * difference);
}

Operands L1Loss(NodeContext& c) {
  auto [x, y] = FloatTerms(c);
  return ReducedLoss(c, Abs(x - y));
}

// smooth_l1_loss and huber_loss, which differ in scale: quadratic near 0, linear further out.
Operands HuberLoss(NodeContext& c) {
  auto [x, y] = FloatTerms(c);
  bool is_smooth = c.row().name == "smooth_l1_loss";
  double bend = c.Float(is_smooth ? "beta" : "delta", 1);
  Term size = Abs(x - y);
  if (is_smooth && bend == 0) return ReducedLoss(c, size);
  double scale = is_smooth ? 1 / bend : 1;
  return ReducedLoss(c, Select(size < bend, 0.5 * scale * size * size, bend * scale * (size - 0.5 * bend)));
}

Operands KlDivergence(NodeContext& c) {
  auto [x, y] = FloatTerms(c);
  return ReducedLoss(c, c.Bool("log_target", false) ? Exp(y) * (y - x) : TimesLog(y, y) - y * x);
}

Operands PoissonLoss(NodeContext& c) {
  auto [x, y] = FloatTerms(c, "input");
  Term loss = c.Bool("log_input", true) ? Exp(x) - y * x : x - y * Log(x + c.Float("eps", 1e-8));
  if (c.Bool("full", false)) {
    Term many = y > 1, counts = Select(many, y, 2);
    Term stirling = counts * Log(counts) - counts + 0.5 * Log(2 * std::numbers::pi * counts);
    loss = loss + Select(many, stirling, 0);
  }
  return ReducedLoss(c, loss);
}

Operands BinaryCrossEntropy(NodeContext& c) {
  auto [x, y] = FloatTerms(c);
  Term hit = AtLeast(Log(x), -100), miss = AtLeast((-x).Apply("log1p"), -100);
  return ReducedLoss(c, Weighted(c, (y - 1) * miss - y * hit));
}

Operands BinaryCrossEntropyOfLogits(NodeContext& c) {
  auto [x, y] = FloatTerms(c);
  Term loss = Softplus(-x);
  if (c.Has("pos_weight")) loss = loss * ((Term(c, c.Cast(c.In("pos_weight"), c.DTypeOf(x))) - 1) * y + 1);
  return ReducedLoss(c, Weighted(c, (1 - y) * x + loss));
}

Operands SoftMarginLoss(NodeContext& c) {
  auto [x, y] = FloatTerms(c);
  return ReducedLoss(c, Softplus(-(x * y)));
}

Operands HingeEmbeddingLoss(NodeContext& c) {
  auto [x, y] = FloatTerms(c);
  return ReducedLoss(c, Select(y != 1, AtLeast(c.Float("margin", 1) - x, 0), 0) + Select(y != -1, x, 0));
}

Operands MarginRankingLoss(NodeContext& c) {
  auto [a, b] = FloatTerms(c, "input1", "input2");
  Term y(c, c.Cast(c.In("target"), c.DTypeOf(a)));
  return ReducedLoss(c, AtLeast(y * (b - a) + c.Float("margin", 0), 0));
}

// ---- similarities and distances

Operands CosineSimilarity(NodeContext& c) {
  auto [first, second] = FloatTerms(c, "x1", "x2");
  if (c.failed()) return {};
  Term a = Broadcast(first, second), b = Broadcast(second, first);
  int64_t axis = c.Axis(c.Int("dim", 1), c.RankOf(a));
  double epsilon = c.Float("eps", 1e-8);
  auto unit = [&](const Term& x) { return x / AtLeast(Sqrt(SumAlong(x * x, axis, true)), epsilon); };
  return {SumAlong(unit(a) * unit(b), axis)};
}

Operands CosineEmbeddingLoss(NodeContext& c) {
  auto [a, b] = FloatTerms(c, "input1", "input2");
  if (c.failed()) return {};
  constexpr double kEpsilon = 1e-12;
  int64_t axis = c.RankOf(a) - 1;
  Term y(c, c.Cast(c.In("target"), c.DTypeOf(a)));
  Term squares = (SumAlong(a * a, axis) + kEpsilon) * (SumAlong(b * b, axis) + kEpsilon);
  Term cosine = SumAlong(a * b, axis) / Sqrt(squares);
  Term far = AtLeast(cosine - c.Float("margin", 0), 0);
  return ReducedLoss(c, Select(y == 1, 1 - cosine, 0) + Select(y == -1, far, 0));
}

Term Apart(NodeContext& c, const Term& a, const Term& b, bool keepdims = false) {
  Term difference = a - b + c.Float("eps", 1e-6);
  int64_t last = c.RankOf(difference) - 1;
  return {c, PNormAlong(c, difference, c.Float("p", 2), last, keepdims)};
}

Operands PairwiseDistance(NodeContext& c) {
  auto [a, b] = FloatTerms(c, "x1", "x2");
  return {Apart(c, a, b, c.Bool("keepdim", false))};
}

Operands TripletMarginLoss(NodeContext& c) {
  auto [anchor, positive] = FloatTerms(c, "anchor", "positive");
  Term negative(c, c.Cast(c.In("negative"), c.DTypeOf(anchor)));
  Term near = Apart(c, anchor, positive), far = Apart(c, anchor, negative);
  if (c.Bool("swap", false)) far = Min(far, Apart(c, positive, negative));
  return ReducedLoss(c, AtLeast(c.Float("margin", 1) + near - far, 0));
}

// ---- losses of classes

// The class that each element of `target` names, with the axis of classes as one of extent 1.
struct Targets {
  Term classes;     // 0 where the element is ignored
  Term is_ignored;  // also with that axis
  int64_t axis;
};

Targets ReadTargets(NodeContext& c, const Term& x) {
  int64_t axis = c.RankOf(x) == 1 ? 0 : 1;
  Term target(c, c.Unsqueeze(c.Cast(c.In("target"), kInt64), {axis}));
  Term ignored = target.Apply("equal", Term(c, c.Integer(c.Int("ignore_index", -100))));
  return {Select(ignored, 0, target), ignored, axis};
}

// Returns the weight of each target, 0 where it is ignored.
Term WeightsOf(NodeContext& c, const Term& x, const Targets& targets) {
  Term weight = x.Like(1);
  if (c.Has("weight")) {
    weight = Term(c, c.Op("take", {c.Cast(c.In("weight"), c.DTypeOf(x)), targets.classes}, {{"axis", 0}}));
  }
  return Select(targets.is_ignored, 0, weight);
}

Term WithoutAxis(const Term& x, int64_t axis) { return {x.steps(), x.steps().Squeeze(x, {axis})}; }

// Reduces the losses of targets; the mean is weighted. The second result is the sum of the weights.
Operands ReducedLosses(NodeContext& c, const Term& loss, const Term& weights, int64_t axis) {
  int64_t reduction = c.Int("reduction", kMean);
  if (c.failed()) return {};
  if (reduction == kNone) return {WithoutAxis(loss, axis), loss.Like(0)};
  Term total = Total(weights);
  return {reduction == kMean ? Total(loss) / total : Total(loss), total};
}

// Returns the negative elements of x, logarithms of probabilities, that the targets name.
Term NegativeLikelihood(NodeContext& c, const Term& x, const Targets& targets, const Term& weights) {
  Term picked(c, c.Op("gather", {x, targets.classes}, {{"axis", targets.axis}}));
  return Select(targets.is_ignored, 0, -(picked * weights));
}

// Returns x times the weights of its classes, which are `axis`.
Term WeightedClasses(NodeContext& c, const Term& x, int64_t axis) {
  if (!c.Has("weight")) return x;
  std::vector<int64_t> behind;
  for (int64_t i = axis + 1; i < c.RankOf(x); ++i) behind.push_back(i - axis);
  return x * Term(c, c.Unsqueeze(c.Cast(c.In("weight"), c.DTypeOf(x)), behind));
}

// Returns the number of classes, in the dtype of x.
Term Classes(NodeContext& c, const Term& x, int64_t axis) {
  return {c, c.Cast(c.emit().FromDim(c.ExtentOf(x, axis)), c.DTypeOf(x))};
}

// Cross entropy with a probability for each class.
Operands CrossEntropyOfProbabilities(NodeContext& c, const Term& logarithms, int64_t axis, double smoothing) {
  Term y(c, c.Cast(c.In("target"), c.DTypeOf(logarithms)));
  if (smoothing != 0) y = y * (1 - smoothing) + y.Like(smoothing) / Classes(c, logarithms, axis);
  return ReducedLoss(c, -SumAlong(WeightedClasses(c, logarithms * y, axis), axis));
}

// nll_loss and its variants for images, whose classes are axis 1.
Operands NllLoss(NodeContext& c) {
  Term x(c, c.Floating(c.In("self")));
  if (c.failed()) return {};
  Targets targets = ReadTargets(c, x);
  Term weights = WeightsOf(c, x, targets);
  return ReducedLosses(c, NegativeLikelihood(c, x, targets, weights), weights, targets.axis);
}

Operands CrossEntropyLoss(NodeContext& c) {
  Term x(c, c.Floating(c.In("self")));
  if (c.failed()) return {};
  int64_t axis = c.RankOf(x) == 1 ? 0 : 1;
  double smoothing = c.Float("label_smoothing", 0);
  Term logarithms(c, c.Op("nn.log_softmax", {x}, {{"axis", axis}}));
  if (c.DTypeOf(c.In("target")).is_float()) return CrossEntropyOfProbabilities(c, logarithms, axis, smoothing);
  Targets targets = ReadTargets(c, x);
  Term weights = WeightsOf(c, x, targets), loss = NegativeLikelihood(c, logarithms, targets, weights);
  if (smoothing != 0) {
    Term all = SumAlong(WeightedClasses(c, logarithms, axis), axis, true);
    Term smooth = Select(targets.is_ignored, 0, -all) / Classes(c, x, axis);
    loss = loss * (1 - smoothing) + smooth * smoothing;
  }
  return ReducedLosses(c, loss, weights, axis);
}

// Returns the margins by which classes come near that of the target.
Operands MultiMarginLoss(NodeContext& c) {
  Term x(c, c.Floating(c.In("self")));
  Operand given = c.Cast(c.In("target"), kInt64);
  const Dims dims = c.DimsOf(given);
  if (c.RankOf(x) == 0) x = {c, c.Reshape(x, {1})};
  int64_t last = c.RankOf(x) - 1;
  Term target(c, c.RankOf(x) == 1 ? c.Reshape(given, {1}) : c.Unsqueeze(given, {last}));
  Term picked(c, c.Op("gather", {x, target}, {{"axis", last}}));
  Term near = AtLeast(c.Float("margin", 1) - picked + x, 0);
  if (c.Float("p", 1) == 2) near = near * near;
  if (c.Has("weight"))
    near = near * Term(c, c.Op("take", {c.Cast(c.In("weight"), c.DTypeOf(x)), target}, {{"axis", 0}}));
  Term is_target = target.Apply("equal", Term(c, c.Iota(c.ExtentOf(x, last))));
  Term loss(c, c.Op("mean", {Select(is_target, 0, near)}, {{"axis", ir::AttrValue::List{last}}}));
  if (c.failed()) return {};
  return ReducedLoss(c, Term(c, c.Reshape(loss, dims)));
}

// Each element of the target is a class, up to the first that is negative. The second result of
// multilabel_margin_loss_forward says which classes these are.
Operands MultilabelMarginLoss(NodeContext& c) {
  Term x(c, c.Floating(c.In("self")));
  Term target(c, c.Cast(c.In("target"), kInt64));
  if (c.failed()) return {};
  const Dims dims = c.DimsOf(target);
  if (dims.empty()) {
    x = {c, c.Reshape(x, {1})};
    target = {c, c.Reshape(target, {1})};
  }
  int64_t last = c.RankOf(x) - 1;
  Term ends(c, c.Op("cumsum", {c.Cast(target < 0, kInt64)}, {{"axis", last}}));
  Term is_class = ends == 0, classes = Select(is_class, target, 0);
  auto columns = [&](const Term& y) { return Term(c, c.Unsqueeze(y, {last + 1})); };
  Term names = And(columns(is_class), columns(classes).Apply("equal", Term(c, c.Iota(c.ExtentOf(x, last)))));
  ir::Attrs along = {{"axis", ir::AttrValue::List{last}}};
  Term is_target(c, c.Op("any", {names}, along));
  Term picked(c, c.Op("gather", {x, classes}, {{"axis", last}}));
  auto rows = [&](const Term& y) { return Term(c, c.Unsqueeze(y, {last})); };
  Term near = AtLeast(1 - columns(picked) + rows(x), 0);
  near = Select(And(columns(is_class), Not(rows(is_target))), near, 0);
  Term loss(c, c.Op("mean", {SumAlong(near, last)}, along));
  if (c.failed()) return {};
  Operands results = ReducedLoss(c, loss);
  results.push_back(c.Reshape(c.Cast(is_target, c.DTypeOf(x)), dims));
  return results;
}

constexpr OperatorRow kRows[] = {
    {"binary_cross_entropy", BinaryCrossEntropy},
    {"binary_cross_entropy_with_logits", BinaryCrossEntropyOfLogits},
    {"cosine_embedding_loss", CosineEmbeddingLoss},
    {"cosine_similarity", CosineSimilarity},
    {"cross_entropy_loss", CrossEntropyLoss},
    {"hinge_embedding_loss", HingeEmbeddingLoss},
    {"huber_loss", HuberLoss},
    {"kl_div", KlDivergence},
    {"l1_loss", L1Loss},
    {"margin_ranking_loss", MarginRankingLoss},
    {"mse_loss", MseLoss},
    {"multi_margin_loss", MultiMarginLoss},
    {"multilabel_margin_loss", MultilabelMarginLoss},
    {"multilabel_margin_loss_forward", MultilabelMarginLoss},
    {"nll_loss", NllLoss},
    {"nll_loss2d", NllLoss},
    {"nll_loss2d_forward", NllLoss},
    {"nll_loss_forward", NllLoss},
    {"nll_loss_nd", NllLoss},
    {"pairwise_distance", PairwiseDistance},
    {"poisson_nll_loss", PoissonLoss},
    {"smooth_l1_loss", HuberLoss},
    {"soft_margin_loss", SoftMarginLoss},
    {"triplet_margin_loss", TripletMarginLoss},
};

}  // namespace

std::span<const OperatorRow> LossesOperators() { return kRows; }

}  // namespace rvm::torch::convert
