#include "compiler/ir/type.h"

#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ir/adt.h"
#include "compiler/ir/type_parts.h"

namespace rvm::ir {
namespace {

// Type parameters bound by the function types around, left and right.
using Bound = std::vector<std::pair<const TypeParam*, const TypeParam*>>;

bool SameParam(const TypeParam* a, const TypeParam* b, const Bound& bound) {
  for (auto it = bound.rbegin(); it != bound.rend(); ++it) {
    if (it->first == a || it->second == b) return it->first == a && it->second == b;
  }
  return a == b;
}

bool SameDim(const Dim& a, const Dim& b, const Bound& bound) {
  if (a == b) return true;
  if (a.kind() != b.kind()) return false;
  if (a.is_binary()) return SameDim(a.lhs(), b.lhs(), bound) && SameDim(a.rhs(), b.rhs(), bound);
  if (a.kind() != DimKind::kVar) return false;
  for (auto it = bound.rbegin(); it != bound.rend(); ++it) {
    if (it->first->id == a.id() || it->second->id == b.id()) return it->first->id == a.id() && it->second->id == b.id();
  }
  return false;
}

bool SameShape(const ShapeTerm& a, const ShapeTerm& b, const Bound& bound) {
  if (a.form != b.form || a.hole != b.hole || a.dims.size() != b.dims.size()) return false;
  if (a.form == ShapeTerm::Form::kParam) return SameParam(a.param, b.param, bound);
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (!SameDim(a.dims[i], b.dims[i], bound)) return false;
  }
  return true;
}

bool SameDType(const DTypeTerm& a, const DTypeTerm& b, const Bound& bound) {
  if (a.form != b.form) return false;
  if (a.form == DTypeTerm::Form::kParam) return SameParam(a.param, b.param, bound);
  return a.dtype == b.dtype && a.hole == b.hole;
}

bool Same(const Type* a, const Type* b, Bound& bound);

bool SameAll(const std::vector<const Type*>& a, const std::vector<const Type*>& b, Bound& bound) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i], bound)) return false;
  }
  return true;
}

bool SameArg(const TypeArg& a, const TypeArg& b, Bound& bound) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kType: return Same(a.type, b.type, bound);
    case Kind::kBaseType: return SameDType(a.dtype, b.dtype, bound);
    case Kind::kShape: return SameShape(a.shape, b.shape, bound);
    case Kind::kShapeVar:
    case Kind::kConstraint:
    case Kind::kAdtHandle: return SameDim(a.dim, b.dim, bound);
  }
}

bool SameOnThisStack(const Type* a, const Type* b, Bound& bound) {
  if (a->type_kind != b->type_kind) return false;
  switch (a->type_kind) {
    case TypeKind::kTensor: {
      const auto *x = DynCast<TensorType>(a), *y = DynCast<TensorType>(b);
      return SameShape(x->shape, y->shape, bound) && SameDType(x->dtype, y->dtype, bound);
    }
    case TypeKind::kTuple: return SameAll(DynCast<TupleType>(a)->fields, DynCast<TupleType>(b)->fields, bound);
    case TypeKind::kFunc: {
      const auto *x = DynCast<FuncType>(a), *y = DynCast<FuncType>(b);
      if (x->type_params.size() != y->type_params.size()) return false;
      size_t depth = bound.size();
      for (size_t i = 0; i < x->type_params.size(); ++i) {
        if (x->type_params[i] != y->type_params[i]) bound.emplace_back(x->type_params[i], y->type_params[i]);
      }
      bool same = SameAll(x->params, y->params, bound) && Same(x->result, y->result, bound);
      bound.resize(depth);
      return same;
    }
    case TypeKind::kAdt: {
      const auto *x = DynCast<AdtType>(a), *y = DynCast<AdtType>(b);
      if (x->adt != y->adt || x->args.size() != y->args.size()) return false;
      for (size_t i = 0; i < x->args.size(); ++i) {
        if (!SameArg(x->args[i], y->args[i], bound)) return false;
      }
      return true;
    }
    case TypeKind::kParam: return SameParam(DynCast<ParamType>(a)->param, DynCast<ParamType>(b)->param, bound);
    case TypeKind::kRef: return Same(DynCast<RefType>(a)->contents, DynCast<RefType>(b)->contents, bound);
    case TypeKind::kHole: return DynCast<HoleType>(a)->id == DynCast<HoleType>(b)->id;
  }
  return false;
}

bool Same(const Type* a, const Type* b, Bound& bound) {
  if (a == b && bound.empty()) return true;
  if (a == nullptr || b == nullptr) return a == b;
  return WithStack([&] { return SameOnThisStack(a, b, bound); });
}

std::string ShapeText(const ShapeTerm& shape) {
  switch (shape.form) {
    case ShapeTerm::Form::kDims: return DimsToString(shape.dims);
    case ShapeTerm::Form::kParam: return shape.param->name;
    case ShapeTerm::Form::kHole: return "_";
  }
  return "_";
}

std::string DTypeText(const DTypeTerm& dtype) {
  switch (dtype.form) {
    case DTypeTerm::Form::kConcrete: return dtype.dtype.ToString();
    case DTypeTerm::Form::kParam: return dtype.param->name;
    case DTypeTerm::Form::kHole: return "_";
  }
  return "_";
}

std::string List(const std::vector<const Type*>& types) {
  std::string text;
  for (const Type* type : types) absl::StrAppend(&text, text.empty() ? "" : ", ", TypeToString(type));
  return text;
}

std::string ParamList(const std::vector<const TypeParam*>& params) {
  std::string text;
  for (const TypeParam* param : params) {
    absl::StrAppend(&text, text.empty() ? "[" : ", ", param->name);
    std::string_view kind = KindName(param->kind);
    if (param->kind != Kind::kType) absl::StrAppend(&text, ": ", Abseil(kind));
  }
  return text.empty() ? "" : text + "]";
}

std::string Text(const Type* type) {
  if (type == nullptr) return "_";
  switch (type->type_kind) {
    case TypeKind::kTensor: {
      const auto* tensor = DynCast<TensorType>(type);
      if (tensor->shape.is_dims() && tensor->shape.dims.empty() && tensor->dtype.is_concrete()) {
        return DTypeText(tensor->dtype);
      }
      return absl::StrCat("Tensor[", ShapeText(tensor->shape), ", ", DTypeText(tensor->dtype), "]");
    }
    case TypeKind::kTuple: {
      const auto& fields = DynCast<TupleType>(type)->fields;
      return absl::StrCat("(", List(fields), fields.size() == 1 ? ",)" : ")");
    }
    case TypeKind::kFunc: {
      const auto* func = DynCast<FuncType>(type);
      std::string text = absl::StrCat("fn ", ParamList(func->type_params), "(", List(func->params), ") -> ",
                                      TypeToString(func->result));
      for (size_t i = 0; i < func->constraints.size(); ++i) {
        absl::StrAppend(&text, i == 0 ? " where " : ", ", func->constraints[i].relation);
      }
      return text;
    }
    case TypeKind::kAdt: {
      const auto* adt = DynCast<AdtType>(type);
      std::string text = adt->adt->name;
      const char* separator = "[";
      for (const TypeArg& arg : adt->args) absl::StrAppend(&text, std::exchange(separator, ", "), TypeArgToString(arg));
      return adt->args.empty() ? text : text + "]";
    }
    case TypeKind::kParam: return DynCast<ParamType>(type)->param->name;
    case TypeKind::kRef: return absl::StrCat("ref(", TypeToString(DynCast<RefType>(type)->contents), ")");
    case TypeKind::kHole: return "_";
  }
  return "_";
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kType: return "Type";
    case Kind::kBaseType: return "BaseType";
    case Kind::kShape: return "Shape";
    case Kind::kShapeVar: return "ShapeVar";
    case Kind::kConstraint: return "Constraint";
    case Kind::kAdtHandle: return "AdtHandle";
  }
  return "Type";
}

const TensorType* MakeTensorType(Arena& arena, Dims dims, DataType dtype) {
  return arena.New<TensorType>(ShapeTerm::Of(std::move(dims)), DTypeTerm::Of(dtype));
}
const TensorType* MakeScalarType(Arena& arena, DataType dtype) { return MakeTensorType(arena, {}, dtype); }
const TupleType* UnitType(Arena& arena) { return arena.New<TupleType>(std::vector<const Type*>{}); }

bool IsScalar(const Type* type) {
  const auto* tensor = DynCast<TensorType>(type);
  return tensor != nullptr && tensor->shape.is_dims() && tensor->shape.dims.empty() && tensor->dtype.is_concrete();
}

bool TypesEqual(const Type* a, const Type* b) {
  Bound bound;
  return Same(a, b, bound);
}

size_t HashType(const Type* type) { return absl::HashOf(TypeToString(type)); }

std::string TypeToString(const Type* type) {
  return WithStack([&] { return Text(type); });
}

std::string TypeArgToString(const TypeArg& arg) {
  switch (arg.kind) {
    case Kind::kType: return TypeToString(arg.type);
    case Kind::kBaseType: return DTypeText(arg.dtype);
    case Kind::kShape: return ShapeText(arg.shape);
    case Kind::kShapeVar:
    case Kind::kConstraint:
    case Kind::kAdtHandle: return arg.dim.ToString();
  }
}

TypeArg OwnArg(Arena& arena, const TypeParam& param) {
  TypeArg arg;
  arg.kind = param.kind;
  switch (param.kind) {
    case Kind::kBaseType: arg.dtype = DTypeTerm::OfParam(&param); break;
    case Kind::kShape: arg.shape = ShapeTerm::OfParam(&param); break;
    case Kind::kShapeVar: arg.dim = Dim::Var(param.id, param.name); break;
    case Kind::kType:
    case Kind::kConstraint:
    case Kind::kAdtHandle: arg.type = arena.New<ParamType>(&param); break;
  }
  return arg;
}

bool TypeArgsEqual(const TypeArg& a, const TypeArg& b) {
  Bound bound;
  return SameArg(a, b, bound);
}

const TypeArg* TypeSubstitution::Find(const TypeParam* param) const {
  for (const Entry& entry : entries_) {
    if (entry.param == param) return &entry.arg;
  }
  return nullptr;
}

const TypeArg* TypeSubstitution::FindById(int64_t id) const {
  for (const Entry& entry : entries_) {
    if (entry.param->id == id) return &entry.arg;
  }
  return nullptr;
}

Dim TypeSubstitution::Apply(const Dim& dim) const {
  return SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
    const TypeArg* arg = leaf.kind() == DimKind::kVar ? FindById(leaf.id()) : nullptr;
    return arg == nullptr ? std::nullopt : std::optional<Dim>(arg->dim);
  });
}

namespace {

class Substituter : public TypeMapper {
 public:
  Substituter(Arena& arena, const TypeSubstitution& substitution) : TypeMapper(arena), substitution_(substitution) {}

 protected:
  const Type* MapType(const Type* type) override {
    const auto* param = DynCast<ParamType>(type);
    if (param == nullptr) return MapParts(type);
    const TypeArg* arg = substitution_.Find(param->param);
    return arg == nullptr ? type : arg->type;
  }
  ShapeTerm MapShape(const ShapeTerm& shape) override {
    if (shape.form != ShapeTerm::Form::kParam) return TypeMapper::MapShape(shape);
    const TypeArg* arg = substitution_.Find(shape.param);
    return arg == nullptr ? shape : arg->shape;
  }
  DTypeTerm MapDType(const DTypeTerm& dtype) override {
    const TypeArg* arg = dtype.form == DTypeTerm::Form::kParam ? substitution_.Find(dtype.param) : nullptr;
    return arg == nullptr ? dtype : arg->dtype;
  }
  Dim MapDim(const Dim& dim) override { return substitution_.Apply(dim); }

 private:
  const TypeSubstitution& substitution_;
};

}  // namespace

const Type* TypeSubstitution::Apply(Arena& arena, const Type* type) const {
  return entries_.empty() ? type : Substituter(arena, *this).Map(type);
}

TypeArg TypeSubstitution::Apply(Arena& arena, const TypeArg& arg) const { return Substituter(arena, *this).Map(arg); }

}  // namespace rvm::ir
