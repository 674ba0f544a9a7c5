#include "compiler/ir/match_types.h"

#include <utility>

#include "base/stack_guard.h"

namespace rvm::ir {
namespace {

class TypeMatcher {
 public:
  TypeMatcher(const std::vector<const TypeParam*>& params, absl::flat_hash_map<const TypeParam*, TypeArg>& found)
      : params_(params), found_(found) {}

  bool Match(const Type* pattern, const Type* type) {
    return WithStack([&] { return MatchOnThisStack(pattern, type); });
  }

 private:
  bool IsParam(const TypeParam* param) const {
    for (const TypeParam* p : params_) {
      if (p == param) return true;
    }
    return false;
  }

  bool Bind(const TypeParam* param, TypeArg arg) {
    arg.kind = param->kind;
    auto [it, added] = found_.try_emplace(param, arg);
    return added || TypeArgsEqual(it->second, arg);
  }

  bool MatchDim(const Dim& pattern, const Dim& dim) {
    if (pattern.kind() == DimKind::kVar) {
      for (const TypeParam* param : params_) {
        if (param->id == pattern.id()) return Bind(param, {.dim = dim});
      }
    }
    if (pattern.is_binary() && pattern.kind() == dim.kind()) {
      return MatchDim(pattern.lhs(), dim.lhs()) && MatchDim(pattern.rhs(), dim.rhs());
    }
    // The parts of a compound dim may follow from other places.
    return pattern == dim || pattern.is_binary();
  }

  bool MatchShape(const ShapeTerm& pattern, const ShapeTerm& shape) {
    if (pattern.form == ShapeTerm::Form::kParam && IsParam(pattern.param)) {
      return Bind(pattern.param, {.shape = shape});
    }
    if (!pattern.is_dims() || !shape.is_dims()) return pattern == shape;
    if (pattern.dims.size() != shape.dims.size()) return false;
    for (size_t i = 0; i < pattern.dims.size(); ++i) {
      if (!MatchDim(pattern.dims[i], shape.dims[i])) return false;
    }
    return true;
  }

  bool MatchDType(const DTypeTerm& pattern, const DTypeTerm& dtype) {
    if (pattern.form == DTypeTerm::Form::kParam && IsParam(pattern.param)) {
      return Bind(pattern.param, {.dtype = dtype});
    }
    return pattern == dtype;
  }

  bool MatchArg(const TypeArg& pattern, const TypeArg& arg) {
    switch (pattern.kind) {
      case Kind::kType: return Match(pattern.type, arg.type);
      case Kind::kBaseType: return MatchDType(pattern.dtype, arg.dtype);
      case Kind::kShape: return MatchShape(pattern.shape, arg.shape);
      case Kind::kShapeVar:
      case Kind::kConstraint:
      case Kind::kAdtHandle: return MatchDim(pattern.dim, arg.dim);
    }
  }

  bool MatchAll(const std::vector<const Type*>& patterns, const std::vector<const Type*>& types) {
    if (patterns.size() != types.size()) return false;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (!Match(patterns[i], types[i])) return false;
    }
    return true;
  }

  bool MatchOnThisStack(const Type* pattern, const Type* type) {
    if (const auto* param = DynCast<ParamType>(pattern); param != nullptr && IsParam(param->param)) {
      return Bind(param->param, {.type = type});
    }
    if (pattern->type_kind != type->type_kind) return false;
    switch (pattern->type_kind) {
      case TypeKind::kTensor: {
        const auto *a = DynCast<TensorType>(pattern), *b = DynCast<TensorType>(type);
        return MatchShape(a->shape, b->shape) && MatchDType(a->dtype, b->dtype);
      }
      case TypeKind::kTuple: return MatchAll(DynCast<TupleType>(pattern)->fields, DynCast<TupleType>(type)->fields);
      case TypeKind::kFunc: {
        const auto *a = DynCast<FuncType>(pattern), *b = DynCast<FuncType>(type);
        return MatchAll(a->params, b->params) && Match(a->result, b->result);
      }
      case TypeKind::kAdt: {
        const auto *a = DynCast<AdtType>(pattern), *b = DynCast<AdtType>(type);
        if (a->adt != b->adt || a->args.size() != b->args.size()) return false;
        for (size_t i = 0; i < a->args.size(); ++i) {
          if (!MatchArg(a->args[i], b->args[i])) return false;
        }
        return true;
      }
      case TypeKind::kRef: return Match(DynCast<RefType>(pattern)->contents, DynCast<RefType>(type)->contents);
      case TypeKind::kParam:
      case TypeKind::kHole: return TypesEqual(pattern, type);
    }
    return false;
  }

  const std::vector<const TypeParam*>& params_;
  absl::flat_hash_map<const TypeParam*, TypeArg>& found_;
};

}  // namespace

bool MatchTypes(const Type* pattern, const Type* type, const std::vector<const TypeParam*>& params,
                absl::flat_hash_map<const TypeParam*, TypeArg>& found) {
  return TypeMatcher(params, found).Match(pattern, type);
}

}  // namespace rvm::ir
