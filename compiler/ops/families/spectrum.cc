// Fourier transforms, term by term.
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;

constexpr Input kDftInputs[] = {{"re_data", "the real parts, transformed along the last axis"},
                                {"im_data", "the imaginary parts"}};
constexpr AttrSpec kDftAttrs[] = {
    {"inverse", AttrType::kBool, "False", "the inverse transform, divided by the extent"}};
constexpr Input kStftInputs[] = {
    {"data", "a signal (n), or a batch of them (batch, n)"},
    {"window", "what a frame is multiplied with, a vector of `win_length`, also of integers"}};
constexpr AttrSpec kStftAttrs[] = {
    {"n_fft", AttrType::kInt, "", "how many elements a frame has"},
    {"hop_length", AttrType::kInt, "", "distance of the frames"},
    {"win_length", AttrType::kInt, "", "how many elements of a frame count; at most `n_fft`"},
    {"normalized", AttrType::kBool, "False", "divide by the square root of `n_fft`"},
    {"onesided", AttrType::kBool, "True",
     "only the frequencies up to half of `n_fft`; the others are their conjugates"}};
constexpr Example kDftExamples[] = {
    {"dft([1f, 2f, 3f, 4f], [0f, 0f, 0f, 0f])", "([10f, -2f, -2f, -2f], [0f, 2f, 0f, -2f])"},
    {"dft([10f, -2f, -2f, -2f], [0f, 2f, 0f, -2f], inverse=True)", "([1f, 2f, 3f, 4f], [0f, 0f, 0f, 0f])"}};
constexpr Example kStftExamples[] = {
    {"stft([1f, 2f, 3f, 4f, 5f, 6f], [4f, 3f, 2f], n_fft=3, hop_length=3, win_length=3)",
     "[[[[16f, 0f], [43f, 0f]], [[-2f, 0f], [2.5f, -2.598076f]]]]"}};

// cos and sin of the angle of `step` in a circle of `steps`; both int64.
struct Rotation {
  Expr cosine, sine;
};
Rotation RotationBy(const Expr& step, const Expr& steps) {
  Expr turn = te::Cast(kFloat64, te::Binary(BinaryOp::kFloorMod, step, steps));
  Expr angle = te::FloatConst(kFloat64, kTwoPi) * te::Binary(BinaryOp::kDivide, turn, te::Cast(kFloat64, steps));
  return {te::Unary(UnaryOp::kCos, angle), te::Unary(UnaryOp::kSin, angle)};
}

// cos and sin of all steps of a circle, vectors.
struct Circle {
  Tensor cosine, sine;
};
Circle CircleOf(const Dim& steps) {
  auto table = [&](bool sine) {
    return te::ComputeTensor("circle", kFloat64, {steps}, [&](Indices i) {
      Rotation rotation = RotationBy(i[0], te::DimValue(steps));
      return sine ? rotation.sine : rotation.cosine;
    });
  };
  return {table(false), table(true)};
}

Solve DftRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &re = args[0]->shape.dims, &im = args[1]->shape.dims;
  if (re.empty()) return FailRank(context, 0, 0, "1 or more");
  if (im.size() != re.size()) return FailRank(context, 1, im.size(), "that of `re_data`");
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `re_data`");
  for (size_t i = 0; i < re.size(); ++i) {
    if (!context.RequireEqual(re[i], im[i], "`dft`: extents of the real and the imaginary parts"))
      return Solve::kFailed;
  }
  return context.Result(context.arena().New<ir::TupleType>(std::vector<const ir::Type*>{args[0], args[0]}));
}

std::vector<Tensor> ComputeDft(const ComputeContext& context) {
  const Tensor &re = context.input(0), &im = context.input(1);
  bool inverse = context.attrs().GetBool("inverse");
  size_t last = re.rank() - 1;
  const Dim& extent = re.dims()[last];
  Circle circle = CircleOf(extent);
  std::vector<Tensor> parts;
  for (bool imaginary : {false, true}) {
    Tensor sum = ReduceOver(ReduceOp::kSum, kFloat64, re.dims(), {extent}, [&](Indices o, Indices r) {
      Expr step = te::Binary(BinaryOp::kFloorMod, o[last] * r[0], te::DimValue(extent));
      std::vector<Expr> at = With(o, last, r[0]);
      Expr x = te::Cast(kFloat64, re(at)), y = te::Cast(kFloat64, im(at));
      Expr cosine = circle.cosine({step}), sine = circle.sine({step});
      if (inverse) sine = te::Unary(UnaryOp::kNegative, sine);
      return imaginary ? y * cosine - x * sine : x * cosine + y * sine;
    });
    parts.push_back(te::ComputeTensor("dft", re.dtype(), re.dims(), [&](Indices i) {
      Expr value = sum(i);
      if (inverse) value = te::Binary(BinaryOp::kDivide, value, te::Cast(kFloat64, te::DimValue(extent)));
      return te::Cast(re.dtype(), value);
    }));
  }
  return parts;
}

Solve StftRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &window = args[1]->shape.dims;
  const ir::Attrs& attrs = context.attrs();
  int64_t size = attrs.GetInt("n_fft"), hop = attrs.GetInt("hop_length"), length = attrs.GetInt("win_length");
  if (data.empty() || data.size() > 2) return FailRank(context, 0, data.size(), "1 or 2");
  if (window.size() != 1) return FailRank(context, 1, window.size(), "1");
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  if (args[1]->dtype.dtype != args[0]->dtype.dtype && !IsIndexType(args[1]->dtype.dtype))
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `data`, or an integer dtype");
  if (size < 1 || hop < 1 || length < 1 || length > size) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`n_fft` is ", size, ", `hop_length` ", hop, " and `win_length` ", length,
                                     "; expected positive numbers, `win_length` at most `n_fft`"));
  }
  if (!context.RequireEqual(window[0], length, "`stft`: elements of `window` and `win_length`") ||
      !context.RequireAtLeast(data.back(), size, "`stft`: elements of `data` and `n_fft`"))
    return Solve::kFailed;
  Dim frames = FloorDiv(data.back() - size, hop) + 1;
  int64_t frequencies = attrs.GetBool("onesided") ? size / 2 + 1 : size;
  return ResultTensor(context, {data.size() == 2 ? data[0] : Dim(1), frequencies, frames, 2}, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeStft(const ComputeContext& context) {
  const Tensor &data = context.input(0), &window = context.input(1);
  const te::TensorSpec& out = context.output();
  const ir::Attrs& attrs = context.attrs();
  int64_t length = attrs.GetInt("win_length");
  Circle circle = CircleOf(length);
  Tensor sum = ReduceOver(ReduceOp::kSum, kFloat64, out.dims, {length}, [&](Indices o, Indices r) {
    Expr step = te::Binary(BinaryOp::kFloorMod, o[1] * r[0], te::Index(length));
    std::vector<Expr> at = {o[2] * te::Index(attrs.GetInt("hop_length")) + r[0]};
    if (data.rank() == 2) at.insert(at.begin(), o[0]);
    Expr value = te::Cast(kFloat64, window(r)) * te::Cast(kFloat64, data(at));
    Expr sine = te::Unary(UnaryOp::kNegative, circle.sine({step}));
    return value * te::Select(Equal(o[3], te::Index(0)), circle.cosine({step}), sine);
  });
  return {te::ComputeTensor("stft", out.dtype, out.dims, [&](Indices i) {
    Expr value = sum(i);
    if (attrs.GetBool("normalized")) {
      Expr size = te::FloatConst(kFloat64, static_cast<double>(attrs.GetInt("n_fft")));
      value = te::Binary(BinaryOp::kDivide, value, te::Unary(UnaryOp::kSqrt, size));
    }
    return te::Cast(out.dtype, value);
  })};
}

constexpr OpDef kOps[] = {
    WithGradient(Op("dft", "a tuple of the real and the imaginary parts of the discrete Fourier transform", kDftInputs,
                    kDftAttrs, DftRelation, FusionClass::kOpaque, ComputeDft, kDftExamples),
                 DftGradient),
    WithGradient(
        Op("stft", "Fourier transforms of frames of a signal (batch, frequencies, frames, real and imaginary part)",
           kStftInputs, kStftAttrs, StftRelation, FusionClass::kOpaque, ComputeStft, kStftExamples),
        StftGradient),
};

}  // namespace

std::span<const OpDef> SpectrumOps() { return kOps; }

}  // namespace rvm::ops
