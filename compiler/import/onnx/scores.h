// Scores of classifiers and regressors of ai.onnx.ml: what their attribute `post_transform` makes of them, and labels.
#ifndef RVM_COMPILER_IMPORT_ONNX_SCORES_H_
#define RVM_COMPILER_IMPORT_ONNX_SCORES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

enum class PostTransform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
// Returns the attribute `post_transform`, a text; nullopt, and a mistake, if it is none of them.
std::optional<PostTransform> ReadPostTransform(NodeContext& c);

// Returns the transformed scores (rows, classes) of several classes.
Operand Transformed(NodeContext& c, Operand scores, PostTransform transform);
// Returns x (any shape) as a quantile of the standard normal distribution, by the approximation that ONNX runtimes use.
Operand Probit(NodeContext& c, Operand x);

// The second class of a binary classifier that has one score, (rows, 1).
enum class SecondClass : uint8_t {
  kNone,        // one score stays one
  kComplement,  // the score is a probability: 1 - s and s
  kOpposite,    // the score is a margin: -s and s
};
Operand BinaryScores(NodeContext& c, Operand score, PostTransform transform, SecondClass second);

// Returns input 0 as rows (rows, features) of floats; a vector is one row. Integers become float32.
Operand FloatRows(NodeContext& c);
// Returns the class labels, integers. A mistake, and nullopt, if they are strings or missing.
std::optional<std::vector<int64_t>> ClassLabels(NodeContext& c, std::string_view ints, std::string_view strings);
// Returns for each row the label of its greatest score, the first of equal ones.
Operand BestLabels(NodeContext& c, Operand scores, std::span<const int64_t> labels);
// Returns for each row (rows) of bools one of two labels.
Operand LabelsIf(NodeContext& c, Operand is_positive, int64_t positive, int64_t negative);

// Constants of the attributes.
Operand FloatVector(NodeContext& c, std::span<const float> values, DataType dtype = kFloat32);
// Returns a product of rows with a matrix of `count` rows; a mistake if the coefficients do not fit.
Operand Products(NodeContext& c, Operand rows, std::span<const float> coefficients, int64_t count,
                 std::string_view what);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_SCORES_H_
