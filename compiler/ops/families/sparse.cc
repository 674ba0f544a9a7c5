// Tensors of which only some elements are kept: (count, axes) indices of them, and a value each.
#include <array>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kReshapeInputs[] = {
    {"sparse_indices", "integers (count, axes)"},
    {.name = "prev_shape", .doc = "the shape, an integer vector", .is_count = true},
    {.name = "new_shape", .doc = "another of as many elements; -1 is inferred", .is_count = true}};
constexpr Example kReshapeExamples[] = {
    {"sparse_reshape([[0i64, 0i64, 1i64], [1i64, 0i64, 0i64], [1i64, 2i64, 3i64]], [2i64, 3i64, 4i64], [12i64, -1i64])",
     "([[0i64, 1i64], [6i64, 0i64], [11i64, 1i64]], [12i64, 2i64])"}};
constexpr Input kFillInputs[] = {{"sparse_indices", "integers (count, axes)"},
                                 {"sparse_values", "a vector"},
                                 {.name = "dense_shape", .doc = "the shape, an integer vector", .is_count = true},
                                 {"default_value", "a scalar, or a vector of one element"}};
constexpr Input kFillCountedInputs[] = {
    kFillInputs[0],
    kFillInputs[1],
    kFillInputs[2],
    kFillInputs[3],
    {.name = "count", .doc = "int64: how many elements there are then, and how many rows", .decides_shape = true}};
constexpr Example kFillExamples[] = {
    {"sparse_fill_empty_rows([[0i64, 1i64], [0i64, 3i64], [2i64, 0i64]], [5f, 6f, 7f], [4i64, 4i64], 9f)",
     "([[0i64, 1i64], [0i64, 3i64], [1i64, 0i64], [2i64, 0i64], [3i64, 0i64]], [5f, 6f, 9f, 7f, 9f], [False, True, "
     "False, "
     "True])"}};

// Requires indices and shapes to be integers of these ranks. Shapes, which follow the indices, may be floats.
Solve IntegersOfRanks(TypeContext& context, const Types& args, std::initializer_list<std::pair<int, size_t>> ranks) {
  for (auto [arg, rank] : ranks) {
    const ir::TensorType& type = *args[static_cast<size_t>(arg)];
    if (type.shape.dims.size() != rank) return FailRank(context, arg, type.shape.dims.size(), absl::StrCat(rank));
    if (arg == 0 ? !IsIndexType(type.dtype.dtype) : !IsCountType(type.dtype.dtype))
      return FailDType(context, arg, type.dtype.dtype, "an integer dtype");
  }
  return Solve::kDone;
}

const ir::Type* TensorOf(TypeContext& context, Dims dims, DataType dtype) {
  return ir::MakeTensorType(context.arena(), std::move(dims), dtype);
}

// ---- reshaped ------------------------------------------------------------------------

Solve ReshapeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (Solve solve = IntegersOfRanks(context, args, {{0, 2}, {1, 1}, {2, 1}}); solve != Solve::kDone) return solve;
  const Dims &indices = args[0]->shape.dims, &from = args[1]->shape.dims, &to = args[2]->shape.dims;
  if (!context.RequireEqual(indices[1], from[0], "columns of `sparse_indices` and elements of `prev_shape`"))
    return Solve::kFailed;
  DataType shape = IsIndexType(args[2]->dtype.dtype) ? args[2]->dtype.dtype : kInt64;
  std::vector<const ir::Type*> fields = {TensorOf(context, {indices[0], to[0]}, args[0]->dtype.dtype),
                                         TensorOf(context, to, shape)};
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

// For each axis of a shape the product of the extents behind it.
Tensor Strides(const Tensor& shape) {
  return ReduceOver(ReduceOp::kProduct, kInt64, shape.dims(), shape.dims(), [&](Indices o, Indices r) {
    return te::Select(Less(o[0], r[0]), te::Cast(kInt64, shape(r)), te::Index(1));
  });
}

std::vector<Tensor> ComputeReshape(const ComputeContext& context) {
  const Tensor &indices = context.input(0), &from = context.input(1), &to = context.input(2);
  Tensor total = ReduceOver(ReduceOp::kProduct, kInt64, {}, from.dims(),
                            [&](Indices, Indices r) { return te::Cast(kInt64, from(r)); });
  auto is_inferred = [&](const Expr& extent) { return Less(te::Cast(kInt64, extent), te::Index(0)); };
  Tensor known = ReduceOver(ReduceOp::kProduct, kInt64, {}, to.dims(), [&](Indices, Indices r) {
    return te::Select(is_inferred(to(r)), te::Index(1), te::Cast(kInt64, to(r)));
  });
  Tensor shape = te::ComputeTensor("shape", kInt64, to.dims(), [&](Indices i) {
    Expr inferred = te::Binary(BinaryOp::kFloorDivide, total({}), known({}));
    return te::Select(is_inferred(to(i)), inferred, te::Cast(kInt64, to(i)));
  });
  Tensor old_strides = Strides(from), new_strides = Strides(shape);
  Tensor number = ReduceOver(ReduceOp::kSum, kInt64, {indices.dims()[0]}, from.dims(), [&](Indices o, Indices r) {
    return te::Cast(kInt64, indices({o[0], r[0]})) * old_strides(r);
  });
  Tensor moved = te::ComputeTensor("sparse_reshape", indices.dtype(), context.output(0).dims, [&](Indices i) {
    Expr step = te::Binary(BinaryOp::kFloorDivide, number({i[0]}), new_strides({i[1]}));
    return te::Cast(indices.dtype(), te::Binary(BinaryOp::kFloorMod, step, shape({i[1]})));
  });
  return {moved, CastTensor(shape, to.dtype())};
}

// ---- rows that have no element ---------------------------------------------------------

Solve FillArgs(TypeContext& context, Types& args) {
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (Solve solve = IntegersOfRanks(context, args, {{0, 2}, {2, 1}}); solve != Solve::kDone) return solve;
  const Dims &indices = args[0]->shape.dims, &values = args[1]->shape.dims;
  if (values.size() != 1) return FailRank(context, 1, values.size(), "1");
  if (args[3]->shape.dims.size() > 1) return FailRank(context, 3, args[3]->shape.dims.size(), "a scalar");
  if (!FitsAsDefault(args[3]->dtype.dtype, args[1]->dtype.dtype))
    return FailOtherDType(context, 3, args[3]->dtype.dtype, "that of `sparse_values`");
  if (!args[3]->shape.dims.empty() && !context.RequireEqual(args[3]->shape.dims[0], 1, "elements of `default_value`"))
    return Solve::kFailed;
  bool fits = context.RequireEqual(indices[0], values[0], "number of indices and of values") &&
              context.RequireEqual(indices[1], args[2]->shape.dims[0], "columns of indices and axes of the shape") &&
              context.RequireAtLeast(indices[1], 1, "columns of `sparse_indices`");
  return fits ? Solve::kDone : Solve::kFailed;
}

Solve FillCountRelation(TypeContext& context) {
  Types args;
  if (Solve solve = FillArgs(context, args); solve != Solve::kDone) return solve;
  return ResultTensor(context, {2}, kInt64);
}

template <bool is_given>
Solve FillRelation(TypeContext& context) {
  Types args;
  if (Solve solve = FillArgs(context, args); solve != Solve::kDone) return solve;
  Dims counts;
  if (is_given) {
    if (!ValueDims(context, 4, 1, counts)) return Solve::kFailed;
    for (const Dim& count : counts) {
      if (!context.RequireAtLeast(count, 0, "the number of rows")) return Solve::kFailed;
    }
  } else {
    counts = {context.DataDependentDim(), context.DataDependentDim()};
  }
  std::vector<const ir::Type*> fields = {TensorOf(context, {counts[0], args[0]->shape.dims[1]}, args[0]->dtype.dtype),
                                         TensorOf(context, {counts[0]}, args[1]->dtype.dtype),
                                         TensorOf(context, {counts[1]}, kBool)};
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

Expr RowOf(const Tensor& indices, const Expr& element) { return te::Cast(kInt64, indices({element, te::Index(0)})); }

// How many rows no element is in. Elements are sorted by rows first.
Tensor CountEmpty(const Tensor& indices, const Expr& rows) {
  const Dim& count = indices.dims()[0];
  Order order({count}, 0, [&](Indices i) { return RowOf(indices, i[0]); });
  Tensor used = ReduceOver(ReduceOp::kSum, kInt64, {}, {count}, [&](Indices, Indices k) {
    Expr row = order.KeyAt(k), before = order.KeyAt(std::array{k[0] - te::Index(1)});
    Expr is_first =
        te::Select(Equal(k[0], te::Index(0)), te::IntConst(kBool, 1), te::Binary(BinaryOp::kNotEqual, row, before));
    Expr exists = And(te::Binary(BinaryOp::kGreaterEqual, row, te::Index(0)), Less(row, rows));
    return te::Cast(kInt64, And(is_first, exists));
  });
  return te::ComputeTensor("empty", kInt64, {}, [&](Indices) { return rows - used({}); });
}

std::vector<Tensor> ComputeFillCount(const ComputeContext& context) {
  const Tensor &indices = context.input(0), &shape = context.input(2);
  Expr rows = te::Binary(BinaryOp::kMaximum, te::Cast(kInt64, shape({te::Index(0)})), te::Index(0));
  Tensor empty = CountEmpty(indices, rows);
  return {te::ComputeTensor("count", kInt64, {2}, [&](Indices i) {
    return te::Select(Equal(i[0], te::Index(0)), te::DimValue(indices.dims()[0]) + empty({}), rows);
  })};
}

// Elements and rows are sorted together, each row behind its elements: a row whose predecessor is no element of its own
// is empty.
std::vector<Tensor> ComputeFill(const ComputeContext& context) {
  const Tensor &indices = context.input(0), &values = context.input(1), &fill = context.input(3);
  const Dim &count = indices.dims()[0], &rows = context.output(2).dims[0], &total = context.output(0).dims[0];
  Expr elements = te::DimValue(count);
  Expr default_value = te::Cast(values.dtype(), fill(std::vector<Expr>(fill.rank(), te::Index(0))));
  Dim both = count + rows;
  auto is_element = [&](const Expr& place) { return Less(place, elements); };
  Order order({both}, 0, [&](Indices i) {
    Expr row = te::Select(is_element(i[0]), RowOf(indices, i[0]), i[0] - elements);
    return row * te::Index(2) + te::Select(is_element(i[0]), te::Index(0), te::Index(1));
  });
  Tensor stays = te::ComputeTensor("stays", kBool, {both}, [&](Indices i) {
    Expr before = order.KeyAt(std::array{i[0] - te::Index(1)});
    Expr has_element =
        te::Select(Less(te::Index(0), i[0]), Equal(before + te::Index(1), order.KeyAt(i)), te::IntConst(kBool, 0));
    Expr is_filled = te::Unary(te::UnaryOp::kLogicalNot, has_element);
    return te::Binary(BinaryOp::kOr, is_element(order.PlaceAt(i)), is_filled);
  });
  Tensor sorted = Places(both, [&](const Expr& place) { return stays({place}); }).First(total);
  Tensor place = te::ComputeTensor("place", kInt64, {total},
                                   [&](Indices i) { return order.PlaceAt(std::array{Clamp(sorted(i), both)}); });
  Order ranks({both}, 0, [&](Indices i) { return order.PlaceAt(i); });
  return {
      te::ComputeTensor("indices", indices.dtype(), context.output(0).dims,
                        [&](Indices i) {
                          Expr at = place({i[0]});
                          Expr row = te::Select(Equal(i[1], te::Index(0)), te::Cast(indices.dtype(), at - elements),
                                                te::Const(indices.dtype(), 0));
                          return te::Select(is_element(at), indices({at, i[1]}), row);
                        }),
      te::ComputeTensor("values", values.dtype(), {total},
                        [&](Indices i) { return te::Select(is_element(place(i)), values({place(i)}), default_value); }),
      te::ComputeTensor("is_empty", kBool, {rows},
                        [&](Indices i) { return stays({ranks.PlaceAt(std::array{i[0] + elements})}); })};
}

constexpr OpDef Counted(OpDef op) {
  op.count_op = "sparse_fill_empty_rows_count";
  op.fill_op = "sparse_fill_empty_rows_fill";
  op.num_counts = 2;
  return op;
}

constexpr OpDef kOps[] = {
    Op("sparse_reshape", "a tuple of the indices that elements have in another shape, and that shape", kReshapeInputs,
       {}, ReshapeRelation, FusionClass::kOpaque, ComputeReshape, kReshapeExamples),
    Counted(Op("sparse_fill_empty_rows",
               "a tuple of indices and values, with an element at the begin of each row that had none, and which rows "
               "these are",
               kFillInputs, {}, FillRelation<false>, FusionClass::kOpaque, nullptr, kFillExamples)),
    Op("sparse_fill_empty_rows_count", "how many elements and rows `sparse_fill_empty_rows` gives", kFillInputs, {},
       FillCountRelation, FusionClass::kOpaque, ComputeFillCount),
    Op("sparse_fill_empty_rows_fill", "`sparse_fill_empty_rows`, of so many elements and rows", kFillCountedInputs, {},
       FillRelation<true>, FusionClass::kOpaque, ComputeFill),
};

}  // namespace

std::span<const OpDef> SparseOps() { return kOps; }

}  // namespace rvm::ops
