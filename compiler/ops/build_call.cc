#include "compiler/ops/build_call.h"

#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/ops/derive_type.h"
#include "compiler/ops/evaluate_op.h"

namespace rvm::ops {

std::optional<ir::Attrs> WithDefaults(const OpDef& op, ir::Attrs attrs) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  return CompleteAttrs(op, {}, attrs, diagnostics) ? std::optional<ir::Attrs>(std::move(attrs)) : std::nullopt;
}

absl::StatusOr<const ir::Type*> ResultType(ir::Arena& arena, const OpDef& op, const ir::Attrs& attrs,
                                           const std::vector<ir::Expr*>& args) {
  return ResultType(arena, op, attrs, args, [](size_t) { return std::vector<Dim>(); });
}

absl::StatusOr<const ir::Type*> ResultType(ir::Arena& arena, const OpDef& op, const ir::Attrs& attrs,
                                           const std::vector<ir::Expr*>& args,
                                           const std::function<std::vector<Dim>(size_t arg)>& elements) {
  std::vector<const Literal*> values;
  for (const ir::Expr* arg : args) {
    const auto* constant = ir::DynCast<ir::Constant>(arg);
    values.push_back(constant == nullptr ? nullptr : &constant->literal);
  }
  KnownValues known = [&](size_t arg, int64_t element) -> std::optional<Dim> {
    std::vector<Dim> dims = elements(arg);
    auto at = static_cast<size_t>(element);
    return at < dims.size() && !ContainsAny(dims[at]) ? std::optional(dims[at]) : std::nullopt;
  };
  ValueDims value_dims = [&](size_t arg, int64_t element) { return known(arg, element).value_or(Dim::Any()); };
  RVM_ASSIGN_OR_RETURN(DerivedResult derived,
                       DeriveResult(op, attrs, ir::TypesOf(args), values, arena, value_dims, known));
  return derived.result;
}

std::vector<ir::Expr*> WithIntegerCounts(const ir::Builder& at, const OpDef& op, std::vector<ir::Expr*> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (!IsCount(op, i)) continue;
    const auto* tensor = ir::DynCast<ir::TensorType>(args[i]->type);
    bool is_float = tensor != nullptr && tensor->dtype.is_concrete() && tensor->dtype.dtype.is_float();
    if (!is_float) continue;
    const auto* constant = ir::DynCast<ir::Constant>(args[i]);
    // Extents depend on a constant: it stays one.
    if (constant != nullptr) {
      args[i] = at.Constant(ToIntegers(constant->literal));
    } else {
      args[i] = BuildCall(at, "cast", {args[i]}, {{"dtype", "int64"}});
    }
  }
  return args;
}

ir::Call* BuildCall(const ir::Builder& at, std::string_view name, std::vector<ir::Expr*> args, ir::Attrs attrs) {
  const OpDef* op = FindOp(name);
  std::optional<ir::Attrs> complete = WithDefaults(*op, std::move(attrs));
  RVM_CHECK(complete.has_value(), "a call is made of an operator without its attributes");
  absl::StatusOr<const ir::Type*> type = ResultType(at.arena(), *op, *complete, args);
  RVM_CHECK(type.ok(), "a call is made of an operator that does not take the arguments");
  return at.CallOp(op, std::move(args), *std::move(complete), *type);
}

}  // namespace rvm::ops
