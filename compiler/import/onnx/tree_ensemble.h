// Attributes of the ensembles of trees of ai.onnx.ml, in one form.
#ifndef RVM_COMPILER_IMPORT_ONNX_TREE_ENSEMBLE_H_
#define RVM_COMPILER_IMPORT_ONNX_TREE_ENSEMBLE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/tree_table.h"

namespace rvm::onnx::convert {

enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };  // in the order in which TreeEnsemble numbers them

struct Weight {
  int64_t node, target;
  double value;
};

struct Ensemble {
  Trees trees;
  std::vector<int64_t> tree_of_node;  // empty: not known
  std::vector<Weight> weights;
  std::vector<double> base_values;
  int64_t targets = 1;
  Aggregate aggregate = Aggregate::kSum;
};

// Returns the attributes of TreeEnsembleClassifier and TreeEnsembleRegressor without those that only one has. `prefix`
// is that of the attributes of weights: "class" or "target". A mistake, and nullopt, if they do not fit each other.
std::optional<Ensemble> ReadEnsemble(NodeContext& c, std::string_view prefix);
// Returns the attributes of TreeEnsemble. Leaves stand behind the other nodes. `members` is what the nodes' sets point
// into.
std::optional<Ensemble> ReadTreeEnsemble(NodeContext& c, std::vector<double>& members);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_TREE_ENSEMBLE_H_
