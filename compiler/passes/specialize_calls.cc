// Specialises higher-order functions for the function literals that they are called with.
//
// Takes a specialised module. A call `@f(..., literal, ...)` of a global function that only calls this parameter, or
// passes it on unchanged in a recursive call, becomes a call of a copy of `@f` with the literal inside; the variables
// that the literal captures become parameters. So `@foldl(fn ..., z, xs)` becomes a loop without closures, once
// `inline` has inlined the calls of the literal; this can turn further calls into calls with literals, so the pipeline
// repeats the two. Removes functions that become unreachable. Functions with shape variables are not copied.
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

// Size limits, in nodes, of the function and of the literal.
constexpr size_t kMaxBody = 400;
constexpr size_t kMaxLiteral = 400;
// Copies may contain further calls with literals. Functions that build functions would be copied forever.
constexpr int kMaxDepth = 4;
constexpr size_t kMaxCopies = 1000;

// Returns the parameters of `function` that it only calls or passes to itself as they are.
std::vector<bool> OnlyCalledParams(const ir::GlobalFunction& global) {
  const ir::Function& function = *global.function;
  UseCounts uses;
  CountUses(function.body, uses);
  std::vector<size_t> times_passed_on(function.params.size(), 0);
  std::vector<bool> result(function.params.size(), true);
  ForEachExpr(function.body, [&](const Expr* expr) {
    const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
    if (callee == nullptr || callee->name != global.name) return true;
    const auto* call = Cast<ir::Call>(expr);
    for (size_t i = 0; i < call->args.size(); ++i) {
      const auto* arg = DynCast<ir::VarExpr>(call->args[i]);
      bool is_same = arg != nullptr && arg->var == function.params[i];
      if (is_same) ++times_passed_on[i];
      result[i] = result[i] && is_same;
    }
    return true;
  });
  for (size_t i = 0; i < result.size(); ++i) {
    const ir::Var* param = function.params[i];
    bool is_function = DynCast<ir::FuncType>(param->type) != nullptr;
    result[i] = result[i] && is_function && uses[param].all == uses[param].calls + times_passed_on[i];
  }
  return result;
}

// Key of a copy: the literal for each parameter that goes, null for the rest.
struct Copy {
  std::string name;
  std::vector<const ir::Function*> literals;  // by parameter
  std::vector<ir::Var*> captures;             // the copy's first parameters
  const ir::FuncType* type = nullptr;

  std::vector<Expr*> Args(ir::Arena& arena, const std::vector<Expr*>& args, ir::Span span) const {
    std::vector<Expr*> result;
    for (ir::Var* capture : captures) result.push_back(ir::Builder(arena, span).Use(capture));
    for (size_t i = 0; i < args.size(); ++i) {
      if (literals[i] == nullptr) result.push_back(args[i]);
    }
    return result;
  }
  Expr* CallWith(ir::Arena& arena, const ir::Call& call) const {
    Expr* callee = ir::Builder(arena, call.callee->span).Global(name, type);
    return ir::Builder(arena, call.span).Call(callee, Args(arena, call.args, call.span), call.attrs, call.type);
  }
};

// A body with the literals in place of the parameters.
class BodyCopier : public Rewriter {
 public:
  BodyCopier(ir::Arena& arena, const ir::GlobalFunction& from, const Copy& copy)
      : Rewriter(arena), from_(from), copy_(copy) {
    for (size_t i = 0; i < copy.literals.size(); ++i) {
      if (copy.literals[i] != nullptr) literals_[from.function->params[i]] = copy.literals[i];
    }
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const auto* call = DynCast<ir::Call>(expr);
    if (const auto* callee = ir::GlobalCallee(call); callee != nullptr && callee->name == from_.name) {
      return RewriteChildren(copy_.CallWith(arena_, *call));
    }
    auto found = literals_.find(ir::VarCallee(call));
    if (found == literals_.end()) return RewriteChildren(expr);
    Expr* literal = Copier(arena_).Copy(*found->second);
    return At(call->span).Call(literal, RewriteAll(call->args), call->attrs, call->type);
  }

 private:
  const ir::GlobalFunction& from_;
  const Copy& copy_;
  absl::flat_hash_map<const ir::Var*, const ir::Function*> literals_;
};

// A function whose calls are still to be looked at.
struct Task {
  ir::GlobalFunction global;
  int depth = 0;
};

class CallSpecializer {
 public:
  explicit CallSpecializer(const ir::Module& module) : arena_(*module.arena) {
    for (const ir::GlobalFunction& global : module.functions) {
      names_.insert(global.name);
      tasks_.push_back({global});
      if (!global.function->type_params.empty() || CountNodes(global.function->body, kMaxBody) > kMaxBody) continue;
      originals_.emplace(global.name, Original{global, OnlyCalledParams(global)});
    }
  }

  std::vector<ir::GlobalFunction> Run();

 private:
  friend class CallRewriter;
  struct Original {
    ir::GlobalFunction global;
    std::vector<bool> only_called;
  };

  // Makes the copy of `original` that a call in `caller` needs.
  Copy MakeCopy(const Original& original, std::vector<const ir::Function*> literals, const Task& caller);
  std::string UniqueName(std::string_view caller, std::string_view callee);

  ir::Arena& arena_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, Original> originals_;
  std::deque<Task> tasks_;
  size_t num_copies_ = 0;
};

// Replaces the calls in one function.
class CallRewriter : public Rewriter {
 public:
  CallRewriter(CallSpecializer& owner, const Task& task) : Rewriter(owner.arena_), owner_(owner), task_(task) {}

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Expr* value = Rewrite(let.value);
    const auto* literal = DynCast<ir::Function>(value);
    if (literal != nullptr && ir::TypesEqual(let.var->type, literal->type) && !Mentions(literal->body, let.var)) {
      known_[let.var] = literal;
    }
    chain.push_back({let.var, value, let.span});
  }

  Expr* RewriteNode(Expr* expr) override {
    expr = RewriteChildren(expr);
    const auto* call = DynCast<ir::Call>(expr);
    const ir::GlobalExpr* callee = ir::GlobalCallee(call);
    auto found = callee == nullptr ? owner_.originals_.end() : owner_.originals_.find(callee->name);
    if (found == owner_.originals_.end() || task_.depth == kMaxDepth || owner_.num_copies_ == kMaxCopies) return expr;
    const CallSpecializer::Original& original = found->second;
    std::vector<const ir::Function*> literals(call->args.size(), nullptr);
    bool any = false;
    for (size_t i = 0; i < literals.size(); ++i) {
      if (!original.only_called[i]) continue;
      const ir::Function* literal = Literal(call->args[i]);
      if (literal == nullptr || !ir::TypesEqual(literal->type, original.global.function->params[i]->type)) continue;
      literals[i] = literal;
      any = true;
    }
    return any ? owner_.MakeCopy(original, std::move(literals), task_).CallWith(arena_, *call) : expr;
  }

 private:
  // Returns the literal that `arg` is or is bound to; null if that is unknown, or it is too large.
  const ir::Function* Literal(const Expr* arg) const {
    const auto* literal = DynCast<ir::Function>(arg);
    if (const auto* use = DynCast<ir::VarExpr>(arg)) {
      auto found = known_.find(use->var);
      if (found != known_.end()) literal = found->second;
    }
    if (literal == nullptr || !literal->type_params.empty()) return nullptr;
    return CountNodes(literal->body, kMaxLiteral) <= kMaxLiteral ? literal : nullptr;
  }

  CallSpecializer& owner_;
  const Task& task_;
  absl::flat_hash_map<const ir::Var*, const ir::Function*> known_;
};

std::string CallSpecializer::UniqueName(std::string_view caller, std::string_view callee) {
  std::string base = absl::StrCat(Abseil(caller), ".", Abseil(callee));
  std::string name = base;
  for (int i = 1; !names_.insert(name).second; ++i) name = absl::StrCat(base, "_", i);
  return name;
}

Copy CallSpecializer::MakeCopy(const Original& original, std::vector<const ir::Function*> literals,
                               const Task& caller) {
  const ir::Function& from = *original.global.function;
  Copy copy;
  copy.name = UniqueName(caller.global.name, original.global.name);
  copy.literals = std::move(literals);
  absl::flat_hash_set<const ir::Var*> known;
  std::vector<ir::Var*> rest;
  for (size_t i = 0; i < from.params.size(); ++i) {
    if (copy.literals[i] == nullptr) {
      rest.push_back(from.params[i]);
      continue;
    }
    for (ir::Var* var : analysis::FreeVars(copy.literals[i])) {
      if (known.insert(var).second) copy.captures.push_back(var);
    }
  }
  std::vector<ir::Var*> params = copy.captures;
  params.insert(params.end(), rest.begin(), rest.end());
  copy.type = ir::MakeFuncType(arena_, ir::TypesOf(params), TypeOf(from).result);
  Expr* body = BodyCopier(arena_, original.global, copy).Rewrite(from.body);
  // The literals may speak of the caller's dims.
  ir::Function* function =
      ir::Builder(arena_, from.span)
          .Function(caller.global.function->type_params, std::move(params), TypeOf(from).result, body);
  function->result_annotation = from.result_annotation;
  function->attrs = from.attrs;
  // Captures and parameters are also bound elsewhere; the copy binds fresh variables.
  tasks_.push_back({{copy.name, Copier(arena_).Copy(*function), original.global.span}, caller.depth + 1});
  ++num_copies_;
  return copy;
}

std::vector<ir::GlobalFunction> CallSpecializer::Run() {
  std::vector<ir::GlobalFunction> functions;
  while (!tasks_.empty()) {
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    Expr* body = CallRewriter(*this, task).Rewrite(task.global.function->body);
    if (body != task.global.function->body) {
      task.global.function = arena_.New<ir::Function>(*task.global.function);
      task.global.function->body = body;
    }
    functions.push_back(std::move(task.global));
  }
  return functions;
}

absl::StatusOr<ir::Module> SpecializeCalls(const ir::Module& module, PassContext& context) {
  return DropUnreachable(WithFunctions(module, CallSpecializer(module).Run()), context.entries);
}

}  // namespace

const Pass kSpecializeCalls = {.name = "specialize_calls",
                               .summary = "a copy of each higher-order function per function it is called with",
                               .run = SpecializeCalls};

}  // namespace rvm::passes
