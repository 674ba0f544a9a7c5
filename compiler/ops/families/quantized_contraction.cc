// Contractions of quantised tensors. The result is the contraction of the integers minus their zero points, in int32.
// The real result is that times the product of the scales, which a following `qnn.requantize` applies.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/quantized.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {
    {"data", "a quantised tensor"},   {"weight", "a quantised tensor"},
    {"input_zero_point", "int32"},    {"kernel_zero_point", "int32, one for all or one per output"},
    {"input_scale", "scale of data"}, {"kernel_scale", "scale of weight, one for all or one per output"}};
constexpr Input kBatchInputs[] = {{"x", "a quantised tensor"}, {"y", "a quantised tensor"}, {"x_zero_point", "int32"},
                                  {"y_zero_point", "int32"},   {"x_scale", "scale of x"},   {"y_scale", "scale of y"}};
constexpr AttrSpec kDenseAttrs[] = {{"units", AttrType::kInt, "None", "rows of weight, checked", true},
                                    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (int32)"}};
constexpr AttrSpec kBatchAttrs[] = {{"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (int32)"},
                                    {"transpose_a", AttrType::kBool, "False", "x is (b, k, m)"},
                                    {"transpose_b", AttrType::kBool, "False", "y is (b, n, k)"}};
constexpr AttrSpec kConvAttrs[] = {
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},
    {"padding", AttrType::kInts, "[0, 0]", "zeros around each axis: one number, one per axis, or befores then afters"},
    {"dilation", AttrType::kInts, "[1, 1]", "distance of the taps"},
    {"groups", AttrType::kInt, "1", "channels are split in as many groups"},
    {"channels", AttrType::kInt, "None", "output channels, checked", true},
    {"kernel_size", AttrType::kInts, "None", "extents of the filters, checked", true},
    {"data_layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"kernel_layout", AttrType::kString, "\"OIHW\"", "axes of weight"},
    {"out_layout", AttrType::kString, "\"\"", "axes of the result (those of data)"},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (int32)"}};

constexpr AttrSpec kTransposeAttrs[] = {
    {"channels", AttrType::kInt, "None", "output channels, checked", true},
    {"kernel_size", AttrType::kInts, "None", "extents of the filters, checked", true},
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},
    {"padding", AttrType::kInts, "[0, 0]",
     "dropped around each axis: one number, one per axis, or befores then afters"},
    {"output_padding", AttrType::kInts, "[0, 0]", "added to the result's extents"},
    {"dilation", AttrType::kInts, "[1, 1]", "distance of the taps"},
    {"groups", AttrType::kInt, "1", "channels are split in as many groups"},
    {"data_layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"kernel_layout", AttrType::kString, "\"IOHW\"", "axes of weight"},
    {"out_layout", AttrType::kString, "\"\"", "axes of the result (those of data)"},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (int32)"}};
constexpr Example kTransposeExamples[] = {
    {"qnn.conv2d_transpose([[[[1i8, 2i8]]]], [[[[3i8, 4i8]]]], 1, 2, 1f, 1f)", "[[[[0, 1, 2]]]]"}};

// A call of the contraction of integers, whose first two arguments are int32.
class IntegerCall : public TypeContext {
 public:
  explicit IntegerCall(TypeContext& call) : call_(call) {}
  ir::Arena& arena() override { return call_.arena(); }
  const ir::Attrs& attrs() const override { return call_.attrs(); }
  size_t num_args() const override { return 2; }
  const ir::Type* arg(size_t i) override {
    return ir::MakeTensorType(arena(), ir::DynCast<ir::TensorType>(call_.arg(i))->shape.dims, kInt32);
  }
  const Literal* arg_value(size_t) override { return nullptr; }
  const ir::Type* result() override { return call_.result(); }
  bool Unify(const ir::Type* a, const ir::Type* b) override { return call_.Unify(a, b); }
  bool RequireEqual(const Dim& a, const Dim& b, std::string_view what, diagnostics::DiagnosticKind kind) override {
    return call_.RequireEqual(a, b, what, kind);
  }
  bool RequireAtLeast(const Dim& a, const Dim& b, std::string_view what) override {
    return call_.RequireAtLeast(a, b, what);
  }
  Dim ValueDim(size_t arg, int64_t element) override { return call_.ValueDim(arg, element); }
  Dim RequireBroadcast(const Dim& a, const Dim& b, std::string_view what) override {
    return call_.RequireBroadcast(a, b, what);
  }
  Dim DataDependentDim() override { return call_.DataDependentDim(); }
  Solve Fail(diagnostics::DiagnosticKind kind, std::string message, int arg) override {
    return call_.Fail(kind, std::move(message), arg);
  }

 private:
  TypeContext& call_;
};

struct Dense {
  static constexpr std::string_view kPlain = "nn.dense";
  static constexpr bool kByOutputs = true;
  static size_t OutputAxis(const ir::Attrs&) { return 0; }
};
struct BatchMatmul {
  static constexpr std::string_view kPlain = "nn.batch_matmul";
  static constexpr bool kByOutputs = false;
  static size_t OutputAxis(const ir::Attrs&) { return 0; }
};
struct Conv2d {
  static constexpr std::string_view kPlain = "nn.conv2d";
  static constexpr bool kByOutputs = true;
  static size_t OutputAxis(const ir::Attrs& attrs) { return attrs.GetString("kernel_layout").find('O'); }
};

struct Conv2dTranspose {
  static constexpr std::string_view kPlain = "nn.conv2d_transpose";
  static constexpr bool kByOutputs = true;
  static size_t OutputAxis(const ir::Attrs& attrs) { return attrs.GetString("kernel_layout").find('O'); }
};

template <typename Contraction>
Solve ContractionRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  size_t axis = Contraction::OutputAxis(context.attrs());
  const Dims& weight = args[1]->shape.dims;
  std::optional<Dim> outputs;
  if (Contraction::kByOutputs && axis < weight.size()) outputs = weight[axis];
  if (!IsQuantized(context, args, 0) || !IsQuantized(context, args, 1) || !AreParameters(context, args, 4, 2) ||
      !AreParameters(context, args, 5, 3, outputs))
    return Solve::kFailed;
  IntegerCall call(context);
  return FindOp(Contraction::kPlain)->type_relation(call);
}

// Returns the value of a zero point that is a constant in the kernel.
std::optional<int64_t> KnownZeroPoint(const Tensor& zero_point) {
  bool is_known = zero_point.rank() == 0 && zero_point->body && zero_point->body->kind == te::ExprKind::kIntConst;
  return is_known ? std::optional(zero_point->body->int_value) : std::nullopt;
}

// Returns the integers minus their zero points, in the narrowest dtype that surely holds them: products of narrow
// integers are faster, and a constant without a zero point is packed as it is stored.
Tensor Factor(const Tensor& data, const Tensor& zero_point, size_t axis) {
  constexpr int64_t kMax = 1 << 14;
  std::optional<int64_t> zero = KnownZeroPoint(zero_point);
  if (zero == 0) return data;
  if (!zero || data.dtype().bits > 8 || *zero < -kMax || *zero > kMax) return Centred(data, zero_point, axis);
  return te::ComputeTensor("centred", kInt16, data.dims(), [&](std::span<const te::Expr> i) {
    return te::Cast(kInt16, data(i)) - te::IntConst(kInt16, *zero);
  });
}

template <typename Contraction>
std::vector<Tensor> ComputeContraction(const ComputeContext& context) {
  Tensor inputs[] = {Factor(context.input(0), context.input(2), 0),
                     Factor(context.input(1), context.input(3), Contraction::OutputAxis(context.attrs()))};
  te::TensorSpec outputs[] = {context.output()};
  return FindOp(Contraction::kPlain)->compute(ComputeContext(inputs, context.attrs(), outputs));
}

template <typename Contraction>
constexpr OpDef Op(std::string_view name, std::string_view summary, std::span<const Input> inputs,
                   std::span<const AttrSpec> attrs, std::span<const Example> examples = {}) {
  return {.name = name,
          .summary = summary,
          .inputs = inputs,
          .attrs = attrs,
          .type_relation = ContractionRelation<Contraction>,
          .fusion = FusionClass::kContraction,
          .compute = ComputeContraction<Contraction>,
          .examples = examples};
}

constexpr OpDef kOps[] = {
    Op<Dense>("qnn.dense", "data times the transpose of weight, in int32", kInputs, kDenseAttrs),
    Op<BatchMatmul>("qnn.batch_matmul", "matrix product of each batch, in int32", kBatchInputs, kBatchAttrs),
    Op<Conv2d>("qnn.conv2d", "convolution along two axes, in int32; padding is the zero point", kInputs, kConvAttrs),
    Op<Conv2dTranspose>("qnn.conv2d_transpose", "the transposed convolution along two axes, in int32", kInputs,
                        kTransposeAttrs, kTransposeExamples),
};

}  // namespace

std::span<const OpDef> QuantizedContractionOps() { return kOps; }

}  // namespace rvm::ops
