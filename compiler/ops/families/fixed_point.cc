#include "compiler/ops/families/fixed_point.h"

#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {

Expr MultiplyAndShift(const Expr& x, const Expr& significand, const Expr& right_shift, FixedPointRounding rounding) {
  Expr half = te::Binary(BinaryOp::kShiftLeft, te::Index(1), right_shift - te::Index(1));
  if (rounding == FixedPointRounding::kToNearest) {
    half = te::Select(Less(x, te::Index(0)), half - te::Index(1), half);
  }
  return te::Binary(BinaryOp::kShiftRight, x * significand + half, right_shift);
}

FixedPointFactors ToFixedPoint(const Tensor& factors) {
  constexpr int64_t kMinExponent = -31, kGreatestExponent = 30;
  auto real = [](double value) { return te::FloatConst(kFloat64, value); };
  Tensor factor = te::ComputeTensor("factor", kFloat64, factors.dims(), [&](std::span<const Expr> i) {
    Expr m = te::Select(Less(real(0), factors(i)), factors(i), real(0));
    return te::Binary(BinaryOp::kMinimum, m, real(1 << 30));
  });
  // 2^e is computed as 2^(31 + e) / 2^31, whose numerator is exact.
  auto power = [&](const Expr& exponent) {
    Expr shifted = te::Binary(BinaryOp::kShiftLeft, te::Index(1), exponent - te::Index(kMinExponent));
    return te::Cast(kFloat64, shifted) * real(1.0 / static_cast<double>(int64_t{1} << 31));
  };
  // The logarithm may be off by one next to a power of two.
  Tensor guess = te::ComputeTensor("guess", kInt64, factors.dims(), [&](std::span<const Expr> i) {
    Expr floor = te::Cast(kInt64, te::Unary(UnaryOp::kFloor, te::Unary(UnaryOp::kLog2, factor(i))));
    Expr least = te::Binary(BinaryOp::kMaximum, floor, te::Index(kMinExponent - 1));
    return te::Binary(BinaryOp::kMinimum, least, te::Index(kGreatestExponent - 1)) + te::Index(1);
  });
  Tensor exponent = te::ComputeTensor("exponent", kInt64, factors.dims(), [&](std::span<const Expr> i) {
    Expr m = factor(i), e = guess(i), p = power(e);
    Expr above = And(te::Binary(BinaryOp::kLessEqual, p, m), Less(e, te::Index(kGreatestExponent)));
    Expr below = And(Less(m, p * real(0.5)), Less(te::Index(kMinExponent), e));
    return te::Select(above, e + te::Index(1), te::Select(below, e - te::Index(1), e));
  });
  FixedPointFactors result;
  result.significand = te::ComputeTensor("significand", kInt64, factors.dims(), [&](std::span<const Expr> i) {
    Expr fraction = te::Binary(BinaryOp::kDivide, factor(i), power(exponent(i)));
    return te::Cast(kInt64, RoundHalfAway(fraction * real(static_cast<double>(int64_t{1} << 31))));
  });
  result.right_shift = te::ComputeTensor("right_shift", kInt64, factors.dims(),
                                         [&](std::span<const Expr> i) { return te::Index(31) - exponent(i); });
  return result;
}

namespace {

constexpr Input kData[] = {{"data", "an int32 tensor"}};
constexpr Input kPerAxisInputs[] = {{"data", "an int32 tensor"},
                                    {"multiplier", "significands, int32, one axis for each of `axes`"},
                                    {"lshift", "left shifts of data, int32"},
                                    {"rshift", "right shifts of the product, int32"}};
constexpr AttrSpec kAttrs[] = {{"multiplier", AttrType::kInt, "", "the significand, times 2^31"},
                               {"shift", AttrType::kInt, "", "the exponent, from -31 to 30"}};
constexpr AttrSpec kPerAxisAttrs[] = {
    {"is_lshift_required", AttrType::kBool, "False", "use `lshift`"},
    {"is_rshift_required", AttrType::kBool, "False", "use `rshift`"},
    {"axes", AttrType::kInts, "", "the axes of data that those of the other arguments are"}};

Solve MultiplyRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (args[0]->dtype.dtype != kInt32) return FailDType(context, 0, args[0]->dtype.dtype, "`int32`");
  int64_t shift = context.attrs().GetInt("shift"), multiplier = context.attrs().GetInt("multiplier");
  if (shift < -31 || shift > 30 || multiplier != static_cast<int32_t>(multiplier)) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`multiplier` is ", multiplier, " and `shift` ", shift,
                                     "; expected 32 bits, and a value from -31 to 30"));
  }
  return context.Result(args[0]);
}

std::vector<Tensor> ComputeMultiply(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  return {te::ComputeTensor("fixed_point_multiply", kInt32, data.dims(), [&](std::span<const Expr> i) {
    Expr significand = te::Index(context.attrs().GetInt("multiplier"));
    Expr shift = te::Index(31 - context.attrs().GetInt("shift"));
    return te::Cast(kInt32,
                    MultiplyAndShift(te::Cast(kInt64, data(i)), significand, shift, FixedPointRounding::kUpward));
  })};
}

Solve PerAxisRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& data = args[0]->shape.dims;
  std::vector<int64_t> axes = context.attrs().GetInts("axes");
  for (int i = 0; i < 4; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (arg.dtype.dtype != kInt32) return FailDType(context, i, arg.dtype.dtype, "`int32`");
    if (i > 0 && arg.shape.dims.size() != axes.size()) {
      return FailRank(context, i, arg.shape.dims.size(), absl::StrCat("one axis for each of `axes`, ", axes.size()));
    }
  }
  for (size_t k = 0; k < axes.size(); ++k) {
    if (!NormalAxis(context, axes[k], static_cast<int64_t>(data.size()), "axes")) return Solve::kFailed;
    for (size_t i = 1; i < 4; ++i) {
      if (!context.RequireEqual(args[i]->shape.dims[k], data[Normal(axes[k], data.size())],
                                "`fixed_point_multiply_per_axis`: extents of data and factors"))
        return Solve::kFailed;
    }
  }
  return context.Result(args[0]);
}

std::vector<Tensor> ComputePerAxis(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  std::vector<int64_t> axes = context.attrs().GetInts("axes");
  return {te::ComputeTensor("fixed_point_multiply", kInt32, data.dims(), [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    for (int64_t axis : axes) at.push_back(i[Normal(axis, data.rank())]);
    auto factor = [&](size_t input) { return te::Cast(kInt64, context.input(input)(at)); };
    Expr x = data(i);
    if (context.attrs().GetBool("is_lshift_required")) x = te::Binary(BinaryOp::kShiftLeft, x, context.input(2)(at));
    Expr shift = te::Index(31);
    if (context.attrs().GetBool("is_rshift_required")) {
      Expr least = te::Binary(BinaryOp::kMaximum, shift + factor(3), te::Index(1));
      shift = te::Binary(BinaryOp::kMinimum, least, te::Index(62));
    }
    return te::Cast(kInt32, MultiplyAndShift(te::Cast(kInt64, x), factor(1), shift, FixedPointRounding::kUpward));
  })};
}

constexpr OpDef kOps[] = {
    {.name = "fixed_point_multiply",
     .summary = "data * multiplier * 2^(shift - 31), halves rounded up",
     .inputs = kData,
     .attrs = kAttrs,
     .type_relation = MultiplyRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeMultiply},
    {.name = "fixed_point_multiply_per_axis",
     .summary = "(data << lshift) * multiplier * 2^-(31 + rshift), halves rounded up, along axes",
     .inputs = kPerAxisInputs,
     .attrs = kPerAxisAttrs,
     .type_relation = PerAxisRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputePerAxis},
};

}  // namespace

std::span<const OpDef> FixedPointOps() { return kOps; }

}  // namespace rvm::ops
