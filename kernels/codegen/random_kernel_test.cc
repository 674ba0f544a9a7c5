// Random computations of many tensors: schedules must not change what they compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "base/long_tests.h"
#include "kernels/codegen/testing.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::ReduceOp;
using te::Tensor;
using te::UnaryOp;
using Indices = std::span<const Expr>;

// Grows a computation over (n, 12) tensors by elementwise, broadcast, moving, reducing and
// multiplying steps whose values stay small.
class Grower {
 public:
  explicit Grower(uint32_t seed) : random_(seed) {}

  te::Computation Grow() {
    std::vector<Tensor> inputs = {te::Input(0, "x", kFloat32, dims_), te::Input(1, "y", kFloat32, dims_),
                                  te::Input(2, "w", kFloat32, {Dim(kColumns), Dim(kColumns)})};
    full_ = {inputs[0], inputs[1]};
    weight_ = inputs[2];
    int steps = 3 + Pick(9);
    for (int i = 0; i < steps; ++i) full_.push_back(Step());
    te::Computation computation{"random", inputs, {full_.back()}};
    if (Pick(2) == 0) computation.outputs.push_back(full_[full_.size() - 2]);
    return computation;
  }

 private:
  static constexpr int64_t kColumns = 12;

  int Pick(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  const Tensor& Any() {
    return full_[full_.size() - 1 - static_cast<size_t>(Pick(static_cast<int>(std::min<size_t>(full_.size(), 4))))];
  }
  Tensor Full(const char* name, const std::function<Expr(Indices)>& body) {
    return ComputeTensor(name, kFloat32, dims_, body);
  }

  Tensor Step() {
    Tensor a = Any(), b = Any();
    switch (Pick(8)) {
      case 0: return Full("tanh", [&](Indices i) { return te::Unary(UnaryOp::kTanh, a(i)); });
      case 1: return Full("mix", [&](Indices i) { return (a(i) + b(i)) * te::Const(kFloat32, 0.5); });
      case 2:
        return Full(
            "max", [&](Indices i) { return te::Binary(BinaryOp::kMaximum, a(i), te::Unary(UnaryOp::kSigmoid, b(i))); });
      case 3:  // reverses the columns
        return Full("reverse", [&](Indices i) { return a({i[0], te::Index(kColumns - 1) - i[1]}); });
      case 4: {  // shifts, with a constant where nothing comes in
        return Full("shift", [&](Indices i) {
          Expr inside = te::Binary(BinaryOp::kGreaterEqual, i[1], te::Index(3));
          return te::Select(inside, a({i[0], i[1] - te::Index(3)}), b(i));
        });
      }
      case 5: {
        Dim extents[] = {kColumns};
        Tensor row = ComputeTensor("row", kFloat32, {dims_[0]}, [&](Indices i) {
          return te::Reduce(ReduceOp::kMaximum, extents, [&](Indices r) { return a({i[0], r[0]}); });
        });
        return Full("minus_row", [&](Indices i) { return (b(i) - row({i[0]})) * te::Const(kFloat32, 0.25); });
      }
      case 6: {
        Dim extents[] = {dims_[0]};
        Tensor column = ComputeTensor("column", kFloat32, {Dim(1), Dim(kColumns)}, [&](Indices i) {
          return te::Reduce(ReduceOp::kMinimum, extents, [&](Indices r) { return a({r[0], i[1]}); });
        });
        return Full("plus_column",
                    [&](Indices i) { return (b(i) + column({te::Index(0), i[1]})) * te::Const(kFloat32, 0.25); });
      }
      default: {
        Dim extents[] = {kColumns};
        Tensor product = Full("dense", [&](Indices i) {
          return te::Reduce(ReduceOp::kSum, extents,
                            [&](Indices r) { return a({i[0], r[0]}) * weight_({i[1], r[0]}); });
        });
        return Full("scaled", [&](Indices i) {
          return product(i) * te::Const(kFloat32, 0.05) + b(i) * te::Const(kFloat32, 0.1);
        });
      }
    }
  }

  std::mt19937 random_;
  Dims dims_ = {Dim::Var(1, "n"), Dim(kColumns)};
  std::vector<Tensor> full_;
  Tensor weight_;
};

TEST(RandomKernelTest, SchedulesKeepValues) {
  for (uint32_t seed = 0; seed < LongOr<uint32_t>(120, 40); ++seed) {
    CheckKernel(Grower(seed).Grow(), {.symbol_values = {{1}, {2}, {9}},
                                      .constant_inputs = {false, false, seed % 2 == 0},
                                      .tolerance = 2e-4,
                                      .target = seed % 3 == 0 ? "x86-64" : "host"});
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rvm::codegen
