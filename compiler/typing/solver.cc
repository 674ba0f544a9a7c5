#include "compiler/typing/solver.h"

#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ir/adt.h"
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
    default: return ShapeFlags(ShapeTerm::Of({arg.dim}));
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
    default: arg.type = FreshType(true); break;
  }
  return arg;
}

const Type* Solver::ErrorType() {
  if (error_ == nullptr) {
    int64_t id = NewHole(types_);
    types_[static_cast<size_t>(id)].error = true;
    error_ = arena_.New<ir::HoleType>(id);
  }
  return error_;
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

// A Mapper has Leaf(type) for holes (may return any type), Shape, DType, Dim.
template <typename Mapper>
TypeArg Solver::RebuildArg(const TypeArg& arg, Mapper& mapper) {
  TypeArg result = arg;
  switch (arg.kind) {
    case Kind::kType: result.type = Rebuild(arg.type, mapper); break;
    case Kind::kBaseType: result.dtype = mapper.DType(arg.dtype); break;
    case Kind::kShape: result.shape = mapper.Shape(arg.shape); break;
    default: result.dim = mapper.MapDim(arg.dim); break;
  }
  return result;
}

template <typename Mapper>
const Type* Solver::Rebuild(const Type* type, Mapper& mapper) {
  if (mapper.IsUnchanged(type)) return type;
  if (type->type_kind == TypeKind::kTensor) {
    const auto* tensor = DynCast<ir::TensorType>(type);
    return arena_.New<ir::TensorType>(mapper.Shape(tensor->shape), mapper.DType(tensor->dtype));
  }
  if (type->type_kind == TypeKind::kHole) {
    const Type* leaf = mapper.Leaf(type);
    return leaf == nullptr || leaf == type ? type : WithStack([&] { return Rebuild(leaf, mapper); });
  }
  if (auto found = mapper.memo.find(type); found != mapper.memo.end()) return found->second;
  auto all = [&](const std::vector<const Type*>& types) {
    std::vector<const Type*> result;
    result.reserve(types.size());
    for (const Type* t : types) result.push_back(Rebuild(t, mapper));
    return result;
  };
  const Type* result = WithStack([&]() -> const Type* {
    switch (type->type_kind) {
      case TypeKind::kTuple: return arena_.New<ir::TupleType>(all(DynCast<ir::TupleType>(type)->fields));
      case TypeKind::kFunc: {
        const auto* func = DynCast<ir::FuncType>(type);
        std::vector<ir::TypeConstraint> constraints = func->constraints;
        for (ir::TypeConstraint& constraint : constraints) constraint.args = all(constraint.args);
        auto params = all(func->params);
        return arena_.New<ir::FuncType>(func->type_params, std::move(params), Rebuild(func->result, mapper),
                                        std::move(constraints));
      }
      case TypeKind::kAdt: {
        const auto* adt = DynCast<ir::AdtType>(type);
        std::vector<TypeArg> args;
        for (const TypeArg& arg : adt->args) args.push_back(RebuildArg(arg, mapper));
        return arena_.New<ir::AdtType>(adt->adt, std::move(args));
      }
      case TypeKind::kRef: return arena_.New<ir::RefType>(Rebuild(DynCast<ir::RefType>(type)->contents, mapper));
      default: return type;
    }
  });
  mapper.memo.emplace(type, result);
  return result;
}

using Memo = absl::flat_hash_map<const Type*, const Type*>;

struct Solver::ResolveMapper {
  Solver& solver;
  std::vector<HoleUse>* uses;
  Memo memo;

  bool IsUnchanged(const Type* type) { return (solver.Flags(type) & kHasHole) == 0; }
  const Type* Leaf(const Type* hole) {
    int64_t root = Root(solver.types_, DynCast<ir::HoleType>(hole)->id);
    const auto& node = solver.types_[static_cast<size_t>(root)];
    if (node.value) return *node.value;
    if (uses != nullptr) uses->push_back({HoleUse::Sort::kType, root});
    return hole;
  }
  ShapeTerm Shape(const ShapeTerm& shape) { return solver.ResolveShape(shape, uses); }
  DTypeTerm DType(const DTypeTerm& dtype) { return solver.ResolveDType(dtype, uses); }
  Dim MapDim(const Dim& dim) { return solver.ResolveDim(dim, uses); }
};

struct Solver::FreshenMapper {
  Solver& solver;
  Memo memo;

  bool IsUnchanged(const Type* type) { return (solver.Flags(type) & kHasHole) == 0; }
  // A written hole; a new one is not looked into.
  const Type* Leaf(const Type* hole) { return DynCast<ir::HoleType>(hole)->id != 0 ? hole : solver.FreshType(); }
  ShapeTerm Shape(const ShapeTerm& shape) {
    if (shape.form == ShapeTerm::Form::kHole) return ShapeTerm::OfHole(NewHole(solver.shapes_));
    ShapeTerm result = shape;
    for (Dim& dim : result.dims) dim = MapDim(dim);
    return result;
  }
  DTypeTerm DType(const DTypeTerm& dtype) {
    return dtype.form == DTypeTerm::Form::kHole ? DTypeTerm::OfHole(NewHole(solver.dtypes_)) : dtype;
  }
  Dim MapDim(const Dim& dim) {
    return SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
      if (leaf.kind() != DimKind::kHole) return std::nullopt;
      return Dim::Hole(NewHole(solver.dims_));
    });
  }
};

// A copy whose dims are holes of their own that follow the originals.
struct Solver::CopyMapper {
  Solver& solver;
  int64_t hole;  // being filled: its occurrence makes the type infinite
  bool is_destination;
  bool infinite = false;
  Memo memo;

  bool IsUnchanged(const Type* type) { return solver.Flags(type) == 0; }
  const Type* Leaf(const Type* type) {
    int64_t root = Root(solver.types_, DynCast<ir::HoleType>(type)->id);
    if (root == hole) infinite = true;
    const auto& node = solver.types_[static_cast<size_t>(root)];
    return node.value ? *node.value : type;
  }
  ShapeTerm Shape(const ShapeTerm& shape) {
    ShapeTerm result = shape;
    if (shape.form == ShapeTerm::Form::kHole) {
      const auto& node = solver.shapes_[static_cast<size_t>(Root(solver.shapes_, shape.hole))];
      if (!node.value) return shape;
      result = *node.value;
    }
    for (Dim& dim : result.dims) dim = MapDim(dim);
    return result;
  }
  DTypeTerm DType(const DTypeTerm& dtype) { return dtype; }
  Dim MapDim(const Dim& dim) { return solver.SoftCopy(dim, is_destination, /*sticky=*/false); }
};

struct Solver::TemplateMapper {
  Solver& solver;
  Memo memo;

  bool IsUnchanged(const Type* type) { return (solver.Flags(type) & kHasDim) == 0; }
  const Type* Leaf(const Type* type) { return type; }
  ShapeTerm Shape(const ShapeTerm& shape) {
    ShapeTerm result = shape;
    for (Dim& dim : result.dims) dim = MapDim(dim);
    return result;
  }
  DTypeTerm DType(const DTypeTerm& dtype) { return dtype; }
  Dim MapDim(const Dim& dim) { return dim.is_any() ? dim : Dim::Hole(NewHole(solver.dims_)); }
};

const Type* Solver::Freshen(const Type* type) {
  FreshenMapper mapper{*this, {}};
  return Rebuild(type, mapper);
}

TypeArg Solver::Freshen(const TypeArg& arg) {
  FreshenMapper mapper{*this, {}};
  return RebuildArg(arg, mapper);
}

const Type* Solver::Template(const Type* expected) {
  TemplateMapper mapper{*this, {}};
  return Rebuild(Resolve(expected), mapper);
}

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
  ResolveMapper mapper{*this, uses, {}};
  return Rebuild(type, mapper);
}

const Type* Solver::Resolver::Resolve(const Type* type) {
  if ((solver_.Flags(type) & kHasHole) == 0) return type;
  if (auto found = memo_.find(type); found != memo_.end()) return found->second;
  ResolveMapper mapper{solver_, nullptr, std::move(memo_)};
  const Type* result = solver_.Rebuild(type, mapper);
  memo_ = std::move(mapper.memo);
  memo_.emplace(type, result);
  return result;
}

TypeArg Solver::Resolve(const TypeArg& arg) {
  ResolveMapper mapper{*this, nullptr, {}};
  return RebuildArg(arg, mapper);
}

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
  return ContainsAny(result) ? Dim::Any() : result;
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
    if (unit == nullptr) unit = arena_.New<ir::TupleType>(std::vector<const Type*>{});
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
  CopyMapper mapper{*this, hole, type_is_destination, false, {}};
  const Type* copy = Rebuild(type, mapper);
  if (mapper.infinite) return false;
  Fill(types_, hole, copy);
  return true;
}

}  // namespace rvm::typing
