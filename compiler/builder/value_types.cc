#include "compiler/builder/value_types.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/stack_guard.h"
#include "compiler/ir/match_types.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/derive_type.h"

namespace rvm::builder {

using ir::DynCast;

Type OpResult(ir::Arena& arena, const ops::OpDef& op, const ir::Attrs& attrs, const std::vector<Type>& args,
              const std::vector<const Literal*>& values) {
  bool all_known = std::find(args.begin(), args.end(), nullptr) == args.end();
  std::optional<ir::Attrs> complete = ops::WithDefaults(op, attrs);
  if (!all_known || !complete || args.size() > op.inputs.size() || args.size() < ops::NumRequiredInputs(op)) {
    return nullptr;
  }
  absl::StatusOr<ops::DerivedResult> derived =
      ops::DeriveResult(op, *complete, args, values, arena, [](size_t, int64_t) { return Dim::Any(); });
  return derived.ok() ? derived->result : nullptr;
}

Type CallResult(ir::Arena& arena, Type callee, const std::vector<Type>& args) {
  const auto* type = DynCast<ir::FuncType>(callee);
  if (type == nullptr || type->result == nullptr) return nullptr;
  absl::flat_hash_map<const ir::TypeParam*, ir::TypeArg> found;
  for (size_t i = 0; i < std::min(args.size(), type->params.size()); ++i) {
    if (args[i] == nullptr || type->params[i] == nullptr) continue;
    ir::MatchTypes(type->params[i], args[i], type->type_params, found);
  }
  ir::TypeSubstitution substitution;
  for (const ir::TypeParam* param : type->type_params) {
    auto arg = found.find(param);
    if (arg == found.end() && param->kind != ir::Kind::kShapeVar) return nullptr;
    substitution.Add(param, arg != found.end() ? arg->second : ir::TypeArg{.kind = param->kind, .dim = Dim::Any()});
  }
  return substitution.Apply(arena, type->result);
}

Type JoinTypes(ir::Arena& arena, Type a, Type b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  if (ir::TypesEqual(a, b)) return a;
  const auto *x = DynCast<ir::TensorType>(a), *y = DynCast<ir::TensorType>(b);
  if (x != nullptr && y != nullptr) {
    bool is_joinable = x->dtype == y->dtype && x->shape.is_dims() && y->shape.is_dims() &&
                       x->shape.dims.size() == y->shape.dims.size();
    if (!is_joinable) return nullptr;
    Dims dims = x->shape.dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!(dims[i] == y->shape.dims[i])) dims[i] = Dim::Any();
    }
    return arena.New<ir::TensorType>(ir::ShapeTerm::Of(std::move(dims)), x->dtype);
  }
  const auto *s = DynCast<ir::TupleType>(a), *t = DynCast<ir::TupleType>(b);
  if (s == nullptr || t == nullptr || s->fields.size() != t->fields.size()) return nullptr;
  std::vector<Type> fields;
  for (size_t i = 0; i < s->fields.size(); ++i) {
    fields.push_back(WithStack([&] { return JoinTypes(arena, s->fields[i], t->fields[i]); }));
    if (fields.back() == nullptr) return nullptr;
  }
  return arena.New<ir::TupleType>(std::move(fields));
}

Type FieldType(Type tuple, size_t index) {
  const auto* type = DynCast<ir::TupleType>(tuple);
  return type != nullptr && index < type->fields.size() ? type->fields[index] : nullptr;
}

Type ConstructorType(ir::Arena& arena, const ir::Constructor& constructor) {
  std::vector<ir::TypeArg> own;
  for (const ir::TypeParam* param : constructor.adt->type_params) own.push_back(ir::OwnArg(arena, *param));
  const ir::Type* result = arena.New<ir::AdtType>(constructor.adt, std::move(own));
  return arena.New<ir::FuncType>(constructor.adt->type_params, constructor.fields, result);
}

}  // namespace rvm::builder
