// Makes a typed module monomorphic.
//
// Takes a typed module. Returns the functions that are reachable from the entries, one copy for each distinct list of
// type arguments, named after them (`map[int32, bool]`). The only type parameters left are of kind ShapeVar, which
// stand for extents known at run time: a function called with non-constant extents has one instance for all of them.
// Operators, constructors and global functions that are used as values become function literals, so they only occur as
// callees.
//
// Counts that are floating-point numbers become int64, and convolutions in blocked layouts are those in plain ones
// between rearrangements: no later pass sees others.
//
// Attributes of functions are dropped, and `Primitive=1` with them: it says how the compiler that wrote the program
// fused operators.
//
// A polymorphic function as a value becomes the tuple of its instances (polymorphic_values.h). Type parameters with
// infinitely many instances are represented by one type (uniform_types.h).
//
// Calls of operators whose operands had type parameters as shapes or dtypes are checked again for each instance,
// because type inference only had an approximation of their result (ops/generic_type.h).
//
// kInvalidArgument if an entry does not exist, kUnimplemented if it has other type parameters. All other errors, such
// as infinitely many instances, are diagnostics.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "compiler/ir/match_types.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/dim_values.h"
#include "compiler/ops/families/blocked_layout.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"
#include "compiler/passes/specialize/compare_results.h"
#include "compiler/passes/specialize/fit_values.h"
#include "compiler/passes/specialize/polymorphic_values.h"
#include "compiler/passes/specialize/uniform_types.h"

namespace rvm::passes {
namespace {

using diagnostics::DiagnosticKind;
using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::TypeArg;
using ir::TypeParam;

// A function with more instances, or with longer type arguments, is assumed to have infinitely many.
constexpr size_t kMaxInstances = 10000;
constexpr size_t kMaxTypeText = size_t{16} << 10;
// A function with more instances, or called at larger extents, is copied once for all remaining extents: it may call
// itself at a different extent each time.
constexpr size_t kMaxStaticInstances = 16;
constexpr int64_t kMaxStaticExtent = int64_t{1} << 20;

// A function literal that is being copied: what its type parameters stand for.
struct Scope {
  ir::TypeSubstitution substitution;
  ir::Span used_at;     // where the program asks for this copy
  std::string used_as;  // "`S` = `(3)`, `T` = `int32`"

  void NoteArg(const TypeParam& param, const std::string& arg) {
    absl::StrAppend(&used_as, used_as.empty() ? "`" : ", `", param.name, "` = `", arg, "`");
  }
  absl::flat_hash_map<const ir::Type*, const ir::Type*> types;
};

// A let-bound polymorphic function and the instances its uses have asked for.
struct LocalFunction {
  const ir::Let* let;
  Scope* scope;  // around it
  struct Instance {
    std::string key;
    ir::Var* var;
    std::unique_ptr<Scope> scope;
  };
  std::vector<Instance> instances;
};

// A copy of a global function still to be made.
struct Instance {
  const ir::GlobalFunction* source;
  std::string name;
  std::vector<const TypeParam*> type_params;  // the dims known at run time
  Scope scope;
};

class Specializer : public Rewriter {
 public:
  Specializer(const ir::Module& module, PolymorphicTypes& types, diagnostics::Diagnostics& diagnostics)
      : Rewriter(*module.arena),
        module_(module),
        types_(types),
        diagnostics_(diagnostics),
        evaluator_([](const Expr* expr) { return expr->type; },
                   [this](const ir::Var* var) -> const Expr* {
                     auto found = values_.find(var);
                     return found == values_.end() ? nullptr : found->second;
                   }) {
    for (const ir::GlobalFunction& function : module.functions) sources_[function.name] = &function;
  }

  absl::StatusOr<ir::Module> Run(const std::vector<std::string>& entries);

 protected:
  Expr* RewriteNode(Expr* expr) override;
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override;
  Expr* FinishLets(const std::vector<Binding>& chain, Expr* body) override;
  ir::Var* RewriteBinder(ir::Var* var) override;
  const ir::Type* RewriteType(const ir::Type* type) override;
  TypeArg RewriteTypeArg(const TypeArg& arg) override { return types_.Lower(scope_->substitution.Apply(arena_, arg)); }

 private:
  absl::Status DemandEntry(const std::string& name);
  std::string Demand(const ir::GlobalExpr& use);
  bool IsStaticIn(const ir::GlobalFunction& global, const TypeParam& param, const Dim& extent);
  ir::Function* CopyInstance(const Instance& instance);
  ir::Function* WithTypeParams(const ir::Function& function, std::vector<const TypeParam*> type_params);
  ir::Function* CopyLiteral(const ir::Function& function, const std::vector<const TypeParam*>& dims = {});
  ir::Var* DemandLocal(const ir::Var* of, const ir::Type* type, ir::Span span);
  bool SolveParams(const ir::FuncType& pattern, const ir::FuncType& type, Scope& scope, std::string& key);
  // `type` in the scope, polymorphic function types as they are.
  const ir::Type* Substitute(const ir::Type* type) { return scope_->substitution.Apply(arena_, type); }
  Expr* InstanceOf(Expr* value, const ir::FuncType& own, const ir::Type* use);
  template <typename MakeInstance>
  Expr* TupleOfInstances(const Expr* expr, MakeInstance make);
  Expr* RewriteVar(const ir::VarExpr& use);
  Expr* RewriteGlobal(const ir::GlobalExpr& use);
  Expr* RewriteConstructor(const ir::ConstructorExpr& use);
  Expr* ConstructorOf(const ir::ConstructorExpr& use, const ir::Type* type);
  void LowerPattern(ir::Pattern& pattern);
  Expr* RewriteCallee(const ir::Call& call);
  Expr* EtaExpand(Expr* callee, const ir::Expr* original);
  Expr* CheckOperator(ir::Call* call);
  void ReportOperator(const ir::Call& call, std::string message);

  const ir::Module& module_;
  PolymorphicTypes& types_;
  diagnostics::Diagnostics& diagnostics_;
  Scope* scope_ = nullptr;
  absl::flat_hash_map<std::string_view, const ir::GlobalFunction*> sources_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> vars_;
  absl::flat_hash_map<const ir::Var*, LocalFunction> locals_;
  absl::flat_hash_map<const ir::Var*, const Expr*> values_;  // of the variables that lets bind in the result
  ops::DimEvaluator evaluator_;
  absl::flat_hash_map<std::string, std::string> names_;  // by source and arguments
  absl::flat_hash_map<const ir::GlobalFunction*, size_t> counts_;
  std::deque<Instance> pending_;
};

absl::StatusOr<ir::Module> Specializer::Run(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) RVM_RETURN_IF_ERROR(DemandEntry(entry));
  std::vector<ir::GlobalFunction> functions;
  while (!types_.refused() && !pending_.empty()) {
    Instance instance = std::move(pending_.front());
    pending_.pop_front();
    scope_ = &instance.scope;
    vars_.clear();
    locals_.clear();
    functions.push_back({instance.name, CopyInstance(instance), instance.source->span});
  }
  RVM_RETURN_IF_ERROR(diagnostics_.ToStatus());
  ir::Module result = WithFunctions(module_, std::move(functions));
  result.adts.insert(result.adts.end(), types_.adts().begin(), types_.adts().end());
  return result;
}

absl::Status Specializer::DemandEntry(const std::string& name) {
  auto found = sources_.find(name);
  if (found == sources_.end()) return absl::InvalidArgumentError(absl::StrCat("no function is named `@", name, "`"));
  const ir::Function& function = *found->second->function;
  for (const TypeParam* param : function.type_params) {
    if (param->kind == ir::Kind::kShapeVar) continue;
    return absl::UnimplementedError(absl::StrCat("the entry `@", name, "` has the type parameter `", param->name,
                                                 "`; an entry may have only parameters of kind `ShapeVar`"));
  }
  if (names_.emplace(name, name).second) pending_.push_back({found->second, name, function.type_params, {}});
  return absl::OkStatus();
}

// Returns whether to copy the function for this extent. An extent that its arguments do not determine must be static.
bool Specializer::IsStaticIn(const ir::GlobalFunction& global, const TypeParam& param, const Dim& extent) {
  if (!extent.is_const()) return false;
  if (counts_[&global] < kMaxStaticInstances && extent.constant() <= kMaxStaticExtent) return true;
  ir::TypeSubstitution probe;
  probe.Add(&param, {.kind = ir::Kind::kShapeVar, .dim = extent});
  const auto& params = TypeOf(*global.function).params;
  return std::none_of(params.begin(), params.end(),
                      [&](const ir::Type* type) { return probe.Apply(arena_, type) != type; });
}

std::string Specializer::Demand(const ir::GlobalExpr& use) {
  auto found = sources_.find(use.name);
  RVM_CHECK(found != sources_.end(), "a typed module calls a function that it does not have");
  const ir::Function& function = *found->second->function;
  Instance instance{found->second, use.name, {}, {}};
  std::vector<std::string> texts;
  std::vector<const TypeParam*> dims;
  ir::TypeSubstitution renaming;
  bool is_generic = true;
  for (size_t i = 0; i < function.type_params.size(); ++i) {
    const TypeParam* param = function.type_params[i];
    TypeArg arg = RewriteTypeArg(use.type_args[i]);
    if (param->kind == ir::Kind::kShapeVar && !IsStaticIn(*found->second, *param, arg.dim)) {
      instance.type_params.push_back(param);
      texts.push_back("_");
      continue;
    }
    is_generic = false;
    arg = CanonicalArg(arena_, arg, dims, renaming);
    texts.push_back(ir::TypeArgToString(arg));
    instance.scope.NoteArg(*param, texts.back());
    instance.scope.substitution.Add(param, std::move(arg));
  }
  instance.scope.used_at = use.span;
  instance.type_params.insert(instance.type_params.end(), dims.begin(), dims.end());
  if (!is_generic) absl::StrAppend(&instance.name, "[", absl::StrJoin(texts, ", "), "]");
  auto [name, added] = names_.emplace(instance.name, instance.name);
  if (!added) return name->second;
  if (++counts_[found->second] > kMaxInstances || instance.name.size() > kMaxTypeText) {
    types_.Refuse(use.span, DiagnosticKind::kEndlessInstances,
                  absl::StrCat("`@", use.name, "` is called with ever new type arguments"));
    return use.name;
  }
  std::string result = instance.name;
  pending_.push_back(std::move(instance));
  return result;
}

ir::Function* Specializer::CopyInstance(const Instance& instance) {
  return WithTypeParams(*instance.source->function, instance.type_params);
}

ir::Function* Specializer::WithTypeParams(const ir::Function& function, std::vector<const TypeParam*> type_params) {
  ir::Function* copy = RewriteUntyped(function);
  copy->type_params = type_params;
  copy->constraints.clear();
  copy->attrs = {};
  const ir::Type* result = RewriteType(TypeOf(function).result);
  copy->type = arena_.New<ir::FuncType>(std::move(type_params), ir::TypesOf(copy->params), result);
  return copy;
}

// Returns a function literal whose type parameters the current scope replaces.
ir::Function* Specializer::CopyLiteral(const ir::Function& function, const std::vector<const TypeParam*>& dims) {
  std::vector<const TypeParam*> type_params = ShapeVars(function.type_params);
  type_params.insert(type_params.end(), dims.begin(), dims.end());
  return WithTypeParams(function, std::move(type_params));
}

ir::Var* Specializer::RewriteBinder(ir::Var* var) {
  types_.set_place(var->span);
  ir::Var* copy = At(var->span).Var(var->name, RewriteType(var->type));
  if (var->annotation != nullptr) copy->annotation = RewriteType(var->annotation);
  vars_[var] = copy;
  return copy;
}

const ir::Type* Specializer::RewriteType(const ir::Type* type) {
  if (type == nullptr) return type;
  auto [it, added] = scope_->types.try_emplace(type, type);
  if (added) it->second = types_.Lower(Substitute(type));
  return it->second;
}

// ---- local polymorphic functions

void Specializer::RewriteLet(const ir::Let& let, std::vector<Binding>& chain) {
  const auto* function = DynCast<ir::Function>(let.value);
  if (function == nullptr || !IsPolymorphic(function->type_params)) {
    Rewriter::RewriteLet(let, chain);
    values_[chain.back().var] = chain.back().value;
    return;
  }
  // Its instances are inserted here once all uses are known.
  locals_[let.var] = LocalFunction{&let, scope_, {}};
  chain.push_back({let.var, nullptr, let.span});
}

// From the last to the first: the body of a local function may use those before it.
Expr* Specializer::FinishLets(const std::vector<Binding>& chain, Expr* body) {
  std::vector<Binding> reversed;
  for (auto binding = chain.rbegin(); binding != chain.rend(); ++binding) {
    if (binding->value != nullptr) {
      reversed.push_back(*binding);
      continue;
    }
    // Copying one instance may ask for more, also of this function, and may grow `locals_`.
    const ir::Let* let = locals_.at(binding->var).let;
    for (size_t i = 0; i < locals_.at(binding->var).instances.size() && !types_.refused(); ++i) {
      Scope* outer = std::exchange(scope_, locals_.at(binding->var).instances[i].scope.get());
      ir::Var* var = locals_.at(binding->var).instances[i].var;
      reversed.push_back({var, CopyLiteral(*Cast<ir::Function>(let->value)), let->span});
      scope_ = outer;
    }
  }
  return MakeLets(arena_, std::vector<Binding>(reversed.rbegin(), reversed.rend()), body);
}

bool Specializer::SolveParams(const ir::FuncType& pattern, const ir::FuncType& type, Scope& scope, std::string& key) {
  absl::flat_hash_map<const TypeParam*, TypeArg> found;
  if (!ir::MatchTypes(&pattern, &type, pattern.type_params, found)) return false;
  for (const TypeParam* param : pattern.type_params) {
    if (param->kind == ir::Kind::kShapeVar) continue;
    auto arg = found.find(param);
    if (arg == found.end()) return false;
    arg->second = types_.Lower(arg->second);
    scope.substitution.Add(param, arg->second);
    std::string text = ir::TypeArgToString(arg->second);
    scope.NoteArg(*param, text);
    absl::StrAppend(&key, key.empty() ? "" : ", ", text);
  }
  return true;
}

ir::Var* Specializer::DemandLocal(const ir::Var* of, const ir::Type* type, ir::Span span) {
  LocalFunction& local = locals_.at(of);
  const ir::Let& let = *local.let;
  auto scope = std::make_unique<Scope>();
  scope->substitution = local.scope->substitution;
  scope->used_at = span;
  const ir::Type* own = local.scope->substitution.Apply(arena_, let.value->type);
  const auto* instance = DynCast<ir::FuncType>(type);
  std::string key;
  if (instance == nullptr || !SolveParams(*DynCast<ir::FuncType>(own), *instance, *scope, key)) {
    types_.Refuse(
        span, DiagnosticKind::kUndeterminedInstance,
        absl::StrCat("the local function `%", let.var->name, "` of type `", ir::TypeToString(own), "` is used as a `",
                     ir::TypeToString(type), "`, which does not determine its type parameters"));
    return let.var;
  }
  for (const LocalFunction::Instance& known : local.instances) {
    if (known.key == key) return known.var;
  }
  if (local.instances.size() > kMaxInstances || key.size() > kMaxTypeText) {
    types_.Refuse(span, DiagnosticKind::kEndlessInstances,
                  absl::StrCat("`%", let.var->name, "` is called with ever new type arguments"));
    return let.var;
  }
  const ir::Type* var_type = types_.Lower(scope->substitution.Apply(
      arena_, arena_.New<ir::FuncType>(ShapeVars(instance->type_params), instance->params, instance->result)));
  ir::Var* var = At(let.var->span).Var(let.var->name, var_type);
  local.instances.push_back({std::move(key), var, std::move(scope)});
  return var;
}

// ---- polymorphic functions as values

// Returns the instance of a polymorphic value that its use asks for.
Expr* Specializer::InstanceOf(Expr* value, const ir::FuncType& own, const ir::Type* use) {
  std::optional<PolymorphicInstance> instance = types_.Solve(own, use);
  if (!instance) {
    types_.Refuse(value->span, DiagnosticKind::kUndeterminedInstance,
                  absl::StrCat("a function of type `", ir::TypeToString(&own), "` is used as a `",
                               ir::TypeToString(use), "`, which does not determine its type parameters"));
    return value;
  }
  size_t index = types_.Demand(own, *instance);
  return At(value->span).Project(value, index, types_.InstanceType(own, *instance));
}

// `expr`, a polymorphic function, as a value: `make(instance, its type)` for each.
template <typename MakeInstance>
Expr* Specializer::TupleOfInstances(const Expr* expr, MakeInstance make) {
  const ir::FuncType& own = *AsPolymorphic(Substitute(expr->type));
  std::vector<PolymorphicInstance> instances = types_.InstancesOf(own);
  std::vector<Expr*> fields;
  for (const PolymorphicInstance& instance : instances) {
    fields.push_back(make(instance, types_.InstanceType(own, instance)));
  }
  return At(expr->span).Tuple(std::move(fields), types_.Lower(&own));
}

Expr* Specializer::RewriteVar(const ir::VarExpr& use) {
  bool is_value = AsPolymorphic(use.type) != nullptr;
  if (locals_.contains(use.var)) {
    auto instance_of = [&](const ir::Type* type) -> Expr* {
      Expr* expr = At(use.span).Use(DemandLocal(use.var, type, use.span));
      expr->type = types_.Lower(type);
      return expr;
    };
    if (!is_value) return instance_of(Substitute(use.type));
    return TupleOfInstances(&use, [&](const PolymorphicInstance&, const ir::Type* type) { return instance_of(type); });
  }
  auto found = vars_.find(use.var);
  Expr* expr = At(use.span).Use(found == vars_.end() ? use.var : found->second);
  if (is_value || AsPolymorphic(use.var->type) == nullptr) return Typed(expr, &use);
  const ir::Type* own = Substitute(use.var->type);
  expr->type = types_.Lower(own);
  return InstanceOf(expr, *AsPolymorphic(own), Substitute(use.type));
}

Expr* Specializer::RewriteGlobal(const ir::GlobalExpr& use) {
  if (AsPolymorphic(use.type) == nullptr) {
    return EtaExpand(Typed(At(use.span).Global(Demand(use), nullptr), &use), &use);
  }
  return TupleOfInstances(&use, [&](const PolymorphicInstance& instance, const ir::Type* type) {
    ir::GlobalExpr at(use.name, use.span);
    at.type_args = instance.args;
    return EtaExpand(At(use.span).Global(Demand(at), type), &use);
  });
}

// ---- expressions

void Specializer::LowerPattern(ir::Pattern& pattern) {
  if (pattern.constructor != nullptr) pattern.constructor = types_.Lower(pattern.constructor);
  for (ir::Pattern* field : pattern.fields) WithStack([&] { LowerPattern(*field); });
}

Expr* Specializer::RewriteCallee(const ir::Call& call) {
  Expr* callee = call.callee;
  if (const auto* global = DynCast<ir::GlobalExpr>(callee)) {
    return Typed(At(global->span).Global(Demand(*global), nullptr), global);
  }
  if (const auto* constructor = DynCast<ir::ConstructorExpr>(callee)) return RewriteConstructor(*constructor);
  if (callee->expr_kind == ExprKind::kOp) return RewriteChildren(callee);
  if (AsPolymorphic(callee->type) == nullptr) return Rewrite(callee);
  // Called in place: the arguments determine the type parameters.
  std::vector<const ir::Type*> params;
  for (const Expr* arg : call.args) params.push_back(Substitute(arg->type));
  const ir::FuncType* type = ir::MakeFuncType(arena_, std::move(params), Substitute(call.type));
  const ir::FuncType& own = *AsPolymorphic(Substitute(callee->type));
  const auto* literal = DynCast<ir::Function>(callee);
  if (literal == nullptr) return InstanceOf(Rewrite(callee), own, type);
  Scope scope;
  scope.substitution = scope_->substitution;
  scope.used_at = call.span;
  std::string key;
  if (!SolveParams(own, *type, scope, key)) {
    types_.Refuse(call.span, DiagnosticKind::kUndeterminedInstance,
                  absl::StrCat("a function literal of type `", ir::TypeToString(&own), "` is called as `",
                               ir::TypeToString(type), "`, which does not determine its type parameters"));
    return callee;
  }
  Scope* outer = std::exchange(scope_, &scope);
  Expr* copy = CopyLiteral(*literal);
  scope_ = outer;
  return copy;
}

Expr* Specializer::RewriteConstructor(const ir::ConstructorExpr& use) {
  auto* copy = arena_.New<ir::ConstructorExpr>(types_.Lower(use.constructor), use.span);
  Typed(copy, &use);  // which lowers the constructor's ADT
  copy->constructor = types_.Lower(use.constructor);
  for (const TypeArg& arg : use.type_args) copy->type_args.push_back(RewriteTypeArg(arg));
  return copy;
}

// One instance of a constructor that is a polymorphic function.
Expr* Specializer::ConstructorOf(const ir::ConstructorExpr& use, const ir::Type* type) {
  const auto* result = DynCast<ir::AdtType>(DynCast<ir::FuncType>(type)->result);
  Expr* copy = At(use.span).Constructor(types_.Lower(use.constructor), result);
  copy->type = type;
  return copy;
}

// `fn (%a, %b) { callee(%a, %b) }`
Expr* Specializer::EtaExpand(Expr* callee, const Expr* original) {
  const auto* type = DynCast<ir::FuncType>(callee->type);
  RVM_CHECK(type != nullptr && !IsPolymorphic(type->type_params), "a function value is not one of its instances");
  const ir::Builder at = At(original->span);
  std::vector<ir::Var*> params;
  std::vector<Expr*> args;
  for (const ir::Type* param : type->params) {
    std::string name(1, static_cast<char>('a' + params.size() % 26));
    params.push_back(at.DeclaredVar(name, param));
    args.push_back(at.Use(params.back()));
  }
  const auto* op = DynCast<ir::OpExpr>(callee);
  // Type inference has found that the defaults suffice.
  ir::Attrs attrs = op == nullptr ? ir::Attrs() : *ops::WithDefaults(*op->op, {});
  if (op != nullptr) args = ops::WithIntegerCounts(at, *op->op, std::move(args));
  ir::Call* call = at.Call(callee, std::move(args), std::move(attrs), type->result);
  bool is_generic = op != nullptr && callee->type != original->type;
  ir::Function* function = at.Function(type->type_params, std::move(params), is_generic ? CheckOperator(call) : call);
  function->type = arena_.New<ir::FuncType>(type->type_params, type->params, type->result);
  return function;
}

// ---- operators on what were type parameters

// Returns an operator whose result type inference knew only in terms of the type parameters.
Expr* Specializer::CheckOperator(ir::Call* call) {
  const ops::OpDef& op = *ir::OpCallee(call);
  absl::StatusOr<const ir::Type*> own =
      ops::ResultType(arena_, op, call->attrs, call->args, [&](size_t arg) -> std::vector<Dim> {
        bool decides = op.inputs[arg].decides_shape || op.inputs[arg].may_decide_shape;
        return decides ? evaluator_.Elements(call->args[arg]) : std::vector<Dim>();
      });
  if (!own.ok()) {
    ReportOperator(*call, std::string(own.status().message()));
    return call;
  }
  switch (CompareResults(*own, call->type)) {
    case DimEquality::kEqual: return call;
    case DimEquality::kDifferent:
      ReportOperator(*call, absl::StrCat("`", Abseil(op.name), "` gives `", ir::TypeToString(*own), "`; expected `",
                                         ir::TypeToString(call->type), "`"));
      return call;
    case DimEquality::kUnknown: break;
  }
  // The let checks the extents.
  ir::Var* var = At(call->span).Var("r", call->type);
  call->type = *own;
  values_[var] = call;
  return MakeLets(arena_, {{var, call, call->span}}, At(call->span).Use(var));
}

void Specializer::ReportOperator(const ir::Call& call, std::string message) {
  auto& diagnostic = diagnostics_.Error(call.span, DiagnosticKind::kInstanceMismatch, std::move(message));
  if (scope_->used_as.empty()) return;
  diagnostic.AddNote(scope_->used_at, absl::StrCat("the function around it is used with ", scope_->used_as,
                                                   scope_->used_at.valid() ? " here" : ""));
}

// ---- all nodes

Expr* Specializer::RewriteNode(Expr* expr) {
  if (types_.refused()) return expr;
  types_.set_place(expr->span);
  switch (expr->expr_kind) {
    case ExprKind::kVar: return RewriteVar(*Cast<ir::VarExpr>(expr));
    case ExprKind::kGlobal: return RewriteGlobal(*Cast<ir::GlobalExpr>(expr));
    case ExprKind::kOp:
      if (AsPolymorphic(expr->type) == nullptr) return EtaExpand(RewriteChildren(expr), expr);
      return TupleOfInstances(expr, [&](const PolymorphicInstance&, const ir::Type* type) {
        auto* op = arena_.New<ir::OpExpr>(*Cast<ir::OpExpr>(expr));
        op->type = type;
        return EtaExpand(op, expr);
      });
    case ExprKind::kConstructor: {
      if (AsPolymorphic(expr->type) != nullptr) {
        return TupleOfInstances(expr, [&](const PolymorphicInstance&, const ir::Type* type) {
          return EtaExpand(ConstructorOf(*Cast<ir::ConstructorExpr>(expr), type), expr);
        });
      }
      Expr* constructor = RewriteConstructor(*Cast<ir::ConstructorExpr>(expr));
      if (!Cast<ir::ConstructorExpr>(expr)->constructor->fields.empty()) return EtaExpand(constructor, expr);
      const auto* type = DynCast<ir::FuncType>(constructor->type);
      return At(expr->span).Call(constructor, {}, {}, type == nullptr ? constructor->type : type->result);
    }
    case ExprKind::kCall: {
      const auto* call = Cast<ir::Call>(expr);
      Expr* callee = RewriteCallee(*call);
      bool is_generic = callee->expr_kind == ExprKind::kOp && callee->type != call->callee->type;
      std::vector<Expr*> args = RewriteAll(call->args);
      if (const auto* op = DynCast<ir::OpExpr>(callee)) {
        args = ops::WithIntegerCounts(At(expr->span), *op->op, std::move(args));
        if (Expr* plain = ops::WithPlainLayouts(At(expr->span), *op->op, args, call->attrs)) return plain;
      }
      ir::Call* copy = At(expr->span).Call(callee, std::move(args), call->attrs, RewriteType(expr->type));
      return is_generic ? CheckOperator(copy) : copy;
    }
    case ExprKind::kFunction: {
      const auto* function = Cast<ir::Function>(expr);
      if (!IsPolymorphic(function->type_params)) {
        Expr* copy = RewriteChildren(expr);
        Cast<ir::Function>(copy)->attrs = {};
        return copy;
      }
      return TupleOfInstances(expr, [&](const PolymorphicInstance& instance, const ir::Type*) -> Expr* {
        Scope scope;
        scope.substitution = scope_->substitution;
        for (size_t i = 0; i < function->type_params.size(); ++i) {
          const TypeParam* param = function->type_params[i];
          if (param->kind == ir::Kind::kShapeVar) continue;
          scope.NoteArg(*param, ir::TypeArgToString(instance.args[i]));
          scope.substitution.Add(param, instance.args[i]);
        }
        Scope* outer = std::exchange(scope_, &scope);
        Expr* copy = CopyLiteral(*function, instance.dims);
        scope_ = outer;
        return copy;
      });
    }
    case ExprKind::kMatch: {
      Expr* copy = RewriteChildren(expr);
      for (const ir::Clause& clause : Cast<ir::Match>(copy)->clauses) LowerPattern(*clause.pattern);
      return copy;
    }
    case ExprKind::kConstant:
    case ExprKind::kTuple:
    case ExprKind::kProject:
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kRefCreate:
    case ExprKind::kRefRead:
    case ExprKind::kRefWrite: return RewriteChildren(expr);
  }
}

absl::StatusOr<ir::Module> Specialize(const ir::Module& module, PassContext& context) {
  UniformModule uniform = GiveUniformTypes(module, context.entries, context.diagnostics);
  RVM_RETURN_IF_ERROR(context.diagnostics.ToStatus());
  PolymorphicTypes types(*module.arena, context.diagnostics);
  for (;;) {
    types.BeginRun();
    if (uniform.universal != nullptr) uniform.universal->constructors.clear();
    RVM_ASSIGN_OR_RETURN(ir::Module result,
                         Specializer(uniform.module, types, context.diagnostics).Run(context.entries));
    if ((types.used() || uniform.universal != nullptr) && !types.grew()) {
      result = FitValues(result, types, uniform.universal);
      RVM_RETURN_IF_ERROR(context.diagnostics.ToStatus());
    }
    if (!types.grew()) return result;
  }
}

}  // namespace

const Pass kSpecialize = {
    .name = "specialize", .summary = "one copy of each function per list of type arguments", .run = Specialize};

}  // namespace rvm::passes
