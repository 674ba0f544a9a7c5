#include "compiler/passes/verify/verify_module.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/specialize/compare_results.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

// Returns whether a value of type `a` may flow to a location of type `b`: the types are equal up to extents. Extents
// are checked when the program runs (check_extents), so two that differ are an error of the program, not of the
// compiler.
bool MayFlow(const ir::Type* a, const ir::Type* b);

bool AllMayFlow(const std::vector<const ir::Type*>& a, const std::vector<const ir::Type*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), MayFlow);
}

bool ArgMayFlow(const ir::TypeArg& a, const ir::TypeArg& b) {
  if (a.kind != b.kind) return false;
  return a.kind == ir::Kind::kType ? MayFlow(a.type, b.type)
                                   : a.kind == ir::Kind::kShapeVar || ir::TypeArgsEqual(a, b) ||
                                         (a.kind == ir::Kind::kShape && a.shape.dims.size() == b.shape.dims.size());
}

bool MayFlowOnThisStack(const ir::Type* a, const ir::Type* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->type_kind != b->type_kind) return false;
  switch (a->type_kind) {
    case ir::TypeKind::kTensor: {
      const auto *x = DynCast<ir::TensorType>(a), *y = DynCast<ir::TensorType>(b);
      return x->dtype == y->dtype && x->shape.dims.size() == y->shape.dims.size();
    }
    case ir::TypeKind::kTuple: return AllMayFlow(DynCast<ir::TupleType>(a)->fields, DynCast<ir::TupleType>(b)->fields);
    case ir::TypeKind::kFunc: {
      const auto *x = DynCast<ir::FuncType>(a), *y = DynCast<ir::FuncType>(b);
      return AllMayFlow(x->params, y->params) && MayFlow(x->result, y->result);
    }
    case ir::TypeKind::kAdt: {
      const auto *x = DynCast<ir::AdtType>(a), *y = DynCast<ir::AdtType>(b);
      return x->adt == y->adt && std::equal(x->args.begin(), x->args.end(), y->args.begin(), y->args.end(), ArgMayFlow);
    }
    case ir::TypeKind::kRef: return MayFlow(DynCast<ir::RefType>(a)->contents, DynCast<ir::RefType>(b)->contents);
    case ir::TypeKind::kParam:
    case ir::TypeKind::kHole: return ir::TypesEqual(a, b);
  }
  return false;
}

bool MayFlow(const ir::Type* a, const ir::Type* b) {
  return WithStack([&] { return MayFlowOnThisStack(a, b); });
}

std::string Show(const ir::Type* type) { return absl::StrCat("`", ir::TypeToString(type), "`"); }

// `type` with `?` for every dim.
const ir::Type* WithoutDims(ir::Arena& arena, const ir::Type* type) {
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    std::vector<const ir::Type*> fields;
    for (const ir::Type* field : tuple->fields) fields.push_back(WithoutDims(arena, field));
    return arena.New<ir::TupleType>(std::move(fields));
  }
  const auto* tensor = DynCast<ir::TensorType>(type);
  if (tensor == nullptr) return type;
  return ir::MakeTensorType(arena, Dims(tensor->shape.dims.size(), Dim::Any()), tensor->dtype.dtype);
}

class Verifier {
 public:
  explicit Verifier(const ir::Module& module, std::vector<Finding>& findings) : findings_(findings) {
    for (const ir::GlobalFunction& global : module.functions) {
      if (!functions_.emplace(global.name, global.function).second) {
        findings_.push_back({global.name, nullptr, "there are two functions of this name"});
      }
    }
  }

  void VerifyFunction(const ir::GlobalFunction& global) {
    function_ = global.name;
    if (global.returns_fields) {
      const auto* type = DynCast<ir::FuncType>(global.function->type);
      if (type == nullptr || DynCast<ir::TupleType>(type->result) == nullptr) {
        Report(global.function, "the function returns fields but its result is no tuple");
      }
    }
    Visit(global.function);
  }

 private:
  void Report(const Expr* node, std::string message) { findings_.push_back({function_, node, std::move(message)}); }

  // ---- types

  void CheckType(const Expr* node, const ir::Type* type) {
    if (type == nullptr) return Report(node, "a node without a type");
    if (!known_types_.contains(type) && IsClosed(type)) known_types_.insert(type);
    if (!known_types_.contains(type)) {
      Report(node, absl::StrCat("saw the type ", Show(type), ", which has a hole or a parameter that is not in scope"));
    }
  }

  bool IsClosed(const Dim& dim) const {
    if (dim.is_binary()) return IsClosed(dim.lhs()) && IsClosed(dim.rhs());
    return dim.kind() != DimKind::kHole;
  }

  bool IsClosed(const ir::TypeArg& arg) {
    switch (arg.kind) {
      case ir::Kind::kType: return IsClosed(arg.type);
      case ir::Kind::kBaseType: return arg.dtype.is_concrete();
      case ir::Kind::kShape: return arg.shape.is_dims();
      case ir::Kind::kShapeVar: return IsClosed(arg.dim);
      case ir::Kind::kConstraint:
      case ir::Kind::kAdtHandle: return false;
    }
    return false;
  }

  bool IsClosed(const ir::Type* type) {
    return WithStack([&] {
      auto is_closed = [&](const auto& part) { return IsClosed(part); };
      switch (type->type_kind) {
        case ir::TypeKind::kTensor: {
          const auto* tensor = DynCast<ir::TensorType>(type);
          return tensor->dtype.is_concrete() && tensor->shape.is_dims() &&
                 std::all_of(tensor->shape.dims.begin(), tensor->shape.dims.end(), is_closed);
        }
        case ir::TypeKind::kTuple: {
          const auto& fields = DynCast<ir::TupleType>(type)->fields;
          return std::all_of(fields.begin(), fields.end(), is_closed);
        }
        case ir::TypeKind::kFunc: {
          const auto* function = DynCast<ir::FuncType>(type);
          return std::all_of(function->params.begin(), function->params.end(), is_closed) && IsClosed(function->result);
        }
        case ir::TypeKind::kAdt: {
          const auto& args = DynCast<ir::AdtType>(type)->args;
          return std::all_of(args.begin(), args.end(), is_closed);
        }
        case ir::TypeKind::kRef: return IsClosed(DynCast<ir::RefType>(type)->contents);
        case ir::TypeKind::kParam:
        case ir::TypeKind::kHole: return false;
      }
      return false;
    });
  }

  void Flows(const Expr* node, const ir::Type* from, const ir::Type* to, std::string_view what) {
    if (from == nullptr || to == nullptr || MayFlow(from, to)) return;  // without a type: reported there
    Report(node, absl::StrCat(Abseil(what), ": saw ", Show(from), ", expected ", Show(to)));
  }
  void Equal(const Expr* node, const ir::Type* seen, const ir::Type* expected, std::string_view what) {
    if (seen == nullptr || expected == nullptr || MayFlow(seen, expected)) return;
    Report(node, absl::StrCat(Abseil(what), ": saw ", Show(seen), ", expected ", Show(expected)));
  }

  // ---- scopes

  void Bind(const Expr* node, const ir::Var* var) {
    if (!bound_.insert(var).second) Report(node, absl::StrCat("the variable `%", var->name, "` is bound twice"));
    CheckType(node, var->type);
    scope_.insert(var);
  }

  // Runs `body`; what it binds is out of scope afterwards.
  template <typename F>
  void InScope(const std::vector<const ir::Var*>& vars, const Expr* node, F&& body) {
    for (const ir::Var* var : vars) Bind(node, var);
    body();
    for (const ir::Var* var : vars) scope_.erase(var);
  }

  // ---- expressions

  void Visit(const Expr* expr) {
    WithStack([&] {
      std::vector<const ir::Var*> lets;
      while (const auto* let = DynCast<ir::Let>(expr)) {
        VisitLet(*let);
        lets.push_back(let->var);
        expr = let->body;
      }
      Enter(expr);
      VisitNode(expr);
      for (const ir::Var* var : lets) scope_.erase(var);
    });
  }

  void Enter(const Expr* expr) {
    if (!nodes_.insert(expr).second) Report(expr, "the node has two parents");
    CheckType(expr, expr->type);
  }

  void VisitLet(const ir::Let& let) {
    Enter(&let);
    bool is_recursive = let.value->expr_kind == ExprKind::kFunction;
    if (is_recursive) Bind(&let, let.var);
    Visit(let.value);
    if (!is_recursive) Bind(&let, let.var);
    Flows(&let, let.value->type, let.var->type, absl::StrCat("the value of `%", let.var->name, "`"));
    Equal(&let, let.type, let.body->type, "the type of a let, which is that of its body");
  }

  void VisitNode(const Expr* expr) {
    switch (expr->expr_kind) {
      case ExprKind::kConstant: return VisitConstant(*Cast<ir::Constant>(expr));
      case ExprKind::kVar: {
        const ir::Var* var = Cast<ir::VarExpr>(expr)->var;
        if (!scope_.contains(var)) Report(expr, absl::StrCat("the variable `%", var->name, "` is not in scope"));
        return Equal(expr, expr->type, var->type, "the use of a variable");
      }
      case ExprKind::kGlobal:
      case ExprKind::kOp:
      case ExprKind::kConstructor:
        return Report(expr, "an operator, constructor or global function that is not called");
      case ExprKind::kTuple: return VisitTuple(*Cast<ir::Tuple>(expr));
      case ExprKind::kProject: return VisitProject(*Cast<ir::Project>(expr));
      case ExprKind::kFunction: return VisitFunction(*Cast<ir::Function>(expr));
      case ExprKind::kCall: return VisitCall(*Cast<ir::Call>(expr));
      case ExprKind::kLet: return Visit(expr);
      case ExprKind::kIf: return VisitIf(*Cast<ir::If>(expr));
      case ExprKind::kMatch: return VisitMatch(*Cast<ir::Match>(expr));
      case ExprKind::kRefCreate: {
        const Expr* value = Cast<ir::RefCreate>(expr)->value;
        Visit(value);
        return FlowsToContents(expr, value->type, expr->type);
      }
      case ExprKind::kRefRead: {
        const Expr* ref = Cast<ir::RefRead>(expr)->ref;
        Visit(ref);
        const auto* type = DynCast<ir::RefType>(ref->type);
        if (type == nullptr) return Report(expr, "a read of what is no reference");
        return Equal(expr, expr->type, type->contents, "the contents of a reference");
      }
      case ExprKind::kRefWrite: {
        const auto* write = Cast<ir::RefWrite>(expr);
        Visit(write->ref);
        Visit(write->value);
        FlowsToContents(expr, write->value->type, write->ref->type);
        const auto* unit = DynCast<ir::TupleType>(expr->type);
        if (unit == nullptr || !unit->fields.empty()) Report(expr, "a write to a reference whose type is not `()`");
        return;
      }
    }
  }

  void FlowsToContents(const Expr* node, const ir::Type* value, const ir::Type* ref) {
    const auto* type = DynCast<ir::RefType>(ref);
    if (type == nullptr) return Report(node, "a value comes to what is no reference");
    Flows(node, value, type->contents, "the contents of a reference");
  }

  void VisitConstant(const ir::Constant& constant) {
    const auto* type = DynCast<ir::TensorType>(constant.type);
    const Literal& literal = constant.literal;
    if (type == nullptr || type->dtype != ir::DTypeTerm::Of(literal.dtype()) ||
        StaticShape(type->shape.dims) != literal.shape()) {
      Report(&constant, absl::StrCat("the constant is a tensor of ", literal.dtype().ToString(), " and shape ",
                                     ShapeToString(literal.shape()), ", its type is another"));
    }
  }

  void VisitTuple(const ir::Tuple& tuple) {
    for (const Expr* field : tuple.fields) Visit(field);
    const auto* type = DynCast<ir::TupleType>(tuple.type);
    if (type == nullptr || type->fields.size() != tuple.fields.size()) {
      return Report(&tuple, absl::StrCat("a tuple of ", tuple.fields.size(), " fields that has another type"));
    }
    for (size_t i = 0; i < type->fields.size(); ++i) Flows(&tuple, tuple.fields[i]->type, type->fields[i], "a field");
  }

  void VisitProject(const ir::Project& project) {
    Visit(project.tuple);
    const auto* type = DynCast<ir::TupleType>(project.tuple->type);
    if (type == nullptr || project.index >= type->fields.size()) {
      return Report(&project, absl::StrCat("field ", project.index, " of what has no such field"));
    }
    Equal(&project, project.type, type->fields[project.index], "a field");
  }

  void VisitFunction(const ir::Function& function) {
    const auto* type = DynCast<ir::FuncType>(function.type);
    if (type == nullptr || type->params.size() != function.params.size()) {
      return Report(&function, "a function whose type is not that of a function of so many parameters");
    }
    for (const ir::TypeParam* param : function.type_params) {
      if (param->kind != ir::Kind::kShapeVar) {
        Report(&function, absl::StrCat("the type parameter `", param->name, "` is not a dim"));
      }
    }
    std::vector<const ir::Var*> params(function.params.begin(), function.params.end());
    for (size_t i = 0; i < params.size(); ++i) {
      Flows(&function, type->params[i], params[i]->type, absl::StrCat("the parameter `%", params[i]->name, "`"));
    }
    InScope(params, &function, [&] { Visit(function.body); });
    Flows(&function, function.body->type, type->result, "the result of a function");
  }

  void VisitIf(const ir::If& branch) {
    Visit(branch.condition);
    Visit(branch.then_branch);
    Visit(branch.else_branch);
    if (branch.condition->type != nullptr && (!ir::IsScalar(branch.condition->type) ||
                                              DynCast<ir::TensorType>(branch.condition->type)->dtype.dtype != kBool)) {
      Report(&branch, absl::StrCat("the condition: saw ", Show(branch.condition->type), ", expected `bool`"));
    }
    Flows(&branch, branch.then_branch->type, branch.type, "a branch");
    Flows(&branch, branch.else_branch->type, branch.type, "a branch");
  }

  void VisitMatch(const ir::Match& match) {
    Visit(match.value);
    for (const ir::Clause& clause : match.clauses) {
      std::vector<const ir::Var*> vars;
      VisitPattern(match, *clause.pattern, match.value->type, vars);
      InScope(vars, &match, [&] { Visit(clause.body); });
      Flows(&match, clause.body->type, match.type, "a clause");
    }
  }

  void VisitPattern(const ir::Match& match, const ir::Pattern& pattern, const ir::Type* type,
                    std::vector<const ir::Var*>& vars) {
    switch (pattern.kind) {
      case ir::PatternKind::kWildcard: return;
      case ir::PatternKind::kVar:
        vars.push_back(pattern.var);
        return Flows(&match, type, pattern.var->type,
                     absl::StrCat("the variable `%", pattern.var->name, "` of a pattern"));
      case ir::PatternKind::kTuple: {
        const auto* tuple = DynCast<ir::TupleType>(type);
        if (tuple == nullptr) return Report(&match, "the pattern of a tuple where there is none");
        return VisitPatterns(match, pattern.fields, tuple->fields, vars);
      }
      case ir::PatternKind::kConstructor: {
        const auto* adt = DynCast<ir::AdtType>(type);
        if (adt == nullptr || adt->adt != pattern.constructor->adt) {
          return Report(&match, absl::StrCat("the pattern `", pattern.constructor->name, "` where another type is"));
        }
        return VisitPatterns(match, pattern.fields, ir::FieldTypes(scratch_, *pattern.constructor, *adt), vars);
      }
      case ir::PatternKind::kLiteral: {
        const auto* tensor = DynCast<ir::TensorType>(type);
        if (tensor == nullptr || tensor->dtype.dtype != pattern.literal->dtype()) {
          Report(&match,
                 absl::StrCat("a pattern of `", pattern.literal->dtype().ToString(), "` where another type is"));
        }
        return;
      }
    }
  }

  void VisitPatterns(const ir::Match& match, const std::vector<ir::Pattern*>& patterns,
                     const std::vector<const ir::Type*>& types, std::vector<const ir::Var*>& vars) {
    if (patterns.size() != types.size()) {
      return Report(&match, absl::StrCat("a pattern has ", patterns.size(), " fields, expected ", types.size()));
    }
    WithStack([&] {
      for (size_t i = 0; i < types.size(); ++i) VisitPattern(match, *patterns[i], types[i], vars);
    });
  }

  // ---- calls

  void VisitCall(const ir::Call& call) {
    if (!nodes_.insert(call.callee).second) Report(call.callee, "the node has two parents");
    for (const Expr* arg : call.args) Visit(arg);
    if (const ops::OpDef* op = ir::OpCallee(&call)) return VisitOperatorCall(call, *op);
    CheckType(call.callee, call.callee->type);
    if (const auto* global = DynCast<ir::GlobalExpr>(call.callee)) {
      auto found = functions_.find(global->name);
      if (found == functions_.end()) return Report(&call, absl::StrCat("there is no function `@", global->name, "`"));
      Flows(&call, global->type, found->second->type, absl::StrCat("the signature of `@", global->name, "`"));
    } else if (const auto* callee = DynCast<ir::ConstructorExpr>(call.callee)) {
      const auto* adt = DynCast<ir::AdtType>(call.type);
      if (adt == nullptr || adt->adt != callee->constructor->adt) {
        return Report(&call, absl::StrCat("a call of `", callee->constructor->name, "` that has another type"));
      }
      return CheckArgs(call, ir::FieldTypes(scratch_, *callee->constructor, *adt));
    } else {
      nodes_.erase(call.callee);
      Visit(call.callee);
    }
    const auto* type = DynCast<ir::FuncType>(call.callee->type);
    if (type == nullptr) return Report(&call, "a call of what is no function");
    CheckArgs(call, type->params);
    Flows(&call, type->result, call.type, "the result of a call");
  }

  void CheckArgs(const ir::Call& call, const std::vector<const ir::Type*>& params) {
    if (call.args.size() != params.size()) {
      return Report(&call, absl::StrCat("a call with ", call.args.size(), " arguments, expected ", params.size()));
    }
    for (size_t i = 0; i < params.size(); ++i) {
      Flows(&call, call.args[i]->type, params[i], absl::StrCat("argument ", i + 1));
    }
  }

  void VisitOperatorCall(const ir::Call& call, const ops::OpDef& op) {
    const size_t least = ops::NumRequiredInputs(op), most = op.inputs.size();
    if (call.args.size() < least || call.args.size() > most) {
      const std::string range = least == most ? absl::StrCat(most) : absl::StrCat(least, " to ", most);
      return Report(&call, absl::StrCat("a call with ", call.args.size(), " arguments, expected ", range));
    }
    bool is_typed = call.type != nullptr;
    for (const Expr* arg : call.args) is_typed = is_typed && arg->type != nullptr && IsClosed(arg->type);
    if (!is_typed) return;  // reported there
    ir::Arena arena;
    absl::StatusOr<const ir::Type*> result = ops::ResultType(arena, op, call.attrs, call.args);
    if (!result.ok()) {
      // Extents that cannot fit are an error of the program when the call runs; all else is ours.
      std::vector<Expr*> loose;
      for (const Expr* arg : call.args) {
        const auto* constant = DynCast<ir::Constant>(arg);
        Expr* stand_in = constant == nullptr ? ir::Builder(arena, arg->span).Tuple({})
                                             : static_cast<Expr*>(arena.New<ir::Constant>(*constant));
        stand_in->type = WithoutDims(arena, arg->type);
        loose.push_back(stand_in);
      }
      if (ops::ResultType(arena, op, call.attrs, loose).ok()) return;
      return Report(&call, absl::StrCat("the type rule of the operator does not hold: ", result.status().message()));
    }
    if (CompareResults(*result, call.type) == DimEquality::kDifferent) {
      Report(&call,
             absl::StrCat("the result of an operator: saw ", Show(call.type), ", its type rule gives ", Show(*result)));
    }
  }

  std::vector<Finding>& findings_;
  std::string function_;
  ir::Arena scratch_;
  absl::flat_hash_map<std::string, const ir::Function*> functions_;
  absl::flat_hash_set<const Expr*> nodes_;
  absl::flat_hash_set<const ir::Var*> bound_, scope_;
  absl::flat_hash_set<const ir::Type*> known_types_;  // closed
};

}  // namespace

std::vector<Finding> VerifyModule(const ir::Module& module, Forms forms) {
  std::vector<Finding> findings;
  Verifier verifier(module, findings);
  for (const ir::GlobalFunction& global : module.functions) {
    verifier.VerifyFunction(global);
    if (findings.empty()) VerifyForms(global, forms, findings);
  }
  return findings;
}

}  // namespace rvm::passes
