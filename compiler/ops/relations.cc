#include "compiler/ops/relations.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rvm::ops {

using diagnostics::DiagnosticKind;

const ir::TensorType* TensorArg(TypeContext& context, size_t i, bool* failed) {
  const ir::Type* type = context.arg(i);
  if (type->type_kind == ir::TypeKind::kHole) return nullptr;
  const auto* tensor = ir::DynCast<ir::TensorType>(type);
  if (tensor == nullptr) {
    *failed = true;
    context.Fail(DiagnosticKind::kTypeMismatch,
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

Solve ResultTensor(TypeContext& context, Dims dims, DataType dtype) {
  return context.Result(ir::MakeTensorType(context.arena(), std::move(dims), dtype));
}

Solve IdentityRelation(TypeContext& context) {
  return context.Unify(context.arg(0), context.result()) ? Solve::kDone : Solve::kFailed;
}

Solve FloatIdentityRelation(TypeContext& context) {
  if (!context.Unify(context.arg(0), context.result())) return Solve::kFailed;
  bool failed = false;
  const ir::TensorType* tensor = TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  if (tensor == nullptr) return Solve::kStuck;
  if (tensor->dtype.dtype.is_float()) return Solve::kDone;
  return context.Fail(DiagnosticKind::kDTypeMismatch,
                      absl::StrCat("argument 1 has dtype `", tensor->dtype.dtype.ToString(),
                                   "`; expected a floating-point dtype (use `cast`)"),
                      0);
}

namespace {

// The broadcast of the two arguments' shapes; their common dtype in *dtype.
Solve BroadcastArgs(TypeContext& context, Dims& dims, DataType& dtype) {
  bool failed = false;
  const ir::TensorType* a = TensorArg(context, 0, &failed);
  const ir::TensorType* b = failed ? nullptr : TensorArg(context, 1, &failed);
  if (failed) return Solve::kFailed;
  if (a == nullptr || b == nullptr) return Solve::kStuck;
  if (a->dtype.dtype != b->dtype.dtype) {
    return context.Fail(DiagnosticKind::kDTypeMismatch,
                        absl::StrCat("operands have dtypes `", a->dtype.dtype.ToString(), "` and `",
                                     b->dtype.dtype.ToString(), "`; expected equal dtypes (use `cast`)"),
                        1);
  }
  dtype = a->dtype.dtype;
  const Dims& x = a->shape.dims;
  const Dims& y = b->shape.dims;
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
        return context.Fail(DiagnosticKind::kShapeMismatch,
                            absl::StrCat("shapes ", DimsToString(x), " and ", DimsToString(y), " do not broadcast: ",
                                         p.ToString(), " and ", q.ToString(), " differ and neither is 1"));
      }
      dims.push_back(context.RequireBroadcast(p, q, "operands broadcast"));
    }
  }
  return Solve::kDone;
}

enum class Accepts : uint8_t { kAll, kBool, kIntegral };

Solve BroadcastTo(TypeContext& context, std::optional<DataType> result, Accepts accepts) {
  Dims dims;
  DataType dtype;
  if (Solve solve = BroadcastArgs(context, dims, dtype); solve != Solve::kDone) return solve;
  if ((accepts == Accepts::kBool && !dtype.is_bool()) || (accepts == Accepts::kIntegral && !dtype.is_integral())) {
    return context.Fail(DiagnosticKind::kDTypeMismatch,
                        absl::StrCat("operands have dtype `", dtype.ToString(), "`; expected ",
                                     accepts == Accepts::kBool ? "`bool`" : "an integer dtype"),
                        0);
  }
  return ResultTensor(context, std::move(dims), result.value_or(dtype));
}

}  // namespace

Solve BroadcastRelation(TypeContext& context) { return BroadcastTo(context, std::nullopt, Accepts::kAll); }
Solve BroadcastBitsRelation(TypeContext& context) { return BroadcastTo(context, std::nullopt, Accepts::kIntegral); }
Solve BroadcastCompareRelation(TypeContext& context) { return BroadcastTo(context, kBool, Accepts::kAll); }
Solve BroadcastLogicalRelation(TypeContext& context) { return BroadcastTo(context, kBool, Accepts::kBool); }

bool RequireRepeatable(TypeContext& context, const Dim& small, const Dim& big, std::string_view what) {
  return context.RequireEqual(context.RequireBroadcast(small, big, what), big, what);
}

std::optional<int64_t> NormalAxis(TypeContext& context, int64_t axis, int64_t rank, std::string_view attr) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  context.Fail(DiagnosticKind::kAxisOutOfRange,
               absl::StrCat("`", absl::string_view(attr.data(), attr.size()), "` is ", axis, "; expected a value in [",
                            -rank, ", ", rank, ") for rank ", rank));
  return std::nullopt;
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
