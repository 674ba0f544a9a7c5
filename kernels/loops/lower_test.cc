// Each form of nest as a program of loops: no thread reads or stores what it may not, and results are right.
#include "kernels/loops/lower.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/loops/testing/evaluate.h"
#include "kernels/te/evaluate.h"

namespace rvm::loops {
namespace {

using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using te::UnaryOp;
using Indices = std::span<const Expr>;

const Dim kM = Dim::Var(1, "m"), kN = Dim::Var(2, "n");

Tensor RowReduction(const char* name, ReduceOp op, const Dim& rows, const Dim& elements,
                    const std::function<Expr(const Expr& row, const Expr& element)>& value) {
  Dim extents[] = {elements};
  return ComputeTensor(name, op == ReduceOp::kArgMax ? kInt64 : kFloat32, {rows}, [&](Indices i) {
    return te::Reduce(op, extents, [&](Indices r) { return value(i[0], r[0]); });
  });
}

te::Computation Softmax(const Dim& rows, const Dim& elements, DataType dtype = kFloat32) {
  Tensor x = Input(0, "x", dtype, {rows, elements});
  auto at = [&](const Expr& i, const Expr& j) { return te::Cast(kFloat32, x({i, j})); };
  Tensor most = RowReduction("most", ReduceOp::kMaximum, rows, elements, at);
  Tensor power = ComputeTensor("power", kFloat32, {rows, elements},
                               [&](Indices i) { return te::Unary(UnaryOp::kExp, at(i[0], i[1]) - most({i[0]})); });
  Tensor sum =
      RowReduction("sum", ReduceOp::kSum, rows, elements, [&](const Expr& i, const Expr& j) { return power({i, j}); });
  Tensor y = ComputeTensor("softmax", dtype, {rows, elements}, [&](Indices i) {
    return te::Cast(dtype, te::Binary(BinaryOp::kDivide, power(i), sum({i[0]})));
  });
  return {"softmax", {x}, {y}};
}

// The squares of what is between the elements of a row and their sum: the second reduction reads the first.
te::Computation Spread(const Dim& rows, const Dim& elements) {
  Tensor x = Input(0, "x", kFloat32, {rows, elements});
  Tensor sum =
      RowReduction("sum", ReduceOp::kSum, rows, elements, [&](const Expr& i, const Expr& j) { return x({i, j}); });
  Tensor spread = RowReduction("spread", ReduceOp::kSum, rows, elements, [&](const Expr& i, const Expr& j) {
    Expr apart = x({i, j}) - sum({i});
    return apart * apart;
  });
  return {"spread", {x}, {spread}};
}

te::Computation Product(const Dim& m, const Dim& n, const Dim& k, bool transposed, DataType dtype = kFloat32) {
  Tensor a = Input(0, "a", dtype, {m, k}), b = Input(1, "b", dtype, transposed ? Dims{n, k} : Dims{k, n});
  DataType wide = dtype == kFloat16 ? kFloat32 : dtype == kInt8 ? kInt32 : dtype;
  Dim extents[] = {k};
  Tensor c = ComputeTensor("product", wide, {m, n}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      return te::Cast(wide, a({i[0], r[0]})) * te::Cast(wide, transposed ? b({i[1], r[0]}) : b({r[0], i[1]}));
    });
  });
  Tensor twice = ComputeTensor("twice", wide, {m, n}, [&](Indices i) { return c(i) + c(i); });
  return {"product", {a, b}, {twice}};
}

te::Computation OfColumns(ReduceOp op, const Dim& rows, const Dim& columns) {
  Tensor x = Input(0, "x", kFloat32, {rows, columns});
  return {"columns",
          {x},
          {RowReduction("column", op, columns, rows, [&](const Expr& i, const Expr& j) { return x({j, i}); })}};
}

te::Computation OfRows(ReduceOp op, const Dim& rows, const Dim& elements) {
  Tensor x = Input(0, "x", kFloat32, {rows, elements});
  return {
      "rows", {x}, {RowReduction("row", op, rows, elements, [&](const Expr& i, const Expr& j) { return x({i, j}); })}};
}

te::Computation Transpose(const Dim& rows, const Dim& columns, DataType dtype) {
  Tensor x = Input(0, "x", dtype, {rows, columns});
  return {"transpose", {x}, {ComputeTensor("t", dtype, {columns, rows}, [&](Indices i) { return x({i[1], i[0]}); })}};
}

struct FormCase {
  te::Computation computation;
  const char* schedule;                                         // begins with
  std::vector<std::pair<int64_t, int64_t>> extents = {{0, 0}};  // of m and n
};

std::vector<FormCase> FormCases() {
  std::vector<FormCase> cases;
  auto add = [&](te::Computation computation, const char* schedule, auto... extents) {
    cases.push_back({std::move(computation), schedule, {extents...}});
    if (cases.back().extents.empty()) cases.back().extents = {{0, 0}};
  };
  using Extents = std::pair<int64_t, int64_t>;
  add(Softmax(7, 100), "rows of 100 by 32 threads");
  add(Softmax(kM, 96), "rows of 96 by 32 threads", Extents{1, 0}, Extents{4, 0}, Extents{9, 0});
  add(Softmax(3, 1000, kFloat16), "rows of 1000 by 128 threads");
  add(Softmax(2, 6000), "rows of 6000 by 128 threads");
  add(Softmax(kM, kN), "", Extents{3, 50}, Extents{2, 1}, Extents{1, 300}, Extents{3, 0}, Extents{0, 3});
  add(Spread(kM, kN), "rows by 1", Extents{3, 50}, Extents{2, 1}, Extents{1, 300}, Extents{3, 0});
  add(OfRows(ReduceOp::kSum, 5, 3000), "rows of 3000");
  add(OfRows(ReduceOp::kArgMax, 5, 300), "rows of 300");
  add(OfRows(ReduceOp::kArgMax, kM, kN), "teams m: row [32 neighbours each]", Extents{5, 70}, Extents{1, 1},
      Extents{4, 0});
  add(OfRows(ReduceOp::kSum, 1, 70000), "rows of 4096 by 128 threads");
  add(OfColumns(ReduceOp::kSum, 90, 40), "teams 40: column [4 warps each]");
  add(OfColumns(ReduceOp::kArgMax, kM, kN), "teams n: column [4 warps each]", Extents{90, 33}, Extents{1, 200});
  add(Transpose(40, 70, kFloat32), "transposed");
  add(Transpose(kM, kN, kFloat16), "transposed", Extents{33, 65}, Extents{1, 1});
  add(Transpose(64, 32, kBool), "transposed");
  add(Product(64, 64, 40, false), "block tiles");
  add(Product(50, 70, 33, true), "block tiles");
  add(Product(64, 64, 64, true, kFloat16), "block tiles");
  add(Product(40, 64, 24, false, kInt8), "block tiles");
  add(Product(kM, 48, kN, true), "block tiles", Extents{70, 20}, Extents{3, 100}, Extents{40, 1}, Extents{40, 0},
      Extents{3, 0});
  return cases;
}

Literal Random(DataType dtype, const Shape& shape, std::mt19937& random) {
  Literal zeros = Literal::Full(dtype, shape, 0);
  std::vector<std::byte> bytes(static_cast<size_t>(zeros.bytes()));
  std::uniform_int_distribution<int> whole(-8, 8);
  for (int64_t i = 0; i < zeros.num_elements(); ++i) {
    std::byte* at = bytes.data() + i * dtype.bytes();
    dtype.is_float() ? StoreDouble(dtype, at, whole(random) / 4.0) : StoreInt(dtype, at, whole(random));
  }
  return Literal::FromBytes(dtype, shape, bytes);
}

TEST(LowerTest, FormsKeepValues) {
  std::mt19937 random(5);
  for (const FormCase& form : FormCases()) {
    absl::StatusOr<schedule::Schedule> schedule = schedule::MakeSchedule(form.computation, {}, kTarget);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    std::string described = Describe(*schedule);
    EXPECT_TRUE(described.starts_with(form.schedule)) << described << "; expected " << form.schedule;
    std::vector<Program> programs = Lower(*schedule);
    for (auto [m, n] : form.extents) {
      SymbolValues symbols = {{1, m}, {2, n}};
      std::vector<Literal> inputs;
      for (const Tensor& input : form.computation.inputs) {
        Shape shape;
        for (const Dim& dim : input.dims()) {
          shape.push_back(*EvaluateDim(dim, [&](const Dim& leaf) { return std::optional(symbols.at(leaf.id())); }));
        }
        inputs.push_back(Random(input.dtype(), shape, random));
      }
      Literal expected = (*te::Evaluate(form.computation, inputs))[0];
      absl::StatusOr<std::vector<Literal>> outputs = EvaluateLaunches(*schedule, programs, symbols, inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.status() << "\n" << described;
      for (int64_t i = 0; i < expected.num_elements(); ++i) {
        ASSERT_NEAR((*outputs)[0].DoubleAt(i), expected.DoubleAt(i),
                    1e-5 * std::fmax(1, std::fabs(expected.DoubleAt(i))))
            << "element " << i << " of " << described << " at " << m << ", " << n;
      }
    }
  }
}

// Counts the statements of a kind, and those in the bodies that they contain.
int64_t Count(const std::vector<Statement>& body, Op op) {
  int64_t count = 0;
  for (const Statement& s : body) count += (s.op == op ? 1 : 0) + Count(s.body, op);
  return count;
}

TEST(LowerTest, ARowIsReadOnce) {
  absl::StatusOr<schedule::Schedule> schedule = schedule::MakeSchedule(Softmax(7, 100), {}, kTarget);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::vector<Program> programs = Lower(*schedule);
  ASSERT_EQ(programs.size(), 1u);
  std::string text = ToString(programs[0]);
  size_t loads = 0;
  for (size_t at = text.find("= B3["); at != std::string::npos; at = text.find("= B3[", at + 1)) ++loads;
  ASSERT_NE(text.find("B3: float32[700] input 0"), std::string::npos) << text;
  EXPECT_EQ(loads, 1u) << text;
  // The maximum, and the sum: threads merge 4, 4 and 2 of 32 parts.
  EXPECT_EQ(Count(programs[0].body, Op::kBarrier), 2 * 4 + 1) << text;
}

}  // namespace
}  // namespace rvm::loops
