// Kernels that write some elements of an argument's copy, or of its memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/codegen/testing.h"
#include "kernels/te/tensor.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::Index;
using te::Input;
using te::Tensor;
using te::TensorUpdate;
using Indices = std::span<const Expr>;

const Dim kN = Dim::Var(1, "n");

Expr And(const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kAnd, a, b); }
Expr AtLeast(const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kGreaterEqual, a, b); }
Expr Less(const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kLess, a, b); }

// Rows [begin, begin + count) of `data` replaced by `rows`, where begin is an element of `at`.
Tensor SetRows(const Tensor& data, const Tensor& rows, const Tensor& at, int64_t element = 0) {
  Expr begin = te::Cast(kInt64, at({Index(element)})), zero = Index(0);
  Expr extent = te::DimValue(data.dims()[0]), given = te::DimValue(rows.dims()[0]);
  Expr first = te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, begin, extent), zero);
  Tensor whole = ComputeTensor("set", data.dtype(), data.dims(), [&](Indices i) {
    Expr inside = And(AtLeast(i[0], first), Less(i[0], first + given));
    std::vector<Expr> from(i.begin(), i.end());
    from[0] = i[0] - first;
    return te::Select(inside, rows(from), data(i));
  });
  Dims extents = data.dims();
  TensorUpdate update{.base = data, .estimate = rows.dims()[0]};
  update.counts = {te::Binary(BinaryOp::kMinimum, extent - first, given)};
  return te::WithUpdate(whole, update, extents, [&](Indices u) {
    TensorUpdate::Position position{.value = rows(u)};
    position.place.assign(u.begin(), u.end());
    position.place[0] = first + u[0];
    return position;
  });
}

// Folds rows of `updates` into the rows of `data` that `at` names, in order; others are left out.
Tensor FoldRows(const Tensor& data, const Tensor& updates, const Tensor& at, std::optional<BinaryOp> fold) {
  const Dim& count = at.dims()[0];
  RVM_CHECK(count.is_const(), "a definition element by element needs the number of updates");
  Tensor whole = ComputeTensor("fold", data.dtype(), data.dims(), [&](Indices i) {
    Expr value = data(i);
    for (int64_t k = 0; k < count.constant(); ++k) {
      std::vector<Expr> from(i.begin(), i.end());
      from[0] = Index(k);
      Expr hit = te::Binary(BinaryOp::kEqual, te::Cast(kInt64, at({Index(k)})), i[0]);
      value = te::Select(hit, fold ? te::Binary(*fold, value, updates(from)) : updates(from), value);
    }
    return value;
  });
  TensorUpdate update{.base = data, .fold = fold, .has_distinct_places = false, .estimate = count};
  Dims extents = updates.dims();
  return te::WithUpdate(whole, update, extents, [&](Indices u) {
    Expr row = te::Cast(kInt64, at({u[0]}));
    TensorUpdate::Position position{.value = updates(u)};
    position.place.assign(u.begin(), u.end());
    position.place[0] = row;
    position.condition = And(AtLeast(row, Index(0)), Less(row, te::DimValue(data.dims()[0])));
    return position;
  });
}

// `data` with the rows of `rest` behind its own, along an axis of extent that is not known; all axes before it are 1.
Tensor Append(const Tensor& data, const Tensor& rest, size_t axis) {
  Dims dims = data.dims();
  dims[axis] = dims[axis] + rest.dims()[axis];
  Expr extent = te::DimValue(data.dims()[axis]);
  Tensor whole = ComputeTensor("append", data.dtype(), dims, [&](Indices i) {
    std::vector<Expr> from(i.begin(), i.end());
    from[axis] = i[axis] - extent;
    return te::Select(Less(i[axis], extent), data(i), rest(from));
  });
  return te::WithUpdate(whole, {.base = data, .estimate = 1}, rest.dims(), [&](Indices u) {
    TensorUpdate::Position position{.place = {u.begin(), u.end()}, .value = rest(u)};
    position.place[axis] = u[axis] + extent;
    return position;
  });
}

// The result must be made by updates; random indices are in and out of range.
void CheckUpdates(const te::Computation& computation, size_t updates, const CheckOptions& options) {
  for (const ScheduledKernel& kernel : CheckOnTargets(computation, options)) {
    EXPECT_EQ(kernel.schedule.updates.size(), updates) << Describe(kernel.schedule);
  }
}

TEST(UpdateTest, RowsInPlace) {
  for (DataType dtype : {kFloat32, kInt8, kBFloat16}) {
    Tensor data = Input(0, "data", dtype, {kN, Dim(19)}), rows = Input(1, "rows", dtype, {Dim(3), Dim(19)});
    Tensor at = Input(2, "at", kInt32, {Dim(2)});
    te::Computation computation{"f", {data, rows, at}, {SetRows(data, rows, at)}};
    CheckUpdates(computation, 1, {.symbol_values = {{0}, {1}, {3}, {4}, {9}}, .range = 6});
  }
}

TEST(UpdateTest, ConstantsAreCopied) {
  Tensor data = Input(0, "data", kFloat32, {Dim(6), Dim(19)}),
         updates = Input(1, "updates", kFloat32, {Dim(9), Dim(19)});
  Tensor at = Input(2, "at", kInt64, {Dim(9)});
  te::Computation sums{"f", {data, updates, at}, {FoldRows(data, updates, at, BinaryOp::kAdd)}};
  CheckUpdates(sums, 1, {.constant_inputs = {true, false, false}});
}

TEST(UpdateTest, OneUpdateAfterAnother) {
  Tensor data = Input(0, "data", kFloat32, {kN, Dim(8)}), rows = Input(1, "rows", kFloat32, {Dim(2), Dim(8)});
  Tensor at = Input(2, "at", kInt32, {Dim(2)});
  Tensor both = SetRows(SetRows(data, rows, at, 0), rows, at, 1);
  CheckUpdates({"f", {data, rows, at}, {both}}, 1, {.symbol_values = {{1}, {7}}});
}

TEST(UpdateTest, AppendedRows) {
  Dim m = Dim::Var(2, "m");
  for (DataType dtype : {kFloat32, kInt8, kBFloat16}) {
    Tensor data = Input(0, "data", dtype, {kN, Dim(19)}), rows = Input(1, "rows", dtype, {m, Dim(19)});
    CheckUpdates({"f", {data, rows}, {Append(data, rows, 0)}}, 1,
                 {.symbol_values = {{0, 0}, {0, 2}, {1, 0}, {5, 1}, {300, 3}}});
  }
  // Behind axes of extent 1, and the last axis.
  Tensor data = Input(0, "data", kFloat32, {Dim(1), kN, Dim(5)}), row = Input(1, "row", kFloat32, {Dim(1), m, Dim(5)});
  CheckUpdates({"f", {data, row}, {Append(data, row, 1)}}, 1, {.symbol_values = {{0, 1}, {7, 1}, {7, 4}}});
  Tensor line = Input(0, "line", kInt32, {Dim(1), kN}), more = Input(1, "more", kInt32, {Dim(1), Dim(3)});
  CheckUpdates({"f", {line, more}, {Append(line, more, 1)}}, 1, {.symbol_values = {{0}, {9}}});
}

TEST(UpdateTest, AppendedRowsAreReadAndUpdatedInPlace) {
  Tensor data = Input(0, "data", kFloat32, {kN, Dim(8)}), rows = Input(1, "rows", kFloat32, {Dim(2), Dim(8)});
  Tensor at = Input(2, "at", kInt32, {Dim(2)});
  // Rows made from the argument are computed before it may be written.
  Tensor last = ComputeTensor("last", kFloat32, rows.dims(), [&](Indices i) {
    return rows(i) + data({te::Binary(BinaryOp::kMaximum, te::DimValue(kN) - Index(1), Index(0)), i[1]});
  });
  CheckUpdates({"f", {data, rows, at}, {Append(data, last, 0)}}, 1, {.symbol_values = {{1}, {7}}});
  Tensor twice = Append(Append(data, rows, 0), rows, 0);
  CheckUpdates({"f", {data, rows, at}, {twice}}, 1, {.symbol_values = {{0}, {7}}});
  Tensor set = SetRows(Append(data, rows, 0), rows, at);
  CheckUpdates({"f", {data, rows, at}, {set}}, 1, {.symbol_values = {{0}, {7}}, .range = 9});
  Tensor appended = Append(data, rows, 0);
  Tensor sum = ComputeTensor("sum", kFloat32, {appended.dims()[0]}, [&](Indices i) {
    Dim extents[] = {Dim(8)};
    return te::Reduce(te::ReduceOp::kSum, extents, [&](Indices r) { return appended({i[0], r[0]}); });
  });
  CheckUpdates({"f", {data, rows, at}, {appended, sum}}, 1, {.symbol_values = {{0}, {7}}});
}

TEST(UpdateTest, RowsThatAreNotAppendedInPlace) {
  // Extents that are known: the tensors are small, and a call costs more than the copy.
  Tensor data = Input(0, "data", kFloat32, {Dim(4), Dim(6)}), rows = Input(1, "rows", kFloat32, {Dim(2), Dim(6)});
  CheckUpdates({"f", {data, rows}, {Append(data, rows, 0)}}, 0, {});
}

TEST(UpdateTest, RowsFoldedInOrder) {
  constexpr std::optional<BinaryOp> kFolds[] = {std::nullopt, BinaryOp::kAdd, BinaryOp::kMaximum};
  for (std::optional<BinaryOp> fold : kFolds) {
    for (DataType dtype : {kFloat32, kInt16}) {
      Tensor data = Input(0, "data", dtype, {kN, Dim(33)}), updates = Input(1, "updates", dtype, {Dim(9), Dim(33)});
      Tensor at = Input(2, "at", kInt64, {Dim(9)});
      te::Computation computation{"f", {data, updates, at}, {FoldRows(data, updates, at, fold)}};
      CheckUpdates(computation, 1, {.symbol_values = {{2}, {4}}});
      CheckUpdates(computation, 1, {.symbol_values = {{3}}, .threads = true});
    }
  }
}

TEST(UpdateTest, WhatIsWrittenMayBeComputedAndReadTheArgument) {
  Tensor data = Input(0, "data", kFloat32, {kN, Dim(5)}), updates = Input(1, "updates", kFloat32, {Dim(4), Dim(5)});
  Tensor at = Input(2, "at", kInt64, {Dim(4)});
  Tensor scaled = ComputeTensor("scaled", kFloat32, updates.dims(), [&](Indices i) {
    return te::Unary(te::UnaryOp::kTanh, updates(i)) * te::FloatConst(kFloat32, 2);
  });
  CheckUpdates({"f", {data, updates, at}, {FoldRows(data, scaled, at, {})}}, 1, {.symbol_values = {{3}}});
  // Each of these rows must be read before an update writes it.
  Tensor moved = ComputeTensor("moved", kFloat32, updates.dims(),
                               [&](Indices i) { return updates(i) + data({te::DimValue(kN) - Index(1), i[1]}); });
  CheckUpdates({"f", {data, updates, at}, {FoldRows(data, moved, at, {})}}, 1, {.symbol_values = {{3}, {4}}});
}

TEST(UpdateTest, ResultsThatReadTheArgumentComeFirst) {
  Tensor data = Input(0, "data", kFloat32, {kN, Dim(6)}), rows = Input(1, "rows", kFloat32, {Dim(1), Dim(6)});
  Tensor at = Input(2, "at", kInt32, {Dim(1)});
  Tensor set = SetRows(data, rows, at);
  Tensor mirrored = ComputeTensor("mirrored", kFloat32, data.dims(),
                                  [&](Indices i) { return data({te::DimValue(kN) - Index(1) - i[0], i[1]}); });
  Tensor root = ComputeTensor("double", kFloat32, data.dims(), [&](Indices i) { return set(i) + set(i); });
  CheckUpdates({"f", {data, rows, at}, {set, mirrored, root}}, 1, {.symbol_values = {{1}, {5}}});
  // This one needs the argument and the result.
  Tensor change = ComputeTensor("change", kFloat32, data.dims(),
                                [&](Indices i) { return data({te::DimValue(kN) - Index(1) - i[0], i[1]}) - set(i); });
  CheckUpdates({"f", {data, rows, at}, {set, change}}, 0, {.symbol_values = {{1}, {5}}});
}

TEST(UpdateTest, ResultsThatAreComputedAsAWhole) {
  Tensor data = Input(0, "data", kFloat32, {kN, Dim(6)}), rows = Input(1, "rows", kFloat32, {Dim(2), Dim(6)});
  Tensor at = Input(2, "at", kInt32, {Dim(1)});
  // Only what is made of it is a result.
  Tensor root = ComputeTensor("double", kFloat32, data.dims(),
                              [set = SetRows(data, rows, at)](Indices i) { return set(i) + set(i); });
  CheckUpdates({"f", {data, rows, at}, {root}}, 0, {.symbol_values = {{3}}});
  // The updated tensor is computed by the kernel.
  Tensor halves = ComputeTensor("halves", kFloat32, data.dims(),
                                [&](Indices i) { return data(i) * te::FloatConst(kFloat32, 0.5); });
  CheckUpdates({"f", {data, rows, at}, {SetRows(halves, rows, at)}}, 0, {.symbol_values = {{3}}});
}

}  // namespace
}  // namespace rvm::codegen
