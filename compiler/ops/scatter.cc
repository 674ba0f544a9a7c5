// Operators that write at computed places.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ops/compute_helpers.h"
#include "compiler/ops/families.h"
#include "compiler/ops/relations.h"

namespace rvm::ops {
namespace {

using diagnostics::DiagnosticKind;
using te::BinaryOp;
using te::Expr;
using te::ReduceOp;
using te::Tensor;
using Types = std::vector<const ir::TensorType*>;

constexpr Input kScattered[] = {
    {"data", "a tensor"}, {"indices", "an integer tensor"}, {"updates", "what is written at the indices"}};
constexpr Input kSparse[] = {{"sparse_indices", "an integer scalar, vector, or matrix of a row per place"},
                             {"sparse_values", "what is written: one for all, or one each"},
                             {"default_value", "a scalar, what stands elsewhere"}};
constexpr Input kDynamicSparse[] = {
    kSparse[0],
    kSparse[1],
    kSparse[2],
    {.name = "output_shape", .doc = "an integer vector, the shape of the result", .decides_shape = true}};
constexpr AttrSpec kScatterAttrs[] = {
    {"axis", AttrType::kInt, "0", "the axis indexed"},
    {"reduction", AttrType::kString, "\"update\"", "\"update\", \"add\", \"mul\", \"mean\", \"min\" or \"max\""}};
constexpr AttrSpec kScatterNdAttrs[] = {
    {"mode", AttrType::kString, "\"update\"", "\"update\", \"add\", \"mul\", \"min\" or \"max\""}};
constexpr AttrSpec kSparseAttrs[] = {{"output_shape", AttrType::kInts, "", "the shape of the result"}};
constexpr AttrSpec kDynamicSparseAttrs[] = {
    {"output_shape", AttrType::kAny, "None", "unused, for compatibility", true}};

bool IsReduction(std::string_view name, bool with_mean) {
  return name == "update" || name == "add" || name == "mul" || name == "min" || name == "max" ||
         (with_mean && name == "mean");
}

// Every element of the result looks at all updates and folds those that match: no order between
// writes has to be kept, so it vectorises and runs anywhere. `updates` are numbered by `extents`.
Tensor Scatter(std::string_view mode, const Tensor& data, const Dims& extents,
               const std::function<Expr(std::span<const Expr> out, std::span<const Expr> update)>& matches,
               const std::function<Expr(std::span<const Expr> out, std::span<const Expr> update)>& value) {
  DataType dtype = data.dtype();
  auto folded = [&](ReduceOp op, const Expr& neutral) {
    return ReduceOver(op, dtype, data.dims(), extents, [&](std::span<const Expr> o, std::span<const Expr> u) {
      return te::Select(matches(o, u), value(o, u), neutral);
    });
  };
  auto combined = [&](const Tensor& other, BinaryOp op) {
    return te::ComputeTensor("scatter", dtype, data.dims(),
                             [&](std::span<const Expr> o) { return te::Binary(op, data(o), other(o)); });
  };
  if (mode == "add") return combined(folded(ReduceOp::kSum, te::Const(dtype, 0)), BinaryOp::kAdd);
  if (mode == "mul") return combined(folded(ReduceOp::kProduct, te::Const(dtype, 1)), BinaryOp::kMultiply);
  if (mode == "min") return combined(folded(ReduceOp::kMinimum, Highest(dtype)), BinaryOp::kMinimum);
  if (mode == "max") return combined(folded(ReduceOp::kMaximum, Lowest(dtype)), BinaryOp::kMaximum);
  if (mode == "mean") {
    Tensor sum = folded(ReduceOp::kSum, te::Const(dtype, 0));
    Tensor count =
        ReduceOver(ReduceOp::kSum, dtype, data.dims(), extents, [&](std::span<const Expr> o, std::span<const Expr> u) {
          return te::Select(matches(o, u), te::Const(dtype, 1), te::Const(dtype, 0));
        });
    return te::ComputeTensor("scatter", dtype, data.dims(), [&](std::span<const Expr> o) {
      return te::Binary(BinaryOp::kDivide, data(o) + sum(o), te::Const(dtype, 1) + count(o));
    });
  }
  // Of several writes to one place the last one stays.
  Tensor last = ReduceOver(ReduceOp::kMaximum, kInt64, data.dims(), extents,
                           [&](std::span<const Expr> o, std::span<const Expr> u) {
                             return te::Select(matches(o, u), FlatIndex(u, extents), te::Index(-1));
                           });
  return te::ComputeTensor("scatter", dtype, data.dims(), [&](std::span<const Expr> o) {
    Expr flat = last(o);
    return te::Select(te::Binary(BinaryOp::kGreaterEqual, flat, te::Index(0)), value(o, Unflatten(flat, extents)),
                      data(o));
  });
}

Solve ScatterElementsRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &indices = args[1]->shape.dims, &updates = args[2]->shape.dims;
  if (!IsIndexType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  if (args[2]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 2, args[2]->dtype.dtype, "that of `data`");
  if (indices.size() != data.size()) return FailRank(context, 1, indices.size(), "that of `data`");
  if (updates.size() != data.size()) return FailRank(context, 2, updates.size(), "that of `data`");
  if (!NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(data.size()))) return Solve::kFailed;
  if (!IsReduction(context.attrs().GetString("reduction"), true)) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`reduction` is \"", context.attrs().GetString("reduction"),
                                     "\"; expected update, add, mul, mean, min or max"));
  }
  for (size_t i = 0; i < data.size(); ++i) {
    if (!context.RequireEqual(indices[i], updates[i], "`scatter_elements`: extents of indices and updates"))
      return Solve::kFailed;
  }
  return ResultTensor(context, data, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeScatterElements(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1), &updates = context.input(2);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  auto place = [&](std::span<const Expr> o, std::span<const Expr> u) {
    // Beside the axis indices may be shorter than data: clamped to read in bounds, told apart below.
    std::vector<Expr> at;
    for (size_t k = 0; k < data.rank(); ++k) at.push_back(k == axis ? u[0] : Clamp(o[k], indices.dims()[k]));
    return at;
  };
  auto matches = [&](std::span<const Expr> o, std::span<const Expr> u) {
    std::vector<Expr> at = place(o, u);
    Expr result = Equal(UnlessEmpty(Volume(indices.dims()), FromEnd(indices, at, data.dims()[axis])), o[axis]);
    for (size_t k = 0; k < data.rank(); ++k) {
      if (k != axis) result = And(result, Less(o[k], te::DimValue(indices.dims()[k])));
    }
    return result;
  };
  auto value = [&](std::span<const Expr> o, std::span<const Expr> u) { return updates(place(o, u)); };
  return {Scatter(context.attrs().GetString("reduction"), data, {indices.dims()[axis]}, matches, value)};
}

// indices (m, y...), updates (y..., rest of data).
Solve ScatterNdRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &indices = args[1]->shape.dims, &updates = args[2]->shape.dims;
  if (!IsIndexType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  if (args[2]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 2, args[2]->dtype.dtype, "that of `data`");
  bool fits = !indices.empty() && indices[0].is_const() && indices[0].constant() >= 1 &&
              indices[0].constant() <= static_cast<int64_t>(data.size());
  if (!fits) {
    return context.Fail(DiagnosticKind::kShapeMismatch,
                        absl::StrCat("`indices` has shape ", DimsToString(indices),
                                     "; expected (m, ...) with m from 1 to ", data.size()),
                        1);
  }
  size_t m = static_cast<size_t>(indices[0].constant());
  Dims expected(indices.begin() + 1, indices.end());
  expected.insert(expected.end(), data.begin() + static_cast<std::ptrdiff_t>(m), data.end());
  if (updates.size() != expected.size()) return FailRank(context, 2, updates.size(), absl::StrCat(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!context.RequireEqual(expected[i], updates[i], "`scatter_nd`: extents of updates")) return Solve::kFailed;
  }
  if (!IsReduction(context.attrs().GetString("mode"), false)) {
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`mode` is \"", context.attrs().GetString("mode"),
                                                                    "\"; expected update, add, mul, min or max"));
  }
  return ResultTensor(context, data, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeScatterNd(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1), &updates = context.input(2);
  size_t m = static_cast<size_t>(indices.dims()[0].constant());
  auto matches = [&](std::span<const Expr> o, std::span<const Expr> u) {
    Expr result;
    for (size_t k = 0; k < m; ++k) {
      std::vector<Expr> at = {te::Index(static_cast<int64_t>(k))};
      at.insert(at.end(), u.begin(), u.end());
      Expr here = Equal(FromEnd(indices, at, data.dims()[k]), o[k]);
      result = k == 0 ? here : And(result, here);
    }
    return result;
  };
  auto value = [&](std::span<const Expr> o, std::span<const Expr> u) {
    std::vector<Expr> at(u.begin(), u.end());
    at.insert(at.end(), o.begin() + static_cast<std::ptrdiff_t>(m), o.end());
    return updates(at);
  };
  Dims extents(indices.dims().begin() + 1, indices.dims().end());
  if (extents.empty()) extents.push_back(1);
  bool scalar = indices.rank() == 1;
  auto strip = [&](std::span<const Expr> u) { return scalar ? std::span<const Expr>() : u; };
  return {Scatter(
      context.attrs().GetString("mode"), data, extents,
      [&](std::span<const Expr> o, std::span<const Expr> u) { return matches(o, strip(u)); },
      [&](std::span<const Expr> o, std::span<const Expr> u) { return value(o, strip(u)); })};
}

// ---- sparse ----------------------------------------------------------------------

// indices: one number, a vector of places, or a matrix (places, axes of the result); a value each, or one for all.
Solve Sparse(TypeContext& context, const Types& args, const Dims& out) {
  const Dims &indices = args[0]->shape.dims, &values = args[1]->shape.dims;
  if (!IsIndexType(args[0]->dtype.dtype)) return FailDType(context, 0, args[0]->dtype.dtype, "an integer dtype");
  if (args[2]->dtype.dtype != args[1]->dtype.dtype)
    return FailOtherDType(context, 2, args[2]->dtype.dtype, "that of `sparse_values`");
  if (indices.size() > 2) return FailRank(context, 0, indices.size(), "at most 2");
  if (values.size() > 1) return FailRank(context, 1, values.size(), "at most 1");
  if (!args[2]->shape.dims.empty()) return FailRank(context, 2, args[2]->shape.dims.size(), "a scalar");
  Dim places = indices.empty() ? Dim(1) : indices[0], axes = indices.size() == 2 ? indices[1] : Dim(1);
  if (!context.RequireEqual(axes, static_cast<int64_t>(out.size()), "columns of `sparse_indices` and rank") ||
      (!values.empty() && !context.RequireEqual(values[0], places, "number of `sparse_indices` and `sparse_values`")))
    return Solve::kFailed;
  return ResultTensor(context, out, args[1]->dtype.dtype);
}

Solve SparseRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out;
  for (int64_t extent : context.attrs().GetInts("output_shape")) {
    if (extent < 0) {
      return context.Fail(DiagnosticKind::kNegativeExtent,
                          absl::StrCat("`output_shape` has ", extent, "; expected extents >= 0"));
    }
    out.push_back(extent);
  }
  return Sparse(context, args, out);
}

Solve DynamicSparseRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out;
  if (!ValueDims(context, 3, 1, out)) return Solve::kFailed;
  for (const Dim& dim : out) {
    if (!context.RequireAtLeast(dim, 0, "an extent of the result")) return Solve::kFailed;
  }
  return Sparse(context, args, out);
}

std::vector<Tensor> ComputeSparse(const ComputeContext& context) {
  const Tensor &indices = context.input(0), &values = context.input(1);
  const te::TensorSpec& out = context.output();
  Tensor data =
      te::ComputeTensor("default", out.dtype, out.dims, [&](std::span<const Expr>) { return context.input(2)({}); });
  auto matches = [&](std::span<const Expr> o, std::span<const Expr> u) {
    Expr result;
    for (size_t k = 0; k < o.size(); ++k) {
      std::vector<Expr> at(u.begin(), u.begin() + (indices.rank() > 0 ? 1 : 0));
      if (indices.rank() == 2) at.push_back(te::Index(static_cast<int64_t>(k)));
      Expr here = Equal(te::Cast(kInt64, indices(at)), o[k]);
      result = k == 0 ? here : And(result, here);
    }
    return result ? result : te::IntConst(kBool, 1);
  };
  auto value = [&](std::span<const Expr>, std::span<const Expr> u) { return values(u.first(values.rank())); };
  Dim places = indices.rank() == 0 ? Dim(1) : indices.dims()[0];
  return {Scatter("update", data, {places}, matches, value)};
}

constexpr OpDef Op(std::string_view name, std::string_view summary, std::span<const Input> inputs,
                   std::span<const AttrSpec> attrs, TypeRelation relation, FusionClass fusion, Compute compute) {
  return {.name = name,
          .summary = summary,
          .inputs = inputs,
          .attrs = attrs,
          .type_relation = relation,
          .fusion = fusion,
          .compute = compute};
}

constexpr OpDef kOps[] = {
    Op("scatter_elements", "data with updates written or folded in along an axis", kScattered, kScatterAttrs,
       ScatterElementsRelation, FusionClass::kOpaque, ComputeScatterElements),
    Op("scatter_nd", "data with updates written or folded in at index tuples", kScattered, kScatterNdAttrs,
       ScatterNdRelation, FusionClass::kOpaque, ComputeScatterNd),
    Op("sparse_to_dense", "default_value with values written at places", kSparse, kSparseAttrs, SparseRelation,
       FusionClass::kOpaque, ComputeSparse),
    Op("dyn.sparse_to_dense", "default_value with values written at places", kDynamicSparse, kDynamicSparseAttrs,
       DynamicSparseRelation, FusionClass::kOpaque, ComputeSparse),
};

}  // namespace

std::span<const OpDef> ScatterOps() { return kOps; }

}  // namespace rvm::ops
