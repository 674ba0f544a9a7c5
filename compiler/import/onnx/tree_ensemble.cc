#include "compiler/import/onnx/tree_ensemble.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::onnx::convert {
namespace {

// Returns the numbers of the attribute `name`, floats, or of the tensor `name` and "_as_tensor".
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

}  // namespace

std::optional<Ensemble> ReadEnsemble(NodeContext& c, std::string_view prefix) { return EnsembleReader(c).Read(prefix); }

// ---- attributes of TreeEnsemble

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

}  // namespace rvm::onnx::convert
