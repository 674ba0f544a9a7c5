#include "compiler/passes/repeated_extents.h"

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/stack_guard.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Type;

// Where the parameters first have an axis of a name. An ordinal counts the axes of all of them.
struct FirstPlace {
  size_t ordinal;
  bool is_direct;  // of a parameter that is a tensor
};

// Calls `visit` with each extent of the tensors in `type` and its tuples, and builds the type of what it returns.
class ExtentMapper {
 public:
  using Visit = absl::FunctionRef<Dim(const Dim& dim, bool is_direct)>;
  // REQUIRES: what `visit` refers to outlives this.
  ExtentMapper(ir::Arena& arena, Visit visit) : arena_(arena), visit_(visit) {}

  const Type* Map(const Type* type, bool is_direct = true) {
    return WithStack([&] { return MapOnThisStack(type, is_direct); });
  }

 private:
  const Type* MapOnThisStack(const Type* type, bool is_direct) {
    if (const auto* tuple = DynCast<ir::TupleType>(type)) {
      std::vector<const Type*> fields;
      bool changed = false;
      for (const Type* field : tuple->fields) {
        fields.push_back(Map(field, false));
        changed |= fields.back() != field;
      }
      return changed ? arena_.New<ir::TupleType>(std::move(fields)) : type;
    }
    const auto* tensor = DynCast<ir::TensorType>(type);
    if (tensor == nullptr || !tensor->shape.is_dims()) return type;
    Dims dims;
    bool changed = false;
    for (const Dim& dim : tensor->shape.dims) {
      dims.push_back(visit_(dim, is_direct));
      changed |= !(dims.back() == dim);
    }
    return changed ? arena_.New<ir::TensorType>(ir::ShapeTerm::Of(std::move(dims)), tensor->dtype) : type;
  }

  ir::Arena& arena_;
  Visit visit_;
};

bool HasName(const Dim& dim) { return !dim.is_const() && !dim.is_any(); }

bool HasNames(const ir::ShapeTerm& shape) {
  for (const Dim& dim : shape.dims) {
    if (HasName(dim)) return true;
  }
  return false;
}

bool HasNamedExtents(const Type* type, bool is_hidden) {
  auto any = [](const std::vector<const Type*>& types, bool hidden) {
    for (const Type* part : types) {
      if (WithStack([&] { return HasNamedExtents(part, hidden); })) return true;
    }
    return false;
  };
  switch (type->type_kind) {
    case ir::TypeKind::kTensor: return is_hidden && HasNames(DynCast<ir::TensorType>(type)->shape);
    case ir::TypeKind::kTuple: return any(DynCast<ir::TupleType>(type)->fields, is_hidden);
    case ir::TypeKind::kRef: return any({DynCast<ir::RefType>(type)->contents}, true);
    case ir::TypeKind::kAdt:
      for (const ir::TypeArg& arg : DynCast<ir::AdtType>(type)->args) {
        bool is_named = arg.kind == ir::Kind::kType    ? any({arg.type}, true)
                        : arg.kind == ir::Kind::kShape ? HasNames(arg.shape)
                                                       : arg.kind == ir::Kind::kShapeVar && HasName(arg.dim);
        if (is_named) return true;
      }
      return false;
    case ir::TypeKind::kFunc:
    case ir::TypeKind::kParam:
    case ir::TypeKind::kHole: return false;
  }
  return false;
}

}  // namespace

std::vector<const Type*> UncheckedParamTypes(ir::Arena& arena, const std::vector<ir::Var*>& params) {
  absl::flat_hash_map<int64_t, FirstPlace> first;
  size_t ordinal = 0;
  auto note = [&](const Dim& dim, bool is_direct) {
    if (dim.kind() == DimKind::kVar) first.try_emplace(dim.id(), FirstPlace{ordinal, is_direct});
    ++ordinal;
    return dim;
  };
  ExtentMapper find(arena, note);
  for (const ir::Var* param : params) find.Map(param->type);

  ordinal = 0;
  auto drop = [&](const Dim& dim, bool is_direct) {
    size_t here = ordinal++;
    if (!HasName(dim)) return dim;
    bool all_direct = is_direct;
    bool all_known = IsArithmeticOf(dim, [&](const Dim& leaf) {
      auto place = leaf.kind() == DimKind::kVar ? first.find(leaf.id()) : first.end();
      if (place == first.end() || place->second.ordinal == here) return false;
      all_direct = all_direct && place->second.is_direct;
      return true;
    });
    return all_known && !all_direct ? Dim::Any() : dim;
  };
  ExtentMapper weaken(arena, drop);
  std::vector<const Type*> types;
  for (const ir::Var* param : params) {
    const Type* known = weaken.Map(param->type);
    types.push_back(known == param->type ? nullptr : known);
  }
  return types;
}

bool HidesNamedExtents(const Type* type) { return HasNamedExtents(type, false); }

}  // namespace rvm::passes
