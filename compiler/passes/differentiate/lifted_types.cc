#include "compiler/passes/differentiate/lifted_types.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "compiler/ir/build.h"
#include "compiler/ir/type_parts.h"

namespace rvm::passes {

using ir::DynCast;
using ir::Type;

namespace {

class NameDropper : public ir::TypeMapper {
 public:
  using TypeMapper::TypeMapper;

 protected:
  Dim MapDim(const Dim& dim) override { return dim.is_const() ? dim : Dim::Any(); }
};

std::string KeyOf(const ir::AdtType& adt) {
  return absl::StrCat(reinterpret_cast<uintptr_t>(adt.adt), " ", ir::TypeToString(&adt));
}

template <typename F>
std::vector<const Type*> MapAll(const std::vector<const Type*>& types, F&& map) {
  std::vector<const Type*> result;
  for (const Type* type : types) result.push_back(map(type));
  return result;
}

}  // namespace

LiftedTypes::LiftedTypes(const ir::Module& module, Mode mode) : arena_(*module.arena), mode_(mode) {
  for (const ir::AdtDef* adt : module.adts) names_.insert(adt->name);
}

const Type* LiftedTypes::WithoutNames(const Type* type) { return NameDropper(arena_).Map(type); }

bool LiftedTypes::HasFloats(const Type* type) {
  if (const auto* tensor = DynCast<ir::TensorType>(type)) return tensor->dtype.dtype.is_float();
  const auto* tuple = DynCast<ir::TupleType>(type);
  return tuple != nullptr &&
         std::any_of(tuple->fields.begin(), tuple->fields.end(), [&](const Type* field) { return HasFloats(field); });
}

bool LiftedTypes::HasBoxed(const Type* type) {
  if (type->type_kind == ir::TypeKind::kTensor) return false;
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return !IsInert(type);
  return std::any_of(tuple->fields.begin(), tuple->fields.end(), [&](const Type* field) { return HasBoxed(field); });
}

bool LiftedTypes::IsInert(const Type* type) {
  absl::flat_hash_set<std::string> seen;
  return !FindsLifted(type, seen);
}

bool LiftedTypes::FindsLifted(const Type* type, absl::flat_hash_set<std::string>& seen) {
  return WithStack([&] {
    auto finds = [&](const Type* part) { return FindsLifted(part, seen); };
    switch (type->type_kind) {
      case ir::TypeKind::kTensor: return DynCast<ir::TensorType>(type)->dtype.dtype.is_float();
      case ir::TypeKind::kFunc: return true;
      case ir::TypeKind::kRef: return finds(DynCast<ir::RefType>(type)->contents);
      case ir::TypeKind::kTuple: {
        const auto& fields = DynCast<ir::TupleType>(type)->fields;
        return std::any_of(fields.begin(), fields.end(), finds);
      }
      case ir::TypeKind::kAdt: {
        const auto& adt = *DynCast<ir::AdtType>(type);
        if (!seen.insert(KeyOf(adt)).second) return false;
        for (const ir::Constructor* constructor : adt.adt->constructors) {
          std::vector<const Type*> fields = ir::FieldTypes(arena_, *constructor, adt);
          if (std::any_of(fields.begin(), fields.end(), finds)) return true;
        }
        return false;
      }
      case ir::TypeKind::kParam:
      case ir::TypeKind::kHole: return false;
    }
    return false;
  });
}

bool LiftedTypes::IsParametric(const ir::AdtDef* adt) {
  auto [it, added] = is_parametric_.try_emplace(adt, false);
  if (!added) return it->second;
  absl::flat_hash_set<const ir::AdtDef*> seen = {adt};
  bool result = true;
  for (const ir::Constructor* constructor : adt->constructors) {
    for (const Type* field : constructor->fields) result = result && IsParametric(field, seen);
  }
  return is_parametric_[adt] = result;
}

bool LiftedTypes::IsParametric(const Type* field, absl::flat_hash_set<const ir::AdtDef*>& seen) {
  return WithStack([&] {
    switch (field->type_kind) {
      case ir::TypeKind::kParam: return true;
      case ir::TypeKind::kTensor: {
        const auto* tensor = DynCast<ir::TensorType>(field);
        return tensor->dtype.is_concrete() && !tensor->dtype.dtype.is_float();
      }
      case ir::TypeKind::kRef: return IsParametric(DynCast<ir::RefType>(field)->contents, seen);
      case ir::TypeKind::kTuple: {
        const auto& fields = DynCast<ir::TupleType>(field)->fields;
        return std::all_of(fields.begin(), fields.end(), [&](const Type* part) { return IsParametric(part, seen); });
      }
      case ir::TypeKind::kAdt: {
        const auto& adt = *DynCast<ir::AdtType>(field);
        for (const ir::TypeArg& arg : adt.args) {
          if (arg.kind != ir::Kind::kType || !IsParametric(arg.type, seen)) return false;
        }
        if (!seen.insert(adt.adt).second) return true;
        for (const ir::Constructor* constructor : adt.adt->constructors) {
          for (const Type* part : constructor->fields) {
            if (!IsParametric(part, seen)) return false;
          }
        }
        return true;
      }
      case ir::TypeKind::kFunc:
      case ir::TypeKind::kHole: return false;
    }
    return false;
  });
}

const ir::AdtDef* LiftedTypes::InstanceOf(const ir::AdtType& adt) {
  ir::AdtDef*& instance = instances_[KeyOf(adt)];
  if (instance != nullptr) return instance;
  auto* def = arena_.New<ir::AdtDef>();
  instance = def;
  std::string stem = absl::StrCat(adt.adt->name, mode_ == Mode::kReverse ? "Lifted" : "Dual");
  def->name = stem;
  for (int i = 2; !names_.insert(def->name).second; ++i) def->name = absl::StrCat(stem, i);
  def->span = adt.adt->span;
  for (const ir::Constructor* constructor : adt.adt->constructors) {
    auto* lifted = arena_.New<ir::Constructor>();
    lifted->name = constructor->name;
    lifted->adt = def;
    lifted->tag = constructor->tag;
    lifted->span = constructor->span;
    def->constructors.push_back(lifted);
  }
  adts_.push_back(def);
  for (size_t i = 0; i < def->constructors.size(); ++i) {
    for (const Type* field : ir::FieldTypes(arena_, *adt.adt->constructors[i], adt)) {
      def->constructors[i]->fields.push_back(WithoutNames(Boxed(field)));
    }
  }
  return def;
}

const ir::Constructor* LiftedTypes::Boxed(const ir::Constructor& constructor, const ir::AdtType& adt) {
  const auto& lifted = *DynCast<ir::AdtType>(Boxed(&adt));
  return lifted.adt->constructors[constructor.tag];
}

const Type* LiftedTypes::Flat(const Type* type) {
  if (type->type_kind == ir::TypeKind::kTensor) return type;
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return Boxed(type);
  return arena_.New<ir::TupleType>(MapAll(tuple->fields, [&](const Type* field) { return Flat(field); }));
}

const Type* LiftedTypes::Boxed(const Type* type) {
  return WithStack([&]() -> const Type* {
    switch (type->type_kind) {
      case ir::TypeKind::kTensor: {
        if (!HasFloats(type)) return type;
        const Type* second = type;
        if (mode_ == Mode::kReverse) second = arena_.New<ir::RefType>(type);
        std::vector<const Type*> pair = {type, second};
        return arena_.New<ir::TupleType>(std::move(pair));
      }
      case ir::TypeKind::kTuple:
        return arena_.New<ir::TupleType>(
            MapAll(DynCast<ir::TupleType>(type)->fields, [&](const Type* field) { return Boxed(field); }));
      case ir::TypeKind::kRef: return arena_.New<ir::RefType>(Boxed(DynCast<ir::RefType>(type)->contents));
      case ir::TypeKind::kFunc: {
        const auto& function = *DynCast<ir::FuncType>(type);
        return mode_ == Mode::kReverse ? Reversed(function) : Forward(function);
      }
      case ir::TypeKind::kAdt: {
        const auto& adt = *DynCast<ir::AdtType>(type);
        if (IsInert(type)) return type;
        if (!IsParametric(adt.adt)) return arena_.New<ir::AdtType>(InstanceOf(adt), std::vector<ir::TypeArg>{});
        std::vector<ir::TypeArg> args = adt.args;
        for (ir::TypeArg& arg : args) arg.type = arg.type == nullptr ? nullptr : Boxed(arg.type);
        return arena_.New<ir::AdtType>(adt.adt, std::move(args));
      }
      case ir::TypeKind::kParam:
      case ir::TypeKind::kHole: return type;
    }
    return type;
  });
}

const Type* LiftedTypes::Adjoint(const Type* type) {
  if (type->type_kind == ir::TypeKind::kTensor && HasFloats(type)) return type;
  const auto* tuple = DynCast<ir::TupleType>(type);
  std::vector<const Type*> fields;
  if (tuple != nullptr) fields = MapAll(tuple->fields, [&](const Type* field) { return Adjoint(field); });
  return arena_.New<ir::TupleType>(std::move(fields));
}

const ir::FuncType* LiftedTypes::Reversed(const ir::FuncType& type, const std::vector<bool>& constant) {
  return arena_.New<ir::FuncType>(type.type_params, MapAll(type.params, [&](const Type* param) { return Flat(param); }),
                                  ReversedResult(type.result, type.params, constant));
}

const ir::FuncType* LiftedTypes::Forward(const ir::FuncType& type, const std::vector<bool>& constant) {
  std::vector<const Type*> params;
  for (size_t i = 0; i < type.params.size(); ++i) {
    params.push_back(i < constant.size() && constant[i] ? Flat(type.params[i]) : Boxed(type.params[i]));
  }
  return arena_.New<ir::FuncType>(type.type_params, std::move(params), Boxed(type.result));
}

const Type* LiftedTypes::ReversedResult(const Type* result, const std::vector<const Type*>& adjoints_of,
                                        const std::vector<bool>& constant) {
  std::vector<const Type*> adjoints;
  for (size_t i = 0; i < adjoints_of.size(); ++i) {
    bool is_constant = i < constant.size() && constant[i];
    adjoints.push_back(is_constant ? ir::UnitType(arena_) : Adjoint(adjoints_of[i]));
  }
  const Type* shares = arena_.New<ir::TupleType>(std::move(adjoints));
  std::vector<const Type*> fields = {Flat(result), ir::MakeFuncType(arena_, {Adjoint(result)}, shares)};
  return arena_.New<ir::TupleType>(std::move(fields));
}

}  // namespace rvm::passes
