#include "compiler/import/onnx/tree_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace rvm::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNever = std::numeric_limits<double>::quiet_NaN();  // as a threshold: always to the second child

class TableBuilder {
 public:
  TableBuilder(const Trees& trees, int64_t num_features, bool is_narrow)
      : trees_(trees), num_features_(num_features), is_narrow_(is_narrow) {}

  absl::StatusOr<TreeTable> Build() {
    RVM_RETURN_IF_ERROR(Number());
    for (size_t i = 0; i < trees_.nodes.size(); ++i) {
      if (trees_.nodes[i].mode != NodeMode::kLeaf) Fill(trees_.nodes[i], record_of_node_[i]);
    }
    for (int64_t root : trees_.roots) table_.roots.push_back(record_of_node_[static_cast<size_t>(root)]);
    RVM_RETURN_IF_ERROR(Measure());
    return std::move(table_);
  }

 private:
  // ---- numbers of records
  absl::Status Number() {
    const auto count = static_cast<int64_t>(trees_.nodes.size());
    // Each node and each member of a set makes at most three records.
    int64_t size = count;
    for (const TreeNode& node : trees_.nodes) size += static_cast<int64_t>(node.members.size());
    if (std::max(size, num_features_) > std::numeric_limits<int32_t>::max() / 4) {
      return absl::UnimplementedError("trees of too many nodes or features");
    }
    table_.leaf_of_node.assign(trees_.nodes.size(), -1);
    for (size_t i = 0; i < trees_.nodes.size(); ++i) {
      const TreeNode& node = trees_.nodes[i];
      if (node.mode == NodeMode::kLeaf) {
        table_.leaf_of_node[i] = table_.num_leaves++;
        continue;
      }
      for (int64_t child : node.children) {
        if (child < 0 || child >= count) {
          return absl::InvalidArgumentError(absl::StrCat("a child of node ", i, " is ", child, ", which is no node"));
        }
      }
      if (node.feature < 0 || node.feature >= num_features_) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", i, " reads feature ", node.feature, "; its input has ", num_features_));
      }
    }
    ++table_.num_leaves;
    for (int64_t leaf = 0; leaf < table_.num_leaves; ++leaf) {
      Add(0, 0, static_cast<int32_t>(leaf), static_cast<int32_t>(leaf));
    }
    for (size_t i = 0; i < trees_.nodes.size(); ++i) {
      const int64_t leaf = table_.leaf_of_node[i];
      record_of_node_.push_back(leaf >= 0 ? static_cast<int32_t>(leaf) : Add(0, 0, 0, 0));
    }
    for (int64_t root : trees_.roots) {
      if (root < 0 || root >= count) {
        return absl::InvalidArgumentError(absl::StrCat("the root of a tree is ", root, ", which is no node"));
      }
    }
    return absl::OkStatus();
  }

  // ---- records
  int32_t Add(int64_t feature, double threshold, int32_t first, int32_t second) {
    table_.features.push_back(static_cast<int32_t>(feature));
    table_.thresholds.push_back(threshold);
    table_.children.insert(table_.children.end(), {first, second});
    return static_cast<int32_t>(table_.features.size()) - 1;
  }
  void Set(int32_t record, int64_t feature, double threshold, int32_t first, int32_t second) {
    const auto at = static_cast<size_t>(record);
    table_.features[at] = static_cast<int32_t>(feature);
    table_.thresholds[at] = threshold;
    table_.children[2 * at] = first;
    table_.children[2 * at + 1] = second;
  }
  // Returns the greatest number of the table's dtype that is at most `x`, so that x' <= x means x' <= AtMost(x).
  double AtMost(double x) const {
    if (!is_narrow_) return x;
    const auto narrow = static_cast<float>(x);
    return narrow > x ? std::nextafter(narrow, -std::numeric_limits<float>::infinity()) : narrow;
  }
  // x' < x means x' <= Below(x).
  double Below(double x) const {
    if (x == -kInfinity) return kNever;
    const double bound = AtMost(x);
    if (bound < x) return bound;
    return is_narrow_ ? std::nextafter(static_cast<float>(bound), -std::numeric_limits<float>::infinity())
                      : std::nextafter(bound, -kInfinity);
  }
  // To `first` if the feature is at most (below) x; NaN goes to the second child.
  void SetAtMost(int32_t record, int64_t feature, double x, int32_t first, int32_t second) {
    Set(record, feature, AtMost(x), first, second);
  }
  void SetBelow(int32_t record, int64_t feature, double x, int32_t first, int32_t second) {
    Set(record, feature, Below(x), first, second);
  }
  int64_t Negative(int64_t feature) {
    table_.has_negatives = true;
    return feature + num_features_;
  }

  void Fill(const TreeNode& node, int32_t record) {
    const int32_t yes = record_of_node_[static_cast<size_t>(node.children[0])];
    const int32_t no = record_of_node_[static_cast<size_t>(node.children[1])];
    const bool is_ordered = node.mode < NodeMode::kEqual;
    // A comparison with NaN holds for nothing but kNotEqual; then only the input's being NaN matters.
    if (std::isnan(node.threshold) && node.mode != NodeMode::kMember) {
      const int32_t other = node.mode == NodeMode::kNotEqual ? yes : no;
      Set(record, node.feature, kInfinity, other, node.takes_missing ? yes : other);
      return;
    }
    if (!is_ordered) {
      FillEquality(node, record, yes, no);
      return;
    }
    const int64_t feature = node.feature;
    const double x = node.threshold;
    const bool is_missing = node.takes_missing;
    // NaN takes the second child of a record: the comparison, or its opposite, with the feature or its negative.
    if (node.mode == NodeMode::kLessEqual) {
      if (is_missing) return SetBelow(record, Negative(feature), -x, no, yes);
      return SetAtMost(record, feature, x, yes, no);
    }
    if (node.mode == NodeMode::kLess) {
      if (is_missing) return SetAtMost(record, Negative(feature), -x, no, yes);
      return SetBelow(record, feature, x, yes, no);
    }
    if (node.mode == NodeMode::kGreaterEqual) {
      if (is_missing) return SetBelow(record, feature, x, no, yes);
      return SetAtMost(record, Negative(feature), -x, yes, no);
    }
    if (is_missing) return SetAtMost(record, feature, x, no, yes);
    SetBelow(record, Negative(feature), -x, yes, no);
  }

  void FillEquality(const TreeNode& node, int32_t record, int32_t yes, int32_t no) {
    if (node.mode == NodeMode::kNotEqual) return SetEqual(record, node.feature, node.threshold, no, yes);
    if (node.takes_missing) {
      const int32_t test = Add(0, 0, 0, 0);
      Set(record, node.feature, kInfinity, test, yes);
      record = test;
    }
    if (node.mode == NodeMode::kEqual) return SetEqual(record, node.feature, node.threshold, yes, no);
    std::vector<double> members(node.members.begin(), node.members.end());
    std::erase_if(members, [](double member) { return std::isnan(member); });
    std::ranges::sort(members);
    members.erase(std::ranges::unique(members).begin(), members.end());
    SetMember(record, node.feature, members, yes, no);
  }
  void SetEqual(int32_t record, int64_t feature, double x, int32_t yes, int32_t no) {
    const int32_t inner = Add(0, 0, 0, 0);
    SetBelow(inner, feature, x, no, yes);
    SetAtMost(record, feature, x, inner, no);
  }
  // A binary search. Its depth is that of the halves of `members`, at most 31.
  void SetMember(int32_t record, int64_t feature, std::span<const double> members, int32_t yes, int32_t no) {
    if (members.empty()) return Set(record, feature, kInfinity, no, no);
    if (members.size() == 1) return SetEqual(record, feature, members[0], yes, no);
    const size_t half = members.size() / 2;
    const int32_t low = Add(0, 0, 0, 0), high = Add(0, 0, 0, 0);
    SetAtMost(record, feature, members[half - 1], low, high);
    SetMember(low, feature, members.first(half), yes, no);
    SetMember(high, feature, members.subspan(half), yes, no);
  }

  // ---- depth
  absl::Status Measure() {
    constexpr int64_t kNew = -1, kOpen = -2;
    std::vector<int64_t> depths(table_.features.size(), kNew);
    std::fill_n(depths.begin(), table_.num_leaves, 0);
    std::vector<int32_t> path;
    auto visit = [&](int32_t record) { return depths[static_cast<size_t>(record)] == kNew; };
    for (int32_t root : table_.roots) {
      if (visit(root)) path.push_back(root);
      while (!path.empty()) {
        const auto at = static_cast<size_t>(path.back());
        depths[at] = kOpen;
        int64_t below = 0;
        bool is_done = true;
        for (int32_t child : {table_.children[2 * at], table_.children[2 * at + 1]}) {
          const int64_t depth = depths[static_cast<size_t>(child)];
          if (depth == kOpen) return absl::InvalidArgumentError("the nodes of a tree form a circle");
          if (is_done && depth == kNew) {
            path.push_back(child);
            is_done = false;
          }
          below = std::max(below, depth);
        }
        if (!is_done) continue;
        depths[at] = below + 1;
        path.pop_back();
      }
      table_.depth = std::max(table_.depth, depths[static_cast<size_t>(root)]);
    }
    return absl::OkStatus();
  }

  const Trees& trees_;
  const int64_t num_features_;
  const bool is_narrow_;
  TreeTable table_;
  std::vector<int32_t> record_of_node_;
};

}  // namespace

absl::StatusOr<TreeTable> MakeTreeTable(const Trees& trees, int64_t num_features, bool is_narrow) {
  return TableBuilder(trees, num_features, is_narrow).Build();
}

}  // namespace rvm::onnx
