#include "compiler/import/tflite/quantised.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rvm::tflite {
namespace {

Form FormOf(NodeContext& c, const Tensor* tensor) {
  Form form;
  if (tensor == nullptr || c.failed()) return form;
  const std::optional<DataType> dtype = ToDataType(tensor->type);
  if (!dtype || !dtype->is_integral() || dtype->is_bool() || dtype->bits > 32 || tensor->scales.empty()) {
    c.Unsupported("a mixture of quantised tensors and others");
    return form;
  }
  if (tensor->scales.size() > 1) {
    c.Unsupported("scales for channels of an activation");
    return form;
  }
  const float scale = tensor->scales[0];
  const Range range = RangeOf(*dtype);
  if (!(scale > 0) || !std::isfinite(scale)) {
    c.Fail(absl::StrCat("a tensor has the scale ", scale, "; expected a number above 0"));
    return form;
  }
  if (const int64_t zero = tensor->zero_points[0]; zero < range.least || zero > range.greatest) {
    c.Fail(absl::StrCat("a tensor has the zero point ", zero, ", which its dtype has not"));
    return form;
  }
  return {*dtype, scale, tensor->zero_points[0]};
}

int64_t Clamped(int64_t value, Range range) { return std::clamp(value, range.least, range.greatest); }

Operand Int32s(Steps& c, const std::vector<int32_t>& values) {
  return c.emit().Constant(Literal::FromValues<int32_t>(kInt32, {static_cast<int64_t>(values.size())}, values));
}

int Below(const Factor& factor) { return std::max(-factor.exponent, 0); }

// Returns the second rounding: x / 2^shift, halves away from 0, with a shift for each channel.
Operand RoundingShifts(Steps& c, Operand x, std::span<const Factor> factors) {
  auto each = [&](absl::FunctionRef<int32_t(int)> value) {
    std::vector<int32_t> values;
    for (const Factor& factor : factors) values.push_back(value(Below(factor)));
    return values.size() == 1 ? c.emit().Integer(values[0], kInt32) : Int32s(c, values);
  };
  if (std::ranges::all_of(factors, [](const Factor& factor) { return Below(factor) == 0; })) return x;
  Operand shifts = each([](int shift) { return shift; });
  Operand halves = each([](int shift) { return shift == 0 ? 0 : int32_t{1} << (shift - 1); });
  Operand sign = c.Op("right_shift", {x, c.emit().Integer(31, kInt32)});  // -1 for negative numbers
  if (!std::ranges::all_of(factors, [](const Factor& factor) { return Below(factor) != 0; })) {
    sign = c.Mul(sign, each([](int shift) { return shift == 0 ? 0 : 1; }));
  }
  return c.Op("right_shift", {c.Add(c.Add(x, halves), sign), shifts});
}

Operand RescaleReduced(Steps& c, Operand x, std::span<const Factor> factors) {
  std::vector<int64_t> significands, halves, shifts;
  for (const Factor& factor : factors) {
    const int64_t wide = factor.significand;
    significands.push_back(wide < 0x7FFF0000 ? (wide + (1 << 15)) >> 16 : 0x7FFF);
    shifts.push_back(15 - std::min(factor.exponent, 14));
    halves.push_back(int64_t{1} << (shifts.back() - 1));
  }
  auto operand = [&](const std::vector<int64_t>& values) {
    return values.size() == 1 ? c.Integer(values[0]) : c.emit().Vector(values);
  };
  Operand product = c.Add(c.Mul(c.Cast(x, kInt64), operand(significands)), operand(halves));
  return c.Cast(c.Op("right_shift", {product, operand(shifts)}), kInt32);
}

}  // namespace

Form InputForm(NodeContext& c, size_t i) {
  const Form form = FormOf(c, c.Input(i));
  Operand x = c.In(i);
  if (!c.failed() && c.DTypeOf(x) != form.dtype)
    c.Fail(absl::StrCat("input ", i, " has another dtype than its tensor"));
  return form;
}
Form OutputForm(NodeContext& c, size_t i) { return FormOf(c, c.Output(i)); }

int64_t Rounded(float x) {
  constexpr float kMaxCode = 1 << 24;
  return std::isnan(x) ? 0 : static_cast<int64_t>(std::round(std::clamp(x, -kMaxCode, kMaxCode)));
}

Range RangeOf(DataType dtype) {
  const int64_t half = int64_t{1} << (dtype.bits - 1);
  return dtype.is_uint() ? Range{0, 2 * half - 1} : Range{-half, half - 1};
}

Range ActivatedRange(NodeContext& c, int field, const Form& form) {
  Range range = RangeOf(form.dtype);
  auto code = [&](float real) { return form.zero_point + Rounded(real / form.scale); };
  auto within = [&](float least, float greatest) {
    return Range{std::max(range.least, code(least)), std::min(range.greatest, code(greatest))};
  };
  const int kind = c.options().Number<int8_t>(field, 0);
  if (kind == 0) return range;
  if (kind == 1) return {std::max(range.least, code(0)), range.greatest};
  if (kind == 2) return within(-1, 1);
  if (kind == 3) return within(0, 6);
  c.Unsupported(absl::StrCat("the fused activation ", kind, " of a quantised tensor"));
  return range;
}

Factor FactorOf(double real) {
  if (!(real > 0) || !std::isfinite(real)) return {};
  int exponent = 0;
  auto significand =
      static_cast<int64_t>(std::round(std::frexp(real, &exponent) * static_cast<double>(int64_t{1} << 31)));
  if (significand == int64_t{1} << 31) {
    significand /= 2;
    ++exponent;
  }
  if (exponent < -31) return {};
  if (exponent > 30) return {0x7FFFFFFF, 30};
  return {static_cast<int32_t>(significand), exponent};
}

Operand Rescale(Steps& c, Operand x, std::span<const Factor> factors, Rounding rounding) {
  if (rounding == Rounding::kReduced) return RescaleReduced(c, x, factors);
  const bool is_twice = rounding == Rounding::kTwice;
  x = c.Cast(x, kInt32);
  // Without the second rounding the product is shifted by the exponent, with it only to the left.
  auto shift = [&](const Factor& factor) { return is_twice ? std::max(factor.exponent, 0) : factor.exponent; };
  if (factors.size() == 1) {
    x = c.Op("fixed_point_multiply", {x},
             {{"multiplier", int64_t{factors[0].significand}}, {"shift", int64_t{shift(factors[0])}}});
  } else {
    std::vector<int32_t> significands, shifts, zeros(factors.size(), 0);
    for (const Factor& factor : factors) {
      significands.push_back(factor.significand);
      shifts.push_back(-shift(factor));
    }
    const bool shifts_any = std::ranges::any_of(shifts, [](int32_t value) { return value != 0; });
    x = c.Op("fixed_point_multiply_per_axis", {x, Int32s(c, significands), Int32s(c, zeros), Int32s(c, shifts)},
             {{"is_rshift_required", shifts_any}, {"axes", ir::IntList({{c.RankOf(x) - 1}})}});
  }
  return is_twice ? RoundingShifts(c, x, factors) : x;
}

Operand Narrow(Steps& c, Operand x, const Form& form, Range range) {
  if (form.zero_point != 0) x = c.Add(x, c.emit().Integer(form.zero_point, kInt32));
  x = c.Op("clip", {x}, {{"a_min", static_cast<double>(range.least)}, {"a_max", static_cast<double>(range.greatest)}});
  return c.Cast(x, form.dtype);
}
Operand Narrow(Steps& c, Operand x, const Form& form) { return Narrow(c, x, form, RangeOf(form.dtype)); }

Operand Centred(Steps& c, Operand x, int64_t zero_point) {
  x = c.Cast(x, kInt32);
  return zero_point == 0 ? x : c.Sub(x, c.emit().Integer(zero_point, kInt32));
}

Operand Dequantised(Steps& c, Operand x, const Form& form) {
  return c.Mul(c.Cast(Centred(c, x, form.zero_point), kFloat32), c.emit().Number(form.scale, kFloat32));
}

Operand Quantised(NodeContext& c, Operand x, const Tensor& tensor) {
  const std::optional<DataType> dtype = ToDataType(tensor.type);
  if (c.failed() || !dtype || tensor.scales.empty()) return c.Fail("an output is not quantised");
  Operand scale, zero;
  if (tensor.scales.size() == 1) {
    scale = c.emit().Number(tensor.scales[0], kFloat32);
    zero = c.emit().Integer(tensor.zero_points[0], kInt32);
  } else {
    const auto count = static_cast<int64_t>(tensor.scales.size());
    scale = c.emit().Constant(Literal::FromValues<float>(kFloat32, {count}, tensor.scales));
    zero = c.Cast(c.emit().Vector(tensor.zero_points), kInt32);
  }
  return c.Op("qnn.quantize", {x, scale, zero}, {{"out_dtype", dtype->ToString()}, {"axis", tensor.axis}});
}

Operand Lookup(Steps& c, Operand x, DataType out, absl::FunctionRef<int64_t(int64_t x)> f) {
  if (c.failed()) return x;
  const DataType dtype = c.DTypeOf(x);
  const Range from = RangeOf(dtype), to = RangeOf(out);
  std::vector<int32_t> values;
  for (int64_t code = from.least; code <= from.greatest; ++code) {
    values.push_back(static_cast<int32_t>(Clamped(f(code), to)));
  }
  Operand index = x;
  if (dtype == kInt8) {
    // A byte without sign needs no bounds: 0 to 127, then -128 to -1.
    std::rotate(values.begin(), values.begin() - static_cast<std::ptrdiff_t>(from.least), values.end());
    index = c.Cast(x, kUInt8);
  } else if (!dtype.is_uint()) {
    index = c.Sub(c.Cast(x, kInt32), c.emit().Integer(from.least, kInt32));
  }
  Operand table = c.Cast(Int32s(c, values), out);
  return c.Op("take", {table, index}, {{"axis", 0}, {"mode", "fast"}});
}

}  // namespace rvm::tflite
