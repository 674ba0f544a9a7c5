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
#include "compiler/import/onnx/tree_table.h"
#include "compiler/import/term.h"

namespace rvm::onnx::convert {
namespace {

using importing::Rolled;
using importing::Step;
using importing::Term;

constexpr int64_t kRounds = 16;                                 // steps down the trees of one operator
constexpr int64_t kMaxUnrolled = 8;                             // operators in a row; deeper trees are a loop
constexpr int64_t kMaxWeights = 1 << 26;                        // of the table of leaves and targets
enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };  // in the order in which TreeEnsemble numbers them

struct Weight {
  int64_t node, target;
  double value;
};

struct Ensemble {
  Trees trees;
  std::vector<int64_t> tree_of_node;
  std::vector<Weight> weights;
  std::vector<double> base_values;
  int64_t targets = 1;
  Aggregate aggregate = Aggregate::kSum;
};

// The numbers of the attribute `name`, floats, or of the tensor `name` and "_as_tensor".
std::vector<double> Numbers(NodeContext& c, std::string_view name) {
  std::optional<Literal> tensor = c.TensorAttr(absl::StrCat(Abseil(name), "_as_tensor"));
  if (!tensor && c.HasAttr(name)) tensor = c.TensorAttr(name);
  std::vector<double> numbers;
  if (!tensor) {
    for (float value : c.Floats(name)) numbers.push_back(value);
  } else {
    for (int64_t i = 0; i < tensor->num_elements(); ++i) numbers.push_back(tensor->DoubleAt(i));
  }
  return numbers;
}

// ---- attributes of TreeEnsembleClassifier and TreeEnsembleRegressor

std::optional<NodeMode> ModeOf(std::string_view name) {
  constexpr std::string_view kNames[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                         "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<NodeMode>(i);
  }
  return name == "LEAF" ? std::optional(NodeMode::kLeaf) : std::nullopt;
}

class EnsembleReader {
 public:
  explicit EnsembleReader(NodeContext& c) : c_(c) {}

  // `prefix` is that of the attributes of weights: "class" or "target".
  std::optional<Ensemble> Read(std::string_view prefix) {
    if (!ReadNodes() || !ReadWeights(prefix)) return std::nullopt;
    ensemble_.base_values = Numbers(c_, "base_values");
    return c_.failed() ? std::nullopt : std::optional(std::move(ensemble_));
  }

 private:
  bool ReadNodes() {
    const std::vector<int64_t> ids = c_.Ints("nodes_nodeids"), trees = c_.Ints("nodes_treeids");
    const std::vector<int64_t> features = c_.Ints("nodes_featureids"),
                               missing = c_.Ints("nodes_missing_value_tracks_true");
    const std::vector<int64_t> yes = c_.Ints("nodes_truenodeids"), no = c_.Ints("nodes_falsenodeids");
    const std::vector<std::string_view> modes = c_.Texts("nodes_modes");
    const std::vector<double> values = Numbers(c_, "nodes_values");
    const size_t count = ids.size();
    if (c_.failed()) return false;
    for (size_t size : {trees.size(), features.size(), yes.size(), no.size(), modes.size(), values.size()}) {
      if (size == count && count > 0) continue;
      c_.Fail("its attributes `nodes_...` have different lengths, or are missing");
      return false;
    }
    for (size_t i = 0; i < count; ++i) numbers_[{trees[i], ids[i]}] = static_cast<int64_t>(i);
    for (size_t i = 0; i < count; ++i) {
      const std::optional<NodeMode> mode = ModeOf(modes[i]);
      if (!mode) {
        c_.Unsupported(absl::StrCat("the mode ", Abseil(modes[i]), " of a node"));
        return false;
      }
      TreeNode node{.mode = *mode,
                    .takes_missing = i < missing.size() && missing[i] != 0,
                    .feature = features[i],
                    .threshold = values[i]};
      if (*mode != NodeMode::kLeaf) node.children = {Find(trees[i], yes[i]), Find(trees[i], no[i])};
      ensemble_.trees.nodes.push_back(node);
      if (i == 0 || trees[i] != trees[i - 1]) ensemble_.trees.roots.push_back(static_cast<int64_t>(i));
      ensemble_.tree_of_node.push_back(static_cast<int64_t>(ensemble_.trees.roots.size()) - 1);
    }
    return true;
  }

  bool ReadWeights(std::string_view prefix) {
    auto name = [&](std::string_view ending) { return absl::StrCat(Abseil(prefix), "_", Abseil(ending)); };
    const std::vector<int64_t> ids = c_.Ints(name("ids")), nodes = c_.Ints(name("nodeids")),
                               trees = c_.Ints(name("treeids"));
    const std::vector<double> values = Numbers(c_, name("weights"));
    if (c_.failed()) return false;
    if (nodes.size() != ids.size() || trees.size() != ids.size() || values.size() != ids.size() || ids.empty()) {
      c_.Fail(absl::StrCat("its attributes `", Abseil(prefix), "_...` have different lengths, or are missing"));
      return false;
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t node = Find(trees[i], nodes[i]);
      if (node < 0) {
        c_.Fail(absl::StrCat("a weight is of node ", nodes[i], " of tree ", trees[i], ", which there is not"));
        return false;
      }
      ensemble_.weights.push_back({node, ids[i], values[i]});
    }
    return true;
  }

  int64_t Find(int64_t tree, int64_t id) const {
    auto it = numbers_.find({tree, id});
    return it == numbers_.end() ? -1 : it->second;
  }

  NodeContext& c_;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, int64_t> numbers_;
  Ensemble ensemble_;
};

// ---- attributes of TreeEnsemble

// Leaves stand behind the other nodes. `members` is what the nodes' sets point into.
std::optional<Ensemble> ReadTreeEnsemble(NodeContext& c, std::vector<double>& members) {
  const std::vector<int64_t> features = c.Ints("nodes_featureids"), missing = c.Ints("nodes_missing_value_tracks_true");
  const std::vector<int64_t> yes = c.Ints("nodes_truenodeids"), no = c.Ints("nodes_falsenodeids");
  const std::vector<int64_t> yes_leaf = c.Ints("nodes_trueleafs"), no_leaf = c.Ints("nodes_falseleafs");
  const std::vector<int64_t> targets = c.Ints("leaf_targetids");
  const std::vector<double> splits = Numbers(c, "nodes_splits"), modes = Numbers(c, "nodes_modes"),
                            weights = Numbers(c, "leaf_weights");
  members = Numbers(c, "membership_values");
  if (c.failed()) return std::nullopt;
  const size_t count = features.size();
  bool fits = targets.size() == weights.size() && !targets.empty();
  for (size_t size : {yes.size(), no.size(), yes_leaf.size(), no_leaf.size(), splits.size(), modes.size()})
    fits = fits && size == count;
  const int64_t aggregate = c.Int("aggregate_function", 1);
  if (!fits || aggregate < 0 || aggregate > 3) {
    c.Fail("its attributes `nodes_...` or `leaf_...` have different lengths, or `aggregate_function` is not 0 to 3");
    return std::nullopt;
  }
  Ensemble result;
  result.targets = c.Int("n_targets", 1);
  result.aggregate = static_cast<Aggregate>(aggregate);
  const auto num_leaves = static_cast<int64_t>(targets.size());
  size_t next_member = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!(modes[i] >= 0 && modes[i] < static_cast<double>(NodeMode::kLeaf))) {
      c.Fail(absl::StrCat("the mode of node ", i, " is ", modes[i], "; expected 0 to 6"));
      return std::nullopt;
    }
    auto child = [&](int64_t number, int64_t is_leaf) -> int64_t {
      if (is_leaf == 0) return number >= 0 && number < static_cast<int64_t>(count) ? number : -1;
      return number >= 0 && number < num_leaves ? static_cast<int64_t>(count) + number : -1;
    };
    TreeNode node{.mode = static_cast<NodeMode>(modes[i]),
                  .takes_missing = i < missing.size() && missing[i] != 0,
                  .feature = features[i],
                  .threshold = splits[i],
                  .children = {child(yes[i], yes_leaf[i]), child(no[i], no_leaf[i])}};
    if (node.mode == NodeMode::kMember) {
      // NaN ends each set.
      size_t end = next_member;
      while (end < members.size() && !std::isnan(members[end])) ++end;
      node.members = std::span<const double>(members).subspan(next_member, end - next_member);
      next_member = std::min(end + 1, members.size());
    }
    result.trees.nodes.push_back(node);
  }
  result.trees.nodes.resize(count + targets.size());
  for (size_t i = 0; i < targets.size(); ++i)
    result.weights.push_back({static_cast<int64_t>(count + i), targets[i], weights[i]});
  result.trees.roots = c.Ints("tree_roots");
  if (result.trees.roots.empty()) c.Fail("`tree_roots` is missing");
  return c.failed() ? std::nullopt : std::optional(std::move(result));
}

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

  // Whether each row has a weight for each target: (rows, targets) of bools; null if that holds always. Call it after
  // Aggregated.
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
  std::optional<Ensemble> ensemble = EnsembleReader(c).Read("target");
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
  std::optional<Ensemble> ensemble = EnsembleReader(c).Read("class");
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
