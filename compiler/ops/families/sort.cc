// Sorting along an axis. Equal elements keep their order; NaN is above all numbers.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_bounds.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a tensor"}};
constexpr Input kDynamicTopkInputs[] = {
    {.name = "data", .doc = "a tensor"},
    {.name = "k", .doc = "an integer scalar, or a vector of one, how many; below 1: all", .decides_shape = true}};
constexpr AttrSpec kExact = {"exact", AttrType::kBool, "False",
                             "k may be 0, for none; an error if it is negative or there are fewer elements"};
constexpr AttrSpec kSortAttrs[] = {
    {"axis", AttrType::kInt, "-1", "the axis sorted"},
    {"is_ascend", AttrType::kBool, "True", "least first, NaN last; False: greatest first, NaN before them"},
    {"dtype", AttrType::kDType, "\"\"", "dtype of indices (int32); unused by `sort`"}};
constexpr AttrSpec kDynamicTopkAttrs[] = {
    {"k", AttrType::kAny, "None", "unused, for compatibility", true},
    {"axis", AttrType::kInt, "-1", "the axis sorted"},
    {"ret_type", AttrType::kString, "\"both\"", "\"both\", \"values\" or \"indices\""},
    {"is_ascend", AttrType::kBool, "False", "the least, NaN last; False: the greatest, NaN first"},
    {"dtype", AttrType::kDType, "\"\"", "dtype of the indices (int32)"},
    kExact};
constexpr AttrSpec kTopkAttrs[] = {
    {"k", AttrType::kInt, "1", "how many; below 1: all"},
    {"axis", AttrType::kInt, "-1", "the axis sorted"},
    {"ret_type", AttrType::kString, "\"both\"", "\"both\", \"values\" or \"indices\""},
    {"is_ascend", AttrType::kBool, "False", "the least, NaN last; False: the greatest, NaN first"},
    {"dtype", AttrType::kDType, "\"\"", "dtype of the indices (int32)"},
    kExact};
constexpr Example kSortExamples[] = {{"sort([2f, nanf, 3f], is_ascend=False)", "[nanf, 3f, 2f]"}};
constexpr Example kTopkExamples[] = {{"topk([2f, nanf, 3f], k=2)", "([nanf, 3f], [1, 2])"},
                                     {"topk([2f, nanf, 3f], k=2, is_ascend=True)", "([2f, 3f], [0, 2])"}};

// Indices along `axis` of the first `out[axis]` elements in order; int64.
Tensor FirstPlaces(const Tensor& data, size_t axis, bool ascend, const Dims& out) {
  Order order(data.dims(), axis, out[axis], [&](std::span<const Expr> i) { return SortKey(data(i), ascend); });
  return te::ComputeTensor("place", kInt64, out, [&](std::span<const Expr> i) { return order.PlaceAt(i); });
}

Tensor Sorted(const Tensor& data, size_t axis, const Tensor& places) {
  return te::ComputeTensor("sort", data.dtype(), places.dims(),
                           [&](std::span<const Expr> i) { return data(With(i, axis, places(i))); });
}

template <bool indices>
Solve SortRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& dims = args[0]->shape.dims;
  if (!NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(dims.size()))) return Solve::kFailed;
  return ResultTensor(context, dims, indices ? DTypeAttr(context.attrs(), "dtype", kInt32) : args[0]->dtype.dtype);
}

template <bool indices>
std::vector<Tensor> ComputeSort(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  Tensor places = FirstPlaces(data, axis, context.attrs().GetBool("is_ascend"), data.dims());
  if (indices) return {CastTensor(places, context.output().dtype)};
  return {Sorted(data, axis, places)};
}

// All of `extent` if k < 1, else at most k.
Dim TopkExtent(const Dim& extent, const Dim& k) {
  Dim takes_all = Dim(1) - Max(Min(k, 1), 0);
  return Min(extent, Max(k, 0) + takes_all * extent);
}

template <bool is_dynamic>
Solve TopkRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims dims = args[0]->shape.dims;
  std::optional<int64_t> axis = NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(dims.size()));
  if (!axis) return Solve::kFailed;
  Dims k;
  if (!is_dynamic) {
    k = {context.attrs().GetInt("k")};
  } else {
    size_t rank = std::min<size_t>(args[1]->shape.dims.size(), 1);
    if (!ValueDims(context, 1, rank, k)) return Solve::kFailed;
    if (k.size() != 1) {
      return context.Fail(DiagnosticKind::kShapeMismatch,
                          absl::StrCat("argument 2 has ", k.size(), " elements; expected one"), 1);
    }
  }
  Dim& dim = dims[static_cast<size_t>(*axis)];
  if (context.attrs().GetBool("exact")) {
    if (!context.RequireAtLeast(k[0], 0, "`k`") || !context.RequireAtLeast(dim, k[0], "the extent of the axis and `k`"))
      return Solve::kFailed;
    dim = k[0];
  } else {
    std::optional<Dim> known = is_dynamic ? context.KnownValue(1, 0) : std::nullopt;
    bool is_all = known && IsAtMost(dim, *known);  // also where both are 0
    bool is_count = known && IsAtMost(1, *known);
    dim = is_all ? dim : is_count ? (IsAtMost(*known, dim) ? *known : Min(dim, *known)) : TopkExtent(dim, k[0]);
  }
  const std::string& type = context.attrs().GetString("ret_type");
  const ir::Type* values = ir::MakeTensorType(context.arena(), dims, args[0]->dtype.dtype);
  const ir::Type* indices = ir::MakeTensorType(context.arena(), dims, DTypeAttr(context.attrs(), "dtype", kInt32));
  if (type == "values") return context.Result(values);
  if (type == "indices") return context.Result(indices);
  if (type == "both")
    return context.Result(context.arena().New<ir::TupleType>(std::vector<const ir::Type*>{values, indices}));
  return context.Fail(DiagnosticKind::kBadAttribute,
                      absl::StrCat("`ret_type` is \"", type, "\"; expected both, values or indices"));
}

std::vector<Tensor> ComputeTopk(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  Tensor places = FirstPlaces(data, axis, context.attrs().GetBool("is_ascend"), context.output().dims);
  const std::string& type = context.attrs().GetString("ret_type");
  std::vector<Tensor> result;
  if (type != "indices") result.push_back(Sorted(data, axis, places));
  if (type != "values") result.push_back(CastTensor(places, context.output(type == "both" ? 1 : 0).dtype));
  return result;
}

constexpr OpDef kOps[] = {
    {.name = "sort",
     .summary = "elements in order along an axis",
     .inputs = kInputs,
     .attrs = kSortAttrs,
     .type_relation = SortRelation<false>,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeSort<false>,
     .examples = kSortExamples,
     .gradient = SortGradient},
    {.name = "argsort",
     .summary = "indices that sort along an axis",
     .inputs = kInputs,
     .attrs = kSortAttrs,
     .type_relation = SortRelation<true>,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeSort<true>},
    {.name = "topk",
     .summary = "the k greatest elements along an axis and their indices",
     .inputs = kInputs,
     .attrs = kTopkAttrs,
     .type_relation = TopkRelation<false>,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeTopk,
     .examples = kTopkExamples,
     .gradient = TopKGradient},
    {.name = "dyn.topk",
     .summary = "the k greatest elements along an axis and their indices",
     .inputs = kDynamicTopkInputs,
     .attrs = kDynamicTopkAttrs,
     .type_relation = TopkRelation<true>,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeTopk,
     .gradient = TopKGradient},
};

}  // namespace

std::span<const OpDef> SortOps() { return kOps; }

}  // namespace rvm::ops
