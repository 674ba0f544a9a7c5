#include "compiler/passes/specialize.h"

#include <deque>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::TypeArg;
using ir::TypeParam;

// A function with more instances, or with longer type arguments, is taken to have no end of them.
constexpr size_t kMaxInstances = 10000;
constexpr size_t kMaxTypeText = size_t{16} << 10;

bool IsPolymorphic(const std::vector<const TypeParam*>& params) {
  for (const TypeParam* param : params) {
    if (param->kind != ir::Kind::kShapeVar) return true;
  }
  return false;
}

std::vector<const TypeParam*> ShapeVars(const std::vector<const TypeParam*>& params) {
  std::vector<const TypeParam*> result;
  for (const TypeParam* param : params) {
    if (param->kind == ir::Kind::kShapeVar) result.push_back(param);
  }
  return result;
}

// The dim variables of a type, each once, in order.
class DimVars {
 public:
  void Collect(const TypeArg& arg) {
    if (arg.kind == ir::Kind::kType) return Collect(arg.type);
    if (arg.kind == ir::Kind::kShape) return Collect(arg.shape.dims);
    if (arg.kind == ir::Kind::kShapeVar) return Collect(arg.dim);
  }
  const std::vector<Dim>& found() const { return found_; }

 private:
  void Collect(const Dims& dims) {
    for (const Dim& dim : dims) Collect(dim);
  }
  void Collect(const Dim& dim) {
    if (dim.is_binary()) {
      Collect(dim.lhs());
      Collect(dim.rhs());
    } else if (dim.kind() == DimKind::kVar) {
      for (const Dim& known : found_) {
        if (known == dim) return;
      }
      found_.push_back(dim);
    }
  }
  void Collect(const ir::Type* type) {
    WithStack([&] {
      if (const auto* tensor = DynCast<ir::TensorType>(type)) {
        Collect(tensor->shape.dims);
      } else if (const auto* tuple = DynCast<ir::TupleType>(type)) {
        for (const ir::Type* field : tuple->fields) Collect(field);
      } else if (const auto* func = DynCast<ir::FuncType>(type)) {
        for (const ir::Type* param : func->params) Collect(param);
        Collect(func->result);
      } else if (const auto* adt = DynCast<ir::AdtType>(type)) {
        for (const TypeArg& arg : adt->args) Collect(arg);
      } else if (const auto* ref = DynCast<ir::RefType>(type)) {
        Collect(ref->contents);
      }
    });
  }

  std::vector<Dim> found_;
};

// A function literal that is being copied: what its type parameters stand for.
struct Scope {
  ir::TypeSubstitution substitution;
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
  explicit Specializer(const ir::Module& module) : Rewriter(*module.arena), module_(module) {
    for (const ir::GlobalFunction& function : module.functions) sources_[function.name] = &function;
  }

  absl::StatusOr<ir::Module> Run(const std::vector<std::string>& entries);

 protected:
  Expr* RewriteNode(Expr* expr) override;
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override;
  Expr* FinishLets(const std::vector<Binding>& chain, Expr* body) override;
  ir::Var* RewriteBinder(ir::Var* var) override;
  const ir::Type* RewriteType(const ir::Type* type) override;
  TypeArg RewriteTypeArg(const TypeArg& arg) override { return scope_->substitution.Apply(arena_, arg); }

 private:
  void DemandEntry(const std::string& name);
  std::string Demand(const ir::GlobalExpr& use);
  TypeArg Canonical(const TypeArg& arg, std::vector<const TypeParam*>& dims, ir::TypeSubstitution& renaming);
  ir::Function* CopyInstance(const Instance& instance);
  ir::Function* CopyLiteral(const ir::Function& function);
  ir::Var* DemandLocal(LocalFunction& local, const ir::Type* type);
  bool SolveParams(const ir::FuncType& pattern, const ir::FuncType& type, Scope& scope, std::string& key);
  Expr* RewriteCallee(const ir::Call& call);
  Expr* EtaExpand(Expr* callee, const ir::Expr* original);
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const ir::Module& module_;
  absl::Status status_;
  Scope* scope_ = nullptr;
  absl::flat_hash_map<std::string_view, const ir::GlobalFunction*> sources_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> vars_;
  absl::flat_hash_map<const ir::Var*, LocalFunction> locals_;
  absl::flat_hash_map<std::string, std::string> names_;  // by source and arguments
  absl::flat_hash_map<const ir::GlobalFunction*, size_t> counts_;
  std::deque<Instance> pending_;
};

absl::StatusOr<ir::Module> Specializer::Run(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) DemandEntry(entry);
  std::vector<ir::GlobalFunction> functions;
  while (status_.ok() && !pending_.empty()) {
    Instance instance = std::move(pending_.front());
    pending_.pop_front();
    scope_ = &instance.scope;
    vars_.clear();
    locals_.clear();
    functions.push_back({instance.name, CopyInstance(instance), instance.source->span});
  }
  if (!status_.ok()) return status_;
  return WithFunctions(module_, std::move(functions));
}

void Specializer::DemandEntry(const std::string& name) {
  auto found = sources_.find(name);
  if (found == sources_.end())
    return Fail(absl::InvalidArgumentError(absl::StrCat("no function is named `@", name, "`")));
  const ir::Function& function = *found->second->function;
  for (const TypeParam* param : function.type_params) {
    if (param->kind == ir::Kind::kShapeVar) continue;
    return Fail(absl::UnimplementedError(absl::StrCat("the entry `@", name, "` has the type parameter `", param->name,
                                                      "`; an entry may have only parameters of kind `ShapeVar`")));
  }
  if (!names_.emplace(name, name).second) return;
  pending_.push_back({found->second, name, function.type_params, {}});
}

// Dims that are not constant are the same to all callers: they get names of their own.
TypeArg Specializer::Canonical(const TypeArg& arg, std::vector<const TypeParam*>& dims,
                               ir::TypeSubstitution& renaming) {
  DimVars vars;
  vars.Collect(arg);
  for (const Dim& var : vars.found()) {
    if (renaming.FindById(var.id()) != nullptr) continue;
    auto* param = arena_.New<TypeParam>(arena_.NextId(), absl::StrCat("d", dims.size()), ir::Kind::kShapeVar);
    dims.push_back(param);
    TypeArg renamed;
    renamed.kind = ir::Kind::kShapeVar;
    renamed.dim = Dim::Var(param->id, param->name);
    renaming.Add(arena_.New<TypeParam>(var.id(), var.name(), ir::Kind::kShapeVar), renamed);
  }
  return renaming.Apply(arena_, arg);
}

std::string Specializer::Demand(const ir::GlobalExpr& use) {
  auto found = sources_.find(use.name);
  if (found == sources_.end()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("no function is named `@", use.name, "`")));
    return use.name;
  }
  const ir::Function& function = *found->second->function;
  Instance instance{found->second, use.name, {}, {}};
  std::vector<std::string> texts;
  std::vector<const TypeParam*> dims;
  ir::TypeSubstitution renaming;
  bool is_generic = true;
  for (size_t i = 0; i < function.type_params.size(); ++i) {
    const TypeParam* param = function.type_params[i];
    TypeArg arg = RewriteTypeArg(use.type_args[i]);
    if (param->kind == ir::Kind::kShapeVar && !arg.dim.is_const()) {
      instance.type_params.push_back(param);
      texts.push_back("_");
      continue;
    }
    is_generic = false;
    arg = Canonical(arg, dims, renaming);
    texts.push_back(ir::TypeArgToString(arg));
    instance.scope.substitution.Add(param, std::move(arg));
  }
  instance.type_params.insert(instance.type_params.end(), dims.begin(), dims.end());
  if (!is_generic) absl::StrAppend(&instance.name, "[", absl::StrJoin(texts, ", "), "]");
  auto [name, added] = names_.emplace(instance.name, instance.name);
  if (!added) return name->second;
  if (++counts_[found->second] > kMaxInstances || instance.name.size() > kMaxTypeText) {
    Fail(absl::ResourceExhaustedError(absl::StrCat("`@", use.name, "` calls itself with ever new type arguments")));
    return use.name;
  }
  std::string result = instance.name;
  pending_.push_back(std::move(instance));
  return result;
}

ir::Function* Specializer::CopyInstance(const Instance& instance) {
  ir::Function* copy = RewriteFunction(*instance.source->function);
  copy->type_params = instance.type_params;
  copy->constraints.clear();
  const ir::FuncType& type = TypeOf(*copy);
  copy->type = arena_.New<ir::FuncType>(instance.type_params, type.params, type.result);
  return copy;
}

// A function literal whose type parameters the current scope replaces.
ir::Function* Specializer::CopyLiteral(const ir::Function& function) {
  ir::Function* copy = RewriteFunction(function);
  copy->type_params = ShapeVars(function.type_params);
  copy->constraints.clear();
  const ir::FuncType& type = TypeOf(*copy);
  copy->type = arena_.New<ir::FuncType>(copy->type_params, type.params, type.result);
  return copy;
}

ir::Var* Specializer::RewriteBinder(ir::Var* var) {
  ir::Var* copy = NewVar(arena_, var->name, RewriteType(var->type), var->span);
  if (var->annotation != nullptr) copy->annotation = RewriteType(var->annotation);
  vars_[var] = copy;
  return copy;
}

const ir::Type* Specializer::RewriteType(const ir::Type* type) {
  if (type == nullptr) return type;
  auto [it, added] = scope_->types.try_emplace(type, type);
  if (added) it->second = scope_->substitution.Apply(arena_, type);
  return it->second;
}

// ---- local polymorphic functions

void Specializer::RewriteLet(const ir::Let& let, std::vector<Binding>& chain) {
  const auto* function = DynCast<ir::Function>(let.value);
  if (function == nullptr || !IsPolymorphic(function->type_params)) return Rewriter::RewriteLet(let, chain);
  // Its instances take this place when all uses have been seen.
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
    for (size_t i = 0; i < locals_.at(binding->var).instances.size() && status_.ok(); ++i) {
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
  if (!MatchTypes(&pattern, &type, pattern.type_params, found)) return false;
  for (const TypeParam* param : pattern.type_params) {
    if (param->kind == ir::Kind::kShapeVar) continue;
    auto arg = found.find(param);
    if (arg == found.end()) return false;
    scope.substitution.Add(param, arg->second);
    absl::StrAppend(&key, key.empty() ? "" : ", ", ir::TypeArgToString(arg->second));
  }
  return true;
}

ir::Var* Specializer::DemandLocal(LocalFunction& local, const ir::Type* type) {
  const ir::Let& let = *local.let;
  auto scope = std::make_unique<Scope>();
  scope->substitution = local.scope->substitution;
  const ir::Type* own = local.scope->substitution.Apply(arena_, let.value->type);
  const auto* instance = DynCast<ir::FuncType>(type);
  std::string key;
  if (instance == nullptr || !SolveParams(*DynCast<ir::FuncType>(own), *instance, *scope, key)) {
    Fail(absl::UnimplementedError(absl::StrCat("the local function `%", let.var->name, "` of type `",
                                               ir::TypeToString(own), "` is used as a `", ir::TypeToString(type),
                                               "`, which does not determine its type parameters")));
    return let.var;
  }
  for (const LocalFunction::Instance& known : local.instances) {
    if (known.key == key) return known.var;
  }
  if (local.instances.size() > kMaxInstances || key.size() > kMaxTypeText) {
    Fail(
        absl::ResourceExhaustedError(absl::StrCat("`%", let.var->name, "` calls itself with ever new type arguments")));
    return let.var;
  }
  const ir::Type* var_type = scope->substitution.Apply(
      arena_, arena_.New<ir::FuncType>(ShapeVars(instance->type_params), instance->params, instance->result));
  ir::Var* var = NewVar(arena_, let.var->name, var_type, let.var->span);
  local.instances.push_back({std::move(key), var, std::move(scope)});
  return var;
}

// ---- expressions

Expr* Specializer::RewriteCallee(const ir::Call& call) {
  Expr* callee = call.callee;
  if (const auto* global = DynCast<ir::GlobalExpr>(callee)) {
    return Typed(arena_.New<ir::GlobalExpr>(Demand(*global), global->span), global);
  }
  if (callee->expr_kind == ExprKind::kOp || callee->expr_kind == ExprKind::kConstructor) return RewriteChildren(callee);
  const auto* literal = DynCast<ir::Function>(callee);
  if (literal == nullptr || !IsPolymorphic(literal->type_params)) return Rewrite(callee);
  // Called where it stands: the arguments say what its parameters are.
  std::vector<const ir::Type*> params;
  for (const Expr* arg : call.args) params.push_back(RewriteType(arg->type));
  auto* type = arena_.New<ir::FuncType>(std::vector<const TypeParam*>{}, std::move(params), RewriteType(call.type));
  const ir::Type* own = RewriteType(literal->type);
  Scope scope;
  scope.substitution = scope_->substitution;
  std::string key;
  if (!SolveParams(*DynCast<ir::FuncType>(own), *type, scope, key)) {
    Fail(absl::UnimplementedError(absl::StrCat("a function literal of type `", ir::TypeToString(own),
                                               "` is called as `", ir::TypeToString(type),
                                               "`, which does not determine its type parameters")));
    return callee;
  }
  Scope* outer = std::exchange(scope_, &scope);
  Expr* copy = CopyLiteral(*literal);
  scope_ = outer;
  return copy;
}

// `fn (%a, %b) { callee(%a, %b) }`
Expr* Specializer::EtaExpand(Expr* callee, const Expr* original) {
  const auto* type = DynCast<ir::FuncType>(callee->type);
  if (type == nullptr || IsPolymorphic(type->type_params)) {
    Fail(absl::UnimplementedError(absl::StrCat("a function of type `", ir::TypeToString(callee->type),
                                               "` is used as a value before its type parameters are known")));
    return callee;
  }
  std::vector<ir::Var*> params;
  std::vector<Expr*> args;
  for (const ir::Type* param : type->params) {
    std::string name(1, static_cast<char>('a' + params.size() % 26));
    params.push_back(NewVar(arena_, name, param, original->span));
    params.back()->annotation = param;
    args.push_back(NewUse(arena_, params.back(), original->span));
  }
  ir::Attrs attrs;
  if (const auto* op = DynCast<ir::OpExpr>(callee)) {
    // Type inference has already found that the defaults suffice.
    diagnostics::SourceMap sources;
    diagnostics::Diagnostics diagnostics(&sources);
    ops::CompleteAttrs(*op->op, original->span, attrs, diagnostics);
  }
  auto* call = arena_.New<ir::Call>(callee, std::move(args), std::move(attrs), original->span);
  call->type = type->result;
  auto* function =
      arena_.New<ir::Function>(std::vector<const TypeParam*>{}, std::move(params), nullptr, call, original->span);
  function->type = arena_.New<ir::FuncType>(std::vector<const TypeParam*>{}, type->params, type->result);
  return function;
}

Expr* Specializer::RewriteNode(Expr* expr) {
  if (!status_.ok()) return expr;
  switch (expr->expr_kind) {
    case ExprKind::kVar: {
      ir::Var* var = Cast<ir::VarExpr>(expr)->var;
      if (auto local = locals_.find(var); local != locals_.end()) {
        var = DemandLocal(local->second, RewriteType(expr->type));
      } else if (auto found = vars_.find(var); found != vars_.end()) {
        var = found->second;
      }
      return Typed(arena_.New<ir::VarExpr>(var, expr->span), expr);
    }
    case ExprKind::kGlobal: {
      const auto* global = Cast<ir::GlobalExpr>(expr);
      return EtaExpand(Typed(arena_.New<ir::GlobalExpr>(Demand(*global), expr->span), expr), expr);
    }
    case ExprKind::kOp: return EtaExpand(RewriteChildren(expr), expr);
    case ExprKind::kConstructor: {
      Expr* constructor = RewriteChildren(expr);
      if (!Cast<ir::ConstructorExpr>(expr)->constructor->fields.empty()) return EtaExpand(constructor, expr);
      auto* call = arena_.New<ir::Call>(constructor, std::vector<Expr*>{}, ir::Attrs{}, expr->span);
      const auto* type = DynCast<ir::FuncType>(constructor->type);
      call->type = type == nullptr ? constructor->type : type->result;
      return call;
    }
    case ExprKind::kCall: {
      const auto* call = Cast<ir::Call>(expr);
      Expr* callee = RewriteCallee(*call);
      return Typed(arena_.New<ir::Call>(callee, RewriteAll(call->args), call->attrs, expr->span), expr);
    }
    case ExprKind::kFunction: {
      const auto* function = Cast<ir::Function>(expr);
      if (!IsPolymorphic(function->type_params)) return RewriteChildren(expr);
      Fail(absl::UnimplementedError(absl::StrCat("a function literal of type `", ir::TypeToString(function->type),
                                                 "` is used as a value; bind it by `let` to use it at several types")));
      return expr;
    }
    default: return RewriteChildren(expr);
  }
}

}  // namespace

absl::StatusOr<ir::Module> Specialize(const ir::Module& module, const std::vector<std::string>& entries) {
  return Specializer(module).Run(entries);
}

}  // namespace rvm::passes
