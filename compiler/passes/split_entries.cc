#include "compiler/passes/split_entries.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Expr;

bool HasTuples(const ir::FuncType& type) {
  return DynCast<ir::TupleType>(type.result) != nullptr ||
         std::any_of(type.params.begin(), type.params.end(),
                     [](const ir::Type* param) { return DynCast<ir::TupleType>(param) != nullptr; });
}

// Calls of entries become calls of the functions that have their bodies.
class Redirector : public Rewriter {
 public:
  Redirector(ir::Arena& arena, const absl::flat_hash_map<std::string, std::string>& workers)
      : Rewriter(arena), workers_(workers) {}

 protected:
  Expr* RewriteNode(Expr* expr) override {
    Expr* copy = RewriteChildren(expr);
    if (auto* global = DynCast<ir::GlobalExpr>(copy)) {
      auto worker = workers_.find(global->name);
      if (worker != workers_.end()) global->name = worker->second;
    }
    return copy;
  }

 private:
  const absl::flat_hash_map<std::string, std::string>& workers_;
};

// A function as `function` that calls the global function `worker`.
ir::Function* CallOf(ir::Arena& arena, const ir::Function& function, const std::string& worker) {
  auto* wrapper = arena.New<ir::Function>(function);
  std::vector<Expr*> args;
  for (ir::Var*& param : wrapper->params) {
    const ir::Type* annotation = param->annotation;
    param = NewVar(arena, param->name, param->type, param->span);
    param->annotation = annotation;
    args.push_back(NewUse(arena, param, param->span));
  }
  auto* callee = arena.New<ir::GlobalExpr>(worker, function.span);
  callee->type = function.type;
  auto* call = arena.New<ir::Call>(callee, std::move(args), ir::Attrs(), function.span);
  call->type = TypeOf(function).result;
  wrapper->body = call;
  return wrapper;
}

}  // namespace

ir::Module SplitEntries(const ir::Module& module, const std::vector<std::string>& entries) {
  CallGraph graph(module);
  absl::flat_hash_set<std::string> names;
  for (const ir::GlobalFunction& global : module.functions) names.insert(global.name);
  absl::flat_hash_map<std::string, std::string> workers;
  for (const std::string& entry : entries) {
    const size_t* index = graph.Find(entry);
    if (index == nullptr || graph.num_calls(*index) == 0 || workers.contains(entry)) continue;
    if (!HasTuples(TypeOf(*module.functions[*index].function))) continue;
    std::string base = absl::StrCat(entry, ".worker"), name = base;
    for (int i = 1; !names.insert(name).second; ++i) name = absl::StrCat(base, "_", i);
    workers[entry] = name;
  }
  if (workers.empty()) return module;
  std::vector<ir::GlobalFunction> functions, split;
  for (const ir::GlobalFunction& global : module.functions) {
    ir::GlobalFunction changed = global;
    auto* function = module.arena->New<ir::Function>(*global.function);
    function->body = Redirector(*module.arena, workers).Rewrite(function->body);
    changed.function = function;
    auto worker = workers.find(global.name);
    if (worker != workers.end()) {
      split.push_back({worker->second, function, global.span, global.name});
      changed.function = CallOf(*module.arena, *global.function, worker->second);
    }
    functions.push_back(std::move(changed));
  }
  functions.insert(functions.end(), split.begin(), split.end());
  return WithFunctions(module, std::move(functions));
}

}  // namespace rvm::passes
