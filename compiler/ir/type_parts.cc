#include "compiler/ir/type_parts.h"

#include <utility>

#include "base/stack_guard.h"

namespace rvm::ir {

void ForEachPart(const Type* type, absl::FunctionRef<void(const Type*)> visit) {
  switch (type->type_kind) {
    case TypeKind::kTuple:
      for (const Type* field : DynCast<TupleType>(type)->fields) visit(field);
      return;
    case TypeKind::kFunc:
      for (const Type* param : DynCast<FuncType>(type)->params) visit(param);
      return visit(DynCast<FuncType>(type)->result);
    case TypeKind::kAdt:
      for (const TypeArg& arg : DynCast<AdtType>(type)->args) {
        if (arg.kind == Kind::kType) visit(arg.type);
      }
      return;
    case TypeKind::kRef: return visit(DynCast<RefType>(type)->contents);
    case TypeKind::kTensor:
    case TypeKind::kParam:
    case TypeKind::kHole: return;
  }
}

const Type* TypeMapper::Map(const Type* type) {
  if (type == nullptr) return nullptr;
  return WithStack([&] { return MapType(type); });
}

TypeArg TypeMapper::Map(const TypeArg& arg) {
  TypeArg result = arg;
  switch (arg.kind) {
    case Kind::kType: result.type = Map(arg.type); break;
    case Kind::kBaseType: result.dtype = MapDType(arg.dtype); break;
    case Kind::kShape: result.shape = MapShape(arg.shape); break;
    case Kind::kShapeVar: result.dim = MapDim(arg.dim); break;
    case Kind::kConstraint:
    case Kind::kAdtHandle: break;
  }
  return result;
}

std::vector<const Type*> TypeMapper::MapAll(const std::vector<const Type*>& types) {
  std::vector<const Type*> result;
  result.reserve(types.size());
  for (const Type* type : types) result.push_back(Map(type));
  return result;
}

ShapeTerm TypeMapper::MapShape(const ShapeTerm& shape) {
  ShapeTerm result = shape;
  for (Dim& dim : result.dims) dim = MapDim(dim);
  return result;
}

const Type* TypeMapper::MapParts(const Type* type) {
  switch (type->type_kind) {
    case TypeKind::kTensor: {
      const auto* tensor = DynCast<TensorType>(type);
      ShapeTerm shape = MapShape(tensor->shape);
      DTypeTerm dtype = MapDType(tensor->dtype);
      if (shape == tensor->shape && dtype == tensor->dtype) return type;
      return arena_.New<TensorType>(std::move(shape), dtype);
    }
    case TypeKind::kTuple: {
      const auto* tuple = DynCast<TupleType>(type);
      std::vector<const Type*> fields = MapAll(tuple->fields);
      return fields == tuple->fields ? type : arena_.New<TupleType>(std::move(fields));
    }
    case TypeKind::kFunc: {
      const auto* func = DynCast<FuncType>(type);
      std::vector<const Type*> params = MapAll(func->params);
      const Type* result = Map(func->result);
      bool changed = params != func->params || result != func->result;
      std::vector<TypeConstraint> constraints = func->constraints;
      for (TypeConstraint& constraint : constraints) {
        std::vector<const Type*> args = MapAll(constraint.args);
        changed = changed || args != constraint.args;
        constraint.args = std::move(args);
      }
      if (!changed) return type;
      return arena_.New<FuncType>(func->type_params, std::move(params), result, std::move(constraints));
    }
    case TypeKind::kAdt: {
      const auto* adt = DynCast<AdtType>(type);
      std::vector<TypeArg> args;
      bool changed = false;
      for (const TypeArg& arg : adt->args) {
        const TypeArg& mapped = args.emplace_back(Map(arg));
        changed = changed || mapped.type != arg.type || mapped.dtype != arg.dtype || mapped.shape != arg.shape ||
                  !(mapped.dim == arg.dim);
      }
      return changed ? arena_.New<AdtType>(adt->adt, std::move(args)) : type;
    }
    case TypeKind::kRef: {
      const Type* contents = DynCast<RefType>(type)->contents;
      const Type* mapped = Map(contents);
      return mapped == contents ? type : arena_.New<RefType>(mapped);
    }
    case TypeKind::kParam:
    case TypeKind::kHole: return type;
  }
  return type;
}

}  // namespace rvm::ir
