// Search in sorted sequences, and conversions of indices.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kSearchInputs[] = {{"sorted_sequence", "ascending along the last axis: a vector, or batches as values"},
                                   {"values", "what is searched"}};
constexpr Input kPermutation[] = {{"data", "a vector of 0 ... n-1 in some order"}};
constexpr Input kUnravelInputs[] = {{"indices", "numbers of elements, an integer tensor"},
                                    {.name = "shape", .doc = "the extents, an integer vector", .is_count = true}};
constexpr AttrSpec kSearchAttrs[] = {
    {"right", AttrType::kBool, "False", "insert after equal elements, else before them"},
    {"dtype", AttrType::kDType, "\"int32\"", "dtype of the result"}};

Solve SearchSortedRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &sequence = args[0]->shape.dims, &values = args[1]->shape.dims;
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `sorted_sequence`");
  if (sequence.empty()) return FailRank(context, 0, 0, "rank 1 or that of `values`");
  if (sequence.size() > 1) {
    if (values.size() != sequence.size()) return FailRank(context, 1, values.size(), "that of `sorted_sequence`");
    for (size_t i = 0; i + 1 < sequence.size(); ++i) {
      if (!context.RequireEqual(sequence[i], values[i], "`searchsorted`: batches of the sequence and the values"))
        return Solve::kFailed;
    }
  }
  DataType dtype = DTypeAttr(context.attrs(), "dtype", kInt32);
  if (!IsIndexType(dtype)) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`dtype` is \"", dtype.ToString(), "\"; expected an integer dtype"));
  }
  return ResultTensor(context, values, dtype);
}

constexpr int64_t kMaxSteps = 40;  // for sequences of more elements than there is memory

// How often a sequence of `extent` can be halved; of one that is not known, as often as any.
int64_t Halvings(const Dim& extent) {
  int64_t steps = 0;
  while (steps < kMaxSteps && !(extent.is_const() && extent.constant() >> steps == 0)) ++steps;
  return steps;
}

// The place is the number of elements before it. Its bits are found one after the other, the greatest first.
std::vector<Tensor> ComputeSearchSorted(const ComputeContext& context) {
  const Tensor &sequence = context.input(0), &values = context.input(1);
  const te::TensorSpec& out = context.output();
  BinaryOp before = context.attrs().GetBool("right") ? BinaryOp::kLessEqual : BinaryOp::kLess;
  const Dim& extent = sequence.dims().back();
  size_t rank = out.dims.size();
  int64_t steps = std::max<int64_t>(Halvings(extent), 1);
  Dims dims = out.dims;
  dims.push_back(steps);
  Tensor places = Running(dims, rank, te::Index(0), [&](std::span<const Expr> i, const Expr& place) {
    Expr bit = te::Binary(BinaryOp::kShiftLeft, te::Index(1), te::Index(steps - 1) - i[rank]);
    Expr next = place + bit, last = next - te::Index(1);
    std::vector<Expr> at = {last};
    if (sequence.rank() > 1) at = With(i.first(rank), rank - 1, last);
    Expr is_before = te::Binary(before, sequence(at), values(i.first(rank)));
    return te::Select(Less(last, te::DimValue(extent)), te::Select(is_before, next, place), place);
  });
  return {te::ComputeTensor("searchsorted", out.dtype, out.dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    at.push_back(te::Index(steps - 1));
    return te::Cast(out.dtype, places(at));
  })};
}

Solve InvertPermutationRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (args[0]->shape.dims.size() != 1) return FailRank(context, 0, args[0]->shape.dims.size(), "rank 1");
  if (!IsIndexType(args[0]->dtype.dtype)) return FailDType(context, 0, args[0]->dtype.dtype, "an integer dtype");
  return context.Result(args[0]);
}

// Sorting a permutation gives for each number its place.
std::vector<Tensor> ComputeInvertPermutation(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  Order order(data.dims(), 0, [&](std::span<const Expr> i) { return SortKey(data(i), true); });
  return {te::ComputeTensor("inverse", data.dtype(), data.dims(),
                            [&](std::span<const Expr> i) { return te::Cast(data.dtype(), order.PlaceAt(i)); })};
}

Solve UnravelRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (int i = 0; i < 2; ++i) {
    DataType dtype = args[static_cast<size_t>(i)]->dtype.dtype;
    if (i == 1 ? !IsCountType(dtype) : !IsIndexType(dtype)) return FailDType(context, i, dtype, "an integer dtype");
  }
  const Dims& shape = args[1]->shape.dims;
  if (shape.size() != 1) return FailRank(context, 1, shape.size(), "rank 1");
  Dims out = args[0]->shape.dims;
  out.insert(out.begin(), shape[0]);
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeUnravel(const ComputeContext& context) {
  const Tensor &indices = context.input(0), &shape = context.input(1);
  const te::TensorSpec& out = context.output();
  Tensor stride = ReduceOver(ReduceOp::kProduct, kInt64, shape.dims(), shape.dims(),
                             [&](std::span<const Expr> o, std::span<const Expr> r) {
                               return te::Select(Less(o[0], r[0]), te::Cast(kInt64, shape(r)), te::Index(1));
                             });
  return {te::ComputeTensor("unravel_index", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr step = te::Binary(BinaryOp::kFloorDivide, te::Cast(kInt64, indices(i.subspan(1))), stride({i[0]}));
    return te::Cast(out.dtype, te::Binary(BinaryOp::kFloorMod, step, te::Cast(kInt64, shape({i[0]}))));
  })};
}

constexpr OpDef kOps[] = {
    {.name = "searchsorted",
     .summary = "where values would be put in to keep a sequence sorted",
     .inputs = kSearchInputs,
     .attrs = kSearchAttrs,
     .type_relation = SearchSortedRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeSearchSorted},
    {.name = "invert_permutation",
     .summary = "for each number its place in a permutation",
     .inputs = kPermutation,
     .type_relation = InvertPermutationRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeInvertPermutation},
    {.name = "unravel_index",
     .summary = "for each axis of a shape the indices of numbered elements",
     .inputs = kUnravelInputs,
     .type_relation = UnravelRelation,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeUnravel},
};

}  // namespace

std::span<const OpDef> SearchOps() { return kOps; }

}  // namespace rvm::ops
