#include "compiler/typing/solver.h"

#include "base/check.h"
#include "base/dim_size.h"
#include "base/stack_guard.h"
#include "compiler/ir/adt.h"
#include "compiler/ir/error_type.h"
#include "compiler/ir/type_parts.h"
#include "compiler/typing/solver_holes.h"

namespace rvm::typing {

using ir::DTypeTerm;
using ir::DynCast;
using ir::Kind;
using ir::ShapeTerm;
using ir::Type;
using ir::TypeArg;
using ir::TypeKind;

// ---- What occurs in a type

uint8_t Solver::ShapeFlags(const ShapeTerm& shape) {
  if (shape.form == ShapeTerm::Form::kHole) return kHasHole | kHasDim;
  uint8_t flags = shape.dims.empty() && shape.is_dims() ? 0 : kHasDim;
  for (const Dim& dim : shape.dims) {
    if (dim.is_const()) continue;
    if (ContainsHole(dim)) flags |= kHasHole;
    if (ContainsAny(dim)) flags |= kHasAny;
  }
  return flags;
}

uint8_t Solver::ArgFlags(const TypeArg& arg) {
  switch (arg.kind) {
    case Kind::kType: return Flags(arg.type);
    case Kind::kBaseType: return arg.dtype.form == DTypeTerm::Form::kHole ? kHasHole : 0;
    case Kind::kShape: return ShapeFlags(arg.shape);
    case Kind::kShapeVar:
    case Kind::kConstraint:
    case Kind::kAdtHandle: return ShapeFlags(ShapeTerm::Of({arg.dim}));
  }
}

uint8_t Solver::FlagsOnThisStack(const Type* type) {
  uint8_t flags = 0;
  switch (type->type_kind) {
    case TypeKind::kTensor: {
      const auto* tensor = DynCast<ir::TensorType>(type);
      return ShapeFlags(tensor->shape) | (tensor->dtype.form == DTypeTerm::Form::kHole ? kHasHole : 0);
    }
    case TypeKind::kTuple:
      for (const Type* field : DynCast<ir::TupleType>(type)->fields) flags |= Flags(field);
      return flags;
    case TypeKind::kFunc: {
      const auto* func = DynCast<ir::FuncType>(type);
      if (!func->type_params.empty()) flags |= kHasPolymorphic;
      for (const Type* param : func->params) flags |= Flags(param);
      for (const ir::TypeConstraint& constraint : func->constraints) {
        for (const Type* arg : constraint.args) flags |= Flags(arg);
      }
      return flags | Flags(func->result);
    }
    case TypeKind::kAdt:
      for (const TypeArg& arg : DynCast<ir::AdtType>(type)->args) flags |= ArgFlags(arg);
      return flags;
    case TypeKind::kParam: return 0;
    case TypeKind::kRef: return Flags(DynCast<ir::RefType>(type)->contents);
    case TypeKind::kHole: return kHasHole | kHasDim;
  }
  return flags;
}

uint8_t Solver::Flags(const Type* type) {
  if (type->type_kind == TypeKind::kTensor || type->type_kind == TypeKind::kHole) return FlagsOnThisStack(type);
  if (auto found = flags_.find(type); found != flags_.end()) return found->second;
  uint8_t flags = WithStack([&] { return FlagsOnThisStack(type); });
  flags_.emplace(type, flags);
  return flags;
}

Solver::Solver(ir::Arena& arena) : arena_(arena), error_(ir::MakeErrorType(arena)) {
  int64_t id = NewHole(types_);
  RVM_CHECK(id == ir::kErrorHole, "the first hole is the error type");
  types_[static_cast<size_t>(id)].error = true;
}

// ---- Making holes

const Type* Solver::FreshType(bool defaultable) {
  return arena_.New<ir::HoleType>(NewHole(types_, false, defaultable));
}

TypeArg Solver::FreshArg(Kind kind) {
  TypeArg arg;
  arg.kind = kind;
  switch (kind) {
    case Kind::kBaseType: arg.dtype = DTypeTerm::OfHole(NewHole(dtypes_)); break;
    case Kind::kShape: arg.shape = ShapeTerm::OfHole(NewHole(shapes_, true)); break;
    case Kind::kShapeVar: arg.dim = Dim::Hole(NewHole(dims_, true)); break;
    case Kind::kType:
    case Kind::kConstraint:
    case Kind::kAdtHandle: arg.type = FreshType(true); break;
  }
  return arg;
}

const ir::FuncType* Solver::Instantiate(const ir::FuncType* type, std::vector<TypeArg>* args) {
  ir::TypeSubstitution substitution;
  for (size_t i = 0; i < type->type_params.size(); ++i) {
    if (i == args->size()) args->push_back(FreshArg(type->type_params[i]->kind));
    substitution.Add(type->type_params[i], (*args)[i]);
  }
  if (type->type_params.empty()) return type;
  // A hole's value may name the parameters too.
  type = DynCast<ir::FuncType>(Resolve(type));
  std::vector<const Type*> params;
  for (const Type* param : type->params) params.push_back(substitution.Apply(arena_, param));
  std::vector<ir::TypeConstraint> constraints = type->constraints;
  for (ir::TypeConstraint& constraint : constraints) {
    for (const Type*& arg : constraint.args) arg = substitution.Apply(arena_, arg);
  }
  return arena_.New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, std::move(params),
                                  substitution.Apply(arena_, type->result), std::move(constraints));
}

// ---- Mapping over types

// Parts that occur often are mapped once.
class Solver::HoleMapper : public ir::TypeMapper {
 public:
  HoleMapper(Solver& solver, uint8_t flags) : TypeMapper(solver.arena_), solver_(solver), flags_(flags) {}

 protected:
  // Returns the replacement of a hole, which is mapped in its turn. Here: the hole.
  virtual const Type* MapHole(const Type* hole) { return hole; }

  const Type* MapType(const Type* type) final {
    if ((solver_.Flags(type) & flags_) == 0) return type;
    if (type->type_kind == TypeKind::kTensor) return MapParts(type);
    if (type->type_kind == TypeKind::kHole) {
      const Type* value = MapHole(type);
      return value == type ? type : Map(value);
    }
    if (auto found = memo_.find(type); found != memo_.end()) return found->second;
    const Type* result = MapParts(type);
    memo_.emplace(type, result);
    return result;
  }

  Solver& solver_;

 private:
  uint8_t flags_;  // of the types that change
  absl::flat_hash_map<const Type*, const Type*> memo_;
};

class Solver::ResolveMapper : public HoleMapper {
 public:
  ResolveMapper(Solver& solver, std::vector<HoleUse>* uses) : HoleMapper(solver, kHasHole), uses_(uses) {}

 protected:
  const Type* MapHole(const Type* hole) override {
    int64_t root = Root(solver_.types_, DynCast<ir::HoleType>(hole)->id);
    const auto& node = solver_.types_[static_cast<size_t>(root)];
    if (node.value) return *node.value;
    if (uses_ != nullptr) uses_->push_back({HoleUse::Sort::kType, root});
    return hole;
  }
  ShapeTerm MapShape(const ShapeTerm& shape) override { return solver_.ResolveShape(shape, uses_); }
  DTypeTerm MapDType(const DTypeTerm& dtype) override { return solver_.ResolveDType(dtype, uses_); }
  Dim MapDim(const Dim& dim) override { return solver_.ResolveDim(dim, uses_); }

 private:
  std::vector<HoleUse>* uses_;
};

class Solver::FreshenMapper : public HoleMapper {
 public:
  explicit FreshenMapper(Solver& solver) : HoleMapper(solver, kHasHole) {}

 protected:
  // Returns a written hole; a new one has no value yet.
  const Type* MapHole(const Type* hole) override {
    return DynCast<ir::HoleType>(hole)->id != 0 ? hole : solver_.FreshType();
  }
  ShapeTerm MapShape(const ShapeTerm& shape) override {
    if (shape.form == ShapeTerm::Form::kHole) return ShapeTerm::OfHole(NewHole(solver_.shapes_));
    return TypeMapper::MapShape(shape);
  }
  DTypeTerm MapDType(const DTypeTerm& dtype) override {
    return dtype.form == DTypeTerm::Form::kHole ? DTypeTerm::OfHole(NewHole(solver_.dtypes_)) : dtype;
  }
  Dim MapDim(const Dim& dim) override {
    return SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
      if (leaf.kind() != DimKind::kHole) return std::nullopt;
      return Dim::Hole(NewHole(solver_.dims_));
    });
  }
};

// A copy whose dims are holes of their own that follow the originals.
class Solver::CopyMapper : public HoleMapper {
 public:
  CopyMapper(Solver& solver, int64_t hole, bool is_destination)
      : HoleMapper(solver, 0xff), hole_(hole), is_destination_(is_destination) {}
  // Returns whether the hole that is being filled occurs in the type.
  bool is_infinite() const { return is_infinite_; }

 protected:
  const Type* MapHole(const Type* type) override {
    int64_t root = Root(solver_.types_, DynCast<ir::HoleType>(type)->id);
    if (root == hole_) is_infinite_ = true;
    const auto& node = solver_.types_[static_cast<size_t>(root)];
    return node.value ? *node.value : type;
  }
  ShapeTerm MapShape(const ShapeTerm& shape) override {
    if (shape.form != ShapeTerm::Form::kHole) return TypeMapper::MapShape(shape);
    const auto& node = solver_.shapes_[static_cast<size_t>(Root(solver_.shapes_, shape.hole))];
    return node.value ? TypeMapper::MapShape(*node.value) : shape;
  }
  Dim MapDim(const Dim& dim) override { return solver_.SoftCopy(dim, is_destination_, /*sticky=*/false); }

 private:
  int64_t hole_;
  bool is_destination_;
  bool is_infinite_ = false;
};

class Solver::TemplateMapper : public HoleMapper {
 public:
  explicit TemplateMapper(Solver& solver) : HoleMapper(solver, kHasDim) {}

 protected:
  Dim MapDim(const Dim& dim) override { return dim.is_any() ? dim : Dim::Hole(NewHole(solver_.dims_)); }
};

const Type* Solver::Freshen(const Type* type) { return FreshenMapper(*this).Map(type); }
TypeArg Solver::Freshen(const TypeArg& arg) { return FreshenMapper(*this).Map(arg); }
const Type* Solver::Template(const Type* expected) { return TemplateMapper(*this).Map(Resolve(expected)); }

const Type* Solver::Shallow(const Type* type) {
  while (const auto* hole = DynCast<ir::HoleType>(type)) {
    const auto& node = types_[static_cast<size_t>(Root(types_, hole->id))];
    if (!node.value) break;
    type = *node.value;
  }
  return type;
}

const Type* Solver::Resolve(const Type* type, std::vector<HoleUse>* uses) {
  if ((Flags(type) & kHasHole) == 0) return type;
  return ResolveMapper(*this, uses).Map(type);
}

Solver::Resolver::Resolver(Solver& solver) : mapper_(std::make_unique<ResolveMapper>(solver, nullptr)) {}
Solver::Resolver::~Resolver() = default;
const Type* Solver::Resolver::Resolve(const Type* type) {
  auto [it, added] = resolved_.try_emplace(type, type);
  if (added) it->second = mapper_->Map(type);
  return it->second;
}

TypeArg Solver::Resolve(const TypeArg& arg) { return ResolveMapper(*this, nullptr).Map(arg); }

ShapeTerm Solver::ResolveShape(const ShapeTerm& shape, std::vector<HoleUse>* uses) {
  ShapeTerm result = shape;
  if (shape.form == ShapeTerm::Form::kHole) {
    int64_t root = Root(shapes_, shape.hole);
    const auto& node = shapes_[static_cast<size_t>(root)];
    if (!node.value) {
      if (uses != nullptr) uses->push_back({HoleUse::Sort::kShape, root});
      return ShapeTerm::OfHole(root);
    }
    result = *node.value;
  }
  for (Dim& dim : result.dims) dim = ResolveDim(dim, uses);
  return result;
}

DTypeTerm Solver::ResolveDType(const DTypeTerm& dtype, std::vector<HoleUse>* uses) {
  if (dtype.form != DTypeTerm::Form::kHole) return dtype;
  int64_t root = Root(dtypes_, dtype.hole);
  const auto& node = dtypes_[static_cast<size_t>(root)];
  if (node.value) return *node.value;
  if (uses != nullptr) uses->push_back({HoleUse::Sort::kDType, root});
  return DTypeTerm::OfHole(root);
}

std::optional<int64_t> Solver::DimRoot(const Dim& dim) {
  if (dim.kind() != DimKind::kHole) return std::nullopt;
  return Root(dims_, dim.id());
}

Dim Solver::ResolveDim(const Dim& dim, std::vector<HoleUse>* uses) {
  if (dim.is_const() || dim.is_any() || dim.kind() == DimKind::kVar) return dim;
  Dim result = SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
    std::optional<int64_t> root = DimRoot(leaf);
    if (!root) return std::nullopt;
    if (uses != nullptr) uses->push_back({HoleUse::Sort::kDim, *root});
    const auto& node = dims_[static_cast<size_t>(*root)];
    if (!node.value) return Dim::Hole(*root);
    return ResolveDim(Dim(*node.value), uses);
  });
  return ContainsAny(result) || CountDimNodes(result, kMaxDerivedDimNodes) > kMaxDerivedDimNodes ? Dim::Any() : result;
}

// ---- Errors and defaults

bool Solver::IsError(const Type* type) {
  const auto* hole = DynCast<ir::HoleType>(Shallow(type));
  return hole != nullptr && types_[static_cast<size_t>(Root(types_, hole->id))].error;
}

bool Solver::ContainsError(const Type* type) {
  std::vector<HoleUse> uses;
  Resolve(type, &uses);
  for (const HoleUse& use : uses) {
    if (use.sort == HoleUse::Sort::kType && types_[static_cast<size_t>(use.id)].error) return true;
    if (use.sort == HoleUse::Sort::kShape && shapes_[static_cast<size_t>(use.id)].error) return true;
    if (use.sort == HoleUse::Sort::kDType && dtypes_[static_cast<size_t>(use.id)].error) return true;
  }
  return false;
}

bool Solver::IsOpen(const Type* type) {
  std::vector<HoleUse> uses;
  Resolve(type, &uses);
  for (const HoleUse& use : uses) {
    if (use.sort != HoleUse::Sort::kDim) return true;
  }
  return false;
}

void Solver::Poison(const Type* type) {
  std::vector<HoleUse> uses;
  Resolve(type, &uses);
  for (const HoleUse& use : uses) {
    size_t id = static_cast<size_t>(use.id);
    switch (use.sort) {
      case HoleUse::Sort::kType:
        types_[id].error = true;
        Wake(types_[id]);
        break;
      case HoleUse::Sort::kShape:
        shapes_[id].error = true;
        Wake(shapes_[id]);
        break;
      case HoleUse::Sort::kDType:
        dtypes_[id].error = true;
        Wake(dtypes_[id]);
        break;
      case HoleUse::Sort::kDim: break;
    }
  }
}

bool Solver::FillDefaults() {
  bool any = false;
  const Type* unit = nullptr;
  for (size_t i = 1; i < types_.size(); ++i) {
    auto& hole = types_[i];
    if (hole.parent != static_cast<int64_t>(i) || hole.value || !hole.defaultable || hole.error) continue;
    if (unit == nullptr) unit = ir::UnitType(arena_);
    Fill(types_, static_cast<int64_t>(i), unit);
    any = true;
  }
  for (size_t i = 1; i < dims_.size(); ++i) {
    if (dims_[i].parent != static_cast<int64_t>(i) || dims_[i].value) continue;
    Fill(dims_, static_cast<int64_t>(i), Dim::Any());
    any = true;
  }
  return any;
}

void Solver::Wait(const HoleUse& use, int32_t waiter) {
  size_t id = static_cast<size_t>(use.id);
  Waiters* waiters = nullptr;
  switch (use.sort) {
    case HoleUse::Sort::kType: waiters = &types_[id].waiters; break;
    case HoleUse::Sort::kShape: waiters = &shapes_[id].waiters; break;
    case HoleUse::Sort::kDType: waiters = &dtypes_[id].waiters; break;
    case HoleUse::Sort::kDim: waiters = &dims_[id].waiters; break;
  }
  if (waiters->empty() || waiters->back() != waiter) waiters->push_back(waiter);
}

bool Solver::FillType(int64_t hole, const Type* type, bool type_is_destination) {
  CopyMapper mapper(*this, hole, type_is_destination);
  const Type* copy = mapper.Map(type);
  if (mapper.is_infinite()) return false;
  Fill(types_, hole, copy);
  return true;
}

}  // namespace rvm::typing
