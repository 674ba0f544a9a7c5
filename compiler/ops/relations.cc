#include "compiler/ops/relations.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rvm::ops {

const ir::TensorType* TensorArg(TypeContext& context, size_t i, bool* failed) {
  const ir::Type* type = context.arg(i);
  if (type->type_kind == ir::TypeKind::kHole) return nullptr;
  const auto* tensor = ir::DynCast<ir::TensorType>(type);
  if (tensor == nullptr) {
    *failed = true;
    context.Fail(DiagnosticKind::kNotTensor,
                 absl::StrCat("argument ", i + 1, " has type `", ir::TypeToString(type), "`; expected a tensor"),
                 static_cast<int>(i));
    return nullptr;
  }
  bool known = tensor->shape.is_dims() && tensor->dtype.is_concrete();
  return known ? tensor : nullptr;
}

Solve TensorArgs(TypeContext& context, std::vector<const ir::TensorType*>& args) {
  bool failed = false;
  bool stuck = false;
  for (size_t i = 0; i < context.num_args() && !failed; ++i) {
    args.push_back(TensorArg(context, i, &failed));
    stuck |= args.back() == nullptr;
  }
  return failed ? Solve::kFailed : stuck ? Solve::kStuck : Solve::kDone;
}

Solve FailRank(TypeContext& context, int arg, size_t rank, std::string_view expected) {
  return context.Fail(DiagnosticKind::kRankMismatch,
                      absl::StrCat("argument ", arg + 1, " has rank ", rank, "; expected ",
                                   absl::string_view(expected.data(), expected.size())),
                      arg);
}

Solve FailDType(TypeContext& context, int arg, DataType dtype, std::string_view expected) {
  return context.Fail(DiagnosticKind::kDTypeMismatch,
                      absl::StrCat("argument ", arg + 1, " has dtype `", dtype.ToString(), "`; expected ",
                                   absl::string_view(expected.data(), expected.size())),
                      arg);
}

Solve FailOtherDType(TypeContext& context, int arg, DataType dtype, std::string_view expected) {
  return context.Fail(DiagnosticKind::kOperandDTypesDiffer,
                      absl::StrCat("argument ", arg + 1, " has dtype `", dtype.ToString(), "`; expected ",
                                   absl::string_view(expected.data(), expected.size()), " (use `cast`)"),
                      arg);
}

bool RequireFactors(TypeContext& context, DataType a, DataType b) {
  bool are_integers = IsIndexType(a) && IsIndexType(b);
  bool has_result = are_integers && !context.attrs().GetString("out_dtype").empty();
  if (a == b || has_result) return true;
  context.Fail(DiagnosticKind::kOperandDTypesDiffer,
               absl::StrCat("operands have dtypes `", a.ToString(), "` and `", b.ToString(),
                            "`; expected equal dtypes (", are_integers ? "or give `out_dtype`" : "use `cast`", ")"),
               1);
  return false;
}

bool ValueDims(TypeContext& context, size_t arg, size_t rank, Dims& dims) {
  // The greatest rank of a tensor.
  constexpr int64_t kMaxElements = 64;
  int at = static_cast<int>(arg);
  const auto& tensor = *ir::DynCast<ir::TensorType>(context.arg(arg));
  DataType dtype = tensor.dtype.dtype;
  if (!IsCountType(dtype)) {
    FailDType(context, at, dtype, "an integer dtype");
    return false;
  }
  if (tensor.shape.dims.size() != rank) {
    FailRank(context, at, tensor.shape.dims.size(), absl::StrCat("rank ", rank));
    return false;
  }
  std::optional<Shape> shape = StaticShape(tensor.shape.dims);
  std::optional<int64_t> count = shape ? NumElements(*shape) : std::nullopt;
  if (!count) {
    context.Fail(DiagnosticKind::kRankDependsOnExtent,
                 absl::StrCat("the elements of argument ", arg + 1, " decide the result's shape, but its shape ",
                              DimsToString(tensor.shape.dims), " does not say how many they are"),
                 at);
    return false;
  }
  if (*count > kMaxElements) {
    context.Fail(DiagnosticKind::kRankMismatch,
                 absl::StrCat("argument ", arg + 1, ", the result's shape, has ", *count,
                              " elements; expected at most ", kMaxElements),
                 at);
    return false;
  }
  for (int64_t i = 0; i < *count; ++i) dims.push_back(context.ValueDim(arg, i));
  return true;
}

bool ShapeValues(TypeContext& context, size_t arg, Dims& dims) {
  if (!ValueDims(context, arg, 1, dims)) return false;
  return std::all_of(dims.begin(), dims.end(),
                     [&](const Dim& dim) { return context.RequireAtLeast(dim, 0, "an extent of the result"); });
}

Solve ResultTensor(TypeContext& context, Dims dims, DataType dtype) {
  return context.Result(ir::MakeTensorType(context.arena(), std::move(dims), dtype));
}

Solve IdentityRelation(TypeContext& context) {
  return context.Unify(context.arg(0), context.result()) ? Solve::kDone : Solve::kFailed;
}

Solve FloatIdentityRelation(TypeContext& context) {
  if (!context.Unify(context.arg(0), context.result())) return Solve::kFailed;
  bool failed = false;
  TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  // The shape may be a type parameter; the dtype not, as it might be none of these.
  const auto* tensor = ir::DynCast<ir::TensorType>(context.arg(0));
  if (tensor == nullptr || !tensor->dtype.is_concrete()) return Solve::kStuck;
  if (tensor->dtype.dtype.is_float()) return Solve::kDone;
  return context.Fail(DiagnosticKind::kDTypeMismatch,
                      absl::StrCat("argument 1 has dtype `", tensor->dtype.dtype.ToString(),
                                   "`; expected a floating-point dtype (use `cast`)"),
                      0);
}

namespace {

// The broadcast of two known shapes.
Solve BroadcastDims(TypeContext& context, const Dims& x, const Dims& y, Dims& dims) {
  size_t rank = std::max(x.size(), y.size());
  for (size_t i = 0; i < rank; ++i) {
    if (i < rank - x.size()) {
      dims.push_back(y[i]);
    } else if (i < rank - y.size()) {
      dims.push_back(x[i]);
    } else {
      Dim p = x[i - (rank - x.size())], q = y[i - (rank - y.size())];
      bool impossible =
          p.is_const() && q.is_const() && p.constant() != q.constant() && p.constant() != 1 && q.constant() != 1;
      if (impossible) {
        return context.Fail(DiagnosticKind::kBroadcastMismatch,
                            absl::StrCat("shapes ", DimsToString(x), " and ", DimsToString(y), " do not broadcast: ",
                                         p.ToString(), " and ", q.ToString(), " differ and neither is 1"));
      }
      dims.push_back(context.RequireBroadcast(p, q, "operands broadcast"));
    }
  }
  return Solve::kDone;
}

bool IsScalarShape(const ir::ShapeTerm& shape) { return shape.is_dims() && shape.dims.empty(); }

// The broadcast of two shapes, of which either may be a type parameter: then it must be the other, too, or
// the other that of a scalar.
Solve BroadcastShapes(TypeContext& context, const ir::ShapeTerm& x, const ir::ShapeTerm& y, ir::ShapeTerm& shape) {
  if (x.is_dims() && y.is_dims()) return BroadcastDims(context, x.dims, y.dims, shape.dims);
  bool is_hole = x.form == ir::ShapeTerm::Form::kHole || y.form == ir::ShapeTerm::Form::kHole;
  if (is_hole || (x != y && !IsScalarShape(x) && !IsScalarShape(y))) return Solve::kStuck;
  shape = IsScalarShape(x) ? y : x;
  return Solve::kDone;
}

enum class Accepts : uint8_t { kAll, kBool, kIntegral };

Solve BroadcastTo(TypeContext& context, bool compares, Accepts accepts) {
  const ir::TensorType* args[2];
  for (size_t i = 0; i < 2; ++i) {
    bool failed = false;
    TensorArg(context, i, &failed);
    if (failed) return Solve::kFailed;
    args[i] = ir::DynCast<ir::TensorType>(context.arg(i));
  }
  if (args[0] == nullptr || args[1] == nullptr) return Solve::kStuck;
  const ir::DTypeTerm &dtype = args[0]->dtype, &other = args[1]->dtype;
  if (dtype.is_concrete() && other.is_concrete() && dtype.dtype != other.dtype) {
    return context.Fail(DiagnosticKind::kOperandDTypesDiffer,
                        absl::StrCat("operands have dtypes `", dtype.dtype.ToString(), "` and `",
                                     other.dtype.ToString(), "`; expected equal dtypes (use `cast`)"),
                        1);
  }
  // A dtype that is a type parameter equals itself, and is of no certain class.
  bool is_known = dtype.is_concrete() || (dtype.form == ir::DTypeTerm::Form::kParam && accepts == Accepts::kAll);
  if (!is_known || dtype != other) return Solve::kStuck;
  ir::ShapeTerm shape = ir::ShapeTerm::Of({});
  Solve solve = BroadcastShapes(context, args[0]->shape, args[1]->shape, shape);
  if (solve != Solve::kDone) return solve;
  if ((accepts == Accepts::kBool && !dtype.dtype.is_bool()) ||
      (accepts == Accepts::kIntegral && !dtype.dtype.is_integral())) {
    return context.Fail(DiagnosticKind::kDTypeMismatch,
                        absl::StrCat("operands have dtype `", dtype.dtype.ToString(), "`; expected ",
                                     accepts == Accepts::kBool ? "`bool`" : "an integer dtype"),
                        0);
  }
  ir::DTypeTerm of = compares ? ir::DTypeTerm::Of(BoolOf(dtype.dtype)) : dtype;
  return context.Result(context.arena().New<ir::TensorType>(std::move(shape), of));
}

}  // namespace

Solve BroadcastRelation(TypeContext& context) { return BroadcastTo(context, false, Accepts::kAll); }
Solve BroadcastBitsRelation(TypeContext& context) { return BroadcastTo(context, false, Accepts::kIntegral); }
Solve BroadcastCompareRelation(TypeContext& context) { return BroadcastTo(context, true, Accepts::kAll); }
Solve BroadcastLogicalRelation(TypeContext& context) { return BroadcastTo(context, true, Accepts::kBool); }

bool RequireRepeatable(TypeContext& context, const Dim& small, const Dim& big, std::string_view what) {
  return context.RequireEqual(context.RequireBroadcast(small, big, what), big, what);
}

std::vector<bool> ReducedAxes(const ir::Attrs& attrs, size_t rank) {
  std::vector<bool> reduced(rank, attrs.IsNone("axis"));
  if (attrs.IsNone("axis")) return reduced;
  for (int64_t axis : attrs.GetInts("axis")) {
    reduced[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis)] = true;
  }
  if (attrs.GetBool("exclude")) reduced.flip();
  return reduced;
}

std::optional<int64_t> NormalAxis(TypeContext& context, int64_t axis, int64_t rank, std::string_view attr) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  std::string message = absl::StrCat("`", absl::string_view(attr.data(), attr.size()), "` is ", axis, "; expected ");
  context.Fail(DiagnosticKind::kAxisOutOfRange,
               rank == 0 ? absl::StrCat(message, "a tensor with axes, saw a scalar")
                         : absl::StrCat(message, "a value in [", -rank, ", ", rank, ") for rank ", rank));
  return std::nullopt;
}

bool RequireChannelVectors(TypeContext& context, const std::vector<const ir::TensorType*>& args, size_t first,
                           int64_t axis, std::string_view op) {
  const Dim& channels = args[0]->shape.dims[static_cast<size_t>(axis)];
  std::string what =
      absl::StrCat("`", absl::string_view(op.data(), op.size()), "`: extents of `axis` and of the vector along it");
  for (size_t i = first; i < args.size(); ++i) {
    const ir::TensorType& vector = *args[i];
    if (vector.shape.dims.size() != 1) {
      FailRank(context, static_cast<int>(i), vector.shape.dims.size(), "rank 1");
      return false;
    }
    if (vector.dtype.dtype != args[0]->dtype.dtype) {
      FailOtherDType(context, static_cast<int>(i), vector.dtype.dtype,
                     absl::StrCat("that of argument 1, `", args[0]->dtype.dtype.ToString(), "`"));
      return false;
    }
    if (!context.RequireEqual(vector.shape.dims[0], channels, what)) return false;
  }
  return true;
}

TypeRelation FindRelation(std::string_view name) {
  if (name == "Broadcast") return BroadcastRelation;
  if (name == "BroadcastComp") return BroadcastCompareRelation;
  if (name == "Identity") return IdentityRelation;
  const OpDef* op = FindOp(name);
  return op == nullptr ? nullptr : op->type_relation;
}

DataType DTypeAttr(const ir::Attrs& attrs, std::string_view name, DataType otherwise) {
  if (attrs.IsNone(name) || attrs.GetString(name).empty()) return otherwise;
  return ParseDataType(attrs.GetString(name)).value_or(otherwise);
}

}  // namespace rvm::ops
