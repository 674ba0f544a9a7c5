// Operators on sparse matrices in compressed rows: the elements, or blocks, of row r are those in
// [indptr[r], indptr[r + 1]), with their columns in `indices`.
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kElements = {"sparse_data", "the elements, a vector, or blocks (count, rows, columns)"};
constexpr Input kIndices = {"sparse_indices", "the column of each, of blocks in blocks"};
constexpr Input kIndptr = {"sparse_indptr", "where each row begins, and how many elements or blocks there are"};
constexpr Input kProductInputs[] = {{"dense_data", "a matrix"}, kElements, kIndices, kIndptr};
constexpr Input kSumInputs[] = {
    {"dense_data", "a matrix"}, {"sparse_data", "the elements, a vector"}, kIndices, kIndptr};
constexpr Input kTransposeInputs[] = {{"sparse_data", "the elements, a vector"}, kIndices, kIndptr};
constexpr AttrSpec kProductAttrs[] = {
    {"sparse_lhs", AttrType::kBool, "False",
     "the result is sparse * dense^T, in place of dense * sparse^T: it is transposed"}};
constexpr Example kProductExamples[] = {
    {"nn.sparse_dense([[1f, 2f, 3f]], [4f, 5f, 6f], [0, 2, 1], [0, 2, 3])", "[[19f, 12f]]"},
    {"nn.sparse_dense([[1f, 2f, 3f]], [4f, 5f, 6f], [0, 2, 1], [0, 2, 3], sparse_lhs=True)", "[[19f], [12f]]"},
    {"nn.sparse_dense([[1f, 2f, 3f, 4f]], [[[1f, 0f], [0f, 1f]]], [1], [0, 1])", "[[3f, 4f]]"}};
constexpr Example kSumExamples[] = {
    {"nn.sparse_add([[1f, 2f, 3f], [4f, 5f, 6f]], [10f, 20f, 30f], [0, 2, 1], [0, 2, 3])",
     "[[11f, 2f, 23f], [4f, 35f, 6f]]"}};
constexpr Example kTransposeExamples[] = {
    {"nn.sparse_transpose([4f, 5f, 6f], [1, 2, 0], [0, 2, 2, 3])", "([6f, 4f, 5f], [2, 0, 0], [0, 1, 2, 3])"}};

// Checks the three arguments of a sparse matrix, which begin at `first`; blocks only if they `may_be_blocks`.
Solve CheckMatrix(TypeContext& context, const Types& args, size_t first, bool may_be_blocks) {
  const Dims& elements = args[first]->shape.dims;
  if (elements.size() != 1 && !(may_be_blocks && elements.size() == 3)) {
    return FailRank(context, static_cast<int>(first), elements.size(), may_be_blocks ? "1 or 3" : "1");
  }
  for (size_t i = first + 1; i < first + 3; ++i) {
    const ir::TensorType& arg = *args[i];
    if (arg.shape.dims.size() != 1) return FailRank(context, static_cast<int>(i), arg.shape.dims.size(), "1");
    if (!IsIndexType(arg.dtype.dtype))
      return FailDType(context, static_cast<int>(i), arg.dtype.dtype, "an integer dtype");
  }
  bool fits = context.RequireEqual(args[first + 1]->shape.dims[0], elements[0], "number of columns and of elements") &&
              context.RequireAtLeast(args[first + 2]->shape.dims[0], 1, "elements of `sparse_indptr`");
  return fits ? Solve::kDone : Solve::kFailed;
}

// Checks a dense matrix, argument 0, and the sparse one behind it.
Solve CheckOperands(TypeContext& context, Types& args, bool may_be_blocks) {
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (args[0]->shape.dims.size() != 2) return FailRank(context, 0, args[0]->shape.dims.size(), "2");
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `dense_data`");
  return CheckMatrix(context, args, 1, may_be_blocks);
}

// Returns the row of each element or block: the number of rows that begin at it or before it, less 1. The number of
// rows for an element behind the last row; -1 for one before the first.
Tensor RowsOf(const Tensor& indptr, const Dim& count) {
  Tensor places =
      te::ComputeTensor("place", indptr.dtype(), {count}, [&](Indices i) { return te::Cast(indptr.dtype(), i[0]); });
  Tensor inputs[] = {indptr, places};
  te::TensorSpec outputs[] = {{kInt64, {count}}};
  const OpDef& search = *FindOp("searchsorted");
  ir::Attrs attrs = *WithDefaults(search, ir::Attrs{{"right", true}, {"dtype", "int64"}});
  Tensor begun = search.compute(ComputeContext(inputs, attrs, outputs))[0];
  return te::ComputeTensor("row", kInt64, {count}, [&](Indices i) { return begun(i) - te::Index(1); });
}

// ---- products ------------------------------------------------------------------------

Solve ProductRelation(TypeContext& context) {
  Types args;
  if (Solve solve = CheckOperands(context, args, /*may_be_blocks=*/true); solve != Solve::kDone) return solve;
  const Dims& blocks = args[1]->shape.dims;
  Dim rows = args[3]->shape.dims[0] - 1;
  if (blocks.size() == 3) rows = rows * blocks[1];
  Dims out = {args[0]->shape.dims[0], rows};
  if (context.attrs().GetBool("sparse_lhs")) std::swap(out[0], out[1]);
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// Sums over the elements of each row: prefix sums that begin anew at each row, of which the last one is the result.
std::vector<Tensor> ComputeProduct(const ComputeContext& context) {
  const Tensor &dense = context.input(0), &data = context.input(1), &indices = context.input(2),
               &indptr = context.input(3);
  const te::TensorSpec& out = context.output();
  bool has_blocks = data.rank() == 3, is_swapped = context.attrs().GetBool("sparse_lhs");
  const Dim &count = data.dims()[0], &lines = dense.dims()[0], &columns = dense.dims()[1];
  Dim height = has_blocks ? data.dims()[1] : Dim(1), width = has_blocks ? data.dims()[2] : Dim(1);
  DataType wide = Accumulator(out.dtype);
  // Columns beyond those of the dense matrix count as zeros.
  auto factor = [&](const Expr& line, const Expr& column) {
    return te::Select(InRange(column, columns), te::Cast(wide, dense({line, column})), te::Const(wide, 0));
  };
  auto first_column = [&](const Expr& element) { return te::Cast(kInt64, indices({element})) * te::DimValue(width); };
  Dims dims = {count, lines, height};
  Tensor terms;
  if (has_blocks) {
    terms = ReduceOver(ReduceOp::kSum, wide, dims, {width}, [&](Indices o, Indices r) {
      return te::Cast(wide, data({o[0], o[2], r[0]})) * factor(o[1], first_column(o[0]) + r[0]);
    });
  } else {
    terms = te::ComputeTensor("terms", wide, dims, [&](Indices o) {
      return te::Cast(wide, data({o[0]})) * factor(o[1], first_column(o[0]));
    });
  }
  Tensor row = RowsOf(indptr, count);
  Tensor sums = Running(dims, 0, te::Const(wide, 0), [&](Indices i, const Expr& before) {
    Expr begins = Equal(te::Cast(kInt64, indptr({Clamp(row({i[0]}), indptr.dims()[0])})), i[0]);
    return terms(i) + te::Select(begins, te::Const(wide, 0), before);
  });
  return {te::ComputeTensor("sparse_dense", out.dtype, out.dims, [&](Indices i) {
    const Expr &line = i[is_swapped ? 1 : 0], &place = i[is_swapped ? 0 : 1];
    Expr at = place, inner = te::Index(0);
    if (has_blocks) {
      at = te::Binary(BinaryOp::kFloorDivide, place, te::DimValue(height));
      inner = te::Binary(BinaryOp::kFloorMod, place, te::DimValue(height));
    }
    Expr begin = te::Cast(kInt64, indptr({at})), end = te::Cast(kInt64, indptr({at + te::Index(1)}));
    Expr last = end - te::Index(1);
    Expr has_any = And(Less(begin, end),
                       And(te::Binary(BinaryOp::kGreaterEqual, begin, te::Index(0)), Less(last, te::DimValue(count))));
    return te::Cast(out.dtype, te::Select(has_any, sums({last, line, inner}), te::Const(wide, 0)));
  })};
}

// ---- sums ------------------------------------------------------------------------------

Solve SumRelation(TypeContext& context) {
  Types args;
  if (Solve solve = CheckOperands(context, args, /*may_be_blocks=*/false); solve != Solve::kDone) return solve;
  if (!context.RequireEqual(args[3]->shape.dims[0], args[0]->shape.dims[0] + 1, "elements of `sparse_indptr`"))
    return Solve::kFailed;
  return context.Result(args[0]);
}

std::vector<Tensor> ComputeSum(const ComputeContext& context) {
  const Tensor& indices = context.input(2);
  const Dim& count = indices.dims()[0];
  Tensor row = RowsOf(context.input(3), count);
  Tensor places = te::ComputeTensor("places", kInt64, {2, count}, [&](Indices i) {
    return te::Select(Equal(i[0], te::Index(0)), row({i[1]}), te::Cast(kInt64, indices({i[1]})));
  });
  Tensor inputs[] = {context.input(0), places, context.input(1)};
  te::TensorSpec outputs[] = {context.output()};
  const OpDef& scatter = *FindOp("scatter_nd");
  ir::Attrs attrs = *WithDefaults(scatter, ir::Attrs{{"mode", "add"}});
  return scatter.compute(ComputeContext(inputs, attrs, outputs));
}

// ---- transposed ------------------------------------------------------------------------

Solve TransposeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (Solve solve = CheckMatrix(context, args, 0, /*may_be_blocks=*/false); solve != Solve::kDone) return solve;
  return context.Result(context.arena().New<ir::TupleType>(std::vector<const ir::Type*>{args[0], args[1], args[2]}));
}

// Elements in the order of their columns; those of one column keep the order of their rows.
std::vector<Tensor> ComputeTranspose(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1), &indptr = context.input(2);
  const Dim& count = data.dims()[0];
  Order order({count}, 0, [&](Indices i) { return te::Cast(kInt64, indices(i)); });
  Tensor columns = te::ComputeTensor("column", kInt64, {count}, [&](Indices i) { return order.KeyAt(i); });
  Tensor row = RowsOf(indptr, count);
  Tensor rows = te::ComputeTensor("rows", kInt64, indptr.dims(), [&](Indices i) { return i[0]; });
  Tensor inputs[] = {columns, rows};
  te::TensorSpec outputs[] = {{kInt64, indptr.dims()}};
  const OpDef& search = *FindOp("searchsorted");
  ir::Attrs attrs = *WithDefaults(search, ir::Attrs{{"dtype", "int64"}});
  Tensor begins = search.compute(ComputeContext(inputs, attrs, outputs))[0];
  return {te::ComputeTensor("data", data.dtype(), data.dims(), [&](Indices i) { return data({order.PlaceAt(i)}); }),
          te::ComputeTensor("indices", indices.dtype(), data.dims(),
                            [&](Indices i) { return te::Cast(indices.dtype(), row({order.PlaceAt(i)})); }),
          CastTensor(begins, indptr.dtype())};
}

// An element takes the adjoint of where it was added.
void SparseAddGradient(Pullback& p) {
  Term rows = p.Call("searchsorted", {Wide(p.x(3)), Places(p.x(1), 0)}, ir::Attrs{{"right", true}, {"dtype", "int64"}});
  p.Give(0, p.d());
  p.Give(1, p.Call("gather_nd", {p.d(), Stacked({rows - 1, Wide(p.x(2))}, 0)}));
}

constexpr OpDef kOps[] = {
    WithGradient(
        Op("nn.sparse_dense", "the product of a dense matrix and a transposed sparse one, which is in rows",
           kProductInputs, kProductAttrs, ProductRelation, FusionClass::kOpaque, ComputeProduct, kProductExamples),
        SparseDenseGradient),
    WithGradient(Op("nn.sparse_add", "the sum of a dense matrix and a sparse one", kSumInputs, {}, SumRelation,
                    FusionClass::kOpaque, ComputeSum, kSumExamples),
                 SparseAddGradient),
    Op("nn.sparse_transpose", "a square sparse matrix transposed: a tuple of its elements, their columns and the rows",
       kTransposeInputs, {}, TransposeRelation, FusionClass::kOpaque, ComputeTranspose, kTransposeExamples),
};

}  // namespace

std::span<const OpDef> SparseProductOps() { return kOps; }

}  // namespace rvm::ops
