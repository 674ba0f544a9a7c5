#include "compiler/passes/specialize/uniform_types.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ir/match_types.h"
#include "compiler/ir/type_parts.h"
#include "compiler/passes/rewriter.h"
#include "compiler/passes/specialize/endless_params.h"

namespace rvm::passes {
namespace {

using diagnostics::DiagnosticKind;
using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;
using ir::TypeArg;
using ir::TypeParam;

// No type of a program has a space in its name.
constexpr const char* kUniversalName = "any type";

// Replaces endless parameters by the universal type.
class TypeEraser : private ir::TypeMapper {
 public:
  TypeEraser(ir::Arena& arena, const TypeParamSet& endless, ir::AdtDef* universal)
      : TypeMapper(arena),
        endless_(endless),
        erased_(endless),
        universal_(arena.New<ir::AdtType>(universal, std::vector<TypeArg>{})) {
    adts_[universal] = universal;
  }

  const Type* Erase(const Type* type) { return Map(type); }
  TypeArg Erase(const TypeArg& arg) { return Map(arg); }
  ir::AdtDef* Erase(const ir::AdtDef* adt);
  const ir::Constructor* Erase(const ir::Constructor* constructor) {
    return Erase(constructor->adt)->constructors[constructor->tag];
  }

  bool is_erased(const TypeParam* param) const { return erased_.contains(param); }
  bool any_erased(const std::vector<const TypeParam*>& params) const {
    for (const TypeParam* param : params) {
      if (is_erased(param)) return true;
    }
    return false;
  }
  std::vector<const TypeParam*> Rest(const std::vector<const TypeParam*>& params) const {
    std::vector<const TypeParam*> rest;
    for (const TypeParam* param : params) {
      if (!is_erased(param)) rest.push_back(param);
    }
    return rest;
  }
  // `params` without those of kind Type that stand in none of the types, once erased.
  std::vector<const TypeParam*> Mentioned(const std::vector<const TypeParam*>& params,
                                          const std::vector<const Type*>& in) const;

 private:
  const Type* MapType(const Type* type) override;
  const Type* EraseNew(const Type* type);
  const Type* EraseFunction(const ir::FuncType& type);

  const TypeParamSet& endless_;
  TypeParamSet erased_;  // and those that no value depends on any more
  const Type* universal_;
  absl::flat_hash_map<const Type*, const Type*> types_;
  absl::flat_hash_map<const ir::AdtDef*, ir::AdtDef*> adts_;
};

std::vector<const TypeParam*> TypeEraser::Mentioned(const std::vector<const TypeParam*>& params,
                                                    const std::vector<const Type*>& in) const {
  TypeParamSet mentioned;
  for (const Type* type : in) {
    ForEachTypeParam(type, endless_, [&](const TypeParam* param, bool) { mentioned.insert(param); });
  }
  std::vector<const TypeParam*> found;
  for (const TypeParam* param : params) {
    if (param->kind != ir::Kind::kType || mentioned.contains(param)) found.push_back(param);
  }
  return found;
}

const Type* TypeEraser::MapType(const Type* type) {
  auto known = types_.find(type);
  if (known != types_.end()) return known->second;
  const Type* result = EraseNew(type);
  types_[type] = result;
  types_[result] = result;
  return result;
}

const Type* TypeEraser::EraseNew(const Type* type) {
  if (const auto* func = DynCast<ir::FuncType>(type)) return EraseFunction(*func);
  if (const auto* param = DynCast<ir::ParamType>(type)) return is_erased(param->param) ? universal_ : type;
  const auto* adt = DynCast<ir::AdtType>(type);
  if (adt == nullptr) return MapParts(type);
  std::vector<TypeArg> args;
  for (size_t i = 0; i < adt->args.size(); ++i) {
    if (!is_erased(adt->adt->type_params[i])) args.push_back(Erase(adt->args[i]));
  }
  return arena_.New<ir::AdtType>(Erase(adt->adt), std::move(args));
}

// A parameter that occurred only where the universal type is now can no longer be inferred from the arguments. It is
// dropped: the function does the same for all of its values.
const Type* TypeEraser::EraseFunction(const ir::FuncType& type) {
  std::vector<const Type*> parts = type.params;
  parts.push_back(type.result);
  for (const ir::TypeConstraint& constraint : type.constraints) {
    parts.insert(parts.end(), constraint.args.begin(), constraint.args.end());
  }
  std::vector<const TypeParam*> mentioned = Mentioned(type.type_params, parts);
  for (const TypeParam* param : type.type_params) {
    if (std::find(mentioned.begin(), mentioned.end(), param) == mentioned.end()) erased_.insert(param);
  }
  std::vector<const Type*> params = MapAll(type.params);
  const Type* result = Erase(type.result);
  if (params == type.params && result == type.result && !any_erased(type.type_params)) return &type;
  return arena_.New<ir::FuncType>(Rest(type.type_params), std::move(params), result);
}

ir::AdtDef* TypeEraser::Erase(const ir::AdtDef* adt) {
  auto [it, added] = adts_.try_emplace(adt, nullptr);
  if (!added) return it->second;
  auto* copy = arena_.New<ir::AdtDef>(*adt);
  adts_[adt] = copy;
  adts_[copy] = copy;
  copy->type_params = Rest(adt->type_params);
  for (ir::Constructor*& constructor : copy->constructors) {
    constructor = arena_.New<ir::Constructor>(*constructor);
    constructor->adt = copy;
  }
  for (ir::Constructor* constructor : copy->constructors) {
    for (const Type*& field : constructor->fields) field = Erase(field);
  }
  return copy;
}

class UniformRewriter : public Rewriter {
 public:
  UniformRewriter(const ir::Module& module, TypeEraser& types) : Rewriter(*module.arena), types_(types) {
    for (const ir::GlobalFunction& global : module.functions) sources_[global.name] = global.function;
  }

  ir::Function* RewriteLiteral(const ir::Function& function) {
    RewriteType(function.type);  // says which of its parameters stay, before they are met in the body
    ir::Function* copy = RewriteFunction(function);
    copy->type_params = types_.Rest(function.type_params);
    return copy;
  }

 protected:
  const Type* RewriteType(const Type* type) override { return type == nullptr ? nullptr : types_.Erase(type); }
  TypeArg RewriteTypeArg(const TypeArg& arg) override { return types_.Erase(arg); }

  ir::Var* RewriteBinder(ir::Var* var) override {
    ir::Var* copy = At(var->span).Var(var->name, RewriteType(var->type));
    copy->annotation = RewriteType(var->annotation);
    vars_[var] = copy;
    return copy;
  }

  Expr* RewriteNode(Expr* expr) override {
    switch (expr->expr_kind) {
      case ExprKind::kVar: return RewriteVar(*Cast<ir::VarExpr>(expr));
      case ExprKind::kGlobal: return RewriteGlobal(*Cast<ir::GlobalExpr>(expr));
      case ExprKind::kConstructor: return RewriteConstructor(*Cast<ir::ConstructorExpr>(expr));
      case ExprKind::kFunction: return RewriteLiteral(*Cast<ir::Function>(expr));
      case ExprKind::kMatch: {
        Expr* copy = RewriteChildren(expr);
        for (const ir::Clause& clause : Cast<ir::Match>(copy)->clauses) ErasePattern(*clause.pattern);
        return copy;
      }
      case ExprKind::kConstant:
      case ExprKind::kOp:
      case ExprKind::kTuple:
      case ExprKind::kProject:
      case ExprKind::kCall:
      case ExprKind::kLet:
      case ExprKind::kIf:
      case ExprKind::kRefCreate:
      case ExprKind::kRefRead:
      case ExprKind::kRefWrite: return RewriteChildren(expr);
    }
  }

 private:
  void ErasePattern(ir::Pattern& pattern) {
    if (pattern.constructor != nullptr) pattern.constructor = types_.Erase(pattern.constructor);
    for (ir::Pattern* field : pattern.fields) WithStack([&] { ErasePattern(*field); });
  }

  // Appends to `rest` the arguments of parameters that stay.
  ir::TypeSubstitution Substitution(const std::vector<const TypeParam*>& params, const std::vector<TypeArg>& args,
                                    std::vector<TypeArg>& rest) {
    ir::TypeSubstitution substitution;
    for (size_t i = 0; i < args.size(); ++i) {
      if (types_.is_erased(params[i])) continue;
      rest.push_back(RewriteTypeArg(args[i]));
      substitution.Add(params[i], rest.back());
    }
    return substitution;
  }

  const Type* FunctionType(std::vector<const TypeParam*> type_params, const ir::TypeSubstitution& substitution,
                           const std::vector<const Type*>& params, const Type* result) {
    std::vector<const Type*> own;
    for (const Type* param : params) own.push_back(substitution.Apply(arena_, RewriteType(param)));
    return arena_.New<ir::FuncType>(std::move(type_params), std::move(own),
                                    substitution.Apply(arena_, RewriteType(result)));
  }

  Expr* RewriteVar(const ir::VarExpr& use) {
    auto found = vars_.find(use.var);
    auto* copy = Typed(At(use.span).Use(found == vars_.end() ? use.var : found->second), &use);
    const auto* own = DynCast<ir::FuncType>(use.var->type);
    const auto* instance = DynCast<ir::FuncType>(use.type);
    if (own == nullptr || instance == nullptr || !types_.any_erased(own->type_params)) return copy;
    if (types_.any_erased(instance->type_params)) return copy;  // as it is
    absl::flat_hash_map<const TypeParam*, TypeArg> args;
    ir::MatchTypes(own, instance, own->type_params, args);
    ir::TypeSubstitution substitution;
    for (const auto& [param, arg] : args) {
      if (!types_.is_erased(param)) substitution.Add(param, RewriteTypeArg(arg));
    }
    copy->type = FunctionType(instance->type_params, substitution, own->params, own->result);
    return copy;
  }

  Expr* RewriteGlobal(const ir::GlobalExpr& use) {
    const ir::Function& function = *sources_.at(use.name);
    const Type* own = RewriteType(function.type);
    auto* copy = Typed(At(use.span).Global(use.name, nullptr), &use);
    std::vector<TypeArg> args;
    ir::TypeSubstitution substitution = Substitution(function.type_params, use.type_args, copy->type_args);
    if (!types_.any_erased(function.type_params)) return copy;
    if (use.type_args.empty()) {
      // A value, polymorphic in what is left. If that is only dims, it is an instance: the one at its own dims.
      copy->type = own;
      std::vector<const TypeParam*> rest = types_.Rest(function.type_params);
      auto is_dim = [](const TypeParam* param) { return param->kind == ir::Kind::kShapeVar; };
      if (!std::all_of(rest.begin(), rest.end(), is_dim)) return copy;
      for (const TypeParam* param : rest) {
        copy->type_args.push_back({.kind = param->kind, .dim = Dim::Var(param->id, param->name)});
      }
    } else {
      copy->type = FunctionType({}, substitution, TypeOf(function).params, TypeOf(function).result);
    }
    return copy;
  }

  Expr* RewriteConstructor(const ir::ConstructorExpr& use) {
    const ir::Constructor& constructor = *use.constructor;
    auto* copy = Typed(arena_.New<ir::ConstructorExpr>(types_.Erase(&constructor), use.span), &use);
    const std::vector<const TypeParam*>& params = constructor.adt->type_params;
    ir::TypeSubstitution substitution = Substitution(params, use.type_args, copy->type_args);
    const auto* type = DynCast<ir::FuncType>(copy->type);
    if (type == nullptr || !types_.any_erased(params)) return copy;
    std::vector<const Type*> fields;
    for (const Type* field : copy->constructor->fields) fields.push_back(substitution.Apply(arena_, field));
    std::vector<const TypeParam*> open = types_.Mentioned(type->type_params, fields);
    copy->type = arena_.New<ir::FuncType>(std::move(open), std::move(fields), type->result);
    return copy;
  }

  TypeEraser& types_;
  absl::flat_hash_map<std::string_view, const ir::Function*> sources_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> vars_;
};

// Whether the printed form of a value of the type depends on the argument of an endless parameter.
class EndlessPart {
 public:
  explicit EndlessPart(const TypeParamSet& endless) : endless_(endless) {}

  // Functions are not printed.
  bool In(const Type* type) {
    return WithStack([&] {
      if (type->type_kind == ir::TypeKind::kFunc) return false;
      bool found = false;
      ir::ForEachPart(type, [&](const Type* part) { found = found || In(part); });
      const auto* adt = DynCast<ir::AdtType>(type);
      if (found || adt == nullptr) return found;
      if (!visited_.insert(adt->adt).second) return false;
      for (const TypeParam* param : adt->adt->type_params) {
        if (endless_.contains(param)) return true;
      }
      for (const ir::Constructor* constructor : adt->adt->constructors) {
        for (const Type* field : constructor->fields) {
          if (In(field)) return true;
        }
      }
      return false;
    });
  }

 private:
  const TypeParamSet& endless_;
  absl::flat_hash_set<const ir::AdtDef*> visited_;
};

void CheckEntry(const ir::GlobalFunction& entry, const TypeParamSet& endless, diagnostics::Diagnostics& diagnostics) {
  auto check = [&](const Type* type, ir::Span span, std::string what) {
    if (!EndlessPart(endless).In(type)) return;
    diagnostics.Error(
        span, DiagnosticKind::kEndlessEntry,
        absl::StrCat(what, " of the entry `@", entry.name, "` has type `", ir::TypeToString(type),
                     "`, which has parts of ever new types; expected it to be made and taken apart inside of the "
                     "program"));
  };
  for (const ir::Var* param : entry.function->params) {
    check(param->type, param->span, absl::StrCat("parameter `%", param->name, "`"));
  }
  check(TypeOf(*entry.function).result, entry.span, "the result");
}

}  // namespace

UniformModule GiveUniformTypes(const ir::Module& module, const std::vector<std::string>& entries,
                               diagnostics::Diagnostics& diagnostics) {
  UniformModule result{module};
  TypeParamSet endless = FindEndlessParams(module);
  if (endless.empty()) return result;
  for (const std::string& name : entries) {
    const ir::GlobalFunction* entry = module.FindFunction(name);
    if (entry != nullptr) CheckEntry(*entry, endless, diagnostics);
  }
  result.universal = module.arena->New<ir::AdtDef>();
  result.universal->name = kUniversalName;
  TypeEraser types(*module.arena, endless, result.universal);
  UniformRewriter rewriter(module, types);
  result.module.adts.clear();
  for (const ir::AdtDef* adt : module.adts) result.module.adts.push_back(types.Erase(adt));
  for (ir::GlobalFunction& global : result.module.functions)
    global.function = rewriter.RewriteLiteral(*global.function);
  return result;
}

}  // namespace rvm::passes
