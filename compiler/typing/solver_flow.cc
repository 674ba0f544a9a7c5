#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/stack_guard.h"
#include "compiler/ir/adt.h"
#include "compiler/typing/solver.h"
#include "compiler/typing/solver_holes.h"

namespace rvm::typing {

using ir::DTypeTerm;
using ir::DynCast;
using ir::ShapeTerm;
using ir::Type;
using ir::TypeArg;
using ir::TypeKind;

bool Solver::Fail(const Type* from, const Type* to, bool infinite) {
  if (failure_.from == nullptr) failure_ = {from, to, infinite};
  return false;
}

bool Solver::Flow(const Type* from, const Type* to) {
  failure_ = {};
  flowed_.clear();
  return FlowType(from, to);
}

bool Solver::Equate(const Type* a, const Type* b) {
  failure_ = {};
  flowed_.clear();
  bool outer = std::exchange(invariant_, true);
  bool ok = FlowType(a, b);
  invariant_ = outer;
  return ok;
}

bool Solver::FlowType(const Type* from, const Type* to) {
  from = Shallow(from);
  to = Shallow(to);
  if (from == to) return true;
  if (from->type_kind == TypeKind::kHole || to->type_kind == TypeKind::kHole) return FlowHole(from, to);
  if (from->type_kind == TypeKind::kTensor && to->type_kind == TypeKind::kTensor) {
    const auto *x = DynCast<ir::TensorType>(from), *y = DynCast<ir::TensorType>(to);
    return (FlowDType(x->dtype, y->dtype) && FlowShape(x->shape, y->shape)) || Fail(from, to);
  }
  if (!invariant_ && !flowed_.emplace(from, to).second) return true;
  return WithStack([&] { return FlowOnThisStack(from, to); });
}

bool Solver::FlowHole(const Type* from, const Type* to) {
  const auto *x = DynCast<ir::HoleType>(from), *y = DynCast<ir::HoleType>(to);
  int64_t a = x == nullptr ? 0 : Root(types_, x->id), b = y == nullptr ? 0 : Root(types_, y->id);
  bool error =
      (x != nullptr && types_[static_cast<size_t>(a)].error) || (y != nullptr && types_[static_cast<size_t>(b)].error);
  if (error) {
    Poison(from);
    Poison(to);
    return true;
  }
  if (x != nullptr && y != nullptr) {
    Union(types_, a, b);
    return true;
  }
  bool filled = x != nullptr ? FillType(a, to, /*type_is_destination=*/true) : FillType(b, from, false);
  return filled || Fail(from, to, /*infinite=*/true);
}

bool Solver::FlowOnThisStack(const Type* from, const Type* to) {
  if (from->type_kind != to->type_kind) return Fail(from, to);
  switch (from->type_kind) {
    case TypeKind::kTuple: {
      const auto &x = DynCast<ir::TupleType>(from)->fields, &y = DynCast<ir::TupleType>(to)->fields;
      if (x.size() != y.size()) return Fail(from, to);
      bool ok = true;
      for (size_t i = 0; i < x.size(); ++i) ok = FlowType(x[i], y[i]) && ok;
      return ok;
    }
    case TypeKind::kFunc: return FlowFunc(DynCast<ir::FuncType>(from), DynCast<ir::FuncType>(to));
    case TypeKind::kAdt: return FlowArgs(DynCast<ir::AdtType>(from), DynCast<ir::AdtType>(to));
    case TypeKind::kParam:
      return DynCast<ir::ParamType>(from)->param == DynCast<ir::ParamType>(to)->param || Fail(from, to);
    case TypeKind::kRef: {
      bool outer = std::exchange(invariant_, true);
      bool ok = FlowType(DynCast<ir::RefType>(from)->contents, DynCast<ir::RefType>(to)->contents);
      invariant_ = outer;
      return ok;
    }
    case TypeKind::kTensor:
    case TypeKind::kHole: break;
  }
  return Fail(from, to);
}

// A polymorphic function fits where an instance is expected; the parameters of a polymorphic
// destination stand for themselves.
bool Solver::FlowFunc(const ir::FuncType* from, const ir::FuncType* to) {
  if (from->params.size() != to->params.size()) return Fail(from, to);
  std::vector<TypeArg> args;
  const ir::FuncType* instance = Instantiate(from, &args);
  bool ok = true;
  for (size_t i = 0; i < to->params.size(); ++i) ok = FlowType(to->params[i], instance->params[i]) && ok;
  return FlowType(instance->result, to->result) && ok;
}

bool Solver::FlowArgs(const ir::AdtType* from, const ir::AdtType* to) {
  if (from->adt != to->adt || from->args.size() != to->args.size()) return Fail(from, to);
  bool ok = true;
  for (size_t i = 0; i < from->args.size(); ++i) {
    const TypeArg &x = from->args[i], &y = to->args[i];
    switch (x.kind) {
      case ir::Kind::kType: ok = FlowType(x.type, y.type) && ok; break;
      case ir::Kind::kBaseType: ok = (FlowDType(x.dtype, y.dtype) || Fail(from, to)) && ok; break;
      case ir::Kind::kShape: ok = (FlowShape(x.shape, y.shape) || Fail(from, to)) && ok; break;
      case ir::Kind::kShapeVar:
      case ir::Kind::kConstraint:
      case ir::Kind::kAdtHandle: ok = (FlowDim(x.dim, y.dim) || Fail(from, to)) && ok; break;
    }
  }
  return ok;
}

bool Solver::FlowDType(const DTypeTerm& from, const DTypeTerm& to) {
  DTypeTerm x = ResolveDType(from, nullptr), y = ResolveDType(to, nullptr);
  bool x_open = x.form == DTypeTerm::Form::kHole, y_open = y.form == DTypeTerm::Form::kHole;
  if (x_open && y_open) {
    Union(dtypes_, x.hole, y.hole);
  } else if (x_open) {
    Fill(dtypes_, x.hole, y);
  } else if (y_open) {
    Fill(dtypes_, y.hole, x);
  } else {
    return x == y;
  }
  return true;
}

void Solver::FillShape(int64_t hole, const ShapeTerm& shape, bool shape_is_destination) {
  ShapeTerm copy = shape;
  bool sticky = shapes_[static_cast<size_t>(hole)].sticky;
  for (Dim& dim : copy.dims) dim = SoftCopy(dim, shape_is_destination, sticky);
  Fill(shapes_, hole, std::move(copy));
}

bool Solver::FlowShape(const ShapeTerm& from, const ShapeTerm& to) {
  auto known = [&](const ShapeTerm& shape) {
    if (shape.form != ShapeTerm::Form::kHole) return shape;
    int64_t root = Root(shapes_, shape.hole);
    return shapes_[static_cast<size_t>(root)].value.value_or(ShapeTerm::OfHole(root));
  };
  ShapeTerm x = known(from), y = known(to);
  bool x_open = x.form == ShapeTerm::Form::kHole, y_open = y.form == ShapeTerm::Form::kHole;
  if (x_open && y_open) {
    Union(shapes_, x.hole, y.hole);
    return true;
  }
  if (x_open || y_open) {
    x_open ? FillShape(x.hole, y, true) : FillShape(y.hole, x, false);
    return true;
  }
  if (!x.is_dims() || !y.is_dims()) return x.form == y.form && x.param == y.param;
  if (x.dims.size() != y.dims.size()) return false;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (!FlowDim(x.dims[i], y.dims[i])) return false;
    if (!invariant_) continue;
    if (!FlowDim(y.dims[i], x.dims[i])) return false;
    if (ResolveDim(x.dims[i]).is_any() != ResolveDim(y.dims[i]).is_any()) return false;
  }
  return true;
}

// ---- Dims

Dim Solver::SoftCopy(const Dim& dim, bool dim_is_destination, bool sticky) {
  std::optional<int64_t> root = DimRoot(dim);
  if (root && !dims_[static_cast<size_t>(*root)].value) return Dim::Hole(*root);
  int64_t copy = NewHole(dims_, sticky);
  dims_[static_cast<size_t>(copy)].value = root ? *dims_[static_cast<size_t>(*root)].value : dim;
  if (root) {
    dims_[static_cast<size_t>(*root)].followers.push_back(copy);
    bool follows_back = dim_is_destination && !dims_[static_cast<size_t>(*root)].sticky;
    if (follows_back) dims_[static_cast<size_t>(copy)].followers.push_back(*root);
  }
  return Dim::Hole(copy);
}

void Solver::Weaken(int64_t dim_root) {
  std::vector<int64_t> pending = {dim_root};
  while (!pending.empty()) {
    Hole<Dim>& hole = dims_[static_cast<size_t>(Root(dims_, pending.back()))];
    pending.pop_back();
    if (!hole.value || hole.value->is_any()) continue;
    hole.value = Dim::Any();
    Wake(hole);
    pending.insert(pending.end(), hole.followers.begin(), hole.followers.end());
  }
}

bool Solver::FlowDim(const Dim& from, const Dim& to) {
  std::optional<int64_t> x = DimRoot(from), y = DimRoot(to);
  bool x_open = x && !dims_[static_cast<size_t>(*x)].value, y_open = y && !dims_[static_cast<size_t>(*y)].value;
  if (x && y && *x == *y) return true;
  if (x_open && y_open) {
    Union(dims_, *x, *y);
    return true;
  }
  if (!x_open && !y_open) return FlowKnownDims(from, to);
  int64_t open = x_open ? *x : *y;
  const Dim& known = x_open ? to : from;
  std::optional<int64_t> known_root = x_open ? y : x;
  Dim value = ResolveDim(known);
  bool occurs = false;
  SubstituteDim(value, [&](const Dim& leaf) -> std::optional<Dim> {
    occurs = occurs || DimRoot(leaf) == open;
    return std::nullopt;
  });
  if (occurs) return CompareDims(value, Dim::Hole(open)) != DimEquality::kDifferent;
  Fill(dims_, open, value);
  if (known_root) {
    dims_[static_cast<size_t>(*known_root)].followers.push_back(open);
    bool follows_back = x_open && !dims_[static_cast<size_t>(*known_root)].sticky;
    if (follows_back) dims_[static_cast<size_t>(open)].followers.push_back(*known_root);
  }
  return true;
}

bool Solver::FlowKnownDims(const Dim& from, const Dim& to) {
  std::optional<int64_t> x = DimRoot(from), y = DimRoot(to);
  Dim a = ResolveDim(from), b = ResolveDim(to);
  bool sticky = y && dims_[static_cast<size_t>(*y)].sticky;
  if (b.is_any()) {
    if (sticky && !a.is_any()) {
      Fill(dims_, *y, a);
      if (x) dims_[static_cast<size_t>(*x)].followers.push_back(*y);
    }
    return true;
  }
  switch (CompareDims(a, b)) {
    case DimEquality::kDifferent: return false;
    case DimEquality::kEqual:
      if (x && y && !sticky) dims_[static_cast<size_t>(*x)].followers.push_back(*y);
      return true;
    case DimEquality::kUnknown: break;
  }
  if (ContainsHole(a) || ContainsHole(b)) {
    if (!SolveDim(a, b) && !SolveDim(b, a)) pending_.push_back({from, to, site_});
    return true;
  }
  if (y && !sticky) Weaken(*y);
  return true;
}

// `h + c = known`, `h - c = known`: fills h.
bool Solver::SolveDim(const Dim& open, const Dim& known) {
  if (ContainsHole(known) || known.is_any()) return false;
  if (open.kind() != DimKind::kAdd && open.kind() != DimKind::kSub) return false;
  bool left = open.lhs().kind() == DimKind::kHole && !ContainsHole(open.rhs());
  bool right = open.kind() == DimKind::kAdd && open.rhs().kind() == DimKind::kHole && !ContainsHole(open.lhs());
  if (!left && !right) return false;
  const Dim& hole = left ? open.lhs() : open.rhs();
  const Dim& other = left ? open.rhs() : open.lhs();
  Dim value = open.kind() == DimKind::kAdd ? known - other : known + other;
  if (value.is_const() && value.constant() < 0) return false;
  return FlowDim(value, hole);
}

}  // namespace rvm::typing
