// Decision trees of ai.onnx.ml as tables for the operator `tree_nodes`.
#ifndef RVM_COMPILER_IMPORT_ONNX_TREE_TABLE_H_
#define RVM_COMPILER_IMPORT_ONNX_TREE_TABLE_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace rvm::onnx {

// Comparisons with the threshold, in the order in which TreeEnsemble numbers them.
enum class NodeMode : uint8_t { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMember, kLeaf };

struct TreeNode {
  NodeMode mode = NodeMode::kLeaf;
  bool takes_missing = false;  // NaN goes to the first child whatever the comparison says
  int64_t feature = 0;
  double threshold = 0;
  std::span<const double> members;    // kMember
  std::array<int64_t, 2> children{};  // where the comparison holds, and where it does not: numbers of nodes
};

struct Trees {
  std::vector<TreeNode> nodes;
  std::vector<int64_t> roots;
};

// The same trees with one comparison alone: from a record to its first child if a number is at most the threshold,
// else, also for NaN, to its second. Records of numbers below `num_leaves` are leaves, each its own child; the last
// leaf belongs to no node. A feature of `num_features` or above is the negative of a feature.
struct TreeTable {
  std::vector<int32_t> roots, features, children;  // two children by record
  std::vector<double> thresholds;
  std::vector<int64_t> leaf_of_node;  // -1: no leaf
  int64_t num_leaves = 0;
  int64_t depth = 0;  // the longest path from a root to a leaf
  bool has_negatives = false;
};

// Thresholds of narrow tables are rounded down to float32, which changes no comparison with a float32.
// kInvalidArgument: numbers of nodes or features are wrong, or the nodes form a circle.
absl::StatusOr<TreeTable> MakeTreeTable(const Trees& trees, int64_t num_features, bool is_narrow);

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_TREE_TABLE_H_
