// The converters of all operators, by the file that has them. operators.cc says which is whose.
#ifndef RVM_COMPILER_IMPORT_ONNX_CONVERTERS_H_
#define RVM_COMPILER_IMPORT_ONNX_CONVERTERS_H_

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

// attention.cc
Operands Attention(NodeContext& c);
Operands FlexAttention(NodeContext& c);
Operands RotaryEmbedding(NodeContext& c);
Operands TensorScatter(NodeContext& c);
Operands CausalConvWithState(NodeContext& c);

// control.cc
Operands If(NodeContext& c);
Operands Loop(NodeContext& c);
Operands ScanGraph(NodeContext& c);
Operands BatchedScan(NodeContext& c);
Operands SequenceConstruct(NodeContext& c);
Operands SequenceEmpty(NodeContext& c);
Operands SequenceLength(NodeContext& c);
Operands SequenceAt(NodeContext& c);
Operands SequenceInsert(NodeContext& c);
Operands SequenceErase(NodeContext& c);
Operands ConcatFromSequence(NodeContext& c);
Operands SplitToSequence(NodeContext& c);
Operands SequenceMap(NodeContext& c);
Operands Optional(NodeContext& c);
Operands OptionalHasElement(NodeContext& c);
Operands OptionalGetElement(NodeContext& c);

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
Operands Inverse(NodeContext& c);
Operands Det(NodeContext& c);
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
Operands NegativeLogLikelihoodLoss(NodeContext& c);
Operands SoftmaxCrossEntropyLoss(NodeContext& c);
Operands SkipLayerNormalization(NodeContext& c);

// quantize.cc
// A cast that treats values beyond a float8 as the attribute `saturate` says.
Operand CastSaturated(NodeContext& c, Operand x, DataType dtype);
Operands QuantizeLinear(NodeContext& c);
Operands DequantizeLinear(NodeContext& c);
Operands DynamicQuantizeLinear(NodeContext& c);
Operands MatMulInteger(NodeContext& c);
Operands ConvInteger(NodeContext& c);
Operands QLinearMatMul(NodeContext& c);
Operands QLinearConv(NodeContext& c);

// recurrent.cc
Operands RNN(NodeContext& c);
Operands GRU(NodeContext& c);
Operands LSTM(NodeContext& c);
Operands DynamicQuantizeLSTM(NodeContext& c);
Operands LinearAttention(NodeContext& c);

// random.cc
Operands Bernoulli(NodeContext& c);
Operands Dropout(NodeContext& c);
Operands Multinomial(NodeContext& c);
Operands RandomNormal(NodeContext& c);
Operands RandomNormalLike(NodeContext& c);
Operands RandomUniform(NodeContext& c);
Operands RandomUniformLike(NodeContext& c);

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

// resize.cc
Operands Resize(NodeContext& c);

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

// spectrum.cc
Operands HannWindow(NodeContext& c);
Operands HammingWindow(NodeContext& c);
Operands BlackmanWindow(NodeContext& c);
Operands DFT(NodeContext& c);
Operands STFT(NodeContext& c);
Operands MelWeightMatrix(NodeContext& c);

// training.cc
Operands Adagrad(NodeContext& c);
Operands Adam(NodeContext& c);
Operands Momentum(NodeContext& c);
Operands Binarizer(NodeContext& c);
Operands ArrayFeatureExtractor(NodeContext& c);

// vision.cc
Operands GridSample(NodeContext& c);
Operands AffineGrid(NodeContext& c);
Operands RoiAlign(NodeContext& c);
Operands MaxRoiPool(NodeContext& c);
Operands NonMaxSuppression(NodeContext& c);
Operands DeformConv(NodeContext& c);
Operands Col2Im(NodeContext& c);

// ---- ngrams.cc
Operands TfIdfVectorizer(NodeContext& c);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_CONVERTERS_H_
