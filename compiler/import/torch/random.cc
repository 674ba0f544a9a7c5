// Random numbers. The program draws them by keys that are split off one key, which is made of the argument `seed` of
// @main: the same seed gives the same numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <span>
#include <string_view>

#include "compiler/import/random_numbers.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch {

Operand NodeContext::Key() {
  // One of each turn of a loop would have to be threaded through it.
  if (importer_.block_depth_ > 0) return Unsupported("random numbers inside of a branch or a loop");
  return importer_.SplitKey(*this);
}

namespace convert {
namespace {

using importing::Term;

// Uniform in [0, 1).
Term Uniform(NodeContext& c, const Dims& dims, DataType dtype) {
  return {c, importing::DrawNumbers(c, c.Key(), "random.uniform", 0, 1, dims, dtype)};
}
Term StandardNormal(NodeContext& c, const Dims& dims, DataType dtype) {
  return {c, importing::DrawNumbers(c, c.Key(), "random.normal", 0, 1, dims, dtype)};
}

// Returns the dtype and the shape of the result, which only the running program may know.
DataType ResultDType(NodeContext& c) { return c.OutputDType(0).value_or(kFloat32); }
std::optional<Dims> ResultDims(NodeContext& c) {
  std::optional<Dims> dims = c.Extents("size");
  if (!dims) c.Unsupported("a shape that only the running model knows");
  return dims;
}

// In (0, 1]: its logarithm is finite.
Term Positive(const Term& uniform) { return 1 - uniform; }

// Numbers of the distribution in the row, of this shape.
Term Distribution(NodeContext& c, const Dims& dims, DataType dtype) {
  std::string_view name = c.row().variant;
  auto uniform = [&] { return Uniform(c, dims, dtype); };
  if (name == "uniform") {
    double low = c.Float("from", 0), high = c.Float("to", 1);
    return low == 0 && high == 1 ? uniform() : uniform() * (high - low) + low;
  }
  if (name == "cauchy") {
    Term angle = (uniform() - 0.5) * std::numbers::pi;
    return angle.Apply("tan") * c.Float("sigma", 1) + c.Float("median", 0);
  }
  if (name == "exponential") return -Log(Positive(uniform())) / c.Float("lambd", 1);
  if (name == "geometric") {
    Term count = (Log(Positive(uniform())) / std::log1p(-c.Float("p", 0.5))).Apply("ceil");
    return Max(count, count.Like(1));
  }
  bool is_log = name == "log_normal";
  double mean = c.Float("mean", is_log ? 1 : 0), deviation = c.Float("std", is_log ? 2 : 1);
  Term normal = StandardNormal(c, dims, dtype);
  if (mean != 0 || deviation != 1) normal = normal * deviation + mean;
  return is_log ? Exp(normal) : normal;
}

DataType FloatOf(DataType dtype) { return dtype.is_float() ? dtype : kFloat32; }

// Makes random numbers in the shape of `self`, whose values do not matter.
Operands RandomLike(NodeContext& c) {
  Operand x = c.In("self");
  DataType dtype = c.OutputDType(0).value_or(c.DTypeOf(x));
  return {c.Cast(Distribution(c, c.DimsOf(x), FloatOf(dtype)), dtype)};
}

Operands RandomOfShape(NodeContext& c) {
  std::optional<Dims> dims = ResultDims(c);
  if (!dims) return {};
  return {importing::DrawNumbers(c, c.Key(), c.row().variant, 0, 1, *dims, ResultDType(c))};
}

// The mean and the deviation are numbers or tensors; `normal_` has the shape of `self`.
Operands Normal(NodeContext& c) {
  std::optional<Dims> dims;
  DataType dtype = ResultDType(c);
  Operand mean = c.Has("mean") ? c.In("mean") : c.Integer(0), deviation = c.Has("std") ? c.In("std") : c.Integer(1);
  mean = c.Cast(mean, dtype);
  deviation = c.Cast(deviation, dtype);
  if (c.Has("self")) {
    dims = c.DimsOf(c.In("self"));
  } else if (c.Has("size")) {
    dims = ResultDims(c);
  } else {
    dims = c.DimsOf(c.Add(mean, deviation));
  }
  if (!dims || c.failed()) return {};
  return {Term(c, mean) + Term(c, deviation) * StandardNormal(c, *dims, dtype)};
}

// The chance is `p`, or that of each element.
Operands Bernoulli(NodeContext& c) {
  Operand x = c.In("self");
  DataType drawn = c.DTypeOf(x) == kFloat64 ? kFloat64 : kFloat32;
  Operand chance = c.Cast(c.Has("p") ? c.In("p") : x, drawn);
  return {c.Cast(Uniform(c, c.DimsOf(x), drawn) < Term(c, chance), c.DTypeOf(x))};
}

// randint, randint_like and random_: integers from `low` to below `high`, as the dtype of the result.
Operands RandomIntegers(NodeContext& c) {
  std::optional<Dims> dims;
  if (c.Has("self")) {
    dims = c.DimsOf(c.In("self"));
  } else {
    dims = ResultDims(c);
  }
  if (!dims) return {};
  bool is_random = c.row().name == "random";
  const char *from = is_random ? "from" : "low", *to = is_random ? "to" : "high";
  DataType dtype = c.OutputDType(0).value_or(kInt64);
  // Without a range those that the dtype has exactly, from 0.
  double all = dtype.is_float() ? std::pow(2.0, dtype == kFloat64   ? 53
                                                : dtype == kFloat32 ? 24
                                                                    : 8)
                                : std::pow(2.0, std::min(dtype.bits - (dtype == kUInt8 ? 0 : 1), 53));
  Term low(c, c.Has(from) ? c.Cast(c.Scalar(c.In(from)), kFloat64) : c.emit().Number(0, kFloat64));
  Term high(c, c.Has(to) ? c.Cast(c.Scalar(c.In(to)), kFloat64) : c.emit().Number(all, kFloat64));
  Term number = Floor(Uniform(c, *dims, kFloat64) * (high - low)) + low;
  return {c.Cast(c.Cast(number, kInt64), dtype)};
}

// Returns the order of random numbers.
Operands RandomPermutation(NodeContext& c) {
  std::optional<Dim> count = c.Has("n") ? c.Extent(*c.Find("n")) : std::nullopt;
  if (!count) return {c.Unsupported("a number of elements that only the running model knows")};
  Operand order = c.Op("argsort", {Uniform(c, {*count}, kFloat64)}, {{"axis", 0}, {"dtype", "int64"}});
  return {c.Cast(order, c.OutputDType(0).value_or(kInt64))};
}

// Without replacement: the classes whose exponentially distributed times, with the weights as rates, come first.
Operands Multinomial(NodeContext& c) {
  Operand weights = c.In("self");
  int64_t count = c.Int("num_samples", 1), rank = c.RankOf(weights);
  if (c.failed() || rank < 1 || count < 0) return {c.failed() ? nullptr : c.Fail("its weights are no vectors")};
  if (c.Bool("replacement", false) || count == 1) {
    return {c.emit().Field(c.Op("random.multinomial", {c.Key(), weights}, {{"num_samples", count}}), 1)};
  }
  Term rates(c, c.Cast(weights, kFloat64));
  Term times = -Log(Positive(Uniform(c, c.DimsOf(weights), kFloat64))) / rates;
  times = Select(rates > 0, times, std::numeric_limits<double>::infinity());
  Operand order = c.Op("argsort", {times}, {{"axis", rank - 1}, {"dtype", "int64"}});
  return {c.SliceAxis(order, rank - 1, 0, count)};
}

// Negative elements times a random slope while training, else the mean slope. The other output is the slopes.
Operands RandomLeakyRelu(NodeContext& c) {
  Term x(c, c.In("self"));
  double low = c.Float("lower", 1.0 / 8), high = c.Float("upper", 1.0 / 3);
  bool trains = c.Bool("training", false);
  Term slope = trains ? Uniform(c, c.DimsOf(x), c.DTypeOf(x)) * (high - low) + low : x.Like((low + high) / 2);
  slope = Select(x > 0, 1, slope);
  return {x * slope, trains || !c.Has("noise") ? slope.operand() : c.In("noise")};
}

// While training, elements, or whole channels, are dropped with probability p; the mean stays, and where the row says
// `alpha` the variance, too.
Operands Dropout(NodeContext& c) {
  Term x(c, c.In(c.Has("input") ? "input" : "self"));  // that of the in-place operators
  double p = c.Float("p", 0.5);
  bool is_alpha = c.row().variant.find("alpha") != std::string_view::npos;
  if (!c.Bool("train", c.row().name == "native_dropout") || p == 0) return {x, c.Cast(c.Op("ones_like", {x}), kBool)};
  Dims dims = c.DimsOf(x);
  if (c.row().variant.find("feature") != std::string_view::npos) {
    for (size_t i = 2; i < dims.size(); ++i) dims[i] = 1;
  }
  DataType dtype = c.DTypeOf(x);
  Term kept = Uniform(c, dims, dtype == kFloat64 ? kFloat64 : kFloat32) >= p;
  if (is_alpha) {
    constexpr double kAlpha = 1.7580993408473766;
    double scale = p == 1 ? 0 : 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
    return {Select(kept, x, -kAlpha) * scale + kAlpha * scale * p};
  }
  return {Select(kept, p == 1 ? x * 0 : x / (1 - p), x.Like(0)), kept};
}

constexpr OperatorRow kRows[] = {
    {"rand", RandomOfShape, "random.uniform"},
    {"randn", RandomOfShape, "random.normal"},
    {"cauchy", RandomLike, "cauchy"},
    {"exponential", RandomLike, "exponential"},
    {"geometric", RandomLike, "geometric"},
    {"log_normal", RandomLike, "log_normal"},
    {"normal_functional", RandomLike, "normal"},
    {"rand_like", RandomLike, "uniform"},
    {"randn_like", RandomLike, "normal"},
    {"uniform", RandomLike, "uniform"},
    {"normal", Normal},
    {"bernoulli", Bernoulli},
    {"randint", RandomIntegers},
    {"randint_like", RandomIntegers},
    {"random", RandomIntegers},
    {"randperm", RandomPermutation},
    {"multinomial", Multinomial},
    {"rrelu", RandomLeakyRelu},
    {"rrelu_with_noise", RandomLeakyRelu},
    {"rrelu_with_noise_functional", RandomLeakyRelu},
    {"alpha_dropout", Dropout, "alpha"},
    {"dropout", Dropout},
    {"feature_alpha_dropout", Dropout, "alpha feature"},
    {"feature_dropout", Dropout, "feature"},
    {"native_dropout", Dropout},
};

}  // namespace

std::span<const OperatorRow> RandomOperators() { return kRows; }

}  // namespace convert
}  // namespace rvm::torch
