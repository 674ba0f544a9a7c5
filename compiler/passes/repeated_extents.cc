#include "compiler/passes/repeated_extents.h"

#include <algorithm>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/stack_guard.h"
#include "compiler/ir/type_parts.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Type;

// The first axis of the parameters with a given named extent. Ordinals number the axes of all parameters.
struct FirstPlace {
  size_t ordinal;
  bool is_direct;  // of a parameter that is a tensor
};

// Calls `visit` with each extent of the tensors in `type` and its tuples, and builds the type of what it returns.
class ExtentMapper : public ir::TypeMapper {
 public:
  using Visit = absl::FunctionRef<Dim(const Dim& dim, bool is_direct)>;
  // REQUIRES: what `visit` refers to outlives this.
  ExtentMapper(ir::Arena& arena, Visit visit) : TypeMapper(arena), visit_(visit) {}

  const Type* MapParam(const Type* type) {
    is_direct_ = type->type_kind == ir::TypeKind::kTensor;
    return Map(type);
  }

 protected:
  const Type* MapType(const Type* type) override {
    bool has_extents = type->type_kind == ir::TypeKind::kTensor || type->type_kind == ir::TypeKind::kTuple;
    return has_extents ? MapParts(type) : type;
  }
  Dim MapDim(const Dim& dim) override { return visit_(dim, is_direct_); }

 private:
  Visit visit_;
  bool is_direct_ = false;
};

bool HasName(const Dim& dim) { return !dim.is_const() && !dim.is_any(); }

bool HasNames(const ir::ShapeTerm& shape) {
  for (const Dim& dim : shape.dims) {
    if (HasName(dim)) return true;
  }
  return false;
}

bool HasNamedExtents(const Type* type, bool is_hidden) {
  if (const auto* tensor = DynCast<ir::TensorType>(type)) return is_hidden && HasNames(tensor->shape);
  if (type->type_kind == ir::TypeKind::kFunc) return false;
  bool found = false;
  if (const auto* adt = DynCast<ir::AdtType>(type)) {
    found = std::any_of(adt->args.begin(), adt->args.end(), [](const ir::TypeArg& arg) {
      return arg.kind == ir::Kind::kShape ? HasNames(arg.shape) : arg.kind == ir::Kind::kShapeVar && HasName(arg.dim);
    });
  }
  const bool is_part_hidden = is_hidden || type->type_kind != ir::TypeKind::kTuple;
  ir::ForEachPart(type, [&](const Type* part) {
    found = found || WithStack([&] { return HasNamedExtents(part, is_part_hidden); });
  });
  return found;
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
  for (const ir::Var* param : params) find.MapParam(param->type);

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
    const Type* known = weaken.MapParam(param->type);
    types.push_back(known == param->type ? nullptr : known);
  }
  return types;
}

bool HidesNamedExtents(const Type* type) { return HasNamedExtents(type, false); }

}  // namespace rvm::passes
