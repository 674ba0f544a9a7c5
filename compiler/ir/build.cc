#include "compiler/ir/build.h"

#include <utility>

#include "base/check.h"

namespace rvm::ir {
namespace {

template <typename T>
T* Typed(T* node, const Type* type) {
  node->type = type;
  return node;
}

}  // namespace

Expr* MakeLets(Arena& arena, const std::vector<Binding>& chain, Expr* body) {
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    body = Typed(arena.New<Let>(it->var, it->value, body, it->span), body->type);
  }
  return body;
}

Expr* MakeBlock(Arena& arena, std::vector<Binding> chain, Expr* body) {
  for (;;) {
    const auto* use = DynCast<VarExpr>(body);
    if (use == nullptr || chain.empty() || chain.back().var != use->var) break;
    Expr* value = chain.back().value;
    // A function may refer to itself by that name; a let of another type checks extents.
    if (value->expr_kind == ExprKind::kFunction || !TypesEqual(value->type, use->var->type)) break;
    body = value;
    chain.pop_back();
  }
  return MakeLets(arena, chain, body);
}

Var* Builder::Var(std::string_view name, const Type* type) const {
  return arena_.New<ir::Var>(arena_.NextId(), std::string(name), nullptr, span_, type);
}

Var* Builder::DeclaredVar(std::string_view name, const Type* type) const {
  return arena_.New<ir::Var>(arena_.NextId(), std::string(name), type, span_, type);
}

VarExpr* Builder::Use(ir::Var* var) const { return Typed(arena_.New<VarExpr>(var, span_), var->type); }

VarExpr* Builder::Bind(std::string_view name, Expr* value, std::vector<Binding>& chain) const {
  ir::Var* var = Var(name, value->type);
  chain.push_back({var, value, span_});
  return Use(var);
}

Constant* Builder::Constant(Literal literal) const {
  const Type* type = MakeTensorType(arena_, ToDims(literal.shape()), literal.dtype());
  return Typed(arena_.New<ir::Constant>(std::move(literal), span_), type);
}

Tuple* Builder::Tuple(std::vector<Expr*> fields) const {
  const Type* type = arena_.New<TupleType>(TypesOf(fields));
  return Tuple(std::move(fields), type);
}

Tuple* Builder::Tuple(std::vector<Expr*> fields, const Type* type) const {
  return Typed(arena_.New<ir::Tuple>(std::move(fields), span_), type);
}

Project* Builder::Project(Expr* tuple, size_t index) const {
  return Project(tuple, index, DynCast<TupleType>(tuple->type)->fields[index]);
}

Project* Builder::Project(Expr* tuple, size_t index, const Type* type) const {
  return Typed(arena_.New<ir::Project>(tuple, static_cast<uint32_t>(index), span_), type);
}

Function* Builder::Function(std::vector<const TypeParam*> type_params, std::vector<ir::Var*> params, Expr* body) const {
  const Type* type = arena_.New<FuncType>(type_params, TypesOf(params), body->type);
  return Typed(arena_.New<ir::Function>(std::move(type_params), std::move(params), nullptr, body, span_), type);
}

Function* Builder::Function(std::vector<const TypeParam*> type_params, std::vector<ir::Var*> params, const Type* result,
                            Expr* body) const {
  const Type* type = arena_.New<FuncType>(type_params, TypesOf(params), result);
  return Typed(arena_.New<ir::Function>(std::move(type_params), std::move(params), result, body, span_), type);
}

RefCreate* Builder::RefCreate(Expr* value, const Type* type) const {
  return Typed(arena_.New<ir::RefCreate>(value, span_), type);
}

RefRead* Builder::RefRead(Expr* ref, const Type* type) const {
  return Typed(arena_.New<ir::RefRead>(ref, span_), type);
}

RefWrite* Builder::RefWrite(Expr* ref, Expr* value, const Type* type) const {
  return Typed(arena_.New<ir::RefWrite>(ref, value, span_), type);
}

GlobalExpr* Builder::Global(std::string name, const Type* type) const {
  return Typed(arena_.New<GlobalExpr>(std::move(name), span_), type);
}

ConstructorExpr* Builder::Constructor(const ir::Constructor* constructor, const AdtType* type) const {
  auto* callee = arena_.New<ConstructorExpr>(constructor, span_);
  callee->type_args = type->args;
  return Typed(callee, MakeFuncType(arena_, FieldTypes(arena_, *constructor, *type), type));
}

Call* Builder::Call(Expr* callee, std::vector<Expr*> args) const {
  const auto* type = DynCast<FuncType>(callee->type);
  RVM_CHECK(type != nullptr && type->type_params.empty(), "the callee does not say what its result is");
  return Call(callee, std::move(args), {}, type->result);
}

Call* Builder::Call(Expr* callee, std::vector<Expr*> args, Attrs attrs, const Type* type) const {
  return Typed(arena_.New<ir::Call>(callee, std::move(args), std::move(attrs), span_), type);
}

Call* Builder::CallOp(const ops::OpDef* op, std::vector<Expr*> args, Attrs attrs, const Type* type) const {
  auto* callee = Typed(arena_.New<OpExpr>(op, span_), MakeFuncType(arena_, TypesOf(args), type));
  return Call(callee, std::move(args), std::move(attrs), type);
}

If* Builder::If(Expr* condition, Expr* then_branch, Expr* else_branch, const Type* type) const {
  return Typed(arena_.New<ir::If>(condition, then_branch, else_branch, span_), type);
}

Match* Builder::Match(Expr* value, std::vector<Clause> clauses, bool is_complete, const Type* type) const {
  return Typed(arena_.New<ir::Match>(value, std::move(clauses), is_complete, span_), type);
}

Pattern* Builder::VarPattern(ir::Var* var) const {
  return arena_.New<Pattern>(Pattern{.kind = PatternKind::kVar, .span = span_, .var = var});
}

Pattern* Builder::ConstructorPattern(const ir::Constructor* constructor, std::vector<Pattern*> fields) const {
  return arena_.New<Pattern>(Pattern{
      .kind = PatternKind::kConstructor, .span = span_, .constructor = constructor, .fields = std::move(fields)});
}

std::vector<const Type*> TypesOf(const std::vector<Expr*>& exprs) {
  std::vector<const Type*> types;
  types.reserve(exprs.size());
  for (const Expr* expr : exprs) types.push_back(expr->type);
  return types;
}

std::vector<const Type*> TypesOf(const std::vector<Var*>& vars) {
  std::vector<const Type*> types;
  types.reserve(vars.size());
  for (const Var* var : vars) types.push_back(var->type);
  return types;
}

const FuncType* MakeFuncType(Arena& arena, std::vector<const Type*> params, const Type* result) {
  return arena.New<FuncType>(std::vector<const TypeParam*>{}, std::move(params), result);
}

std::vector<const Type*> FieldTypes(Arena& arena, const Constructor& constructor, const AdtType& adt) {
  TypeSubstitution substitution;
  for (size_t i = 0; i < adt.args.size(); ++i) substitution.Add(adt.adt->type_params[i], adt.args[i]);
  std::vector<const Type*> fields;
  for (const Type* field : constructor.fields) fields.push_back(substitution.Apply(arena, field));
  return fields;
}

}  // namespace rvm::ir
