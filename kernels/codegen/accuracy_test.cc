// How far float32 functions of kernels are from the exact values, over all floats: a sample of the bit patterns of both
// signs, every power of two with its neighbours, and numbers whose results are hard to round. In units in the last
// place (ulps) of the exact value, for which the C library's float64 functions stand.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/codegen/testing.h"
#include "kernels/runtime/kernel_library.h"
#include "kernels/te/tensor.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::Expr;
using te::Tensor;
using te::UnaryOp;

constexpr uint32_t kStride = 4099;  // of the sample: a prime

std::vector<float> SampleOfFloats() {
  std::vector<float> sample;
  for (uint64_t bits = 0; bits <= std::numeric_limits<uint32_t>::max(); bits += kStride) {
    sample.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (uint32_t exponent = 0; exponent <= 255; ++exponent) {
    for (uint32_t sign : {0u, 1u << 31}) {
      for (uint32_t step : {0u, 1u, 2u}) {
        sample.push_back(std::bit_cast<float>(sign + (exponent << 23) + step - (exponent > 0 ? 1 : 0)));
      }
    }
  }
  // Nearest to multiples of pi / 2 of all floats of their magnitude, and ends of ranges.
  for (float x : {0x1.f37f8ap+95F, 16367173 * 0x1p72F, 0x1.921fb6p0F, 0x1.921fb6p1F, 0x1.5fdbbep1F, 88.72284F,
                  88.72283F, -103.97208F, 1.0F, 0.5F, 0.99999994F}) {
    sample.insert(sample.end(), {x, -x});
  }
  for (int k = -2000; k <= 2000; ++k) sample.push_back(static_cast<float>(k * std::acos(-1.0) / 2));
  return sample;
}

// The distance in units in the last place of a float32 of the exact value's magnitude; infinity where one of them is a
// NaN and the other is not, where an infinity stands for a number, or where a zero has the wrong sign.
double UlpsBetween(float got, double exact) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : kWrong;
  auto nearest = static_cast<float>(exact);
  if (got == nearest && std::signbit(got) == std::signbit(nearest)) return 0;
  if (got == 0 && nearest == 0) return kWrong;
  // An infinity is as far as the number that would follow the greatest one.
  auto number = [](double x) { return std::clamp(x, -0x1p128, 0x1p128); };
  if (std::isinf(exact) && std::abs(got) < std::numeric_limits<float>::max()) return kWrong;
  int exponent = std::clamp(std::ilogb(number(exact) == 0 ? 0x1p-149 : number(exact)), -126, 127);
  return std::abs(number(got) - number(exact)) / std::ldexp(1.0, exponent - 23);
}

// Returns the results of a kernel, of inputs of one length, for the target.
std::vector<float> Results(const te::Computation& computation, const std::vector<std::vector<float>>& inputs,
                           const char* target) {
  ScheduledKernel kernel = *ScheduleAndCompile(computation, {}, target);
  auto library = runtime::KernelLibrary::Load(kernel.object.object);
  std::vector<float> results(inputs[0].size());
  if (!library.ok()) {
    ADD_FAILURE() << library.status();
    return results;
  }
  std::vector<void*> buffers;
  for (const std::vector<float>& input : inputs) buffers.push_back(const_cast<float*>(input.data()));
  buffers.push_back(results.data());
  auto count = static_cast<int64_t>(results.size());
  RvmKernelContext context{};
  EXPECT_EQ((*library)->Find("kernel")(buffers.data(), &count, &context), kRvmOk);
  return results;
}

struct Worst {
  double ulps = 0;
  size_t at = 0;
};

void CheckWithin(double bound, const te::Computation& computation, const std::vector<std::vector<float>>& inputs,
                 const std::vector<double>& exact) {
  for (const char* target : {"x86-64", "x86-64-v3", "x86-64-v4", "aarch64"}) {
    if (!RunsHere(target)) continue;
    std::vector<float> got = Results(computation, inputs, target);
    Worst worst;
    for (size_t i = 0; i < got.size(); ++i) {
      double ulps = UlpsBetween(got[i], exact[i]);
      if (ulps > worst.ulps) worst = {ulps, i};
    }
    std::string at;
    for (const std::vector<float>& input : inputs) absl::StrAppendFormat(&at, " %a", input[worst.at]);
    testing::Test::RecordProperty(absl::StrFormat("%s %s", computation.name, target),
                                  absl::StrFormat("%.3f ulps at%s", worst.ulps, at));
    EXPECT_LE(worst.ulps, bound) << computation.name << " of" << at << " for " << target
                                 << absl::StrFormat(": is %a, exactly %a", got[worst.at], exact[worst.at]);
  }
}

struct Function {
  const char* name;
  UnaryOp op;
  double (*exact)(double);
  double bound;  // ulps
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class AccuracyTest : public testing::TestWithParam<Function> {};

TEST_P(AccuracyTest, StaysWithinItsBound) {
  const Function& function = GetParam();
  static const std::vector<float> sample = SampleOfFloats();
  std::vector<double> exact;
  for (float x : sample) exact.push_back(function.exact(x));
  Tensor x = te::Input(0, "x", kFloat32, {Dim::Var(1, "n")});
  Tensor y =
      te::ComputeTensor("y", kFloat32, x.dims(), [&](std::span<const Expr> i) { return te::Unary(function.op, x(i)); });
  CheckWithin(function.bound, {function.name, {x}, {y}}, {sample}, exact);
}

INSTANTIATE_TEST_SUITE_P(
    Each, AccuracyTest,
    testing::Values(Function{"exp", UnaryOp::kExp, std::exp, 1}, Function{"log", UnaryOp::kLog, std::log, 1},
                    Function{"log2", UnaryOp::kLog2, std::log2, 2}, Function{"log10", UnaryOp::kLog10, std::log10, 2},
                    Function{"tanh", UnaryOp::kTanh, std::tanh, 2.5},
                    Function{"sigmoid", UnaryOp::kSigmoid, Sigmoid, 2.5}, Function{"erf", UnaryOp::kErf, std::erf, 2.5},
                    Function{"sin", UnaryOp::kSin, std::sin, 2.5}, Function{"cos", UnaryOp::kCos, std::cos, 2.5},
                    Function{"tan", UnaryOp::kTan, std::tan, 4.5}, Function{"asin", UnaryOp::kAsin, std::asin, 3},
                    Function{"acos", UnaryOp::kAcos, std::acos, 1.5}, Function{"atan", UnaryOp::kAtan, std::atan, 2.5},
                    Function{"sinh", UnaryOp::kSinh, std::sinh, 2}, Function{"cosh", UnaryOp::kCosh, std::cosh, 1.5},
                    Function{"asinh", UnaryOp::kAsinh, std::asinh, 2.5},
                    Function{"acosh", UnaryOp::kAcosh, std::acosh, 2.5},
                    Function{"atanh", UnaryOp::kAtanh, std::atanh, 3}),
    [](const auto& info) { return info.param.name; });

// Returns the results of one element at a time: those of no vector.
std::vector<float> ResultsOneByOne(const te::Computation& computation, const std::vector<std::vector<float>>& inputs,
                                   const char* target) {
  ScheduledKernel kernel = *ScheduleAndCompile(computation, {}, target);
  auto library = runtime::KernelLibrary::Load(kernel.object.object);
  std::vector<float> results(inputs[0].size());
  if (!library.ok()) {
    ADD_FAILURE() << library.status();
    return results;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<void*> buffers;
    for (const std::vector<float>& input : inputs) buffers.push_back(const_cast<float*>(&input[i]));
    buffers.push_back(&results[i]);
    int64_t count = 1;
    RvmKernelContext context{};
    EXPECT_EQ((*library)->Find("kernel")(buffers.data(), &count, &context), kRvmOk);
  }
  return results;
}

void CheckLanes(const te::Computation& computation, const std::vector<std::vector<float>>& inputs) {
  for (const char* target : {"x86-64", "x86-64-v3", "x86-64-v4", "aarch64"}) {
    if (!RunsHere(target)) continue;
    std::vector<float> vectors = Results(computation, inputs, target);
    std::vector<float> scalars = ResultsOneByOne(computation, inputs, target);
    for (size_t i = 0; i < vectors.size(); ++i) {
      if (std::isnan(vectors[i]) && std::isnan(scalars[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(vectors[i]), std::bit_cast<uint32_t>(scalars[i]))
          << computation.name << absl::StrFormat(" of %a for %s", inputs[0][i], target);
    }
  }
}

// Whether an element shares a vector with others does not change its result: angles that are far, subnormal numbers and
// special values lie between others here.
TEST_P(AccuracyTest, LanesAreIndependent) {
  const Function& function = GetParam();
  std::vector<float> sample;
  for (float x : SampleOfFloats()) {
    if (sample.size() < 20'000) sample.insert(sample.end(), {x, static_cast<float>(sample.size()) / 1000});
  }
  for (uint32_t exponent = 0; exponent <= 255; ++exponent) {
    for (uint32_t rest : {0u, 1u, 0x3fffffu, 0x400000u, 0x7fffffu}) {
      float x = std::bit_cast<float>((exponent << 23) + rest);
      sample.insert(sample.end(), {x, -x});
    }
  }
  Tensor x = te::Input(0, "x", kFloat32, {Dim::Var(1, "n")});
  Tensor y =
      te::ComputeTensor("y", kFloat32, x.dims(), [&](std::span<const Expr> i) { return te::Unary(function.op, x(i)); });
  CheckLanes({function.name, {x}, {y}}, {sample});
}

TEST(PowerAccuracyTest, LanesAreIndependent) {
  std::mt19937 random(2);
  std::vector<std::vector<float>> inputs(2);
  for (int i = 0; i < 20'000; ++i) {
    bool any = i % 97 == 0;
    auto bits = static_cast<uint32_t>(random());
    inputs[0].push_back(any ? std::bit_cast<float>(bits) : std::ldexp(static_cast<float>(bits), -31));
    inputs[1].push_back(static_cast<float>(static_cast<int>(random() % 41) - 20) / 2);
  }
  Dim n = Dim::Var(1, "n");
  Tensor x = te::Input(0, "x", kFloat32, {n}), y = te::Input(1, "y", kFloat32, {n});
  Tensor power = te::ComputeTensor("power", kFloat32, {n},
                                   [&](std::span<const Expr> i) { return te::Binary(BinaryOp::kPower, x(i), y(i)); });
  CheckLanes({"power", {x, y}, {power}}, inputs);
}

// Any bits with any bits, numbers whose powers are numbers, and all pairs of special values.
TEST(PowerAccuracyTest, StaysWithinItsBound) {
  std::mt19937 random(1);
  std::vector<std::vector<float>> inputs(2);
  auto add = [&](float x, float y) {
    inputs[0].push_back(x);
    inputs[1].push_back(y);
  };
  auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
  for (int i = 0; i < 300'000; ++i) {
    float x = any();
    add(x, any());
    double largest = 150 / std::max(1e-30, std::abs(std::log2(std::abs(static_cast<double>(x)))));
    add(std::abs(x), static_cast<float>(std::uniform_real_distribution<double>(-largest, largest)(random)));
    add(x, static_cast<float>(static_cast<int>(random() % 21) - 10));
    add(static_cast<float>(1 + std::ldexp(static_cast<double>(random()) - 0x1p31, -40)),
        static_cast<float>(std::ldexp(static_cast<double>(random()), -18)));
  }
  float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> special = {0,        1,
                                2,        3,
                                0.5F,     2.5F,
                                1e30F,    0x1p-149F,
                                0x1p24F,  0x1p23F - 0.5F,
                                infinity, std::numeric_limits<float>::quiet_NaN()};
  for (float x : special) {
    for (float y : special) add(x, y), add(x, -y), add(-x, y), add(-x, -y);
  }
  std::vector<double> exact;
  for (size_t i = 0; i < inputs[0].size(); ++i) exact.push_back(std::pow(double{inputs[0][i]}, double{inputs[1][i]}));
  Dim n = Dim::Var(1, "n");
  Tensor x = te::Input(0, "x", kFloat32, {n}), y = te::Input(1, "y", kFloat32, {n});
  Tensor power = te::ComputeTensor("power", kFloat32, {n},
                                   [&](std::span<const Expr> i) { return te::Binary(BinaryOp::kPower, x(i), y(i)); });
  CheckWithin(1.5, {"power", {x, y}, {power}}, inputs, exact);
}

}  // namespace
}  // namespace rvm::codegen
