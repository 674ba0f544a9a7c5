// Products and convolutions in register tiles: schedules for each vector width, and results of those that this CPU has,
// compared with te::Evaluate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/long_tests.h"
#include "kernels/codegen/testing.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using Indices = std::span<const Expr>;

// The first tile of a schedule; null: it has none.
const schedule::Tile* TileOf(const schedule::Schedule& schedule) {
  for (const schedule::LoopNest& nest : schedule.nests) {
    if (nest.form == schedule::NestForm::kTiles) return &*nest.tile;
  }
  return nullptr;
}
bool HasTile(const schedule::Schedule& schedule) { return TileOf(schedule) != nullptr; }

// Tile::depth_step of the first nest in tiles.
int64_t GroupOf(const schedule::Schedule& schedule) { return HasTile(schedule) ? TileOf(schedule)->depth_step : 0; }

struct Operands {
  bool a_transposed = false, b_transposed = false;
  bool epilogue = true;
};

// max(sum over k of a[b, m, k] * b[b, k, n] + bias[n], 0).
te::Computation Product(const Dim& batch, const Dim& m, const Dim& n, const Dim& k, Operands operands, DataType dtype) {
  Tensor a = Input(0, "a", dtype, operands.a_transposed ? Dims{batch, k, m} : Dims{batch, m, k});
  Tensor b = Input(1, "b", dtype, operands.b_transposed ? Dims{batch, n, k} : Dims{batch, k, n});
  Tensor bias = Input(2, "bias", kFloat32, {n});
  Dim extents[] = {k};
  Tensor sum = ComputeTensor("sum", kFloat32, {batch, m, n}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      Expr x = operands.a_transposed ? a({i[0], r[0], i[1]}) : a({i[0], i[1], r[0]});
      Expr y = operands.b_transposed ? b({i[0], i[2], r[0]}) : b({i[0], r[0], i[2]});
      return te::Cast(kFloat32, x) * te::Cast(kFloat32, y);
    });
  });
  Tensor relu = ComputeTensor("relu", kFloat32, sum.dims(), [&](Indices i) {
    return te::Binary(BinaryOp::kMaximum, sum(i) + bias({i[2]}), te::Const(kFloat32, 0));
  });
  return {"product", {a, b, bias}, {operands.epilogue ? relu : sum}};
}

TEST(TileTest, ProductsOfComputedMatrices) {
  for (Operands operands : {Operands{}, Operands{.b_transposed = true}, Operands{.a_transposed = true}}) {
    for (const ScheduledKernel& kernel : CheckOnTargets(Product(2, 31, 35, 9, operands, kFloat32), {.threads = true}))
      EXPECT_TRUE(HasTile(kernel.schedule)) << Describe(kernel.schedule);
    if (HasFatalFailure()) return;
  }
}

TEST(TileTest, ProductsOfUnknownExtents) {
  Dim b = Dim::Var(1, "b"), m = Dim::Var(2, "m"), n = Dim::Var(3, "n"), k = Dim::Var(4, "k");
  for (bool transposed : {false, true}) {
    std::vector<std::vector<int64_t>> values = {
        {2, 13, 5, 40}, {1, 1, 1, 1}, {1, 8, 17, 64}, {3, 0, 4, 7}, {1, 3, 0, 2}};
    if (transposed) values = {{2, 13, 5, 40}, {1, 1, 1, 1}, {1, 8, 17, 64}, {3, 0, 4, 7}, {1, 2, 0, 3}};
    te::Computation product = Product(b, m, n, k, {.b_transposed = transposed}, kFloat32);
    CheckOnTargets(product, {.symbol_values = values, .threads = true});
    if (HasFatalFailure()) return;
  }
}

TEST(TileTest, FactorsOfHalfPrecisionAreConvertedIntoPanels) {
  for (DataType dtype : {kFloat16, kBFloat16}) {
    for (const ScheduledKernel& kernel : CheckOnTargets(Product(1, 20, 33, 12, {}, dtype), {.range = 1}))
      EXPECT_TRUE(HasTile(kernel.schedule)) << Describe(kernel.schedule);
    if (HasFatalFailure()) return;
  }
}

// Sums in int32, of the second factor from panels of its own or a packed constant.
TEST(TileTest, ProductsOfIntegers) {
  Sample sample(3);
  for (auto [a, b] : {std::pair(kInt8, kInt8),
                      {kUInt8, kInt8},
                      {kInt8, kUInt8},
                      {kUInt8, kUInt8},
                      {kInt16, kInt16},
                      {kUInt8, kInt16},
                      {kInt32, kInt32},
                      {kInt32, kInt8}}) {
    for (auto [m, k] : {std::pair(13, 9), {5, 1}, {1, 34}, {6, 8}, {29, 71}}) {
      if (!sample.Takes()) continue;
      Tensor x = Input(0, "x", a, {Dim(m), Dim(k)}), w = Input(1, "w", b, {Dim(35), Dim(k)});
      Dim extents[] = {Dim(k)};
      Tensor y = ComputeTensor("y", kInt32, {Dim(m), Dim(35)}, [&](Indices i) {
        return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
          return te::Cast(kInt32, x({i[0], r[0]})) * te::Cast(kInt32, w({i[1], r[0]}));
        });
      });
      for (bool constant : {false, true}) {
        CheckOptions options{.constant_inputs = {false, constant}, .range = 255, .threads = true};
        for (const ScheduledKernel& kernel : CheckOnTargets({"integers", {x, w}, {y}}, options))
          EXPECT_EQ(HasTile(kernel.schedule), k > 1 && (constant || m > 1)) << Describe(kernel.schedule);
        // CPUs that multiply bytes in fours.
        for (const char* target : {"alderlake", "icelake-server"}) {
          options.target = target;
          ScheduledKernel kernel = CheckKernel({"integers", {x, w}, {y}}, options);
          if (HasFatalFailure()) return;
          int64_t group = a.bits > 8 || b.bits > 8 ? 2 : k % 4 == 0 || k >= 16 ? 4 : 2;
          if (a != kInt32 && HasTile(kernel.schedule)) EXPECT_EQ(GroupOf(kernel.schedule), group) << k;
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A convolution without padding of an image whose channels lie apart, summed in int32.
te::Computation ConvolutionOfBytes(DataType image, DataType filters, int64_t channels, int64_t size, int64_t window) {
  Tensor x = Input(0, "x", image, {channels, size, size}), w = Input(1, "w", filters, {20, channels, window, window});
  Dim extents[] = {channels, window, window};
  const int64_t out = size - window + 1;
  Tensor y = ComputeTensor("y", kInt32, {20, out, out}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      return te::Cast(kInt32, x({r[0], i[1] + r[1], i[2] + r[2]})) * te::Cast(kInt32, w({i[0], r[0], r[1], r[2]}));
    });
  });
  return {"bytes", {x, w}, {y}};
}

// With bytes in fours the vectors are pixels, whose channels a copy has side by side, if these fill them: then sums are
// stored as they are.
TEST(TileTest, PixelsInFours) {
  Sample sample(3);
  struct Shape {
    int64_t channels, size, window;
    bool fills;
  };
  for (auto [image, filters] : {std::pair(kUInt8, kInt8), {kInt8, kInt8}, {kUInt8, kUInt8}, {kInt8, kUInt8}}) {
    for (auto [channels, size, window, fills] :
         {Shape{8, 8, 1, true}, {16, 14, 1, true}, {8, 34, 3, true}, {12, 15, 1, true}, {8, 5, 1, false}}) {
      for (bool constant : {true, false}) {
        if (!sample.Takes()) continue;
        for (const char* target : {"alderlake", "icelake-server"}) {
          CheckOptions options{.constant_inputs = {false, constant}, .range = 255, .target = target, .threads = true};
          ScheduledKernel kernel = CheckKernel(ConvolutionOfBytes(image, filters, channels, size, window), options);
          if (HasFatalFailure()) return;
          const schedule::Tile* tile = TileOf(kernel.schedule);
          ASSERT_NE(tile, nullptr) << Describe(kernel.schedule);
          bool in_place = tile->access == schedule::Tile::Access::kInPlace && tile->depth_step == 4;
          if (constant) EXPECT_EQ(in_place, fills) << Describe(kernel.schedule);
          // Channels of a step lie apart in filters of several positions.
          const bool packs_rows = constant && fills && window > 1;
          EXPECT_EQ(tile->packed_rows.has_value(), packs_rows) << Describe(kernel.schedule);
        }
      }
    }
  }
}

// A convolution of an image of three channels by 20 filters, padded by sevens, summed in int32.
te::Computation StemOfBytes(DataType image, DataType filters, int64_t window, int64_t stride, int64_t pad, bool last) {
  Tensor x = Input(0, "x", image, last ? Dims{19, 19, 3} : Dims{3, 19, 19});
  Tensor w = Input(1, "w", filters, {20, 3, window, window});
  Dim extents[] = {last ? window : 3, window, last ? 3 : window};
  const int64_t out = (19 + 2 * pad - window) / stride + 1;
  Tensor y = ComputeTensor("y", kInt32, last ? Dims{out, out, 20} : Dims{20, out, out}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      const Expr channel = r[last ? 2 : 0], taps[] = {r[last ? 0 : 1], r[last ? 1 : 2]}, filter = i[last ? 2 : 0];
      std::vector<Expr> at;
      Expr inside;
      for (size_t axis : {0, 1}) {
        at.push_back(i[last ? axis : axis + 1] * te::Index(stride) + taps[axis] - te::Index(pad));
        Expr fits = te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kGreaterEqual, at[axis], te::Index(0)),
                               te::Binary(BinaryOp::kLess, at[axis], te::Index(19)));
        inside = inside ? te::Binary(BinaryOp::kAnd, inside, fits) : fits;
      }
      at.insert(last ? at.end() : at.begin(), channel);
      const Expr value = te::Cast(kInt32, x(at));
      return (pad == 0 ? value : te::Select(inside, value, te::IntConst(kInt32, 7))) *
             te::Cast(kInt32, w({filter, channel, taps[0], taps[1]}));
    });
  });
  return {"windows", {x, w}, {y}};
}

// The channels of a group are taken in steps of four, from a copy, as those of a whole image are; the border may be a
// number that only the call knows.
TEST(TileTest, GroupsAndBordersInFours) {
  Tensor x = Input(0, "x", kUInt8, {32, 9, 9}), w = Input(1, "w", kInt8, {24, 8, 3, 3});
  Tensor border = Input(2, "border", kUInt8, {});
  Tensor padded = ComputeTensor("padded", kUInt8, {32, 11, 11}, [&](Indices i) {
    Expr inside;
    for (size_t axis : {1, 2}) {
      Expr fits = te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kGreaterEqual, i[axis], te::Index(1)),
                             te::Binary(BinaryOp::kLess, i[axis], te::Index(10)));
      inside = inside ? te::Binary(BinaryOp::kAnd, inside, fits) : fits;
    }
    return te::Select(inside, x({i[0], i[1] - te::Index(1), i[2] - te::Index(1)}), border({}));
  });
  Dim extents[] = {8, 3, 3};
  Tensor y = ComputeTensor("y", kInt32, {24, 9, 9}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      Expr group = te::Binary(BinaryOp::kFloorDivide, i[0], te::Index(6));
      return te::Cast(kInt32, padded({group * te::Index(8) + r[0], i[1] + r[1], i[2] + r[2]})) *
             te::Cast(kInt32, w({i[0], r[0], r[1], r[2]}));
    });
  });
  for (const char* target : {"x86-64-v3", "alderlake", "icelake-server"}) {
    CheckOptions options{.constant_inputs = {false, true, false}, .range = 255, .target = target, .threads = true};
    ScheduledKernel kernel = CheckKernel({"groups", {x, w, border}, {y}}, options);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(HasTile(kernel.schedule)) << Describe(kernel.schedule);
    EXPECT_EQ(GroupOf(kernel.schedule), target == std::string_view("x86-64-v3") ? 2 : 4) << Describe(kernel.schedule);
    EXPECT_NE(Describe(kernel.schedule).find("pairs"), std::string::npos) << Describe(kernel.schedule);
  }
}

// A row of a window that is no whole steps is read with what follows it, from a copy with columns behind the last
// window.
TEST(TileTest, WindowsInWholeSteps) {
  Sample sample(3);
  for (auto [image, filters] : {std::pair(kUInt8, kInt8), {kInt8, kInt8}}) {
    for (auto [window, stride] : {std::pair(3, 1), {3, 2}, {5, 1}, {7, 2}}) {
      for (auto [is_padded, last] : {std::pair(true, false), {true, true}, {false, false}, {false, true}}) {
        if (!sample.Takes()) continue;
        te::Computation stem = StemOfBytes(image, filters, window, stride, is_padded ? window / 2 : 0, last);
        for (const char* target : {"x86-64-v3", "alderlake", "icelake-server"}) {
          CheckOptions options{.constant_inputs = {false, true}, .range = 255, .target = target, .threads = true};
          ScheduledKernel kernel = CheckKernel(stem, options);
          if (HasFatalFailure()) return;
          ASSERT_TRUE(HasTile(kernel.schedule)) << Describe(kernel.schedule);
          EXPECT_TRUE(TileOf(kernel.schedule)->whole_steps) << Describe(kernel.schedule);
          EXPECT_EQ(GroupOf(kernel.schedule), target == std::string_view("x86-64-v3") ? 2 : 4);
        }
      }
    }
  }
}

// sum over k of x[m, k] * w[n, k], of elements that a tensor between converts, transposed on the way if `moves`.
te::Computation StoredProduct(const Dim& m, int64_t n, int64_t k, DataType stored, DataType middle, DataType sum,
                              bool moves) {
  Tensor x = Input(0, "x", sum == kInt32 ? kInt16 : sum, {m, k});
  Tensor w = Input(1, "w", stored, moves ? Dims{k, n} : Dims{n, k});
  Tensor wide = ComputeTensor("wide", middle, {n, k},
                              [&](Indices i) { return te::Cast(middle, moves ? w({i[1], i[0]}) : w({i[0], i[1]})); });
  Dim extents[] = {k};
  Tensor y = ComputeTensor("y", sum, {m, n}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents,
                      [&](Indices r) { return te::Cast(sum, x({i[0], r[0]})) * te::Cast(sum, wide({i[1], r[0]})); });
  });
  return {"stored", {x, w}, {y}};
}

// A constant is packed as it is stored, however it is converted to what is multiplied, and converted by the tile.
TEST(TileTest, ConstantFactorsArePackedAsStored) {
  Sample sample(3);
  struct Case {
    DataType stored, middle, sum;
  };
  Dim m = Dim::Var(1, "m");
  for (auto [stored, middle, sum] : {Case{kInt8, kFloat32, kFloat32},
                                     {kUInt8, kFloat32, kFloat32},
                                     {kInt16, kInt32, kFloat32},
                                     {kFloat16, kFloat32, kFloat32},
                                     {kBFloat16, kFloat32, kFloat32},
                                     {kFloat8E4M3FN, kFloat32, kFloat32},
                                     {kInt8, kFloat16, kFloat32},
                                     {kFloat32, kFloat64, kFloat64},
                                     {kUInt8, kInt16, kInt32},
                                     {kInt8, kInt32, kInt32}}) {
    for (bool moves : {false, true}) {
      if (!sample.Takes()) continue;
      CheckOptions options{.symbol_values = {{1}, {7}}, .constant_inputs = {false, true}, .range = 3};
      for (const ScheduledKernel& kernel :
           CheckOnTargets(StoredProduct(m, 35, 34, stored, middle, sum, moves), options)) {
        EXPECT_EQ(kernel.schedule.nests.size(), 1) << Describe(kernel.schedule);
        EXPECT_NE(kernel.schedule.Layout(1), nullptr) << Describe(kernel.schedule);
      }
      if (HasFatalFailure()) return;
    }
  }
}

// Factors that are rounded, or used by more than one product, are converted once.
TEST(TileTest, ConvertedFactorsThatAreNotPackedAreConvertedOnce) {
  for (const ScheduledKernel& kernel :
       CheckOnTargets(StoredProduct(9, 35, 34, kInt32, kInt8, kFloat32, false), {.constant_inputs = {false, true}})) {
    EXPECT_EQ(kernel.schedule.Layout(1), nullptr) << Describe(kernel.schedule);
  }
  te::Computation product = StoredProduct(9, 35, 34, kInt8, kFloat32, kFloat32, false);
  Tensor w = product.inputs[1];
  product.outputs.push_back(ComputeTensor("w", kInt8, w.dims(), [&](Indices i) { return w(i) + w(i); }));
  for (const ScheduledKernel& kernel : CheckOnTargets(product, {.constant_inputs = {false, true}})) {
    EXPECT_EQ(kernel.schedule.Layout(1), nullptr) << Describe(kernel.schedule);
  }
}

// sum over k of x[m, k] * (code[n, k] - zero[n, k / block]) * scale[n, k / block], of codes that bytes hold, the lowest
// bits first. Zeros are 3 everywhere without an input of them.
te::Computation BlockProduct(const Dim& m, int64_t n, int64_t k, int64_t bits, int64_t block, bool has_zeros,
                             DataType scale) {
  const int64_t in_byte = 8 / bits;
  Tensor x = Input(0, "x", kFloat32, {m, Dim(k)}), bytes = Input(1, "bytes", kUInt8, {Dim(n), Dim(k / in_byte)});
  Tensor scales = Input(2, "scales", scale, {Dim(n), Dim(k / block)});
  std::vector<Tensor> inputs = {x, bytes, scales};
  if (has_zeros) inputs.push_back(Input(3, "zeros", kUInt8, scales.dims()));
  Tensor codes = ComputeTensor("codes", kUInt8, {Dim(n), Dim(k)}, [&](Indices i) {
    if (bits == 8) return bytes(i);
    Expr shift = te::Binary(BinaryOp::kFloorMod, i[1], te::Index(in_byte)) * te::Index(bits);
    Expr byte = bytes({i[0], te::Binary(BinaryOp::kFloorDivide, i[1], te::Index(in_byte))});
    return te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kShiftRight, byte, te::Cast(kUInt8, shift)),
                      te::IntConst(kUInt8, (1 << bits) - 1));
  });
  Tensor weight = ComputeTensor("weight", kFloat32, codes.dims(), [&](Indices i) {
    std::vector<Expr> at = {i[0], te::Binary(BinaryOp::kFloorDivide, i[1], te::Index(block))};
    Expr zero = has_zeros ? te::Cast(kFloat32, inputs[3](at)) : te::Const(kFloat32, 3);
    return (te::Cast(kFloat32, codes(i)) - zero) * te::Cast(kFloat32, scales(at));
  });
  Dim extents[] = {Dim(k)};
  Tensor y = ComputeTensor("y", kFloat32, {m, Dim(n)}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      // Bytes of all values make large inputs; sums of about 1 have small errors.
      return x({i[0], r[0]}) * te::Const(kFloat32, 1.0 / (1 << 22)) * weight({i[1], r[0]});
    });
  });
  return {"blocks", inputs, {y}};
}

// Weights of a few bits stay so: the tile computes vectors of them, and multiplies sums of blocks by their scales.
TEST(TileTest, FactorsAreComputedFromPackedConstants) {
  Sample sample(2);
  Dim m = Dim::Var(1, "m");
  for (auto [bits, block, k] : {std::tuple(4, 32, 96), {4, 16, 64}, {2, 32, 128}, {8, 64, 128}, {1, 16, 48}}) {
    for (auto [has_zeros, scale] : {std::pair(false, kFloat32), {true, kFloat32}, {true, kFloat16}}) {
      if (!sample.Takes()) continue;
      CheckOptions options{.symbol_values = {{1}, {2}, {19}}, .constant_inputs = {false, true, true, true}};
      options.constant_inputs.resize(has_zeros ? 4 : 3);
      options.range = 255;
      options.tolerance = 1e-4;
      options.threads = true;
      te::Computation product = BlockProduct(m, 37, k, bits, block, has_zeros, scale);
      for (const ScheduledKernel& kernel : CheckOnTargets(product, options)) {
        EXPECT_EQ(kernel.schedule.nests.size(), 1) << Describe(kernel.schedule);
        for (size_t i = 1; i < product.inputs.size(); ++i) {
          EXPECT_NE(kernel.schedule.Layout(i), nullptr) << i << Describe(kernel.schedule);
        }
      }
      if (HasFatalFailure()) return;
    }
  }
  // Blocks that do not fit the depth, scales that only the caller has, and factors of two products are computed first.
  std::vector<bool> constants = {false, true, true};
  for (const ScheduledKernel& kernel :
       CheckOnTargets(BlockProduct(5, 37, 36, 4, 9, false, kFloat32), {.constant_inputs = constants, .range = 15})) {
    EXPECT_EQ(kernel.schedule.Layout(1), nullptr) << Describe(kernel.schedule);
  }
  constants[2] = false;
  for (const ScheduledKernel& kernel :
       CheckOnTargets(BlockProduct(5, 37, 96, 4, 32, false, kFloat32), {.constant_inputs = constants, .range = 15})) {
    EXPECT_EQ(kernel.schedule.Layout(1), nullptr) << Describe(kernel.schedule);
  }
}

// Several products of the same bytes, which all of their tiles read as int16: bytes of an input, or those that a nest
// before the tiles computes.
TEST(TileTest, ProductsThatShareAFactorOfBytes) {
  for (int64_t count : {2, 3}) {
    for (auto [is_computed, constant, rows] : {std::tuple(true, true, 1), {false, true, 1}, {true, false, 6}}) {
      Tensor x = Input(0, "x", is_computed ? kFloat32 : kUInt8, {Dim(rows), Dim(64)});
      Tensor bytes = ComputeTensor("bytes", kUInt8, x.dims(),
                                   [&](Indices i) { return te::Cast(kUInt8, te::Unary(te::UnaryOp::kRound, x(i))); });
      std::vector<Tensor> inputs = {x}, sums;
      CheckOptions options{.constant_inputs = {false}, .range = 255};
      Dim extents[] = {Dim(64)};
      for (int64_t n = 0; n < count; ++n) {
        Tensor w = Input(n + 1, "w", kInt8, {Dim(160), Dim(64)});
        inputs.push_back(w);
        options.constant_inputs.push_back(constant);
        sums.push_back(ComputeTensor("sum", kInt32, {Dim(rows), Dim(160)}, [&](Indices i) {
          return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
            Expr factor = is_computed ? bytes({i[0], r[0]}) : x({i[0], r[0]});
            return te::Cast(kInt32, factor) * te::Cast(kInt32, w({i[1], r[0]}));
          });
        }));
      }
      Tensor y = ComputeTensor("y", kInt32, sums[0].dims(), [&](Indices i) {
        Expr all = sums[0](i);
        for (size_t n = 1; n < sums.size(); ++n) all = te::Binary(BinaryOp::kXor, all, sums[n](i));
        return all;
      });
      for (const ScheduledKernel& kernel : CheckOnTargets({"shared", inputs, {y}}, options))
        EXPECT_TRUE(HasTile(kernel.schedule)) << Describe(kernel.schedule);
      if (HasFatalFailure()) return;
    }
  }
}

// One product broadcasts the constant that the other might read from panels.
TEST(TileTest, AConstantThatTwoProductsReadIsNotPacked) {
  Tensor x = Input(0, "x", kInt8, {Dim(96), Dim(64)}), w = Input(1, "w", kInt8, {Dim(160), Dim(64)});
  Dim extents[] = {Dim(64)};
  auto product = [&](bool is_transposed) {
    Dims dims = is_transposed ? Dims{160, 96} : Dims{96, 160};
    return ComputeTensor("product", kInt32, dims, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
        return te::Cast(kInt32, x({i[is_transposed], r[0]})) * te::Cast(kInt32, w({i[!is_transposed], r[0]}));
      });
    });
  };
  CheckOnTargets({"both", {x, w}, {product(true), product(false)}}, {.constant_inputs = {false, true}, .range = 127});
}

struct Shape2d {
  int64_t channels, filters, groups, height, width, window, stride, dilation, pad;
};

// relu(conv(x, w) + bias), in NCHW or NHWC, of a batch and image extents that may be unknown. Integers are summed in
// int32.
te::Computation Convolution(const Shape2d& s, bool channels_last, const Dim& batch, const Dim& height, const Dim& width,
                            DataType dtype = kFloat32) {
  DataType wide = dtype.is_float() ? dtype : kInt32;
  size_t channel = channels_last ? 3 : 1, first = channels_last ? 1 : 2;
  Dims in = {batch, 0, 0, 0}, out = in;
  in[channel] = s.channels, out[channel] = s.filters;
  in[first] = height, in[first + 1] = width;
  for (size_t a : {first, first + 1}) {
    out[a] = Max(FloorDiv(in[a] + (2 * s.pad - (s.window - 1) * s.dilation - 1), s.stride) + 1, 0);
  }
  Tensor x = Input(0, "x", dtype, in);
  Dims filters = {s.filters, s.channels / s.groups, s.window, s.window};
  if (channels_last)
    std::rotate(filters.begin(), filters.begin() + 2, filters.end()), std::swap(filters[2], filters[3]);
  Tensor w = Input(1, "w", dtype, filters);
  Tensor bias = Input(2, "bias", wide, {Dim(s.filters)});
  Dim extents[] = {s.channels / s.groups, s.window, s.window};
  Tensor sum = ComputeTensor("conv", wide, out, [&](Indices o) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      std::vector<Expr> at(4);
      at[0] = o[0];
      Expr group = te::Binary(BinaryOp::kFloorDivide, o[channel], te::Index(s.filters / s.groups));
      at[channel] = s.groups == 1 ? r[0] : group * te::Index(s.channels / s.groups) + r[0];
      Expr inside;
      for (size_t a = 0; a < 2; ++a) {
        at[first + a] = o[first + a] * te::Index(s.stride) + r[a + 1] * te::Index(s.dilation) - te::Index(s.pad);
        Expr fits = te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kGreaterEqual, at[first + a], te::Index(0)),
                               te::Binary(BinaryOp::kLess, at[first + a], te::DimValue(in[first + a])));
        inside = inside ? te::Binary(BinaryOp::kAnd, inside, fits) : fits;
      }
      Expr value = te::Cast(wide, x(at));
      if (s.pad != 0) value = te::Select(inside, value, te::Const(wide, 0));
      Expr factor = channels_last ? w({r[1], r[2], r[0], o[channel]}) : w({o[channel], r[0], r[1], r[2]});
      return value * te::Cast(wide, factor);
    });
  });
  Tensor relu = ComputeTensor("relu", wide, out, [&](Indices i) {
    return te::Binary(BinaryOp::kMaximum, sum(i) + bias({i[channel]}), te::Const(wide, 0));
  });
  return {"convolution", {x, w, bias}, {relu}};
}

constexpr Shape2d kShapes[] = {
    {16, 40, 1, 9, 17, 3, 1, 1, 1},                                   // padded
    {5, 24, 1, 11, 30, 1, 1, 1, 0},                                   // 1x1
    {8, 32, 1, 12, 12, 1, 2, 1, 0},                                   // 1x1 with a stride
    {3, 17, 1, 15, 21, 5, 2, 1, 2},  {6, 16, 1, 13, 13, 3, 1, 2, 2},  // dilated
    {12, 48, 3, 7, 7, 3, 1, 1, 1},                                    // grouped
    {10, 10, 10, 8, 20, 3, 2, 1, 1},                                  // depthwise
    {5, 5, 5, 17, 61, 5, 2, 1, 2},                                    // depthwise, more than a vector wide
    {3, 3, 3, 19, 58, 3, 3, 2, 1},                                    // depthwise, every third column
    {6, 6, 6, 9, 75, 7, 4, 1, 3},                                     // depthwise, every fourth column
    {4, 4, 4, 11, 45, 3, 2, 2, 2},                                    // depthwise, of which half the columns are read
    {4, 8, 4, 6, 9, 3, 1, 1, 1},                                      // depthwise, two filters a channel
    {70, 40, 1, 7, 7, 1, 1, 1, 0},                                    // 1x1, deep: two rows of the image in a tile
    {16, 24, 1, 14, 14, 1, 1, 1, 0},                                  // 1x1, shallow: the image as columns
    {3, 20, 1, 9, 32, 3, 1, 1, 1},                                    // shallow, padded: its rows as columns
};

CheckOptions ConstantFilters(double range) {
  return {.constant_inputs = {false, true, true}, .range = range, .threads = true};
}

TEST(TileTest, Convolutions) {
  for (const Shape2d& s : kShapes) {
    for (const ScheduledKernel& kernel :
         CheckOnTargets(Convolution(s, false, 2, s.height, s.width), ConstantFilters(1)))
      if (s.filters / s.groups >= 16) EXPECT_TRUE(HasTile(kernel.schedule)) << Describe(kernel.schedule);
    if (HasFatalFailure()) return;
  }
}

// Deep sums for many columns, of an image whose lines of memory they would read over and over.
TEST(TileTest, DeepConvolutionsCopyRows) {
  for (const Shape2d& s :
       {Shape2d{256, 512, 1, 3, 7, 1, 1, 1, 0}, {256, 512, 1, 3, 13, 1, 2, 1, 0}, {32, 512, 1, 3, 5, 3, 1, 1, 1}}) {
    for (const ScheduledKernel& kernel :
         CheckOnTargets(Convolution(s, false, 1, s.height, s.width), ConstantFilters(1))) {
      const schedule::LoopNest& last = kernel.schedule.nests.back();
      EXPECT_TRUE(last.tile && last.tile->row_panels) << Describe(kernel.schedule);
    }
    if (HasFatalFailure()) return;
  }
}

// Units of several panels, the last unit of fewer; columns next to each other and with a stride.
TEST(TileTest, SeveralPanelsAtOnce) {
  for (const Shape2d& s : {Shape2d{5, 20, 1, 41, 47, 1, 1, 1, 0}, {3, 20, 1, 33, 154, 3, 2, 1, 1}}) {
    for (const ScheduledKernel& kernel :
         CheckOnTargets(Convolution(s, false, 2, s.height, s.width), ConstantFilters(1))) {
      const schedule::LoopNest& last = kernel.schedule.nests.back();
      EXPECT_TRUE(last.tile && last.tile->panels_at_once > 1) << Describe(kernel.schedule);
    }
    if (HasFatalFailure()) return;
  }
}

TEST(TileTest, DepthwiseConvolutionsPadChannelByChannel) {
  for (const Shape2d& s : {Shape2d{20, 20, 20, 9, 21, 3, 1, 1, 1}, {17, 17, 17, 11, 40, 5, 2, 1, 2}}) {
    for (const ScheduledKernel& kernel :
         CheckOnTargets(Convolution(s, false, 1, s.height, s.width), ConstantFilters(1)))
      EXPECT_EQ(kernel.schedule.groups.size(), 1u) << Describe(kernel.schedule);
    if (HasFatalFailure()) return;
  }
}

// With channels last, rows are pixels, columns are channels, and the filters vary along them, too.
TEST(TileTest, DepthwiseConvolutionsShareVectorsOfFilters) {
  constexpr Shape2d kLast[] = {{32, 32, 32, 9, 21, 3, 1, 1, 1}, {40, 40, 40, 11, 17, 5, 2, 1, 2},
                               {17, 17, 17, 6, 9, 7, 1, 1, 0},  {100, 100, 100, 5, 33, 3, 2, 1, 1},
                               {16, 16, 16, 9, 13, 2, 1, 1, 0}, {64, 64, 64, 4, 13, 4, 3, 1, 0}};
  for (DataType dtype : {kFloat32, kFloat64, kInt16}) {
    for (const Shape2d& s : kLast) {
      for (const ScheduledKernel& kernel : CheckOnTargets(Convolution(s, true, 2, s.height, s.width, dtype),
                                                          ConstantFilters(dtype.is_float() ? 1 : 99))) {
        const schedule::LoopNest& last = kernel.schedule.nests.back();
        // Without masks a vector must fit the channels.
        if (s.channels % 16 == 0) EXPECT_TRUE(last.tile && last.tile->shared_by_column) << Describe(kernel.schedule);
      }
      if (HasFatalFailure()) return;
    }
  }
  Dim n = Dim::Var(1, "n");
  CheckKernel(Convolution(kLast[1], true, n, 11, 17),
              {.symbol_values = {{1}, {3}, {0}}, .constant_inputs = {false, true, true}, .range = 1});
}

// Pairs of the rows of a window that are fewer than the rows of the image, as where one window fits.
TEST(TileTest, PairsOfRowsOfOneWindow) {
  for (bool channels_last : {false, true}) {
    const Shape2d s = {5, 40, 1, 8, 14, 6, 3, 1, 0};
    CheckOnTargets(Convolution(s, channels_last, 1, s.height, s.width, kInt8), ConstantFilters(100));
    if (HasFatalFailure()) return;
  }
}

// Pairs of bytes are widened to int16 once: by what computes them, or, where that is a reduction, by a copy.
TEST(TileTest, PairsOfReducedBytes) {
  for (ReduceOp op : {ReduceOp::kMaximum, ReduceOp::kSum}) {
    Tensor x = Input(0, "x", kUInt8, {26, 34}), w = Input(1, "w", kInt8, {64, 34});
    Dim two[] = {2}, depth[] = {34};
    Tensor pooled = ComputeTensor("pooled", kUInt8, {13, 34}, [&](Indices i) {
      return te::Reduce(op, two, [&](Indices r) { return x({i[0] * te::Index(2) + r[0], i[1]}); });
    });
    Tensor y = ComputeTensor("y", kInt32, {13, 64}, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, depth, [&](Indices r) {
        return te::Cast(kInt32, pooled({i[0], r[0]})) * te::Cast(kInt32, w({i[1], r[0]}));
      });
    });
    for (const ScheduledKernel& kernel : CheckOnTargets({"pooled", {x, w}, {y}}, ConstantFilters(255)))
      EXPECT_TRUE(HasTile(kernel.schedule)) << Describe(kernel.schedule);
    if (HasFatalFailure()) return;
  }
}

// A group of rows that begins with a tile has as many rows as the nest, not as many as the tile has units of work.
TEST(TileTest, GroupsOfRowsThatBeginWithATile) {
  Tensor x = Input(0, "x", kFloat32, {16, 7, 43}), w = Input(1, "w", kFloat32, {16, 7});
  Dim window[] = {7}, plane[] = {7, 37};
  Tensor y = ComputeTensor("y", kFloat32, {16, 7, 37}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, window,
                      [&](Indices r) { return x({i[0], i[1], i[2] + r[0]}) * w({i[0], r[0]}); });
  });
  Tensor most = ComputeTensor("most", kFloat32, {16}, [&](Indices i) {
    return te::Reduce(ReduceOp::kMaximum, plane, [&](Indices r) { return y({i[0], r[0], r[1]}); });
  });
  Tensor z = ComputeTensor("z", kFloat32, {16, 7, 37}, [&](Indices i) { return y({i[0], i[1], i[2]}) - most({i[0]}); });
  for (const ScheduledKernel& kernel : CheckOnTargets({"rows", {x, w}, {z}}, ConstantFilters(1))) {
    const schedule::NestGroup& first = kernel.schedule.groups[0];
    EXPECT_TRUE(first.count > 1 && kernel.schedule.nests[first.first].tile) << Describe(kernel.schedule);
  }
}

// relu(sum of x * w over channels) as an image of 24 channels, and a depthwise 3x3 convolution of it with a border.
te::Computation Bordered(const Dim& batch, int64_t height, int64_t width, int64_t stride, int64_t before, int64_t after,
                         bool has_channels_last) {
  // Returns the indices of a pixel's channel in the layout.
  auto at = [&](const Expr& n, const Expr& row, const Expr& column, const Expr& channel) {
    return has_channels_last ? std::vector<Expr>{n, row, column, channel} : std::vector<Expr>{n, channel, row, column};
  };
  auto dims = [&](int64_t rows, int64_t columns, int64_t channels) {
    return has_channels_last ? Dims{batch, rows, columns, channels} : Dims{batch, channels, rows, columns};
  };
  const size_t row = has_channels_last ? 1 : 2, column = row + 1, channel = has_channels_last ? 3 : 1;
  Tensor x = Input(0, "x", kFloat32, dims(height, width, 20)), w = Input(1, "w", kFloat32, {24, 20}),
         filters = Input(2, "filters", kFloat32, {24, 3, 3});
  Dim depth[] = {20}, window[] = {3, 3};
  Tensor image = ComputeTensor("image", kFloat32, dims(height, width, 24), [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, depth,
                      [&](Indices r) { return x(at(i[0], i[row], i[column], r[0])) * w({i[channel], r[0]}); });
  });
  auto within = [](const Expr& place, int64_t extent) {
    return te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kGreaterEqual, place, te::Index(0)),
                      te::Binary(BinaryOp::kLess, place, te::Index(extent)));
  };
  const int64_t border = before + after - 3;
  const Dims result = dims((height + border) / stride + 1, (width + border) / stride + 1, 24);
  Tensor y = ComputeTensor("y", kFloat32, result, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, window, [&](Indices r) {
      Expr v = i[row] * te::Index(stride) + r[0] - te::Index(before),
           u = i[column] * te::Index(stride) + r[1] - te::Index(before);
      Expr pixel = te::Select(te::Binary(BinaryOp::kAnd, within(v, height), within(u, width)),
                              image(at(i[0], v, u, i[channel])), te::Const(kFloat32, 0));
      return pixel * filters({i[channel], r[0], r[1]});
    });
  });
  return {"bordered", {x, w, filters}, {y, image}};
}

// The nest that computes an image with channels last stores it where the copy with a border has it, unless somebody
// else reads the image. Planes are copied one by one.
TEST(TileTest, ImagesAreStoredInsideTheirBorders) {
  Sample sample(2);
  for (auto [batch, height, width, stride, before, after] : {std::tuple(1, 9, 12, 1, 1, 1),
                                                             {2, 9, 12, 1, 1, 1},
                                                             {1, 14, 14, 2, 0, 1},
                                                             {3, 6, 7, 1, 2, 2},
                                                             {1, 1, 16, 1, 1, 1},
                                                             {1, 20, 20, 1, 1, 1}}) {
    for (auto [has_channels_last, is_result] : {std::pair(true, false), {true, true}, {false, false}}) {
      if (!sample.Takes()) continue;
      te::Computation computation = Bordered(batch, height, width, stride, before, after, has_channels_last);
      if (!is_result) computation.outputs.pop_back();
      CheckOptions options = ConstantFilters(2);
      options.constant_inputs = {false, true, true};
      for (const ScheduledKernel& kernel : CheckOnTargets(computation, options)) {
        const bool is_inside = kernel.schedule.nests[0].tensors.back().tensor->name == "padded";
        EXPECT_EQ(is_inside, has_channels_last && !is_result) << Describe(kernel.schedule);
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(TileTest, ConvolutionsOfIntegers) {
  Sample sample(4);
  for (DataType dtype : {kUInt8, kInt16, kInt32}) {
    for (const Shape2d& s : kShapes) {
      if (!sample.Takes()) continue;
      for (const ScheduledKernel& kernel :
           CheckOnTargets(Convolution(s, false, 2, s.height, s.width, dtype), ConstantFilters(255)))
        if (s.filters / s.groups >= 16) EXPECT_TRUE(HasTile(kernel.schedule)) << Describe(kernel.schedule);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(TileTest, ConvolutionsOfOtherLayoutsAndUnknownFilters) {
  for (const Shape2d& s : kShapes) {
    CheckKernel(Convolution(s, true, 1, s.height, s.width), {.constant_inputs = {false, true, true}, .range = 1});
    CheckKernel(Convolution(s, false, 1, s.height, s.width), {.range = 1});
    if (HasFatalFailure()) return;
  }
}

TEST(TileTest, ConvolutionsOfUnknownExtents) {
  Dim n = Dim::Var(1, "n"), h = Dim::Var(2, "h"), w = Dim::Var(3, "w");
  for (const Shape2d& s : {kShapes[0], kShapes[3], kShapes[5], kShapes[6]}) {
    CheckKernel(Convolution(s, false, n, h, w), {.symbol_values = {{1, 7, 7}, {2, 12, 31}, {1, 1, 1}, {0, 5, 5}},
                                                 .constant_inputs = {false, true, true},
                                                 .range = 1});
    if (HasFatalFailure()) return;
  }
}

// Panels that are read part by part, for more tiles than run at once and for a few, and with several axes of the depth.
TEST(TileTest, DeepPanelsAreReadInBlocks) {
  auto all_in_blocks = [](const std::vector<ScheduledKernel>& kernels) {
    for (const ScheduledKernel& kernel : kernels) {
      const schedule::LoopNest& last = kernel.schedule.nests.back();
      // Vectors of few lanes make panels of few bytes.
      if (kernel.schedule.target.vector_bits >= 256) {
        EXPECT_TRUE(last.tile && last.tile->depth_block > 0) << Describe(kernel.schedule);
      }
    }
  };
  const Dim m = Dim::Var(1, "m");
  CheckOptions constant = {
      .symbol_values = {{131}, {9}, {1}, {0}}, .constant_inputs = {false, true, true}, .range = 0.25, .threads = true};
  all_in_blocks(CheckOnTargets(Product(1, m, 17, 8200, {}, kFloat32), constant));
  if (HasFatalFailure()) return;
  all_in_blocks(CheckOnTargets(Product(1, 43, 24, 8200, {.b_transposed = true}, kFloat32), {.range = 0.25}));
  if (HasFatalFailure()) return;
  const Shape2d filters = {1000, 24, 1, 3, 53, 3, 1, 1, 0};
  all_in_blocks(CheckOnTargets(Convolution(filters, true, 1, filters.height, filters.width), ConstantFilters(0.25)));
}

TEST(TileTest, LargeConstantsAreAskedForAhead) {
  for (const char* target : kX86Targets) {
    for (auto [columns, is_large] : {std::pair(512, true), {256, false}}) {
      absl::StatusOr<ScheduledKernel> kernel = ScheduleAndCompile(
          Product(1, Dim::Var(1, "m"), columns, 768, {}, kFloat32), {false, true, true}, target, {.keep_ir = true});
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      EXPECT_EQ(kernel->object.llvm_ir.find("@llvm.prefetch") != std::string::npos, is_large) << target << columns;
    }
  }
}

TEST(TileTest, LongProductsStop) {
  CheckStops(Product(1, 512, 512, 2048, {.epilogue = false}, kFloat32));
  CheckStops(Product(1, 512, 512, 2048, {.b_transposed = true, .epilogue = false}, kFloat32));
}

}  // namespace
}  // namespace rvm::codegen
