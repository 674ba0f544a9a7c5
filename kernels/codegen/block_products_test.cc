// Products of bytes in blocks of the depth, compared with te::Evaluate.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

struct Form {
  int64_t n, k, bits, block;
  bool has_zeros = false;    // for each block; else 3 everywhere
  bool is_centred = true;    // else no zero point at all
  bool given_bytes = false;  // the rows are inputs of bytes and scales
  bool has_minima = false;   // subtracted from the scaled codes of each block, without a zero point
};

Expr Divided(const Expr& i, int64_t by) { return te::Binary(BinaryOp::kFloorDivide, i, te::Index(by)); }

// Rounds rows to int8 in blocks by the greatest element of each, as floats.
Tensor RoundedRows(const Tensor& x, const Form& f, const Dim& m) {
  Dim extents[] = {Dim(f.block)};
  Tensor greatest = ComputeTensor("greatest", kFloat32, {m, Dim(f.k / f.block)}, [&](Indices i) {
    return te::Reduce(ReduceOp::kMaximum, extents, [&](Indices r) {
      return te::Unary(te::UnaryOp::kAbs, x({i[0], i[1] * te::Index(f.block) + r[0]}));
    });
  });
  return ComputeTensor("rounded", kFloat32, x.dims(), [&](Indices i) {
    Expr most = greatest({i[0], Divided(i[1], f.block)});
    Expr inverse = te::Binary(BinaryOp::kDivide, te::Const(kFloat32, 127), most);
    Expr code = te::Cast(kInt8, te::Unary(te::UnaryOp::kRound, x(i) * inverse));
    return te::Cast(kFloat32, code) * (most * te::Const(kFloat32, 1.0 / 127));
  });
}

te::Computation BlockProduct(const Form& f, const Dim& m) {
  const int64_t in_byte = 8 / f.bits;
  std::vector<Tensor> inputs = {Input(0, "x", f.given_bytes ? kInt8 : kFloat32, {m, Dim(f.k)}),
                                Input(1, "bytes", kUInt8, {Dim(f.n), Dim(f.k / in_byte)}),
                                Input(2, "scales", kFloat32, {Dim(f.n), Dim(f.k / f.block)})};
  const Tensor x = inputs[0], bytes = inputs[1], scales = inputs[2];
  const bool has_third = f.has_zeros || f.has_minima;
  if (has_third) inputs.push_back(Input(3, f.has_zeros ? "zeros" : "minima", kUInt8, scales.dims()));
  Tensor rows;
  if (f.given_bytes) {
    Tensor row_scales = Input(has_third ? 4 : 3, "row_scales", kFloat32, {m, Dim(f.k / f.block)});
    inputs.push_back(row_scales);
    rows = ComputeTensor("rows", kFloat32, x.dims(), [&](Indices i) {
      return row_scales({i[0], Divided(i[1], f.block)}) * te::Cast(kFloat32, x(i));
    });
  } else {
    rows = RoundedRows(x, f, m);
  }
  Tensor weight = ComputeTensor("weight", kFloat32, {Dim(f.n), Dim(f.k)}, [&](Indices i) {
    Expr code = bytes({i[0], Divided(i[1], in_byte)});
    if (f.bits < 8) {
      Expr shift = te::Binary(BinaryOp::kFloorMod, i[1], te::Index(in_byte)) * te::Index(f.bits);
      code = te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kShiftRight, code, te::Cast(kUInt8, shift)),
                        te::IntConst(kUInt8, (1 << f.bits) - 1));
    }
    std::vector<Expr> at = {i[0], Divided(i[1], f.block)};
    Expr value = te::Cast(kFloat32, code);
    if (f.has_zeros) {
      value = value - te::Cast(kFloat32, inputs[3](at));
    } else if (f.is_centred) {
      value = value - te::Const(kFloat32, 3);
    }
    value = value * scales(at);
    return f.has_minima ? value - scales(at) * te::Cast(kFloat32, inputs[3](at)) : value;
  });
  Dim extents[] = {Dim(f.k)};
  Tensor sum = ComputeTensor("sum", kFloat32, {m, Dim(f.n)}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return rows({i[0], r[0]}) * weight({i[1], r[0]}); });
  });
  // Bytes of all values make large sums; those of about 1 have small errors.
  Tensor y = ComputeTensor("y", kFloat32, sum.dims(),
                           [&](Indices i) { return sum(i) * te::Const(kFloat32, 1.0 / (1 << 30)); });
  return {"blocks", inputs, {y}};
}

CheckOptions OptionsFor(const Form& f, std::vector<std::vector<int64_t>> rows) {
  CheckOptions options{.symbol_values = std::move(rows), .constant_inputs = {false, true, true}};
  if (f.has_zeros || f.has_minima) options.constant_inputs.push_back(true);
  if (f.given_bytes) options.constant_inputs.push_back(false);
  options.range = 255;
  options.threads = true;
  return options;
}

// The steps of the tile that multiplies blocks of bytes; 0: there is none.
int64_t StepOf(const schedule::Schedule& schedule) {
  for (const schedule::LoopNest& nest : schedule.nests) {
    if (nest.tile && nest.tile->blocks) return nest.tile->depth_step;
  }
  return 0;
}

constexpr Form kForms[] = {
    {37, 96, 4, 32},
    {37, 96, 4, 32, true},
    {40, 64, 4, 16},
    {33, 256, 4, 128},
    {24, 256, 4, 256, true},
    {37, 128, 2, 64, true},
    {37, 32, 2, 16},
    {35, 96, 1, 32},
    {37, 128, 8, 64, true},
    {16, 48, 8, 16},
    {37, 96, 4, 32, false, false},
    {300, 64, 4, 32, true, true, true},
    {35, 96, 8, 32, true, true, true},
    {37, 96, 4, 32, false, false, false, true},
    {37, 128, 8, 16, false, false, true, true},
    {40, 64, 2, 32, false, false, false, true},
};

TEST(BlockProductsTest, BytesAreMultipliedInBlocks) {
  Sample sample(5);
  Dim m = Dim::Var(1, "m");
  for (const Form& f : kForms) {
    CheckOptions options = OptionsFor(f, {{1}, {2}, {19}});
    for (const char* target : {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "alderlake", "icelake-server"}) {
      if (!sample.Takes()) continue;
      options.target = target;
      ScheduledKernel kernel = CheckKernel(BlockProduct(f, m), options);
      if (HasFatalFailure()) return;
      bool has_fours = std::string(target) == "alderlake" || std::string(target) == "icelake-server";
      bool has_pairs = std::string(target) != "x86-64" && f.bits < 8;
      EXPECT_EQ(StepOf(kernel.schedule), has_fours || has_pairs ? 4 : 2) << target << Describe(kernel.schedule);
      for (size_t i = 1; i < (f.has_zeros || f.has_minima ? 4 : 3); ++i)
        EXPECT_NE(kernel.schedule.Layout(i), nullptr) << i;
    }
  }
}

TEST(BlockProductsTest, KnownNumbersOfRows) {
  for (int64_t rows : {1, 4, 13, 64}) {
    for (const Form& f : {kForms[0], kForms[1], kForms[8]}) {
      for (const ScheduledKernel& kernel : CheckOnTargets(BlockProduct(f, Dim(rows)), OptionsFor(f, {{}})))
        EXPECT_NE(StepOf(kernel.schedule), 0) << Describe(kernel.schedule);
      if (HasFatalFailure()) return;
    }
  }
}

// Signed bytes hold codes of up to 7 bits.
TEST(BlockProductsTest, DotProductsOfArm) {
  Dim m = Dim::Var(1, "m");
  for (const Form& f : {kForms[0], kForms[1], kForms[8]}) {
    CheckOptions options = OptionsFor(f, {{1}});
    options.target = "neoverse-n1";
    ScheduledKernel kernel = CheckKernel(BlockProduct(f, m), options);
    EXPECT_EQ(StepOf(kernel.schedule), f.bits < 8 ? 4 : 0) << Describe(kernel.schedule);
  }
}

// Factors that no tile packs are multiplied as floats: few columns, scales of the caller, a block that leaves a rest.
TEST(BlockProductsTest, OthersAreProductsOfFloats) {
  Form f{1, 96, 4, 32};
  for (const ScheduledKernel& kernel : CheckOnTargets(BlockProduct(f, Dim(5)), OptionsFor(f, {{}})))
    EXPECT_EQ(StepOf(kernel.schedule), 0) << Describe(kernel.schedule);
  f.n = 37;
  CheckOptions options = OptionsFor(f, {{}});
  options.constant_inputs[2] = false;
  for (const ScheduledKernel& kernel : CheckOnTargets(BlockProduct(f, Dim(5)), options))
    EXPECT_EQ(StepOf(kernel.schedule), 0) << Describe(kernel.schedule);
  f = {37, 36, 8, 18};
  for (const ScheduledKernel& kernel : CheckOnTargets(BlockProduct(f, Dim(5)), OptionsFor(f, {{}})))
    EXPECT_EQ(StepOf(kernel.schedule), 2) << Describe(kernel.schedule);
}

TEST(BlockProductsTest, LongProductsStop) {
  Form f{2048, 4096, 4, 32};
  CheckStops(BlockProduct(f, Dim(256)), {false, true, true});
}

// Rows that several weights multiply are rounded, and summed up, once.
TEST(BlockProductsTest, ProductsShareTheirRows) {
  Dim m = Dim::Var(1, "m");
  const Form form{37, 96, 4, 32};
  te::Computation one = BlockProduct(form, m);
  Tensor x = one.inputs[0], rows = RoundedRows(x, form, m);
  std::vector<Tensor> inputs = {x}, outputs;
  std::vector<bool> constant = {false};
  for (int64_t i = 0; i < 3; ++i) {
    Tensor bytes = Input(2 * i + 1, "bytes", kUInt8, {Dim(form.n), Dim(form.k)});
    Tensor scales = Input(2 * i + 2, "scales", kFloat32, {Dim(form.n), Dim(form.k / form.block)});
    inputs.insert(inputs.end(), {bytes, scales});
    constant.insert(constant.end(), {true, true});
    Tensor weight = ComputeTensor("weight", kFloat32, bytes.dims(), [&](Indices at) {
      Expr code = te::Cast(kFloat32, bytes(at)) - te::Const(kFloat32, 128);
      return code * scales({at[0], Divided(at[1], form.block)});
    });
    Dim extents[] = {Dim(form.k)};
    outputs.push_back(ComputeTensor("sum", kFloat32, {m, Dim(form.n)}, [&](Indices at) {
      return te::Reduce(ReduceOp::kSum, extents,
                        [&](Indices r) { return rows({at[0], r[0]}) * weight({at[1], r[0]}); });
    }));
  }
  auto schedule = ScheduleFor({"three", inputs, outputs}, constant, "icelake-server");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  const std::string text = Describe(*schedule);
  auto count = [&](const std::string& name) {
    int64_t found = 0;
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(": bytes"), 1) << text;
  EXPECT_EQ(count("row_sums"), 1) << text;
  EXPECT_EQ(count("blocks of bytes"), 3) << text;
}

}  // namespace
}  // namespace rvm::codegen
