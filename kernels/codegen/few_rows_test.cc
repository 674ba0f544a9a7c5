// Products of few rows, as in a decoder's step, that read in place what tiles with more rows need a copy of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/codegen/testing.h"
#include "kernels/schedule/schedule.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::Index;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using Indices = std::span<const Expr>;
using schedule::LoopNest;

const Dim kBatch = Dim::Var(0, "b"), kRows = Dim::Var(1, "s"), kKeys = Dim::Var(2, "n");

Expr Divided(const Expr& e, int64_t by) { return te::Binary(BinaryOp::kFloorDivide, e, Index(by)); }

// Keys or values of `heads` heads, each of which serves several heads of the result.
Tensor Repeated(const Tensor& x, int64_t heads, bool transposed) {
  const Dims& dims = x.dims();
  int64_t group = heads / dims[1].constant();
  Dims to = {dims[0], Dim(heads), transposed ? dims[3] : dims[2], transposed ? dims[2] : dims[3]};
  return ComputeTensor("repeated", x.dtype(), to, [&](Indices i) {
    return x({i[0], group == 1 ? i[1] : Divided(i[1], group), transposed ? i[3] : i[2], transposed ? i[2] : i[3]});
  });
}

// a[.., m, k] * b[.., k, n].
Tensor Product(const Tensor& a, const Tensor& b) {
  Dims dims = a.dims();
  Dim extents[] = {dims[3]};
  dims[3] = b.dims()[3];
  return ComputeTensor("product", a.dtype(), dims, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents,
                      [&](Indices r) { return a({i[0], i[1], i[2], r[0]}) * b({i[0], i[1], r[0], i[3]}); });
  });
}

int64_t CountNests(const schedule::Schedule& schedule, bool (*is_counted)(const LoopNest&)) {
  return std::count_if(schedule.nests.begin(), schedule.nests.end(), is_counted);
}
bool TakesFewRows(const LoopNest& nest) { return nest.tile && nest.tile->few; }
bool IsLimited(const LoopNest& nest) { return nest.limit.has_value(); }
bool IsCopy(const LoopNest& nest) { return nest.reduction() == nullptr && nest.tensors[0].tensor->name == "repeated"; }

const std::vector<std::vector<int64_t>> kShapes = {{1, 1, 1},  {2, 1, 40}, {1, 2, 16}, {1, 4, 33}, {2, 5, 33},
                                                   {1, 9, 70}, {1, 3, 0},  {0, 1, 5},  {1, 0, 5},  {2, 17, 100}};

TEST(FewRowsTest, ScoresReadKeysInPlace) {
  for (DataType dtype : {kFloat32, kFloat64}) {
    for (int64_t key_heads : {2, 4}) {
      Tensor q = Input(0, "q", dtype, {kBatch, Dim(4), kRows, Dim(64)});
      Tensor k = Input(1, "k", dtype, {kBatch, Dim(key_heads), kKeys, Dim(64)});
      Tensor mask = Input(2, "mask", dtype, {kRows, kKeys});
      Tensor scores = Product(q, Repeated(k, 4, true));
      Tensor masked = ComputeTensor("masked", dtype, scores.dims(), [&](Indices i) {
        return scores(i) * te::FloatConst(dtype, 0.125) + mask({i[2], i[3]});
      });
      for (const ScheduledKernel& kernel :
           CheckOnTargets({"scores", {q, k, mask}, {masked}}, {.symbol_values = kShapes})) {
        std::string text = Describe(kernel.schedule);
        EXPECT_EQ(CountNests(kernel.schedule, TakesFewRows), 1) << text;
        // Keys in another layout, for calls with more rows.
        EXPECT_GE(CountNests(kernel.schedule, IsLimited), 1) << text;
      }
    }
  }
}

TEST(FewRowsTest, ProductsByRepeatedValuesReadThemInPlace) {
  Tensor p = Input(0, "p", kFloat32, {kBatch, Dim(6), kRows, kKeys});
  Tensor v = Input(1, "v", kFloat32, {kBatch, Dim(2), kKeys, Dim(48)});
  // Sums of 100 products, whose order is another one in the teams of a GPU.
  for (const ScheduledKernel& kernel : CheckOnTargets({"values", {p, v}, {Product(p, Repeated(v, 6, false))}},
                                                      {.symbol_values = kShapes, .tolerance = 4e-5})) {
    EXPECT_EQ(CountNests(kernel.schedule, IsCopy), 0) << Describe(kernel.schedule);
  }
}

// Keys and values with tokens first, repeated for the heads that share them: sums along rows that lie in memory.
TEST(FewRowsTest, OneRowReadsKeysAndValuesInPlace) {
  Dim keys = Dim::Var(0, "n");
  Tensor q = Input(0, "q", kFloat32, {Dim(1), Dim(4), Dim(1), Dim(64)});
  Tensor k = Input(1, "k", kFloat32, {keys, Dim(2), Dim(64)}), v = Input(2, "v", kFloat32, {keys, Dim(2), Dim(64)});
  auto by_heads = [](const Tensor& x) {
    Dims dims = {Dim(1), x.dims()[1], x.dims()[0], x.dims()[2]};
    return ComputeTensor("repeated", x.dtype(), dims, [&](Indices i) { return x({i[2], i[1], i[3]}); });
  };
  for (bool is_stored : {false, true}) {
    Tensor own_keys = by_heads(k), own_values = by_heads(v);
    Tensor scores = Product(q, Repeated(own_keys, 4, true));
    Tensor p = ComputeTensor("p", kFloat32, scores.dims(),
                             [&](Indices i) { return scores(i) * te::FloatConst(kFloat32, 0.0625); });
    std::vector<Tensor> outputs = {Product(p, Repeated(own_values, 4, false))};
    if (is_stored) outputs.push_back(own_keys);
    for (const ScheduledKernel& kernel :
         CheckOnTargets({"attention", {q, k, v}, outputs}, {.symbol_values = {{1}, {40}, {0}, {33}}})) {
      EXPECT_EQ(CountNests(kernel.schedule, IsCopy), is_stored ? 1 : 0) << Describe(kernel.schedule);
    }
  }
}

// Attention of one token to keys and values with tokens first, in heads that several heads of queries share: memory is
// read from its beginning to its end, and caches of 16 bits are widened vector by vector.
TEST(FewRowsTest, OneTokenReadsCachesInTheirOrder) {
  Dim n = Dim::Var(0, "n");
  for (DataType stored : {kFloat32, kFloat16, kBFloat16}) {
    for (int64_t shared : {1, 3, 8, 16}) {
      Tensor q = Input(0, "q", kFloat32, {Dim(2), Dim(shared), Dim(64)}), mask = Input(3, "mask", kFloat32, {n});
      Tensor k = Input(1, "k", stored, {n, Dim(2), Dim(64)}), v = Input(2, "v", stored, {n, Dim(2), Dim(64)});
      auto by_heads = [](const Tensor& x) {
        return ComputeTensor("heads", kFloat32, {x.dims()[1], x.dims()[0], x.dims()[2]},
                             [&](Indices i) { return te::Cast(kFloat32, x({i[1], i[0], i[2]})); });
      };
      Tensor keys = by_heads(k), values = by_heads(v);
      Dim depth[] = {Dim(64)}, tokens[] = {n};
      Tensor scores = ComputeTensor("scores", kFloat32, {Dim(2), Dim(shared), n}, [&](Indices i) {
        return te::Reduce(ReduceOp::kSum, depth,
                          [&](Indices r) { return q({i[0], i[1], r[0]}) * keys({i[0], i[2], r[0]}); });
      });
      Tensor shares = ComputeTensor("shares", kFloat32, scores.dims(), [&](Indices i) {
        return te::Unary(te::UnaryOp::kTanh, scores(i) * te::FloatConst(kFloat32, 0.0625) + mask({i[2]}));
      });
      Tensor y = ComputeTensor("y", kFloat32, q.dims(), [&](Indices i) {
        return te::Reduce(ReduceOp::kSum, tokens,
                          [&](Indices r) { return shares({i[0], i[1], r[0]}) * values({i[0], r[0], i[2]}); });
      });
      const CheckOptions options{.symbol_values = {{1}, {33}, {500}, {0}}, .tolerance = 1e-4, .threads = true};
      for (const ScheduledKernel& kernel : CheckOnTargets({"attention", {q, k, v, mask}, {y}}, options)) {
        const std::string text = Describe(kernel.schedule);
        if (!kernel.schedule.target.has_half_conversions && stored == kFloat16) continue;
        EXPECT_EQ(text.find("heads"), std::string::npos) << text;
        EXPECT_NE(text.find("outer 2 inside, depth 64, rows along the depth"), std::string::npos) << text;
        EXPECT_NE(text.find("depth n in blocks of"), std::string::npos) << text;
      }
    }
  }
}

// A constant of few rows would leave most lanes idle as the vector factor.
TEST(FewRowsTest, NarrowHeadsAreDotProducts) {
  Dim n = Dim::Var(0, "n");
  for (int64_t outputs : {1, 2, 8}) {
    for (int64_t depth : {32, 768}) {
      Tensor x = Input(0, "x", kFloat32, {n, Dim(depth)}), w = Input(1, "w", kFloat32, {Dim(outputs), Dim(depth)});
      Dim extents[] = {Dim(depth)};
      Tensor y = ComputeTensor("y", kFloat32, {n, Dim(outputs)}, [&](Indices i) {
        return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return x({i[0], r[0]}) * w({i[1], r[0]}); });
      });
      const CheckOptions options{
          .symbol_values = {{0}, {1}, {6}, {40}}, .constant_inputs = {false, true}, .tolerance = 1e-4, .threads = true};
      for (const ScheduledKernel& kernel : CheckOnTargets({"head", {x, w}, {y}}, options)) {
        const std::string text = Describe(kernel.schedule);
        const bool is_narrow = 2 * outputs <= kernel.schedule.target.Lanes(kFloat32) || outputs == 1;
        EXPECT_EQ(text.find("rows along the depth") != std::string::npos, is_narrow) << text;
      }
    }
  }
}

TEST(FewRowsTest, KeysThatSomethingElseReadsAreCopiedInAllCalls) {
  Tensor q = Input(0, "q", kFloat32, {kBatch, Dim(4), kRows, Dim(64)});
  Tensor k = Input(1, "k", kFloat32, {kBatch, Dim(2), kKeys, Dim(64)});
  Tensor keys = Repeated(k, 4, true);
  for (const ScheduledKernel& kernel :
       CheckOnTargets({"both", {q, k}, {Product(q, keys), keys}}, {.symbol_values = kShapes})) {
    EXPECT_EQ(CountNests(kernel.schedule, IsLimited), 0) << Describe(kernel.schedule);
  }
}

// a[.., m, k] * b[.., n, k].
Tensor ProductOfRows(const Tensor& a, const Tensor& b) {
  Dims dims = a.dims();
  Dim extents[] = {dims[3]};
  dims[3] = b.dims()[2];
  return ComputeTensor("product", a.dtype(), dims, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents,
                      [&](Indices r) { return a({i[0], i[1], i[2], r[0]}) * b({i[0], i[1], i[3], r[0]}); });
  });
}

// The copies of panels, too, are for more rows.
TEST(FewRowsTest, PanelsAreForMoreRows) {
  Tensor a = Input(0, "a", kFloat32, {kBatch, Dim(1), kRows, Dim(64)});
  Tensor b = Input(1, "b", kFloat32, {kBatch, Dim(1), kKeys, Dim(64)});
  for (const ScheduledKernel& kernel :
       CheckOnTargets({"f", {a, b}, {ProductOfRows(a, b)}}, {.symbol_values = kShapes, .threads = true})) {
    EXPECT_EQ(CountNests(kernel.schedule, TakesFewRows), 1) << Describe(kernel.schedule);
    EXPECT_EQ(CountNests(kernel.schedule, IsLimited), 1) << Describe(kernel.schedule);
  }
}

TEST(FewRowsTest, FourRowsInAllCallsTakeNoCopies) {
  Dim n = Dim::Var(1, "n");
  Tensor a = Input(0, "a", kFloat32, {kBatch, Dim(1), Dim(4), Dim(64)});
  Tensor b = Input(1, "b", kFloat32, {kBatch, Dim(1), n, Dim(64)});
  for (const ScheduledKernel& kernel :
       CheckOnTargets({"f", {a, b}, {ProductOfRows(a, b)}}, {.symbol_values = {{1, 40}, {2, 7}, {1, 0}}})) {
    EXPECT_EQ(CountNests(kernel.schedule, TakesFewRows), 1) << Describe(kernel.schedule);
    EXPECT_EQ(kernel.schedule.nests.size(), 1u) << Describe(kernel.schedule);
  }
}

// The factor along the depth is no multiple of a vector, or is not side by side in memory.
TEST(FewRowsTest, OtherDepthsTakeTilesForAllRows) {
  Tensor q = Input(0, "q", kFloat32, {kBatch, Dim(4), kRows, Dim(50)});
  Tensor k = Input(1, "k", kFloat32, {kBatch, Dim(2), kKeys, Dim(50)});
  Tensor turned = Input(1, "k", kFloat32, {kBatch, Dim(2), Dim(50), kKeys});
  for (const te::Computation& computation :
       {te::Computation{"f", {q, k}, {Product(q, Repeated(k, 4, true))}},
        te::Computation{"g", {q, turned}, {Product(q, Repeated(turned, 4, false))}}}) {
    for (const ScheduledKernel& kernel : CheckOnTargets(computation, {.symbol_values = kShapes})) {
      EXPECT_EQ(CountNests(kernel.schedule, TakesFewRows), 0) << Describe(kernel.schedule);
    }
  }
}

}  // namespace
}  // namespace rvm::codegen
