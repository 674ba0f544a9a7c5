// Ensembles of decision trees of ai.onnx.ml: the leaves that rows reach, and the sums of their weights.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/checks.h"
#include "compiler/import/loops.h"
#include "compiler/import/onnx/scores.h"
#include "compiler/import/onnx/tree_ensemble.h"
#include "compiler/import/onnx/tree_table.h"
#include "compiler/import/term.h"

namespace rvm::onnx::convert {
namespace {

using importing::Rolled;
using importing::Step;
using importing::Term;

constexpr int64_t kRounds = 16;           // steps down the trees of one operator
constexpr int64_t kMaxUnrolled = 8;       // operators in a row; deeper trees are a loop
constexpr int64_t kMaxWeights = 1 << 26;  // of the table of leaves and targets

// ---- leaves and scores

// Rows, trees as tables, and the scores that they give.
class Scores {
 public:
  Scores(NodeContext& c, const Ensemble& ensemble) : c_(c), ensemble_(ensemble) {}

  // Returns (rows, targets): the aggregated weights, without base values. Null after a mistake.
  Operand Aggregated() {
    Operand x = FloatRows(c_);
    if (!c_.failed() && c_.DTypeOf(x) == kFloat16) x = c_.Cast(x, kFloat32);
    if (c_.failed() || !CheckTargets()) return nullptr;
    dtype_ = c_.DTypeOf(x);
    x = WithKnownFeatures(x);
    const int64_t features = c_.ExtentOf(x, 1).constant();
    absl::StatusOr<TreeTable> table = MakeTreeTable(ensemble_.trees, features, dtype_ == kFloat32);
    if (!table.ok()) {
      c_.emit().Fail(table.status());
      return nullptr;
    }
    table_ = *std::move(table);
    if (table_.has_negatives) x = c_.Concatenate({x, c_.Op("negative", {x})}, 1);
    const int64_t padded = GroupByTarget();
    leaves_ = Leaves(x);
    return padded > 0 ? GroupedScores(padded) : DenseScores(Neutral(), false);
  }

  // Returns whether each row has a weight for each target: (rows, targets) of bools; null if that holds always. Call it
  // after Aggregated.
  Operand HasScores() {
    std::vector<std::set<int64_t>> targets_of_leaf(static_cast<size_t>(table_.num_leaves));
    for (const Weight& weight : ensemble_.weights) {
      const int64_t leaf = table_.leaf_of_node[static_cast<size_t>(weight.node)];
      if (leaf >= 0) targets_of_leaf[static_cast<size_t>(leaf)].insert(weight.target);
    }
    const bool has_all = std::all_of(
        targets_of_leaf.begin(), targets_of_leaf.end() - 1,
        [&](const std::set<int64_t>& targets) { return static_cast<int64_t>(targets.size()) == ensemble_.targets; });
    if (has_all || is_grouped_) return nullptr;
    Operand counts = DenseScores(0, true);
    return c_.failed() ? nullptr : c_.Op("greater", {counts, c_.Number(0, counts)});
  }

 private:
  // Rows whose number of features is not known are cut to those that the trees read, and checked to have them.
  Operand WithKnownFeatures(Operand x) {
    const Dim extent = c_.ExtentOf(x, 1);
    if (extent.is_const()) return x;
    int64_t read = 1;
    for (const TreeNode& node : ensemble_.trees.nodes) read = std::max(read, node.feature + 1);
    x = CheckAtLeast(c_, x, c_.emit().FromDim(extent), c_.Integer(read),
                     "features of the rows, and those of the trees");
    return c_.SliceAxis(x, 1, 0, read);
  }

  bool CheckTargets() {
    bool fits = ensemble_.targets > 0;
    for (const Weight& weight : ensemble_.weights)
      fits = fits && weight.target >= 0 && weight.target < ensemble_.targets;
    if (!fits) c_.Fail(absl::StrCat("a weight is for a target that is not below ", ensemble_.targets));
    return fits;
  }

  bool IsSum() const { return ensemble_.aggregate == Aggregate::kSum || ensemble_.aggregate == Aggregate::kAverage; }
  double Neutral() const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return IsSum() ? 0 : ensemble_.aggregate == Aggregate::kMin ? kInfinity : -kInfinity;
  }
  void Fold(double& sum, double value) const {
    sum = IsSum() ? sum + value : ensemble_.aggregate == Aggregate::kMin ? std::min(sum, value) : std::max(sum, value);
  }

  // If every tree has weights of one target alone, orders the trees by target and fills each target's up to as many,
  // which it returns; 0 if the trees are not such, or it would take more than twice as many.
  int64_t GroupByTarget() {
    if (ensemble_.targets == 1 || ensemble_.tree_of_node.empty()) return 0;
    const size_t count = table_.roots.size(), targets = static_cast<size_t>(ensemble_.targets);
    std::vector<int64_t> target_of_tree(count, -1);
    for (const Weight& weight : ensemble_.weights) {
      int64_t& target = target_of_tree[static_cast<size_t>(ensemble_.tree_of_node[static_cast<size_t>(weight.node)])];
      if (target >= 0 && target != weight.target) return 0;
      target = weight.target;
    }
    std::vector<std::vector<int32_t>> groups(targets);
    for (size_t tree = 0; tree < count; ++tree) {
      if (target_of_tree[tree] >= 0) groups[static_cast<size_t>(target_of_tree[tree])].push_back(table_.roots[tree]);
    }
    size_t largest = 0;
    for (const auto& group : groups) {
      if (group.empty()) return 0;
      largest = std::max(largest, group.size());
    }
    if (largest * targets > 2 * count) return 0;
    table_.roots.clear();
    for (auto& group : groups) {
      group.resize(largest, static_cast<int32_t>(table_.num_leaves - 1));
      table_.roots.insert(table_.roots.end(), group.begin(), group.end());
    }
    is_grouped_ = true;
    return static_cast<int64_t>(largest);
  }

  Operand Integers(std::span<const int32_t> values, Shape shape) {
    return c_.emit().Constant(Literal::FromValues<int32_t>(kInt32, std::move(shape), values));
  }
  Operand Floats(std::span<const double> values, Shape shape) {
    if (dtype_ == kFloat64) return c_.emit().Constant(Literal::FromValues<double>(kFloat64, std::move(shape), values));
    std::vector<float> narrow(values.begin(), values.end());
    return c_.emit().Constant(Literal::FromValues<float>(kFloat32, std::move(shape), narrow));
  }

  // The numbers of leaves (trees, rows).
  Operand Leaves(Operand x) {
    const auto count = static_cast<int64_t>(table_.features.size());
    Operand features = Integers(table_.features, {count}), children = Integers(table_.children, {count, 2});
    Operand thresholds = Floats(table_.thresholds, {count});
    Operand begin = Integers(table_.roots, {static_cast<int64_t>(table_.roots.size())});
    auto descend = [&](Operand from, int64_t rounds) {
      return c_.Op("tree_nodes", {x, from, features, thresholds, children}, {{"rounds", rounds}});
    };
    const int64_t depth = table_.depth;
    if (depth > kRounds * kMaxUnrolled) {
      Operand nodes = descend(begin, depth % kRounds);
      Rolled rolled =
          Roll(c_, c_.Integer(depth / kRounds), nullptr, {nodes},
               [&](Operand, const Operands& state) -> Step { return {.state = {descend(state[0], kRounds)}}; });
      return rolled.state[0];
    }
    Operand nodes = descend(begin, std::min(depth, kRounds));
    for (int64_t done = kRounds; done < depth; done += kRounds) nodes = descend(nodes, std::min(depth - done, kRounds));
    return nodes;
  }

  Operand Reduced(Operand values, int64_t axis, bool is_sum) {
    const std::string_view op = is_sum ? "sum" : ensemble_.aggregate == Aggregate::kMin ? "min" : "max";
    return c_.Op(op, {values}, {{"axis", ir::AttrValue::List{axis}}});
  }

  // Weights of leaves of trees of one target each: the table has one column.
  Operand GroupedScores(int64_t padded) {
    std::vector<double> table = Table(1, [](const Weight&) { return int64_t{0}; }, Neutral(), false);
    Operand values = c_.Op("take", {Floats(table, {table_.num_leaves}), leaves_}, {{"axis", 0}, {"mode", "clip"}});
    values = c_.Reshape(values, {ensemble_.targets, padded, c_.ExtentOf(values, 1)});
    constexpr int64_t kTurned[] = {1, 0};
    return c_.Transpose(Finished(Reduced(values, 1, IsSum())), kTurned);
  }

  // Weights, or ones where there are weights, of leaves and all targets.
  Operand DenseScores(double absent, bool is_count) {
    const int64_t targets = ensemble_.targets;
    if (table_.num_leaves > kMaxWeights / targets) {
      return c_.Unsupported(
          absl::StrCat(table_.num_leaves, " leaves with ", targets, " targets, more than are imported"));
    }
    std::vector<double> table = Table(targets, [](const Weight& weight) { return weight.target; }, absent, is_count);
    const bool is_single = targets == 1;
    Operand weights = Floats(table, is_single ? Shape{table_.num_leaves} : Shape{table_.num_leaves, targets});
    Operand values = c_.Op("take", {weights, leaves_}, {{"axis", 0}, {"mode", "clip"}});
    Operand scores = Reduced(values, 0, is_count || IsSum());
    if (is_single) scores = c_.Unsqueeze(scores, {1});
    return is_count ? scores : Finished(scores);
  }

  template <typename ColumnOf>
  std::vector<double> Table(int64_t columns, ColumnOf column_of, double absent, bool is_count) const {
    std::vector<double> table(static_cast<size_t>(table_.num_leaves * columns), absent);
    for (const Weight& weight : ensemble_.weights) {
      const int64_t leaf = table_.leaf_of_node[static_cast<size_t>(weight.node)];
      if (leaf < 0) continue;
      double& cell = table[static_cast<size_t>(leaf * columns + column_of(weight))];
      if (is_count) {
        cell = 1;
      } else {
        Fold(cell, weight.value);
      }
    }
    return table;
  }

  // A target without a weight has the score 0.
  Operand Finished(Operand scores) {
    const Term s(c_, scores);
    if (ensemble_.aggregate == Aggregate::kAverage) return s / static_cast<double>(ensemble_.trees.roots.size());
    return IsSum() ? s : Select(s == s.Like(Neutral()), 0, s);
  }

  NodeContext& c_;
  const Ensemble& ensemble_;
  TreeTable table_;
  DataType dtype_ = kFloat32;
  Operand leaves_ = nullptr;
  bool is_grouped_ = false;
};

Operand Base(NodeContext& c, Operand like, std::span<const double> values) {
  std::vector<double> wide(values.begin(), values.end());
  const Shape shape = {static_cast<int64_t>(values.size())};
  return c.Cast(c.emit().Constant(Literal::FromValues<double>(kFloat64, shape, wide)), c.DTypeOf(like));
}

// ---- operators

// Scores of a regression (rows, targets) with base values and transformed. One score is only ever made a quantile, as
// ONNX Runtime does.
Operand Regression(NodeContext& c, const Ensemble& ensemble, PostTransform transform) {
  Operand scores = Scores(c, ensemble).Aggregated();
  if (c.failed()) return scores;
  if (static_cast<int64_t>(ensemble.base_values.size()) == ensemble.targets) {
    scores = c.Add(scores, Base(c, scores, ensemble.base_values));
  }
  if (ensemble.targets > 1) return Transformed(c, scores, transform);
  return transform == PostTransform::kProbit ? Probit(c, scores) : scores;
}

Operands TreeEnsembleRegressor(NodeContext& c) {
  constexpr std::string_view kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::optional<PostTransform> transform = ReadPostTransform(c);
  std::optional<Ensemble> ensemble = ReadEnsemble(c, "target");
  if (!transform || !ensemble) return {};
  const std::string aggregate = c.Text("aggregate_function", "SUM");
  const auto* found = std::ranges::find(kAggregates, aggregate);
  if (found == std::end(kAggregates)) return {c.Fail("`aggregate_function` is none of AVERAGE, SUM, MIN and MAX")};
  ensemble->aggregate = static_cast<Aggregate>(found - kAggregates);
  ensemble->targets = c.Int("n_targets", 1);
  Operand scores = Regression(c, *ensemble, *transform);
  return {c.failed() ? nullptr : c.Cast(scores, kFloat32)};
}

Operands TreeEnsemble(NodeContext& c) {
  const int64_t transform = c.Int("post_transform", 0);
  std::vector<double> members;
  std::optional<Ensemble> ensemble = ReadTreeEnsemble(c, members);
  if (!ensemble) return {};
  if (transform < 0 || transform > 4) return {c.Fail("`post_transform` is not 0 to 4")};
  Operand scores = Regression(c, *ensemble, static_cast<PostTransform>(transform));
  return {c.failed() ? nullptr : c.Cast(scores, c.DTypeOf(c.In(0)))};
}

// Labels and scores of two classes.
Operands BinaryClasses(NodeContext& c, const Ensemble& ensemble, Operand both, std::span<const int64_t> labels,
                       PostTransform transform) {
  bool has_first = false, has_second = false, is_positive = true;
  for (const Weight& weight : ensemble.weights) {
    (weight.target == 0 ? has_first : has_second) = true;
    is_positive = is_positive && weight.value >= 0;
  }
  const std::vector<double>& base = ensemble.base_values;
  auto column = [&](int64_t i) { return Term(c, c.SliceAxis(both, 1, i, i + 1)); };
  const bool is_one = has_first != has_second;  // the weights are of one class alone
  Term first = column(0), second = column(1);
  if (base.size() == 2) first = first + base[0], second = second + base[1];
  if (base.size() == 1) (has_second && is_one ? second : first) = (has_second && is_one ? second : first) + base[0];
  const Term decisive = has_second ? second : first;
  const double bound = is_one && is_positive ? 0.5 : 0;
  Operand is_second = c.Squeeze(decisive > decisive.Like(bound), {1});
  Operand label = LabelsIf(c, is_second, labels[1], labels[0]);
  if (!is_one) label = LabelsIf(c, c.Squeeze(second > first, {1}), labels[1], labels[0]);
  if (has_second || base.size() == 2) return {label, Transformed(c, c.Concatenate({first, second}, 1), transform)};
  return {label, BinaryScores(c, first, transform, is_positive ? SecondClass::kComplement : SecondClass::kOpposite)};
}

Operands TreeEnsembleClassifier(NodeContext& c) {
  const std::optional<PostTransform> transform = ReadPostTransform(c);
  const auto labels = ClassLabels(c, "classlabels_int64s", "classlabels_strings");
  std::optional<Ensemble> ensemble = ReadEnsemble(c, "class");
  if (c.failed()) return {};
  ensemble->targets = static_cast<int64_t>(labels->size());
  Scores maker(c, *ensemble);
  Operand scores = maker.Aggregated();
  if (c.failed()) return {};
  const std::vector<double>& base = ensemble->base_values;
  Operands results;
  if (labels->size() == 2) {
    results = BinaryClasses(c, *ensemble, scores, *labels, *transform);
  } else {
    const bool has_base = base.size() == labels->size();
    if (has_base) scores = c.Add(scores, Base(c, scores, base));
    Operand has = has_base ? nullptr : maker.HasScores();
    if (c.failed()) return {};
    Operand compared =
        has == nullptr ? scores : c.Where(has, scores, c.Number(-std::numeric_limits<double>::infinity(), scores));
    results = {BestLabels(c, compared, *labels), Transformed(c, scores, *transform)};
  }
  if (c.failed()) return {};
  return {c.Cast(results[0], kInt64), c.Cast(results[1], kFloat32)};
}

constexpr OperatorRow kRows[] = {
    {"ai.onnx.ml.TreeEnsemble", TreeEnsemble},
    {"ai.onnx.ml.TreeEnsembleClassifier", TreeEnsembleClassifier},
    {"ai.onnx.ml.TreeEnsembleRegressor", TreeEnsembleRegressor},
};

}  // namespace

std::span<const OperatorRow> TreeOperators() { return kRows; }

}  // namespace rvm::onnx::convert
