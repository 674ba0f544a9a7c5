// The converters of all operators, by the file that has them. operators.cc says which is whose.
#ifndef RVM_COMPILER_IMPORT_ONNX_CONVERTERS_H_
#define RVM_COMPILER_IMPORT_ONNX_CONVERTERS_H_

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

// index.cc
Operands Gather(NodeContext& c);
Operands GatherElements(NodeContext& c);
Operands GatherND(NodeContext& c);
Operands ScatterElements(NodeContext& c);
Operands ScatterND(NodeContext& c);
Operands OneHot(NodeContext& c);
Operands NonZero(NodeContext& c);
Operands Compress(NodeContext& c);
Operands Unique(NodeContext& c);
Operands ReverseSequence(NodeContext& c);

// math.cc
Operands Unary(NodeContext& c);
Operands Binary(NodeContext& c);
Operands Variadic(NodeContext& c);
Operands Mean(NodeContext& c);
Operands Identity(NodeContext& c);
Operands Pow(NodeContext& c);
Operands Mod(NodeContext& c);
Operands BitShift(NodeContext& c);
Operands Select(NodeContext& c);
Operands CastTo(NodeContext& c);
Operands CastLike(NodeContext& c);
Operands BitCast(NodeContext& c);
Operands Clip(NodeContext& c);
Operands IsInf(NodeContext& c);
Operands Reciprocal(NodeContext& c);
Operands Elu(NodeContext& c);
Operands Celu(NodeContext& c);
Operands Selu(NodeContext& c);
Operands Gelu(NodeContext& c);
Operands HardSigmoid(NodeContext& c);
Operands HardSwish(NodeContext& c);
Operands LeakyRelu(NodeContext& c);
Operands Mish(NodeContext& c);
Operands PRelu(NodeContext& c);
Operands Shrink(NodeContext& c);
Operands Softsign(NodeContext& c);
Operands Swish(NodeContext& c);
Operands ThresholdedRelu(NodeContext& c);
Operands FastGelu(NodeContext& c);

// nn.cc
Operands MatMul(NodeContext& c);
Operands Gemm(NodeContext& c);
Operands FusedMatMul(NodeContext& c);
Operands Einsum(NodeContext& c);
Operands Conv(NodeContext& c);
Operands ConvTranspose(NodeContext& c);
Operands MaxPool(NodeContext& c);
Operands AveragePool(NodeContext& c);
Operands LpPool(NodeContext& c);
Operands GlobalPool(NodeContext& c);
Operands GlobalLpPool(NodeContext& c);
Operands MaxUnpool(NodeContext& c);

// norm.cc
Operands BatchNormalization(NodeContext& c);
Operands InstanceNormalization(NodeContext& c);
Operands GroupNormalization(NodeContext& c);
Operands LayerNormalization(NodeContext& c);
Operands RMSNormalization(NodeContext& c);
Operands LpNormalization(NodeContext& c);
Operands MeanVarianceNormalization(NodeContext& c);
Operands LRN(NodeContext& c);
Operands Softmax(NodeContext& c);
Operands Dropout(NodeContext& c);
Operands NegativeLogLikelihoodLoss(NodeContext& c);
Operands SoftmaxCrossEntropyLoss(NodeContext& c);
Operands SkipLayerNormalization(NodeContext& c);

// reduce.cc
Operands Reduce(NodeContext& c);
Operands ReduceL1(NodeContext& c);
Operands ReduceSumSquare(NodeContext& c);
Operands ReduceL2(NodeContext& c);
Operands ReduceLogSum(NodeContext& c);
Operands ReduceLogSumExp(NodeContext& c);
Operands ArgExtreme(NodeContext& c);
Operands Scan(NodeContext& c);
Operands TopK(NodeContext& c);
Operands Hardmax(NodeContext& c);

// shape.cc
Operands Shape(NodeContext& c);
Operands Size(NodeContext& c);
Operands Reshape(NodeContext& c);
Operands Flatten(NodeContext& c);
Operands Squeeze(NodeContext& c);
Operands Unsqueeze(NodeContext& c);
Operands Transpose(NodeContext& c);
Operands Expand(NodeContext& c);
Operands Tile(NodeContext& c);
Operands Concat(NodeContext& c);
Operands Split(NodeContext& c);
Operands Slice(NodeContext& c);
Operands Pad(NodeContext& c);
Operands CenterCropPad(NodeContext& c);
Operands Constant(NodeContext& c);
Operands ConstantOfShape(NodeContext& c);
Operands Range(NodeContext& c);
Operands EyeLike(NodeContext& c);
Operands Trilu(NodeContext& c);
Operands DepthAndSpace(NodeContext& c);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_CONVERTERS_H_
