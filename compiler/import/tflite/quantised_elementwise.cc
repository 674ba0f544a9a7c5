// Operators on quantised tensors that compute each element by itself, reductions and softmax. Functions of 8 bits are
// tables of 256 values, which are computed here as the reference kernels compute them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/term.h"
#include "compiler/import/tflite/fixed_point.h"
#include "compiler/import/tflite/quantised.h"

namespace rvm::tflite {
namespace {

using importing::Term;

double Wide(float value) { return static_cast<double>(value); }

// ---- from and to floats

Operands Quantize(NodeContext& c) {
  Operand x = c.In(0);
  const Tensor *from = c.Input(0), *to = c.Output(0);
  if (c.failed()) return {};
  if (c.DTypeOf(x).is_float()) return {Quantised(c, x, *to)};
  if (from->scales.empty()) return {c.Unsupported("integers without a scale")};
  const Form in = InputForm(c, 0), out = OutputForm(c);
  if (c.failed()) return {};
  const Factor factor[] = {FactorOf(Wide(in.scale) / Wide(out.scale))};
  return {Narrow(c, Rescale(c, Centred(c, x, in.zero_point), factor), out)};
}

// Weights of float16 are no quantised tensors; constants with scales for channels were dequantised before.
Operands Dequantize(NodeContext& c) {
  Operand x = c.In(0);
  const Tensor* from = c.Input(0);
  if (c.failed() || c.DTypeOf(x).is_float()) return {c.failed() ? x : c.Cast(x, kFloat32)};
  if (from->scales.size() > 1) return {c.importer().Dequantised(x, *from)};
  return {Dequantised(c, x, InputForm(c, 0))};
}

// ---- arithmetic

// The two inputs of a sum, with `bits` more bits and the greater scale, doubled.
struct Sides {
  Operand a, b;
  double scale;
};
Sides Aligned(NodeContext& c, int bits) {
  const Form a = InputForm(c, 0), b = InputForm(c, 1);
  const double scale = 2 * std::max(Wide(a.scale), Wide(b.scale));
  auto side = [&](size_t i, const Form& form) {
    const Factor factor[] = {FactorOf(Wide(form.scale) / scale)};
    Operand x = Centred(c, c.In(i), form.zero_point);
    return Rescale(c, c.Mul(x, c.emit().Integer(int64_t{1} << bits, kInt32)), factor);
  };
  return {side(0, a), side(1, b), scale};
}

Operands Sum(NodeContext& c) {
  const Form out = OutputForm(c);
  const int bits = out.dtype.bits == 16 ? 15 : 20;
  const Sides sides = Aligned(c, bits);
  const Factor factor[] = {FactorOf(sides.scale / (std::ldexp(1.0, bits) * Wide(out.scale)))};
  const Range range = ActivatedRange(c, 0, out);
  return {Narrow(c, Rescale(c, c.Op(c.row().variant, {sides.a, sides.b}), factor), out, range)};
}

Operands SquaredDifference(NodeContext& c) {
  const Form out = OutputForm(c);
  constexpr int kBits = 7;
  const Sides sides = Aligned(c, kBits);
  const double scale = sides.scale * sides.scale / (std::ldexp(1.0, 2 * kBits) * Wide(out.scale));
  const Factor factor[] = {FactorOf(scale)};
  Operand difference = c.Sub(sides.a, sides.b);
  return {Narrow(c, Rescale(c, c.Mul(difference, difference), factor), out)};
}

Operands Product(NodeContext& c) {
  const Form a = InputForm(c, 0), b = InputForm(c, 1), out = OutputForm(c);
  const Factor factor[] = {FactorOf(Wide(a.scale * b.scale / out.scale))};
  const Range range = ActivatedRange(c, 0, out);
  Operand product = c.Mul(Centred(c, c.In(0), a.zero_point), Centred(c, c.In(1), b.zero_point));
  return {Narrow(c, Rescale(c, product, factor), out, range)};
}

Operands Prelu(NodeContext& c) {
  const Form x = InputForm(c, 0), alpha = InputForm(c, 1), out = OutputForm(c);
  const Factor above[] = {FactorOf(Wide(x.scale / out.scale))};
  const Factor below[] = {FactorOf(Wide(x.scale * alpha.scale / out.scale))};
  Operand centred = Centred(c, c.In(0), x.zero_point);
  Operand product = c.Mul(centred, Centred(c, c.In(1), alpha.zero_point));
  Operand is_below = c.Op("less", {centred, c.emit().Integer(0, kInt32)});
  return {Narrow(c, c.Where(is_below, Rescale(c, product, below), Rescale(c, centred, above)), out)};
}

// Integers of the result, in a table for inputs that have another form.
Operands Concatenation(NodeContext& c) {
  const Form out = OutputForm(c);
  Operands parts;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    const Form in = InputForm(c, i);
    Operand x = c.In(i);
    if (c.failed()) return {};
    if (in.scale != out.scale || in.zero_point != out.zero_point) {
      const float scale = in.scale * (1 / out.scale), bias = static_cast<float>(-in.zero_point) * scale;
      auto code = [&](int64_t value) { return Rounded(static_cast<float>(value) * scale + bias) + out.zero_point; };
      x = in.dtype.bits == 8 ? Lookup(c, x, out.dtype, code) : Quantised(c, Dequantised(c, x, in), *c.Output(0));
    }
    parts.push_back(x);
  }
  if (parts.empty()) return {c.Fail("it has no inputs")};
  return {c.Concatenate(std::move(parts), c.options().Number<int32_t>(0, 0))};
}

// ---- functions of one element

float Logistic(float x) { return 1.0f / (1.0f + std::exp(-x)); }
float Elu(float x) { return x < 0 ? std::expm1(x) : x; }
float Exp(float x) { return std::exp(x); }
float Tanh(float x) { return std::tanh(x); }
float Log(float x) { return std::log(x); }
float Rsqrt(float x) { return 1.0f / std::sqrt(x); }
float Sqrt(float x) { return std::sqrt(x); }
float Gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * static_cast<float>(M_SQRT1_2))); }
float GeluByTanh(float x) {
  constexpr float kRoot = 0.7978845608f;  // of 2 / pi
  return 0.5f * x * (1.0f + std::tanh(kRoot * (x + 0.044715f * x * x * x)));
}

struct Function {
  std::string_view name;
  float (*compute)(float);
  std::string_view op;  // in Relay, of floats; "": integers of 16 bits are refused
};
constexpr Function kFunctions[] = {
    {"sigmoid", Logistic, "sigmoid"}, {"tanh", Tanh, "tanh"}, {"exp", Exp, "exp"},    {"log", Log, "log"},
    {"rsqrt", Rsqrt, "rsqrt"},        {"sqrt", Sqrt, "sqrt"}, {"elu", Elu, "nn.elu"}, {"gelu", Gelu, ""},
    {"gelu_tanh", GeluByTanh, ""}};

// Returns the function `name` of floats. Of 16 bits it is computed in floats when the program runs.
Operands Tabulated(NodeContext& c, std::string_view name) {
  Operand x = c.In(0);
  const Form in = InputForm(c, 0), out = OutputForm(c);
  if (c.failed()) return {};
  const Function& function = *std::ranges::find(kFunctions, name, &Function::name);
  if (in.dtype.bits != 8 && function.op.empty()) return {c.Unsupported("integers of 16 bits")};
  if (in.dtype.bits != 8) return {Quantised(c, c.Op(function.op, {Dequantised(c, x, in)}), *c.Output(0))};
  const float inverse = 1 / out.scale;
  return {Lookup(c, x, out.dtype, [&](int64_t code) {
    return Rounded(function.compute(in.scale * static_cast<float>(code - in.zero_point)) * inverse) + out.zero_point;
  })};
}
Operands Function1(NodeContext& c) { return Tabulated(c, c.row().variant); }

// Returns the logistic function and tanh of integers of 16 bits, as straight lines between values of the logistic
// function at multiples of 1/24, of which a result has 16 bits.
Operands Sigmoidal(NodeContext& c) {
  Operand x = c.In(0);
  const Form in = InputForm(c, 0);
  if (c.failed() || in.dtype.bits != 16) return c.failed() ? Operands() : Function1(c);
  // x in steps of 1/24 / 2^9; tanh(x) is 2 * logistic(2 * x) - 1.
  const bool is_tanh = c.row().variant == "tanh";
  const int bits = is_tanh ? 8 : 9;
  constexpr int64_t kLast = 255;
  double multiplier = Wide(in.scale) * 4096.0 * 3.0;
  int64_t shift = 0;
  for (; multiplier <= 32767.0 / 2 && shift <= 30; ++shift) multiplier *= 2;
  if (multiplier > 65535) return {c.Unsupported("a scale that is far too large")};
  std::vector<int32_t> values;
  for (int i = 0; i <= kLast; ++i) {
    values.push_back(std::min<int32_t>(65535, static_cast<int32_t>(std::round(65536 / (1 + std::exp(-i / 24.0))))));
  }
  Operand table = c.emit().Constant(Literal::FromValues<int32_t>(kInt32, {kLast + 1}, values));
  auto shifted = [&](const Term& value, int64_t by) {
    return Term(c, c.Op("right_shift", {value, c.emit().Integer(by, kInt32)}));
  };
  const Term product = Term(c, c.Cast(x, kInt32)) * std::floor(multiplier);
  const Term fine = shift == 0 ? product : shifted(product + static_cast<double>(int64_t{1} << (shift - 1)), shift);
  const Term size = Abs(fine), place = shifted(size, bits);
  auto read = [&](const Term& at) { return Term(c, c.Op("take", {table, Min(at, at.Like(kLast))}, {{"axis", 0}})); };
  const Term first = read(place), rest = size - place * std::ldexp(1.0, bits);
  const Term line = first * std::ldexp(1.0, bits) + rest * (read(place + 1) - first);
  const double most = is_tanh ? 0xFFFF * 256.0 : 0x7FFF * 1024.0, half = std::ldexp(1.0, bits - (is_tanh ? 1 : 0));
  const Term limited = Select(place >= static_cast<double>(kLast), most, line);
  const double centre = std::ldexp(1.0, is_tanh ? 23 : 24);
  const Term offset = limited - centre, odd = Select(fine >= 0.0, offset + half, half - 1 - offset);
  return {c.Cast(shifted(is_tanh ? odd : odd + centre, is_tanh ? 8 : 10), kInt16)};
}

Operands GeluOf(NodeContext& c) { return Tabulated(c, c.options().Number<uint8_t>(0, 0) != 0 ? "gelu_tanh" : "gelu"); }

// Rescales and clips; `variant` is the range of the floats.
Operands Rectified(NodeContext& c) {
  const Form in = InputForm(c, 0), out = OutputForm(c);
  const Factor factor[] = {FactorOf(Wide(in.scale / out.scale))};
  auto code = [&](float real) { return out.zero_point + Rounded(real / out.scale); };
  Range range = RangeOf(out.dtype);
  const std::string_view kind = c.row().variant;
  range.least = std::max(range.least, kind == "-1..1" ? code(-1) : code(0));
  if (kind != "0..") range.greatest = std::min(range.greatest, kind == "0..6" ? code(6) : code(1));
  return {Narrow(c, Rescale(c, Centred(c, c.In(0), in.zero_point), factor), out, range)};
}

Operands LeakyRelu(NodeContext& c) {
  const Form in = InputForm(c, 0), out = OutputForm(c);
  const float alpha = c.options().Number<float>(0, 0);
  const Factor above[] = {FactorOf(Wide(in.scale / out.scale))};
  // A factor is positive: the sign of a negative slope is that of the product.
  const Factor below[] = {FactorOf(Wide(in.scale * std::abs(alpha) / out.scale))};
  Operand x = Centred(c, c.In(0), in.zero_point);
  Operand is_below = c.Op("less", {x, c.emit().Integer(0, kInt32)});
  Operand negative = Rescale(c, alpha < 0 ? c.Op("negative", {x}) : x, below);
  return {Narrow(c, c.Where(is_below, negative, Rescale(c, x, above)), out)};
}

Operands Absolute(NodeContext& c) {
  const Form in = InputForm(c, 0), out = OutputForm(c);
  Operand x = c.Op("abs", {Centred(c, c.In(0), in.zero_point)});
  const Factor factor[] = {FactorOf(Wide(in.scale / out.scale))};
  return {Narrow(c, in.scale == out.scale ? x : Rescale(c, x, factor), out)};
}

Operands HardSwish(NodeContext& c) {
  Operand x = c.In(0);
  const Form in = InputForm(c, 0), out = OutputForm(c);
  if (c.failed()) return {};
  if (in.dtype.bits != 8) return {c.Unsupported("integers of 16 bits")};
  const HardSwishFactors factors = HardSwishFactorsOf(in.scale, out.scale);
  return {Lookup(c, x, out.dtype, [&](int64_t code) {
    return HardSwishOf(static_cast<int32_t>(code - in.zero_point), factors) + out.zero_point;
  })};
}

// ---- reductions

// Returns the sum of integers, or their mean: then the factor has the number of elements as a divisor.
Operands Reduce(NodeContext& c) {
  Operand x = c.In(0);
  std::vector<int64_t> axes = c.Ints(1, "axes");
  const Form in = InputForm(c, 0), out = OutputForm(c);
  if (c.failed()) return {};
  axes = c.Axes(axes, c.RankOf(x));
  std::ranges::sort(axes);
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (c.failed()) return {};
  if (axes.empty()) return {x};
  int64_t count = 1;
  for (int64_t axis : axes) {
    const std::optional<int64_t> extent = c.ExtentOf(x, axis).AsConst();
    if (!extent || *extent < 1 || __builtin_mul_overflow(count, *extent, &count) || count > (1 << 23)) {
      return {c.Unsupported("a reduction of quantised elements whose number is not known; give it by --shape")};
    }
  }
  const bool keeps = c.options().Number<uint8_t>(0, 0) != 0;
  Operand sums = c.Op("sum", {c.Cast(x, kInt32)}, {{"axis", ir::IntList(axes)}, {"keepdims", keeps}});
  Factor factor = FactorOf(Wide(in.scale) / Wide(out.scale));
  if (c.row().variant == "mean") {
    const int shift = std::min({63 - __builtin_clzll(static_cast<uint64_t>(count)), 32, 31 + factor.exponent});
    factor = {static_cast<int32_t>((int64_t{factor.significand} << shift) / count), factor.exponent - shift};
  }
  const Factor factors[] = {factor};
  return {Narrow(c, Rescale(c, Centred(c, sums, in.zero_point * count), factors), out)};
}

// ---- softmax

// Returns the product of two numbers below 1 in steps of 2^-31, as int64.
Term HighProduct(const Term& a, const Term& b) {
  Steps& c = a.steps();
  return {c, c.Op("right_shift", {Term(c, c.Add(a * b, c.Integer(int64_t{1} << 30))), c.Integer(31)})};
}
Term Saturated(const Term& x) { return Min(Max(x, x.Like(-0x1p31)), x.Like(0x1p31 - 1)); }

// 1 / (1 + x) for x from 0 to 1 in steps of 2^-31, by three steps of Newton's method.
Term Reciprocal(const Term& x) {
  // (x + 1) / 2, of which 1 is 2^31 - 1.
  Steps& c = x.steps();
  const Term half = Term(c, c.Op("right_shift", {x + 0x1p31, c.Integer(1)}));
  Term y = HighProduct(half, x.Like(-1010580540)) + 1515870810;  // 48/17 - 32/17 * half, in steps of 2^-29
  for (int i = 0; i < 3; ++i) {
    const Term rest = 0x1p29 - HighProduct(half, y);
    y = y + Saturated(HighProduct(y, rest) * 4);
  }
  return Saturated(y * 2);
}

Operands Softmax(NodeContext& c) {
  Operand x = c.In(0);
  const Form in = InputForm(c, 0), out = OutputForm(c);
  const double beta = Wide(c.options().Number<float>(0, 0));
  if (c.failed()) return {};
  if (in.dtype.bits != 8) {
    Operand real = c.Mul(Dequantised(c, x, in), c.emit().Number(beta, kFloat32));
    return {Quantised(c, c.Op("nn.softmax", {real}, {{"axis", -1}}), *c.Output(0))};
  }
  // exp(x - max), of which there are 256, in steps of 2^-31 and of 2^-19.
  std::vector<int32_t> powers, parts;
  for (int32_t difference = 0; difference < 256; ++difference) {
    powers.push_back(SoftmaxPower(-difference, beta * Wide(in.scale)));
    parts.push_back(static_cast<int32_t>((int64_t{powers.back()} + (1 << 11)) >> 12));
  }
  auto table = [&](const std::vector<int32_t>& values) {
    return c.emit().Constant(Literal::FromValues<int32_t>(kInt32, {256}, values));
  };
  Operand wide = c.Cast(x, kInt32);
  Operand greatest = c.Op("max", {wide}, {{"axis", ir::IntList({{-1}})}, {"keepdims", true}});
  Operand difference = c.Sub(greatest, wide);
  auto look = [&](Operand values) { return c.Op("take", {values, difference}, {{"axis", 0}, {"mode", "fast"}}); };
  Operand sum = c.Op("sum", {look(table(parts))}, {{"axis", ir::IntList({{-1}})}, {"keepdims", true}});
  // The exponent of a sum, by its bits as a float64.
  Operand bits = c.Op("reinterpret", {c.Cast(sum, kFloat64)}, {{"dtype", "int64"}});
  const Term exponent(c, c.Sub(c.Op("right_shift", {bits, c.Integer(52)}), c.Integer(1023)));
  const Term fraction(c, c.Sub(c.Op("left_shift", {c.Cast(sum, kInt64), Term(c, c.Sub(c.Integer(31), exponent))}),
                               c.Integer(int64_t{1} << 31)));
  // A row is divided by 2^(exponent - 19), and its steps are 2^-bits of the result.
  const Term product = HighProduct(Reciprocal(fraction), Term(c, c.Cast(look(table(powers)), kInt64)));
  const Term shift = exponent + static_cast<double>(31 - 19 - out.dtype.bits);
  const Term half(c, c.Op("left_shift", {c.Integer(1), shift - 1}));
  Operand rounded = c.Op("right_shift", {product + half, shift});
  const Range range = RangeOf(out.dtype);
  return {Narrow(c, c.Cast(rounded, kInt32), {out.dtype, out.scale, range.least}, range)};
}

constexpr OperatorRow kRows[] = {
    {"ABS", Absolute},
    {"ADD", Sum, "add"},
    {"CONCATENATION", Concatenation},
    {"DEQUANTIZE", Dequantize},
    {"ELU", Function1, "elu"},
    {"EXP", Function1, "exp"},
    {"GELU", GeluOf},
    {"HARD_SWISH", HardSwish},
    {"LEAKY_RELU", LeakyRelu},
    {"LOG", Function1, "log"},
    {"LOGISTIC", Sigmoidal, "sigmoid"},
    {"MEAN", Reduce, "mean"},
    {"MUL", Product},
    {"PRELU", Prelu},
    {"QUANTIZE", Quantize},
    {"RELU", Rectified, "0.."},
    {"RELU6", Rectified, "0..6"},
    {"RELU_0_TO_1", Rectified, "0..1"},
    {"RELU_N1_TO_1", Rectified, "-1..1"},
    {"RSQRT", Function1, "rsqrt"},
    {"SOFTMAX", Softmax},
    {"SQRT", Function1, "sqrt"},
    {"SQUARED_DIFFERENCE", SquaredDifference},
    {"SUB", Sum, "subtract"},
    {"SUM", Reduce, "sum"},
    {"TANH", Sigmoidal, "tanh"},
};

}  // namespace

std::span<const OperatorRow> QuantisedOperators() { return kRows; }

}  // namespace rvm::tflite
