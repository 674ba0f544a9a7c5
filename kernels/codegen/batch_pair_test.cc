// A row of a batched variant has the bits that the kernel gives for it alone, whatever the other rows are.
#include "kernels/schedule/batch_pair.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/long_tests.h"
#include "kernels/codegen/testing.h"
#include "kernels/runtime/kernel_library.h"
#include "kernels/te/evaluate.h"
#include "kernels/te/kernel_symbols.h"

namespace rvm::codegen {
namespace {

using schedule::BatchPair;
using te::BinaryOp;
using te::Computation;
using te::ComputeTensor;
using te::Expr;
using te::Index;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using te::UnaryOp;
using Indices = std::span<const Expr>;

const Dim kRows = Dim::Var(0, "n");

// x[.., k] * w[n, k], with conversions of w to the dtype of x.
Tensor Dense(const Tensor& x, const Tensor& w) {
  Dim depth[] = {x.dims()[1]};
  return ComputeTensor("dense", x.dtype(), {x.dims()[0], w.dims()[0]}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, depth,
                      [&](Indices k) { return x({i[0], k[0]}) * te::Cast(x.dtype(), w({i[1], k[0]})); });
  });
}

Expr Tanh(const Expr& x) { return te::Unary(UnaryOp::kTanh, x); }
Expr Sigmoid(const Expr& x) {
  Expr one = te::FloatConst(x.dtype(), 1);
  return te::Binary(BinaryOp::kDivide, one, one + te::Unary(UnaryOp::kExp, te::FloatConst(x.dtype(), 0) - x));
}

struct Case {
  std::string name;
  Computation computation;
  std::vector<bool> constant_inputs;
  std::vector<bool> shared = {};  // empty: as the constants
};

Case Layer(const Dim& rows, int64_t columns, int64_t depth, DataType dtype = kFloat32, DataType stored = kFloat32) {
  Tensor x = Input(0, "x", dtype, {rows, Dim(depth)}), w = Input(1, "w", stored, {Dim(columns), Dim(depth)});
  Tensor bias = Input(2, "bias", dtype, {Dim(columns)}), scale = Input(3, "scale", dtype, {});
  Tensor dense = Dense(x, w);
  Tensor result = ComputeTensor("result", dtype, dense.dims(),
                                [&](Indices i) { return Tanh(dense(i) * scale({}) + bias({i[1]})); });
  std::string name = "layer of " + rows.ToString() + " x " + std::to_string(columns) + " x " + std::to_string(depth);
  return {name, {"layer", {x, w, bias, scale}, {result}}, {false, true, true, false}};
}

// Returns an LSTM's cell over the row of a table.
Case Cell(int64_t size, int64_t inputs) {
  Tensor table = Input(0, "table", kFloat32, {Dim(9), Dim(inputs)}), word = Input(1, "word", kInt32, {});
  Tensor h = Input(2, "h", kFloat32, {Dim(1), Dim(size)}), c = Input(3, "c", kFloat32, {Dim(1), Dim(size)});
  Tensor w = Input(4, "w", kFloat32, {Dim(4 * size), Dim(inputs)}),
         u = Input(5, "u", kFloat32, {Dim(4 * size), Dim(size)}), bias = Input(6, "bias", kFloat32, {Dim(4 * size)});
  Tensor x = ComputeTensor("x", kFloat32, {Dim(1), Dim(inputs)}, [&](Indices i) {
    Expr row = te::Binary(BinaryOp::kFloorMod, te::Cast(kInt64, word({})), Index(9));
    return table({row, i[1]});
  });
  Tensor from_x = Dense(x, w), from_h = Dense(h, u);
  Tensor gates =
      ComputeTensor("gates", kFloat32, from_x.dims(), [&](Indices i) { return from_x(i) + from_h(i) + bias({i[1]}); });
  auto gate = [&](Indices i, int64_t number) { return gates({i[0], i[1] + Index(number * size)}); };
  Tensor next = ComputeTensor("next", kFloat32, c.dims(), [&](Indices i) {
    return Sigmoid(gate(i, 1)) * c(i) + Sigmoid(gate(i, 0)) * Tanh(gate(i, 2));
  });
  Tensor state =
      ComputeTensor("state", kFloat32, c.dims(), [&](Indices i) { return Sigmoid(gate(i, 3)) * Tanh(next(i)); });
  return {"cell of " + std::to_string(size),
          {"cell", {table, word, h, c, w, u, bias}, {state, next}},
          {true, false, false, false, true, true, true}};
}

// Returns the softmax of a layer, and its rows with mean 0.
Case Normalised(const Dim& rows, int64_t columns, int64_t depth) {
  Tensor x = Input(0, "x", kFloat32, {rows, Dim(depth)}), w = Input(1, "w", kFloat32, {Dim(columns), Dim(depth)});
  Tensor dense = Dense(x, w);
  Dim across[] = {Dim(columns)};
  auto reduced = [&](const char* name, ReduceOp op, const Tensor& of) {
    return ComputeTensor(name, kFloat32, {rows}, [&](Indices i) {
      return te::Reduce(op, across, [&](Indices k) { return of({i[0], k[0]}); });
    });
  };
  Tensor most = reduced("max", ReduceOp::kMaximum, dense);
  Tensor shifted = ComputeTensor("exp", kFloat32, dense.dims(),
                                 [&](Indices i) { return te::Unary(UnaryOp::kExp, dense(i) - most({i[0]})); });
  Tensor sum = reduced("sum", ReduceOp::kSum, shifted), mean = reduced("mean", ReduceOp::kSum, dense);
  Tensor softmax = ComputeTensor("softmax", kFloat32, dense.dims(),
                                 [&](Indices i) { return te::Binary(BinaryOp::kDivide, shifted(i), sum({i[0]})); });
  Tensor centred = ComputeTensor("centred", kFloat32, dense.dims(), [&](Indices i) {
    return dense(i) - mean({i[0]}) * te::FloatConst(kFloat32, 1.0 / static_cast<double>(columns));
  });
  Tensor best = ComputeTensor("argmax", kInt64, {rows}, [&](Indices i) {
    return te::Reduce(ReduceOp::kArgMax, across, [&](Indices k) { return dense({i[0], k[0]}); });
  });
  return {"softmax of " + std::to_string(columns), {"softmax", {x, w}, {softmax, centred, best}}, {false, true}};
}

// A matrix that is an argument: [depth, columns].
Case Argument(int64_t columns, int64_t depth) {
  Tensor x = Input(0, "x", kFloat32, {Dim(1), Dim(depth)}), w = Input(1, "w", kFloat32, {Dim(depth), Dim(columns)});
  Dim extents[] = {Dim(depth)};
  Tensor product = ComputeTensor("product", kFloat32, {Dim(1), Dim(columns)}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices k) { return x({i[0], k[0]}) * w({k[0], i[1]}); });
  });
  return {"argument", {"product", {x, w}, {product}}, {false, false}, {false, true}};
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {Layer(1, 150, 300),
                             Layer(1, 64, 129),
                             Layer(1, 450, 33),
                             Layer(1, 1000, 5),
                             Layer(1, 37, 301),
                             Layer(3, 150, 67),
                             Layer(7, 90, 70),
                             Layer(kRows, 150, 67),
                             Layer(1, 70, 150, kFloat64, kFloat64),
                             Layer(1, 150, 300, kFloat32, kFloat16),
                             Layer(1, 150, 300, kFloat32, kInt8),
                             Cell(50, 67),
                             Cell(128, 48),
                             Normalised(1, 100, 67),
                             Normalised(1, 700, 33),
                             Normalised(2, 129, 64),
                             Argument(150, 67),
                             Argument(500, 128)};
  return cases;
}

int64_t Value(const Dim& dim, const std::vector<int64_t>& symbols) {
  return EvaluateDim(dim, [&](const Dim& leaf) { return std::optional(symbols[static_cast<size_t>(leaf.id())]); })
      .value();
}

Shape ShapeOf(const Dims& dims, const std::vector<int64_t>& symbols) {
  Shape shape;
  for (const Dim& dim : dims) shape.push_back(Value(dim, symbols));
  return shape;
}

// The rows [first, first + count) of a tensor with a batch axis; of none, the first row without the axis.
Literal Rows(const Literal& all, int64_t first, std::optional<int64_t> count) {
  Shape shape = all.shape();
  int64_t bytes = all.bytes() / shape[0], size = count.value_or(1);
  if (count) {
    shape[0] = *count;
  } else {
    shape.erase(shape.begin());
  }
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes * size);
  std::memcpy(buffer->data(), all.data() + first * bytes, static_cast<size_t>(bytes * size));
  return Literal(all.dtype(), shape, buffer);
}

struct Code {
  const schedule::Schedule& schedule;
  std::shared_ptr<const runtime::KernelLibrary> library = nullptr;

  void Compile(const char* target) {
    absl::StatusOr<CompiledObject> object =
        CompileKernels(*ParseHostTarget(target), {{"kernel", schedule}}, {.opt_level = 2});
    ASSERT_TRUE(object.ok()) << object.status();
    if (RunsHere(target)) library = *runtime::KernelLibrary::Load(object->object);
  }

  std::vector<Literal> Run(const std::vector<Literal>& inputs, const std::vector<int64_t>& symbols) const {
    std::vector<Literal> outputs;
    for (const Tensor& output : schedule.computation.outputs) {
      Shape shape = ShapeOf(output.dims(), symbols);
      outputs.emplace_back(output.dtype(), shape,
                           Buffer::Allocate(NumElements(shape).value() * output.dtype().bytes()));
    }
    RunOn(inputs, outputs, symbols);
    return outputs;
  }

  // Writes the outputs, which may lie in place of inputs.
  void RunOn(const std::vector<Literal>& inputs, const std::vector<Literal>& outputs,
             const std::vector<int64_t>& symbols) const {
    std::vector<void*> buffers;
    for (const Literal& input : inputs) buffers.push_back(const_cast<std::byte*>(input.data()));
    for (const Literal& output : outputs) buffers.push_back(const_cast<std::byte*>(output.data()));
    std::shared_ptr<Buffer> workspace = Buffer::Allocate(Value(schedule.workspace, symbols) + 64);
    RvmKernelContext context{workspace->data(), nullptr, nullptr, nullptr};
    EXPECT_EQ(library->Find("kernel")(buffers.data(), symbols.data(), &context), kRvmOk);
  }
};

// Compares each row of `calls` calls at once with the call alone, and with the evaluator's.
void CheckRows(const Case& c, const BatchPair& pair, const Code& kernel, const Code& variant, int64_t calls,
               std::vector<int64_t> symbols) {
  std::mt19937 random(static_cast<unsigned>(calls));
  std::vector<int64_t> together = symbols;
  together.insert(together.begin() + pair.batched.batch.id(), calls);
  std::vector<Literal> batched, packed;
  for (size_t i = 0; i < c.computation.inputs.size(); ++i) {
    const Tensor& input = pair.batched.computation.inputs[i];
    batched.push_back(RandomLiteral(input.dtype(), ShapeOf(input.dims(), together), 1, random));
    const schedule::PackedLayout* layout = pair.kernel.Layout(i);
    packed.push_back(layout == nullptr ? batched[i] : schedule::Pack(*layout, batched[i]));
  }
  std::vector<Literal> all = variant.Run(packed, together);
  for (int64_t call = 0; call < calls; ++call) {
    std::vector<Literal> own, plain;
    for (size_t i = 0; i < packed.size(); ++i) {
      own.push_back(pair.shared[i] ? packed[i] : Rows(packed[i], call, std::nullopt));
      plain.push_back(pair.shared[i] ? batched[i] : own[i]);
    }
    std::vector<Literal> alone = kernel.Run(own, symbols), expected;
    if (calls == 1) expected = *te::Evaluate(c.computation, plain);
    for (size_t o = 0; o < alone.size(); ++o) {
      Literal row = Rows(all[o], call, std::nullopt);
      ASSERT_EQ(std::memcmp(row.data(), alone[o].data(), static_cast<size_t>(row.bytes())), 0)
          << "call " << call << " of " << calls << ", output " << o;
      for (int64_t e = 0; e < row.num_elements() && calls == 1; ++e) {
        ASSERT_NEAR(row.DoubleAt(e), expected[o].DoubleAt(e), 2e-4) << "element " << e << " of output " << o;
      }
    }
  }
}

TEST(BatchPairTest, RowsHaveTheBitsThatTheyHaveAlone) {
  Sample sample(3);
  for (const char* target : kX86Targets) {
    for (const Case& c : Cases()) {
      SCOPED_TRACE(std::string(target) + ": " + c.name);
      absl::StatusOr<std::optional<BatchPair>> made =
          schedule::ScheduleBatchPair(c.computation, c.constant_inputs, ScheduleTarget(*ParseHostTarget(target)));
      ASSERT_TRUE(made.ok()) << made.status();
      ASSERT_TRUE(made->has_value());
      const BatchPair& pair = **made;
      SCOPED_TRACE(Describe(pair.kernel) + " | " + Describe(pair.variant));
      EXPECT_EQ(pair.shared, c.shared.empty() ? c.constant_inputs : c.shared);
      Code kernel{pair.kernel}, variant{pair.variant};
      kernel.Compile(target);
      variant.Compile(target);
      if (HasFatalFailure() || kernel.library == nullptr) continue;
      bool has_rows = !te::KernelSymbols(c.computation).empty();
      for (int64_t calls = 1; calls <= 17; ++calls) {
        if (!sample.Takes()) continue;
        CheckRows(c, pair, kernel, variant, calls,
                  has_rows ? std::vector<int64_t>{calls % 5 + 1} : std::vector<int64_t>());
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The pair that is free of constraints would not agree on a layout.
TEST(BatchPairTest, BothReadConstantsInOneLayout) {
  schedule::Target wide = ScheduleTarget(*ParseHostTarget("x86-64-v4"));
  for (const Case& c : Cases()) {
    absl::StatusOr<std::optional<BatchPair>> pair = schedule::ScheduleBatchPair(c.computation, c.constant_inputs, wide);
    ASSERT_TRUE(pair.ok() && pair->has_value()) << c.name;
    for (size_t i = 0; i < c.constant_inputs.size(); ++i) {
      const schedule::PackedLayout *alone = (*pair)->kernel.Layout(i), *batched = (*pair)->variant.Layout(i);
      ASSERT_EQ(alone == nullptr, batched == nullptr) << c.name;
      if (alone != nullptr) EXPECT_TRUE(*alone == *batched) << c.name;
    }
  }
}

// Returns a dense layer whose weights are an argument: [columns, depth].
Case Trained(int64_t columns, int64_t depth) {
  Case layer = Layer(1, columns, depth);
  layer.constant_inputs = {false, false, false, false};
  return layer;
}

TEST(BatchPairTest, WeightsThatAreArgumentsMayBeAddedUpOtherwise) {
  for (const char* target : kX86Targets) {
    for (const Case& c : {Trained(150, 67), Trained(450, 150)}) {
      SCOPED_TRACE(std::string(target) + ": " + c.name);
      absl::StatusOr<std::optional<BatchPair>> made =
          schedule::ScheduleBatchPair(c.computation, c.constant_inputs, ScheduleTarget(*ParseHostTarget(target)));
      ASSERT_TRUE(made.ok() && made->has_value()) << made.status();
      const BatchPair& pair = **made;
      EXPECT_EQ(pair.shared, std::vector<bool>({false, true, true, false}));  // with the bias
      EXPECT_FALSE(pair.has_same_bits);
      Code variant{pair.variant};
      variant.Compile(target);
      if (HasFatalFailure() || variant.library == nullptr) continue;
      for (int64_t calls : {1, 4, 9, 33}) {
        std::mt19937 random(static_cast<unsigned>(calls));
        std::vector<Literal> inputs;
        for (const Tensor& input : pair.batched.computation.inputs)
          inputs.push_back(RandomLiteral(input.dtype(), ShapeOf(input.dims(), {calls}), 1, random));
        std::vector<Literal> packed = inputs;
        for (const schedule::ArrangedInput& arranged : pair.arranged)
          packed[arranged.input] = schedule::Pack(*pair.variant.Layout(arranged.input), inputs[arranged.input]);
        std::vector<Literal> outputs = variant.Run(packed, {calls});
        std::vector<Literal> expected = *te::Evaluate(pair.batched.computation, inputs);
        for (int64_t e = 0; e < expected[0].num_elements(); ++e)
          ASSERT_NEAR(outputs[0].DoubleAt(e), expected[0].DoubleAt(e), 2e-4) << calls << ": " << e;
      }
    }
  }
}

// The kernel that arranges a matrix for the variant gives what the compiler makes of a constant, but for the columns of
// the last panel that are not there.
TEST(BatchPairTest, ArgumentsAreArrangedAsConstantsAre) {
  int num_arranged = 0;
  for (const char* target : kX86Targets) {
    for (const Case& c : {Trained(150, 67), Trained(450, 150), Trained(64, 128)}) {
      SCOPED_TRACE(std::string(target) + ": " + c.name);
      absl::StatusOr<std::optional<BatchPair>> made =
          schedule::ScheduleBatchPair(c.computation, c.constant_inputs, ScheduleTarget(*ParseHostTarget(target)));
      ASSERT_TRUE(made.ok() && made->has_value()) << made.status();
      const BatchPair& pair = **made;
      for (const schedule::ArrangedInput& arranged : pair.arranged) {
        ++num_arranged;
        EXPECT_EQ(arranged.input, 1U);
        EXPECT_EQ(pair.kernel.Layout(1), nullptr);
        const schedule::PackedLayout& layout = *pair.variant.Layout(1);
        Code code{arranged.schedule};
        code.Compile(target);
        if (HasFatalFailure() || code.library == nullptr) continue;
        std::mt19937 random(1);
        Literal matrix = RandomLiteral(kFloat32, ShapeOf(c.computation.inputs[1].dims(), {}), 1, random);
        Literal panels = code.Run({matrix}, {})[0], expected = schedule::Pack(layout, matrix);
        ASSERT_EQ(panels.shape(), expected.shape());
        int64_t depth = expected.shape()[1], panel = expected.shape()[2];
        for (int64_t e = 0; e < expected.num_elements(); ++e) {
          bool is_column = e / (depth * panel) * panel + e % panel < layout.column.extent;
          if (is_column) ASSERT_EQ(panels.DoubleAt(e), expected.DoubleAt(e)) << e;
        }
      }
    }
  }
  EXPECT_GE(num_arranged, 6);
}

// sum[i, j] + x[i, 0] y[0, j], and of so many rows.
Case Outer(int64_t rows, int64_t columns, const Dim& depth) {
  Tensor sum = Input(0, "sum", kFloat32, {Dim(rows), Dim(columns)}), like = Input(3, "like", kFloat32, sum.dims());
  Tensor x = Input(1, "x", kFloat32, {depth, Dim(rows)}), y = Input(2, "y", kFloat32, {depth, Dim(columns)});
  Dim extents[] = {depth};
  Tensor product = ComputeTensor("product", kFloat32, sum.dims(), [&](Indices i) {
    if (depth == Dim(1)) return x({Index(0), i[0]}) * y({Index(0), i[1]});
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices k) { return x({k[0], i[0]}) * y({k[0], i[1]}); });
  });
  Tensor result = ComputeTensor("result", kFloat32, sum.dims(), [&](Indices i) { return sum(i) + product(i); });
  return {"outer", {"outer", {sum, x, y, like}, {result}}, {false, false, false, false}};
}

TEST(BatchPairTest, ChainsAddUpInPlace) {
  int num_pairs = 0;  // without masks
  for (const char* target : kX86Targets) {
    for (const Case& c :
         {Outer(70, 150, 1), Outer(64, 128, 1), Outer(33, 47, 1), Outer(40, 50, 3), Outer(40, 50, kRows)}) {
      absl::StatusOr<std::optional<BatchPair>> made =
          schedule::ScheduleBatchPair(c.computation, c.constant_inputs, ScheduleTarget(*ParseHostTarget(target)));
      ASSERT_TRUE(made.ok()) << made.status();
      // Tiles overlap where the last vectors of a row cannot be masked.
      bool has_masks = ScheduleTarget(*ParseHostTarget(target)).has_masks;
      ASSERT_TRUE(made->has_value() || !has_masks) << target << ": " << te::ToString(c.computation);
      if (!made->has_value()) continue;
      const BatchPair& pair = **made;
      SCOPED_TRACE(std::string(target) + ": " + Describe(pair.variant));
      EXPECT_EQ(pair.accumulator, 0);
      num_pairs += target == kX86Targets[0];
      EXPECT_EQ(pair.shared, std::vector<bool>({true, false, false, true}));  // nothing reads the last one
      Code variant{pair.variant};
      variant.Compile(target);
      if (HasFatalFailure() || variant.library == nullptr) continue;
      for (int64_t calls : {1, 4, 21}) {
        std::vector<int64_t> symbols = {calls};
        if (!te::KernelSymbols(c.computation).empty()) symbols.push_back(5);
        std::mt19937 random(static_cast<unsigned>(calls));
        std::vector<Literal> inputs;
        for (const Tensor& input : pair.batched.computation.inputs)
          inputs.push_back(RandomLiteral(input.dtype(), ShapeOf(input.dims(), symbols), 1, random));
        std::vector<Literal> expected = *te::Evaluate(pair.batched.computation, inputs);
        variant.RunOn(inputs, {inputs[0]}, symbols);
        for (int64_t e = 0; e < expected[0].num_elements(); ++e)
          ASSERT_NEAR(inputs[0].DoubleAt(e), expected[0].DoubleAt(e), 2e-4) << calls << ": " << e;
      }
    }
  }
  EXPECT_GT(num_pairs, 0);
}

// Few rows are multiplied by a large matrix: such kernels may run in a chain, or read their weights once.
TEST(BatchPairTest, KernelsThatMayNotAddInPlaceAreNoChains) {
  for (const char* target : kX86Targets) {
    const schedule::Target host = ScheduleTarget(*ParseHostTarget(target));
    auto pair_of = [&](const Case& c, bool reuses_inputs) {
      auto pair = schedule::ScheduleBatchPair(c.computation, c.constant_inputs, host, {.reuses_inputs = reuses_inputs});
      EXPECT_TRUE(pair.ok()) << pair.status();
      return *std::move(pair);
    };
    const Case layer = Outer(4, 150, 67);
    std::optional<BatchPair> chain = pair_of(layer, true), rows = pair_of(layer, false);
    if (host.has_masks) EXPECT_TRUE(chain.has_value() && chain->accumulator == 0) << target;
    ASSERT_TRUE(rows.has_value()) << target;
    EXPECT_FALSE(rows->accumulator.has_value());
    EXPECT_EQ(rows->shared, std::vector<bool>({false, false, true, false}));
    EXPECT_FALSE(pair_of(Outer(40, 50, 3), false).has_value()) << target;
  }
}

TEST(BatchPairTest, OthersDoNotPay) {
  schedule::Target wide = ScheduleTarget(*ParseHostTarget("x86-64-v4"));
  auto pays = [&](const Case& c) {
    absl::StatusOr<std::optional<BatchPair>> pair = schedule::ScheduleBatchPair(c.computation, c.constant_inputs, wide);
    EXPECT_TRUE(pair.ok()) << pair.status();
    return pair->has_value();
  };
  EXPECT_TRUE(pays(Layer(7, 64, 65)));
  EXPECT_FALSE(pays(Layer(8, 64, 65)));  // many rows
  EXPECT_FALSE(pays(Layer(1, 64, 64)));  // few weights
  Case none = Layer(1, 64, 65);
  none.constant_inputs = {true, true, true, true};
  EXPECT_FALSE(pays(none));
  // Each element of the argument is multiplied once, and the other factor, which may be called a matrix of few rows as
  // well, is one, too.
  none.constant_inputs = {false, false, false, false};
  none.computation = Layer(1, 1, 9000).computation;
  EXPECT_FALSE(pays(none));
}

}  // namespace
}  // namespace rvm::codegen
