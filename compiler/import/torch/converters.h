// The converters of all operators, by the file that has them. operators.cc says which is whose.
#ifndef RVM_COMPILER_IMPORT_TORCH_CONVERTERS_H_
#define RVM_COMPILER_IMPORT_TORCH_CONVERTERS_H_

#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {

// math.cc
Operands Unary(NodeContext& c);
Operands FloatUnary(NodeContext& c);
Operands Binary(NodeContext& c);
Operands Logical(NodeContext& c);
Operands LogicalNot(NodeContext& c);
Operands Sum(NodeContext& c);
Operands Division(NodeContext& c);
Operands Power(NodeContext& c);
Operands Round(NodeContext& c);
Operands Where(NodeContext& c);
Operands Clamp(NodeContext& c);
Operands MaskedFill(NodeContext& c);
Operands MaskedScatter(NodeContext& c);
Operands AddProduct(NodeContext& c);
Operands Lerp(NodeContext& c);
Operands Copy(NodeContext& c);
Operands Fill(NodeContext& c);
Operands Reciprocal(NodeContext& c);
Operands Square(NodeContext& c);
Operands Isfinite(NodeContext& c);

// elementwise.cc
Operands FloatBinary(NodeContext& c);
Operands Copysign(NodeContext& c);
Operands Signbit(NodeContext& c);
Operands Angle(NodeContext& c);
Operands Hypot(NodeContext& c);
Operands Ldexp(NodeContext& c);
Operands LogAddExp(NodeContext& c);
Operands LogCumsumexp(NodeContext& c);
Operands FloatPower(NodeContext& c);
Operands Heaviside(NodeContext& c);
Operands Logit(NodeContext& c);
Operands NanToNum(NodeContext& c);
Operands Xlogy(NodeContext& c);
Operands Xlog1py(NodeContext& c);
Operands Entr(NodeContext& c);
Operands Sinc(NodeContext& c);
Operands Exp2(NodeContext& c);
Operands ConvertAngle(NodeContext& c);
Operands Frac(NodeContext& c);
Operands Nextafter(NodeContext& c);
Operands Frexp(NodeContext& c);
Operands CommonDivisor(NodeContext& c);
Operands IsClose(NodeContext& c);

// special.cc
Operands Special(NodeContext& c);
Operands SpecialBinary(NodeContext& c);
Operands Polygamma(NodeContext& c);
Operands MultivariateLgamma(NodeContext& c);
Operands OrthogonalPolynomial(NodeContext& c);

// counting.cc
Operands Histc(NodeContext& c);
Operands Histogram(NodeContext& c);
Operands Bincount(NodeContext& c);

// linalg.cc
Operands DiagEmbed(NodeContext& c);
Operands LinalgDet(NodeContext& c);
Operands LinalgSlogdet(NodeContext& c);
Operands LinalgSolve(NodeContext& c);
Operands LinalgInverse(NodeContext& c);
Operands LinalgLuFactor(NodeContext& c);
Operands LinalgLu(NodeContext& c);
Operands LuUnpack(NodeContext& c);
Operands LinalgLuSolve(NodeContext& c);
Operands LinalgSolveTriangular(NodeContext& c);
Operands TriangularSolve(NodeContext& c);
Operands LinalgCholesky(NodeContext& c);
Operands CholeskySolve(NodeContext& c);
Operands LinalgCheckErrors(NodeContext& c);
Operands MatrixPower(NodeContext& c);
Operands MatrixExponential(NodeContext& c);
Operands LinalgQr(NodeContext& c);
Operands Geqrf(NodeContext& c);
Operands HouseholderProduct(NodeContext& c);
Operands Ormqr(NodeContext& c);
Operands LinalgEigh(NodeContext& c);
Operands LinalgSvd(NodeContext& c);
Operands LinalgSvdvals(NodeContext& c);
Operands LinalgPinv(NodeContext& c);
Operands LinalgMatrixRank(NodeContext& c);
Operands LinalgMatrixNorm(NodeContext& c);
Operands LinalgCond(NodeContext& c);

// random.cc
Operands RandomLike(NodeContext& c);
Operands RandomOfShape(NodeContext& c);
Operands Normal(NodeContext& c);
Operands Bernoulli(NodeContext& c);
Operands RandomIntegers(NodeContext& c);
Operands RandomPermutation(NodeContext& c);
Operands Multinomial(NodeContext& c);
Operands RandomLeakyRelu(NodeContext& c);
Operands Dropout(NodeContext& c);

// activations.cc
Operands Relu6(NodeContext& c);
Operands Hardtanh(NodeContext& c);
Operands Hardsigmoid(NodeContext& c);
Operands Hardswish(NodeContext& c);
Operands LeakyRelu(NodeContext& c);
Operands Elu(NodeContext& c);
Operands Selu(NodeContext& c);
Operands Celu(NodeContext& c);
Operands Gelu(NodeContext& c);
Operands Softplus(NodeContext& c);
Operands Mish(NodeContext& c);
Operands Softsign(NodeContext& c);
Operands LogSigmoid(NodeContext& c);
Operands Prelu(NodeContext& c);
Operands Threshold(NodeContext& c);
Operands Glu(NodeContext& c);
Operands Softmax(NodeContext& c);
Operands SafeSoftmax(NodeContext& c);
Operands Hardshrink(NodeContext& c);
Operands Softshrink(NodeContext& c);
Operands SoftmaxGradient(NodeContext& c);

// reduce.cc
Operands Reduce(NodeContext& c);
Operands Mean(NodeContext& c);
Operands Extreme(NodeContext& c);
Operands ArgExtreme(NodeContext& c);
Operands Variance(NodeContext& c);
Operands Norm(NodeContext& c);
Operands Distances(NodeContext& c);
Operands Logsumexp(NodeContext& c);
Operands Cumulative(NodeContext& c);
Operands Distance(NodeContext& c);
Operands CountNonzero(NodeContext& c);
Operands Extremes(NodeContext& c);
Operands SumOfNumbers(NodeContext& c);

// order.cc
Operands Topk(NodeContext& c);
Operands Sort(NodeContext& c);
Operands KthValue(NodeContext& c);
Operands Median(NodeContext& c);
Operands Mode(NodeContext& c);
Operands RunningExtreme(NodeContext& c);
Operands ExtremeOfNumbers(NodeContext& c);
Operands SearchSorted(NodeContext& c);
Operands IsIn(NodeContext& c);
Operands Unique(NodeContext& c);
Operands UniqueConsecutive(NodeContext& c);
Operands NonzeroStatic(NodeContext& c);
Operands Quantile(NodeContext& c);

// views.cc
Operands MoveAxes(NodeContext& c);
Operands Rotate(NodeContext& c);
Operands FlipOne(NodeContext& c);
Operands Unfold(NodeContext& c);
Operands AsStrided(NodeContext& c);
Operands AsStridedScatter(NodeContext& c);
Operands BroadcastAll(NodeContext& c);
Operands SumToSize(NodeContext& c);
Operands Meshgrid(NodeContext& c);
Operands CartesianProduct(NodeContext& c);
Operands BlockDiagonal(NodeContext& c);
Operands SplitAt(NodeContext& c);
Operands StackAlong(NodeContext& c);
Operands AtLeastRank(NodeContext& c);
Operands ImageToColumns(NodeContext& c);
Operands Diag(NodeContext& c);
Operands Trace(NodeContext& c);
Operands ChannelShuffle(NodeContext& c);
Operands Combinations(NodeContext& c);

// products.cc
Operands OuterProduct(NodeContext& c);
Operands AddProducts(NodeContext& c);
Operands InnerProduct(NodeContext& c);
Operands TensorDot(NodeContext& c);
Operands Kronecker(NodeContext& c);
Operands Cross(NodeContext& c);
Operands ProductOfAll(NodeContext& c);
Operands EmbeddingBag(NodeContext& c);
Operands Bilinear(NodeContext& c);
Operands Trilinear(NodeContext& c);

// shape.cc
Operands View(NodeContext& c);
Operands ViewAs(NodeContext& c);
Operands Flatten(NodeContext& c);
Operands Unflatten(NodeContext& c);
Operands Squeeze(NodeContext& c);
Operands Unsqueeze(NodeContext& c);
Operands Permute(NodeContext& c);
Operands TransposeTwo(NodeContext& c);
Operands Expand(NodeContext& c);
Operands Repeat(NodeContext& c);
Operands RepeatInterleave(NodeContext& c);
Operands Concat(NodeContext& c);
Operands Stack(NodeContext& c);
Operands Split(NodeContext& c);
Operands Chunk(NodeContext& c);
Operands Unbind(NodeContext& c);
Operands Slice(NodeContext& c);
Operands Narrow(NodeContext& c);
Operands Select(NodeContext& c);
Operands Flip(NodeContext& c);
Operands Roll(NodeContext& c);
Operands Triangle(NodeContext& c);
Operands Diagonal(NodeContext& c);
Operands Pad(NodeContext& c);
Operands PixelShuffle(NodeContext& c);
Operands SelectScatter(NodeContext& c);
Operands SliceScatter(NodeContext& c);
Operands Identity(NodeContext& c);
Operands ToCopy(NodeContext& c);

// create.cc
Operands Full(NodeContext& c);
Operands FullLike(NodeContext& c);
Operands Arange(NodeContext& c);
Operands Eye(NodeContext& c);
Operands ScalarTensor(NodeContext& c);
Operands OneHot(NodeContext& c);
Operands Linspace(NodeContext& c);

// index.cc
Operands Gather(NodeContext& c);
Operands IndexSelect(NodeContext& c);
Operands Embedding(NodeContext& c);
Operands Index(NodeContext& c);
Operands IndexPut(NodeContext& c);
Operands IndexFill(NodeContext& c);
Operands IndexUpdate(NodeContext& c);
Operands Scatter(NodeContext& c);
Operands IndexReduce(NodeContext& c);
Operands TakeFlat(NodeContext& c);
Operands PutFlat(NodeContext& c);
Operands Nonzero(NodeContext& c);
Operands MaskedSelect(NodeContext& c);
Operands MaxUnpool(NodeContext& c);
Operands MaxPoolGradient(NodeContext& c);
Operands DiagonalScatter(NodeContext& c);

// nn.cc
Operands MatMul(NodeContext& c);
Operands Linear(NodeContext& c);
Operands Addmm(NodeContext& c);
Operands Einsum(NodeContext& c);
Operands Convolution(NodeContext& c);
Operands TransposedConvolution(NodeContext& c);
Operands MaxPool(NodeContext& c);
Operands AveragePool(NodeContext& c);
Operands AdaptivePool(NodeContext& c);
Operands Attention(NodeContext& c);
Operands Upsample(NodeContext& c);
Operands GridSampler(NodeContext& c);

// norm.cc
Operands BatchNorm(NodeContext& c);
Operands LayerNorm(NodeContext& c);
Operands RmsNorm(NodeContext& c);
Operands GroupNorm(NodeContext& c);
Operands InstanceNorm(NodeContext& c);

// differences.cc
Operands Diff(NodeContext& c);
Operands Gradient(NodeContext& c);

// losses.cc
Operands MseLoss(NodeContext& c);
Operands L1Loss(NodeContext& c);
Operands HuberLoss(NodeContext& c);
Operands KlDivergence(NodeContext& c);
Operands PoissonLoss(NodeContext& c);
Operands BinaryCrossEntropy(NodeContext& c);
Operands BinaryCrossEntropyOfLogits(NodeContext& c);
Operands SoftMarginLoss(NodeContext& c);
Operands HingeEmbeddingLoss(NodeContext& c);
Operands MarginRankingLoss(NodeContext& c);
Operands CosineSimilarity(NodeContext& c);
Operands CosineEmbeddingLoss(NodeContext& c);
Operands PairwiseDistance(NodeContext& c);
Operands TripletMarginLoss(NodeContext& c);
Operands NllLoss(NodeContext& c);
Operands CrossEntropyLoss(NodeContext& c);
Operands MultiMarginLoss(NodeContext& c);
Operands MultilabelMarginLoss(NodeContext& c);

// recurrent.cc
Operands LstmCell(NodeContext& c);
Operands GruCell(NodeContext& c);
Operands RnnCell(NodeContext& c);
Operands Lstm(NodeContext& c);
Operands Gru(NodeContext& c);
Operands Rnn(NodeContext& c);

// control.cc
Operands Cond(NodeContext& c);
Operands WhileLoop(NodeContext& c);
Operands Scan(NodeContext& c);
Operands Map(NodeContext& c);
Operands Inlined(NodeContext& c);
Operands Nothing(NodeContext& c);
Operands Assert(NodeContext& c);
Operands SymSize(NodeContext& c);
Operands SymNumel(NodeContext& c);
Operands SymBinary(NodeContext& c);
Operands SymUnary(NodeContext& c);
Operands Item(NodeContext& c);

}  // namespace rvm::torch::convert

#endif  // RVM_COMPILER_IMPORT_TORCH_CONVERTERS_H_
