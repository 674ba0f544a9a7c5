#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "base/value.h"
#include "compiler/typing/checker.h"
#include "compiler/typing/kind_check.h"

namespace rvm::typing {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;

namespace {

// Returns the value of a chain of lets.
const Expr* LastOf(const Expr* expr) {
  while (const auto* let = DynCast<ir::Let>(expr)) expr = let->body;
  return expr;
}

}  // namespace

const Type* Checker::ScalarType(DataType dtype) {
  int key = static_cast<int>(dtype.code) << 24 | dtype.bits << 16 | dtype.lanes;
  const Type*& type = scalars_[key];
  if (type == nullptr) type = ir::MakeScalarType(solver_.arena(), dtype);
  return type;
}

bool Checker::IsPolymorphic(const Type* type) {
  const auto* func = DynCast<ir::FuncType>(type == nullptr ? nullptr : solver_.Shallow(type));
  if (func == nullptr || !func->constraints.empty()) return false;
  for (const ir::TypeParam* param : func->type_params) {
    if (param->kind != ir::Kind::kShapeVar) return true;
  }
  return false;
}

const Type* Checker::Generalised(const Type* type, const Type* expected) {
  const auto* own = DynCast<ir::FuncType>(type);
  if (own == nullptr || !IsPolymorphic(expected)) return type;
  const auto* wanted = DynCast<ir::FuncType>(solver_.Shallow(expected));
  const Type* at_own_params =
      solver_.arena().New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, wanted->params, wanted->result);
  return solver_.Flow(own, at_own_params) ? wanted : type;
}

const Type* Checker::JoinType(const Type* expected) {
  if (IsPolymorphic(expected)) return expected;
  bool decides = expected != nullptr && solver_.DecidesParts(expected);
  return decides ? solver_.Template(expected) : solver_.FreshType();
}

const Type* Checker::Check(Expr* expr, const Type* expected) {
  switch (expr->expr_kind) {
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kMatch: return WithStack([&] { return CheckSpine(expr, expected); });
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor:
    case ExprKind::kTuple:
    case ExprKind::kProject:
    case ExprKind::kFunction:
    case ExprKind::kCall:
    case ExprKind::kRefCreate:
    case ExprKind::kRefRead:
    case ExprKind::kRefWrite: {
      const Type* type = WithStack([&] { return CheckLeaf(expr, expected); });
      SetType(expr, type);
      return type;
    }
  }
}

// Follows the tail of lets and of else-branches in a loop. The results of all branches flow
// into one join, which is the type of every expression after the first branch.
const Type* Checker::CheckSpine(Expr* expr, const Type* expected) {
  std::vector<Expr*> spine;
  const Type* join = nullptr;
  ir::Span first;  // the first branch
  auto enter_branches = [&] {
    if (join == nullptr) join = JoinType(expected);
  };
  for (;; spine.push_back(expr), expr = expr->expr_kind == ExprKind::kLet ? ir::Cast<ir::Let>(expr)->body
                                                                          : ir::Cast<ir::If>(expr)->else_branch) {
    if (auto* let = DynCast<ir::Let>(expr)) {
      CheckLetValue(let);
    } else if (auto* conditional = DynCast<ir::If>(expr)) {
      CheckCondition(conditional);
      enter_branches();
      const Expr* last = LastOf(conditional->then_branch);
      const Type* type = Check(conditional->then_branch, join);
      Flow(type, join, {DiagnosticKind::kBranchTypeMismatch, last->span, last, first, "the first branch ends here"},
           [] { return std::string("a branch of `if`"); });
      if (!first.valid()) first = last->span;
    } else {
      break;
    }
  }
  const Type* result = nullptr;
  if (auto* match = DynCast<ir::Match>(expr)) {
    enter_branches();
    CheckClauses(match, join);
    SetType(match, join);
    result = join;
  } else {
    result = Check(expr, join != nullptr ? join : expected);
    if (join != nullptr) {
      Flow(result, join, {DiagnosticKind::kBranchTypeMismatch, expr->span, expr, first, "the first branch ends here"},
           [] { return std::string("the `else` branch"); });
      result = join;
    }
  }
  for (Expr* node : spine) SetType(node, result);
  return result;
}

void Checker::CheckLetValue(ir::Let* let) {
  ir::Var* var = let->var;
  const Type* annotation = var->annotation == nullptr ? nullptr : solver_.Freshen(var->annotation);
  auto subject = [&] { return absl::StrCat("the value of `%", var->name, "`"); };
  const Expr* last = LastOf(let->value);
  Site site{DiagnosticKind::kLetTypeMismatch, last->span, last, var->span, "the variable is declared here"};
  if (auto* function = DynCast<ir::Function>(let->value)) {
    const ir::FuncType* type = DeclareLiteral(function);
    Declare(var, annotation != nullptr ? annotation : type);
    if (annotation != nullptr) Flow(type, annotation, site, subject);
    CheckBody(function, type, nullptr, var->span, [&] { return absl::StrCat("the body of `%", var->name, "`"); });
    SetType(function, type);
    return;
  }
  const Type* type = Check(let->value, annotation);
  if (annotation != nullptr) Flow(type, annotation, site, subject);
  Declare(var, annotation != nullptr ? annotation : type);
  relations_.Bind(var, let->value);
}

void Checker::CheckCondition(ir::If* conditional) {
  const Type* type = Check(conditional->condition, nullptr);
  const Expr* condition = conditional->condition;
  Flow(type, ScalarType(kBool), {DiagnosticKind::kConditionNotBool, condition->span, condition},
       [] { return std::string("the condition"); });
}

void Checker::CheckClauses(ir::Match* match, const Type* join) {
  const Type* scrutinee = Check(match->value, nullptr);
  matches_.push_back(match);
  ir::Span first;
  for (ir::Clause& clause : match->clauses) {
    CheckPattern(clause.pattern, scrutinee);
    if (match->clauses.size() == 1) BindPattern(*clause.pattern, match->value);
    const Expr* last = LastOf(clause.body);
    const Type* type = Check(clause.body, join);
    Flow(type, join, {DiagnosticKind::kClauseTypeMismatch, last->span, last, first, "the first clause ends here"},
         [] { return std::string("a clause of `match`"); });
    if (!first.valid()) first = last->span;
  }
}

// Decides whether `(p)` is a tuple pattern: it is if `type` is known to be a tuple of one field.
void Checker::ResolveParentheses(ir::Pattern* pattern, const Type* type) {
  while (pattern->is_parenthesised) {
    const auto* tuple = DynCast<ir::TupleType>(solver_.Shallow(type));
    pattern->is_parenthesised = false;
    if (tuple != nullptr && tuple->fields.size() == 1) return;
    ir::Pattern inner = *pattern->fields[0];
    *pattern = std::move(inner);
  }
}

void Checker::BindPattern(const ir::Pattern& pattern, Expr* value) {
  if (pattern.kind == ir::PatternKind::kVar) relations_.Bind(pattern.var, value);
  if (pattern.kind != ir::PatternKind::kTuple) return;
  for (uint32_t i = 0; i < pattern.fields.size(); ++i) {
    WithStack([&] { BindPattern(*pattern.fields[i], solver_.arena().New<ir::Project>(value, i, value->span)); });
  }
}

void Checker::CheckPattern(ir::Pattern* pattern, const Type* type) {
  ResolveParentheses(pattern, type);
  WithStack([&] {
    switch (pattern->kind) {
      case ir::PatternKind::kWildcard: return;
      case ir::PatternKind::kVar: {
        if (pattern->var->annotation == nullptr) return Declare(pattern->var, type);
        const Type* annotation = solver_.Freshen(pattern->var->annotation);
        Flow(type, annotation, {DiagnosticKind::kPatternTypeMismatch, pattern->span},
             [&] { return absl::StrCat("the value matched by `%", pattern->var->name, "`"); });
        return Declare(pattern->var, annotation);
      }
      case ir::PatternKind::kLiteral:
        Flow(type, ScalarType(pattern->literal->dtype()), {DiagnosticKind::kPatternTypeMismatch, pattern->span},
             [&] { return absl::StrCat("the value matched by `", ScalarToString(*pattern->literal, 0), "`"); });
        return;
      case ir::PatternKind::kConstructor: return CheckConstructorPattern(pattern, type);
      case ir::PatternKind::kTuple: {
        std::vector<const Type*> fields;
        const auto* tuple = DynCast<ir::TupleType>(solver_.Shallow(type));
        if (tuple != nullptr && tuple->fields.size() == pattern->fields.size()) {
          fields = tuple->fields;
        } else {
          for (size_t i = 0; i < pattern->fields.size(); ++i) fields.push_back(solver_.FreshType());
          const Type* expected = solver_.arena().New<ir::TupleType>(fields);
          if (!Flow(type, expected, {DiagnosticKind::kPatternTypeMismatch, pattern->span},
                    [] { return std::string("the value matched by a tuple pattern"); })) {
            solver_.Poison(expected);
          }
        }
        for (size_t i = 0; i < fields.size(); ++i) CheckPattern(pattern->fields[i], fields[i]);
        return;
      }
    }
  });
}

void Checker::CheckConstructorPattern(ir::Pattern* pattern, const Type* type) {
  const ir::Constructor& constructor = *pattern->constructor;
  const ir::AdtDef& adt = *constructor.adt;
  ir::TypeSubstitution substitution;
  const auto* known = DynCast<ir::AdtType>(solver_.Shallow(type));
  std::vector<ir::TypeArg> args;
  bool same = known != nullptr && known->adt == &adt && known->args.size() == adt.type_params.size();
  for (size_t i = 0; i < adt.type_params.size(); ++i) {
    args.push_back(same ? known->args[i] : solver_.FreshArg(adt.type_params[i]->kind));
    substitution.Add(adt.type_params[i], args.back());
  }
  if (!same) {
    const Type* expected = solver_.arena().New<ir::AdtType>(&adt, args);
    Site site{DiagnosticKind::kPatternTypeMismatch, pattern->span, nullptr, constructor.span,
              "the constructor is defined here"};
    site.constructor = &constructor;
    if (!Flow(type, expected, site, [&] { return absl::StrCat("the value matched by `", constructor.name, "`"); })) {
      solver_.Poison(expected);
    }
  }
  if (pattern->fields.size() != constructor.fields.size()) {
    Error(pattern->span, DiagnosticKind::kWrongNumberOfFields,
          absl::StrCat("pattern `", constructor.name, "` has ", pattern->fields.size(),
                       pattern->fields.size() == 1 ? " field" : " fields", "; expected ", constructor.fields.size()))
        .AddNote(constructor.span, "the constructor is defined here");
  }
  for (size_t i = 0; i < pattern->fields.size(); ++i) {
    const Type* field = i < constructor.fields.size() ? substitution.Apply(solver_.arena(), constructor.fields[i])
                                                      : solver_.ErrorType();
    CheckPattern(pattern->fields[i], field);
  }
}

const Type* Checker::CheckTuple(ir::Tuple* tuple, const Type* expected) {
  const auto* wanted = DynCast<ir::TupleType>(expected == nullptr ? nullptr : solver_.Shallow(expected));
  bool fits = wanted != nullptr && wanted->fields.size() == tuple->fields.size();
  std::vector<const Type*> fields;
  fields.reserve(tuple->fields.size());
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    fields.push_back(Check(tuple->fields[i], fits ? wanted->fields[i] : nullptr));
  }
  return solver_.arena().New<ir::TupleType>(std::move(fields));
}

const Type* Checker::CheckProject(ir::Project* project) {
  const Type* type = Check(project->tuple, nullptr);
  const auto* tuple = DynCast<ir::TupleType>(solver_.Shallow(type));
  if (tuple != nullptr && project->index < tuple->fields.size()) return tuple->fields[project->index];
  Relation relation;
  relation.args = {type};
  relation.result = solver_.FreshType();
  relation.project = project;
  relation.span = project->span;
  const Type* result = relation.result;
  relations_.Add(std::move(relation));
  return result;
}

const Type* Checker::RefContents(Expr* ref, std::string_view what) {
  const Type* type = Check(ref, nullptr);
  if (const auto* known = DynCast<ir::RefType>(solver_.Shallow(type))) return known->contents;
  const Type* contents = solver_.FreshType();
  const Type* expected = solver_.arena().New<ir::RefType>(contents);
  const auto* tensor = DynCast<ir::TensorType>(solver_.Shallow(type));
  bool is_bool = tensor != nullptr && tensor->dtype.is_concrete() && tensor->dtype.dtype.is_bool();
  if (is_bool) {
    Error(ref->span, DiagnosticKind::kNotReference,
          absl::StrCat("the reference that is ", Abseil(what), " has type `", Text(type),
                       "`; expected a reference, or `logical_not(..)` for what is not so"));
    return solver_.ErrorType();
  }
  if (!Flow(type, expected, {DiagnosticKind::kNotReference, ref->span, ref},
            [&] { return absl::StrCat("the reference that is ", Abseil(what)); })) {
    solver_.Poison(contents);
  }
  return contents;
}

const Type* Checker::CheckRefRead(ir::RefRead* read) { return RefContents(read->ref, "read"); }

const Type* Checker::CheckRefWrite(ir::RefWrite* write) {
  const Type* contents = RefContents(write->ref, "written");
  const Type* type = Check(write->value, contents);
  Flow(type, contents, {DiagnosticKind::kWriteTypeMismatch, write->value->span, write->value},
       [] { return std::string("the value written to a reference"); });
  return ir::UnitType(solver_.arena());
}

const ir::FuncType* Checker::DeclareLiteral(ir::Function* function) {
  std::vector<const Type*> params;
  for (ir::Var* param : function->params) {
    const Type* type = param->annotation == nullptr ? solver_.FreshType() : solver_.Freshen(param->annotation);
    Declare(param, type);
    params.push_back(type);
  }
  const Type* result =
      function->result_annotation == nullptr ? solver_.FreshType() : solver_.Freshen(function->result_annotation);
  return solver_.arena().New<ir::FuncType>(function->type_params, std::move(params), result, function->constraints);
}

void Checker::CheckBody(ir::Function* function, const ir::FuncType* type, const Type* expected, ir::Span declared,
                        Subject subject) {
  const auto* wanted = DynCast<ir::FuncType>(expected == nullptr ? nullptr : solver_.Shallow(expected));
  if (wanted != nullptr && wanted->params.size() == type->params.size() && type->type_params.empty()) {
    for (size_t i = 0; i < type->params.size(); ++i) {
      bool is_open = solver_.Shallow(type->params[i])->type_kind == ir::TypeKind::kHole;
      if (is_open) solver_.Flow(wanted->params[i], type->params[i]);
    }
  }
  auto* outer = assumptions_;
  if (!function->constraints.empty()) {
    // Relations keep a pointer to what may be assumed, so the list belongs to the arena.
    auto* assumptions = solver_.arena().New<std::vector<ir::TypeConstraint>>();
    for (const ir::TypeConstraint& constraint : function->constraints) {
      assumptions->push_back(CompleteConstraint(constraint, diagnostics_));
    }
    if (outer != nullptr) assumptions->insert(assumptions->end(), outer->begin(), outer->end());
    assumptions_ = assumptions;
  }
  const Type* body = Check(function->body, type->result);
  assumptions_ = outer;
  const Expr* last = LastOf(function->body);
  Flow(body, type->result,
       {DiagnosticKind::kResultTypeMismatch, last->span, last, declared, "the result type is declared here"}, subject);
}

const Type* Checker::CheckLeaf(Expr* expr, const Type* expected) {
  switch (expr->expr_kind) {
    case ExprKind::kConstant: {
      const Literal& literal = ir::Cast<ir::Constant>(expr)->literal;
      if (literal.shape().empty()) return ScalarType(literal.dtype());
      return ir::MakeTensorType(solver_.arena(), ToDims(literal.shape()), literal.dtype());
    }
    case ExprKind::kVar: {
      const Type* type = ir::Cast<ir::VarExpr>(expr)->var->type;
      if (type == nullptr) return solver_.ErrorType();                  // out of scope, which was reported
      if (IsPolymorphic(expected) && IsPolymorphic(type)) return type;  // passed on as it is
      return InstanceOf(type, expr->span, nullptr, nullptr);
    }
    case ExprKind::kGlobal: {
      auto global = globals_.find(ir::Cast<ir::GlobalExpr>(expr)->name);
      if (global != globals_.end() && IsPolymorphic(expected) && IsPolymorphic(global->second.type) &&
          !solver_.HasHoles(global->second.type)) {
        return global->second.type;
      }
      const ir::FuncType* type = GlobalType(ir::Cast<ir::GlobalExpr>(expr), {});
      if (type == nullptr) return solver_.ErrorType();
      QueueConstraints(*type, expr->span, nullptr);
      return type;
    }
    case ExprKind::kOp: return Generalised(OpValue(ir::Cast<ir::OpExpr>(expr)), expected);
    case ExprKind::kConstructor: return Generalised(ConstructorType(ir::Cast<ir::ConstructorExpr>(expr), {}), expected);
    case ExprKind::kTuple: return CheckTuple(ir::Cast<ir::Tuple>(expr), expected);
    case ExprKind::kProject: return CheckProject(ir::Cast<ir::Project>(expr));
    case ExprKind::kFunction: {
      auto* function = ir::Cast<ir::Function>(expr);
      const ir::FuncType* type = DeclareLiteral(function);
      CheckBody(function, type, expected, {}, [] { return std::string("the body of a function"); });
      return type;
    }
    case ExprKind::kCall: return CheckCall(ir::Cast<ir::Call>(expr), expected);
    case ExprKind::kRefCreate: {
      auto* create = ir::Cast<ir::RefCreate>(expr);
      const auto* wanted = DynCast<ir::RefType>(expected == nullptr ? nullptr : solver_.Shallow(expected));
      const Type* asked = wanted == nullptr ? nullptr : wanted->contents;
      const Type* contents = JoinType(asked);
      const Type* value = Check(create->value, asked);
      Flow(value, contents, {DiagnosticKind::kWriteTypeMismatch, create->value->span, create->value},
           [] { return std::string("the contents of a reference"); });
      return solver_.arena().New<ir::RefType>(contents);
    }
    case ExprKind::kRefRead: return CheckRefRead(ir::Cast<ir::RefRead>(expr));
    case ExprKind::kRefWrite: return CheckRefWrite(ir::Cast<ir::RefWrite>(expr));
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kMatch: break;
  }
  return solver_.ErrorType();
}

}  // namespace rvm::typing
