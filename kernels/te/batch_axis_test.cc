// Each row of what a batched computation gives is what the computation gives for the arguments of that row.
#include "kernels/te/batch_axis.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/element.h"
#include "kernels/te/evaluate.h"
#include "kernels/te/expr_pool.h"
#include "kernels/te/kernel_symbols.h"

namespace rvm::te {
namespace {

using Indices = std::span<const Expr>;

// Small numbers, other ones for each seed; integers are within [0, 5).
Literal Numbers(DataType dtype, const Shape& shape, int64_t seed) {
  int64_t count = NumElements(shape).value();
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(count * dtype.bytes());
  for (int64_t i = 0; i < count; ++i) {
    std::byte* at = buffer->data() + i * dtype.bytes();
    int64_t value = (i * 7 + seed * 11 + i / 3) % 5;
    dtype.is_float() ? StoreDouble(dtype, at, static_cast<double>(value) / 4 - 0.5) : StoreInt(dtype, at, value);
  }
  return Literal(dtype, shape, buffer);
}

Shape ShapeOf(const Dims& dims, int64_t extent) {
  Shape shape;
  for (const Dim& dim : dims)
    shape.push_back(EvaluateDim(dim, [&](const Dim&) { return std::optional(extent); }).value());
  return shape;
}

Literal Stacked(const std::vector<Literal>& rows) {
  Shape shape = {static_cast<int64_t>(rows.size())};
  shape.insert(shape.end(), rows[0].shape().begin(), rows[0].shape().end());
  auto bytes = static_cast<size_t>(rows[0].bytes());
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(static_cast<int64_t>(bytes * rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) std::memcpy(buffer->data() + i * bytes, rows[i].data(), bytes);
  return Literal(rows[0].dtype(), shape, buffer);
}

// Compares `calls` calls, for symbols that are all `extent`, with one of the batched computation.
void ExpectRowsEqual(const Computation& computation, const std::vector<bool>& shared, int64_t extent = 3,
                     int64_t calls = 4) {
  std::optional<BatchedComputation> batched = AddBatchAxis(computation, shared);
  ASSERT_TRUE(batched.has_value());
  std::vector<Dim> symbols = KernelSymbols(batched->computation);
  for (size_t i = 0; i < symbols.size(); ++i) EXPECT_EQ(symbols[i].id(), static_cast<int64_t>(i));
  EXPECT_EQ(symbols.size(), KernelSymbols(computation).size() + 1);
  std::vector<std::vector<Literal>> inputs(static_cast<size_t>(calls)), outputs;
  std::vector<Literal> together;
  for (size_t i = 0; i < computation.inputs.size(); ++i) {
    std::vector<Literal> rows;
    const Tensor& input = computation.inputs[i];
    for (int64_t call = 0; call < calls; ++call) {
      int64_t seed = static_cast<int64_t>(i) + (shared[i] ? 0 : call * 13);
      rows.push_back(Numbers(input.dtype(), ShapeOf(input.dims(), extent), seed));
      inputs[static_cast<size_t>(call)].push_back(rows.back());
    }
    together.push_back(shared[i] ? rows[0] : Stacked(rows));
  }
  for (const std::vector<Literal>& one : inputs) {
    absl::StatusOr<std::vector<Literal>> results = Evaluate(computation, one);
    ASSERT_TRUE(results.ok()) << results.status();
    outputs.push_back(*results);
  }
  absl::StatusOr<std::vector<Literal>> all = Evaluate(batched->computation, together);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), computation.outputs.size());
  for (size_t i = 0; i < all->size(); ++i) {
    std::vector<Literal> rows;
    for (const std::vector<Literal>& one : outputs) rows.push_back(one[i]);
    Literal expected = Stacked(rows);
    ASSERT_EQ((*all)[i].shape(), expected.shape());
    EXPECT_EQ(std::memcmp((*all)[i].data(), expected.data(), static_cast<size_t>(expected.bytes())), 0)
        << "output " << i;
  }
}

Tensor Dense(const Tensor& x, const Tensor& w) {
  Dim depth[] = {x.dims()[1]};
  return ComputeTensor("dense", x.dtype(), {x.dims()[0], w.dims()[0]}, [&](Indices i) {
    return Reduce(ReduceOp::kSum, depth, [&](Indices k) { return x({i[0], k[0]}) * w({i[1], k[0]}); });
  });
}

TEST(BatchAxisTest, ProductsWithEpilogues) {
  Tensor x = Input(0, "x", kFloat32, {Dim(1), Dim(6)}), w = Input(1, "w", kFloat32, {Dim(5), Dim(6)});
  Tensor bias = Input(2, "bias", kFloat32, {Dim(5)}), scale = Input(3, "scale", kFloat32, {});
  Tensor dense = Dense(x, w);
  Tensor result = ComputeTensor("result", kFloat32, dense.dims(),
                                [&](Indices i) { return Unary(UnaryOp::kTanh, dense(i) * scale({}) + bias({i[1]})); });
  ExpectRowsEqual({"f", {x, w, bias, scale}, {result}}, {false, true, true, false});
  ExpectRowsEqual({"f", {x, w, bias, scale}, {result, dense}}, {false, true, false, true}, 3, 1);
  // The other factor differs, too.
  ExpectRowsEqual({"f", {x, w, bias, scale}, {result}}, {false, false, true, true});
  ExpectRowsEqual({"f", {x, w, bias, scale}, {result}}, {true, false, true, true});
}

TEST(BatchAxisTest, SymbolsAreNumberedInTheirOrder) {
  Dim n = Dim::Var(0, "n"), m = Dim::Var(1, "m");
  Tensor w = Input(0, "w", kFloat32, {n, m}), x = Input(1, "x", kFloat32, {n + 1, m});
  Tensor dense = Dense(x, w);
  Tensor padded = ComputeTensor("padded", kFloat32, {n + 1, n + 2}, [&](Indices i) {
    Expr inside = Binary(BinaryOp::kLess, i[1], DimValue(n));
    return Select(inside, dense(i), Cast(kFloat32, DimValue(m)));
  });
  for (std::vector<bool> shared : {std::vector<bool>{true, false}, {false, true}, {false, false}}) {
    ExpectRowsEqual({"f", {w, x}, {padded, dense}}, shared);
  }
}

TEST(BatchAxisTest, GathersOfARowByAScalar) {
  Tensor table = Input(0, "table", kFloat32, {Dim(5), Dim(4)}), index = Input(1, "index", kInt32, {});
  Tensor row = ComputeTensor("take", kFloat32, {Dim(1), Dim(4)},
                             [&](Indices i) { return table({Cast(kInt64, index({})), i[1]}); });
  Tensor w = Input(2, "w", kFloat32, {Dim(3), Dim(4)});
  ExpectRowsEqual({"f", {table, index, w}, {Dense(row, w), row}}, {true, false, true});
  ExpectRowsEqual({"f", {table, index, w}, {Dense(row, w)}}, {false, false, true});
}

TEST(BatchAxisTest, ReductionsAndPositions) {
  Tensor x = Input(0, "x", kFloat32, {Dim(2), Dim(7)});
  Dim depth[] = {Dim(7)};
  Tensor most = ComputeTensor("max", kFloat32, {Dim(2)}, [&](Indices i) {
    return Reduce(ReduceOp::kMaximum, depth, [&](Indices k) { return x({i[0], k[0]}); });
  });
  Tensor place = ComputeTensor("argmax", kInt64, {Dim(2)}, [&](Indices i) {
    return Reduce(ReduceOp::kArgMax, depth, [&](Indices k) { return x({i[0], k[0]}); });
  });
  Tensor shifted = ComputeTensor("shifted", kFloat32, x.dims(),
                                 [&](Indices i) { return Unary(UnaryOp::kExp, x(i) - most({i[0]})); });
  ExpectRowsEqual({"f", {x}, {shifted, place, most}}, {false});
}

TEST(BatchAxisTest, ScansAndSortedRows) {
  Tensor x = Input(0, "x", kFloat32, {Dim(2), Dim(6)}), keys = Input(1, "keys", kInt64, {Dim(2), Dim(6)});
  Tensor sums = ScanTensor("cumsum", kFloat32, x.dims(), [&](Indices i, const Tensor& self) {
    Expr before = self({i[0], i[1] - Index(1)});
    return x(i) + Select(Binary(BinaryOp::kEqual, i[1], Index(0)), Const(kFloat32, 0), before);
  });
  Tensor ordered = OrderTensor("order", keys.dims(), keys.dims().back(), [&](Indices i) { return keys(i); });
  Tensor sorted =
      Stored(ComputeTensor("sorted", kInt64, keys.dims(), [&](Indices i) { return ordered({i[0], Index(1), i[1]}); }));
  ExpectRowsEqual({"f", {x, keys}, {sums, sorted}}, {false, false});
  ExpectRowsEqual({"f", {x, keys}, {sums, sorted}}, {true, false});
}

TEST(BatchAxisTest, OutputsOfSharedInputsAreCopied) {
  Tensor x = Input(0, "x", kFloat32, {Dim(3)}), w = Input(1, "w", kFloat32, {Dim(3)});
  Tensor twice = ComputeTensor("twice", kFloat32, w.dims(), [&](Indices i) { return w(i) + w(i); });
  Tensor sum = ComputeTensor("sum", kFloat32, w.dims(), [&](Indices i) { return x(i) + twice(i); });
  ExpectRowsEqual({"f", {x, w}, {sum, twice, w, x}}, {false, true});
  // Shared by all calls, it is computed once.
  std::optional<BatchedComputation> batched = AddBatchAxis({"f", {x, w}, {sum}}, {false, true});
  for (const ExprNode* node : Postorder({batched->computation.outputs[0]->body})) {
    if (node->kind == ExprKind::kRead && node->tensor->name == "twice") EXPECT_EQ(node->tensor.rank(), 1u);
  }
}

TEST(BatchAxisTest, UpdatesBecomeTheirDefinition) {
  Tensor x = Input(0, "x", kFloat32, {Dim(5)}), at = Input(1, "at", kInt64, {});
  Tensor written = ComputeTensor("written", kFloat32, x.dims(), [&](Indices i) {
    return Select(Binary(BinaryOp::kEqual, i[0], at({})), Const(kFloat32, 9), x(i));
  });
  TensorUpdate update;
  update.base = x;
  written = WithUpdate(written, update, {Dim(1)},
                       [&](Indices) { return TensorUpdate::Position{{at({})}, Expr(), Const(kFloat32, 9)}; });
  ExpectRowsEqual({"f", {x, at}, {written}}, {false, false});
  EXPECT_EQ(AddBatchAxis({"f", {x, at}, {written}}, {false, false})->computation.outputs[0]->update, nullptr);
}

// Compares a chain of calls, each with the result of the one before, with one of the computation of their sum. All
// numbers are multiples of 1/16, so that sums are exact.
void ExpectChainsEqual(const Computation& computation, size_t accumulator, int64_t extent = 3, int64_t calls = 4) {
  ASSERT_EQ(FindAccumulator(computation), accumulator);
  std::vector<bool> shared(computation.inputs.size(), false);
  shared[accumulator] = true;
  std::optional<BatchedComputation> batched = AddBatchSum(computation, shared);
  ASSERT_TRUE(batched.has_value());
  std::vector<std::vector<Literal>> rows(computation.inputs.size());
  std::vector<Literal> sum;
  for (int64_t call = 0; call < calls; ++call) {
    std::vector<Literal> inputs;
    for (size_t i = 0; i < computation.inputs.size(); ++i) {
      const Tensor& input = computation.inputs[i];
      inputs.push_back(Numbers(input.dtype(), ShapeOf(input.dims(), extent), static_cast<int64_t>(i) + call * 13));
      if (i == accumulator && call > 0) inputs.back() = sum[0];
      rows[i].push_back(inputs.back());
    }
    absl::StatusOr<std::vector<Literal>> results = Evaluate(computation, inputs);
    ASSERT_TRUE(results.ok()) << results.status();
    sum = *results;
  }
  std::vector<Literal> together;
  for (size_t i = 0; i < rows.size(); ++i) together.push_back(shared[i] ? rows[i][0] : Stacked(rows[i]));
  absl::StatusOr<std::vector<Literal>> all = Evaluate(batched->computation, together);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ((*all)[0].shape(), sum[0].shape());
  EXPECT_EQ(std::memcmp((*all)[0].data(), sum[0].data(), static_cast<size_t>(sum[0].bytes())), 0);
}

TEST(BatchAxisTest, ChainsOfSums) {
  Dim n = Dim::Var(0, "n");
  Tensor sum = Input(0, "sum", kFloat32, {n, Dim(4)}), x = Input(1, "x", kFloat32, {n, Dim(1)});
  Tensor y = Input(2, "y", kFloat32, {Dim(1), Dim(4)});
  Tensor outer = ComputeTensor("outer", kFloat32, sum.dims(),
                               [&](Indices i) { return x({i[0], Index(0)}) * y({Index(0), i[1]}); });
  auto plus = [&](const Tensor& a, const Tensor& b) {
    return ComputeTensor("plus", kFloat32, a.dims(), [&](Indices i) { return a(i) + b(i); });
  };
  ExpectChainsEqual({"f", {sum, x, y}, {plus(sum, outer)}}, 0);
  ExpectChainsEqual({"f", {sum, x, y}, {plus(outer, sum)}}, 0);
  // Through tensors that read it at other positions.
  Tensor turned =
      ComputeTensor("turned", kFloat32, sum.dims(), [&](Indices i) { return outer({i[0], Index(3) - i[1]}); });
  ExpectChainsEqual({"f", {sum, x, y}, {plus(sum, turned)}}, 0);
  // A product of more rows, and sums over them.
  Tensor w = Input(0, "w", kFloat32, {Dim(3), Dim(5)}), a = Input(1, "a", kFloat32, {n, Dim(3)});
  Tensor b = Input(2, "b", kFloat32, {n, Dim(5)});
  Dim rows[] = {n};
  Tensor product = ComputeTensor("product", kFloat32, w.dims(), [&](Indices i) {
    return Reduce(ReduceOp::kSum, rows, [&](Indices k) { return a({k[0], i[0]}) * b({k[0], i[1]}); });
  });
  ExpectChainsEqual({"f", {w, a, b}, {plus(product, w)}}, 0);
  Tensor bias = Input(1, "bias", kInt32, {Dim(5)}), d = Input(0, "d", kInt32, {n, Dim(5)});
  Tensor total = ComputeTensor("total", kInt32, bias.dims(), [&](Indices i) {
    return Reduce(ReduceOp::kSum, rows, [&](Indices k) { return d({k[0], i[0]}); });
  });
  Tensor result = ComputeTensor("result", kInt32, bias.dims(), [&](Indices i) { return total(i) + bias(i); });
  ExpectChainsEqual({"f", {d, bias}, {result}}, 1);
}

TEST(BatchAxisTest, OtherSumsAreNoChains) {
  Tensor x = Input(0, "x", kFloat32, {Dim(3), Dim(3)}), y = Input(1, "y", kFloat32, {Dim(3), Dim(3)});
  auto is_chain = [&](const std::function<Expr(Indices)>& body) {
    Tensor square = ComputeTensor("square", kFloat32, x.dims(), [&](Indices i) { return x(i) * y(i); });
    Tensor out = ComputeTensor("out", kFloat32, x.dims(), [&](Indices i) { return body(i) + square(i); });
    return FindAccumulator({"f", {x, y}, {out}}).has_value() ||
           FindAccumulator({"f", {x, y}, {out, square}}).has_value();
  };
  EXPECT_FALSE(is_chain([&](Indices i) { return x(i); }));             // the term reads it, too
  EXPECT_FALSE(is_chain([&](Indices i) { return y({i[1], i[0]}); }));  // another element
  EXPECT_FALSE(is_chain([&](Indices i) { return Unary(UnaryOp::kTanh, y(i)); }));
  Tensor z = Input(1, "z", kFloat32, {Dim(3), Dim(3)});
  Tensor sum = ComputeTensor("sum", kFloat32, x.dims(), [&](Indices i) { return x(i) + z(i); });
  EXPECT_FALSE(FindAccumulator({"f", {x, z}, {sum}}).has_value());  // neither a product nor a sum
  Tensor at = Input(2, "at", kInt64, {Dim(3)});
  Tensor taken =
      ComputeTensor("taken", kFloat32, x.dims(), [&](Indices i) { return x(i) + z({at({i[0]}), i[1]}) * z(i); });
  EXPECT_FALSE(FindAccumulator({"f", {x, z, at}, {taken}}).has_value());  // an index may be out of range
}

TEST(BatchAxisTest, ThereMayBeNone) {
  Dim n = Dim::Var(0, "n");
  Tensor x = Input(0, "x", kFloat32, {Dim(3)}), count = Input(1, "count", kInt32, {});
  Tensor some = ComputeTensor("some", kFloat32, {n}, [&](Indices i) { return x(i); });
  EXPECT_FALSE(AddBatchAxis({"f", {x, count}, {some}, {{n, 1, 0}}}, {false, true}).has_value());
  EXPECT_FALSE(AddBatchAxis({"f", {x}, {x}}, {true}).has_value());
}

}  // namespace
}  // namespace rvm::te
