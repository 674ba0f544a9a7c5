// Operators that TensorFlow and TensorFlow Lite define alike: of a node's inputs, and of attributes, which each format
// reads in its own way.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_TENSORFLOW_FAMILY_H_
#define RVM_COMPILER_IMPORT_BLOCKS_TENSORFLOW_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/steps.h"

namespace rvm::tensorflow_family {

using importing::Operand;
using importing::Operands;
using importing::Steps;

// Steps of one node, with its inputs by number.
class NodeInputs : public Steps {
 public:
  NodeInputs(importing::Emitter& emit, Operands inputs) : Steps(emit), inputs_(std::move(inputs)) {}

  size_t num_inputs() const { return inputs_.size(); }
  const Operands& inputs() const { return inputs_; }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  // Returns input `i`; a mistake where it is missing.
  Operand In(size_t i);
  // Returns the integers of input `i`, which have to be known now; a mistake that names `what` if they are not.
  std::vector<int64_t> Ints(size_t i, std::string_view what);
  // Returns the one integer of input `i`.
  int64_t Int(size_t i, std::string_view what);
  // Returns a value in the shape that a vector of extents says, which may be known only when the model runs.
  Operand Filled(Operand value, Operand extents);

 private:
  Operands inputs_;
};

// ---- operators of inputs alone
Operands AddN(NodeInputs& c);
Operands BroadcastArgs(NodeInputs& c);
Operands BroadcastTo(NodeInputs& c);
Operands Elu(NodeInputs& c);
Operands ExpandDims(NodeInputs& c);
Operands Fill(NodeInputs& c);
Operands Range(NodeInputs& c);
Operands Rank(NodeInputs& c);
Operands ScatterNd(NodeInputs& c);
Operands SegmentSum(NodeInputs& c);
Operands Select(NodeInputs& c);  // a condition of one axis chooses whole rows
Operands Slice(NodeInputs& c);   // begins and sizes; a size of -1 is what is left
Operands SplitV(NodeInputs& c);
Operands Square(NodeInputs& c);
Operands SquaredDifference(NodeInputs& c);
Operands Tile(NodeInputs& c);
Operands Transpose(NodeInputs& c);

// ---- operators with attributes
Operands Bitcast(NodeInputs& c, DataType dtype);
Operands Bucketize(NodeInputs& c, const std::vector<float>& bounds);
Operands OneHot(NodeInputs& c, int64_t axis);
Operands Split(NodeInputs& c, int64_t count);
// Returns input 0 without `axes`, or without all axes of extent 1 where there are none.
Operands Squeeze(NodeInputs& c, std::vector<int64_t> axes);
Operands TopK(NodeInputs& c, int64_t k);
// Folds rows of a segment each by `mode`: "add", "mul", "max", "min". Rows of negative segments are left out.
Operands UnsortedSegments(NodeInputs& c, std::string_view mode);

// ---- parts of operators
// Returns index tuples along the last axis as Relay has them: along the first one.
Operand IndexTuples(Steps& c, Operand indices);
// Returns the width of both borders of an axis with the padding SAME, which gives as many windows as strides fit. It
// depends on the extent only where the stride is not 1. span: from the first to the last tap of a window.
Dim SameBorders(const Dim& extent, int64_t span, int64_t stride);
// Returns square matrices whose diagonals are the rows of x.
Operand DiagonalMatrices(Steps& c, Operand x);

}  // namespace rvm::tensorflow_family

#endif  // RVM_COMPILER_IMPORT_BLOCKS_TENSORFLOW_FAMILY_H_
