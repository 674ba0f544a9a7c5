// Orders the scalar operations before a recursive tail call so that each can write its result directly to the register
// of the parameter that it is the next value of.
//
//   let %a = %i + 1; let %b = %sum + %i; @loop(%a, %b)    becomes
//   let %b = %sum + %i; let %a = %i + 1; @loop(%a, %b)
//
// Takes and returns A-normal form. compiler/bytecode/emit_loop.cc relies on the order.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

class LoopOrderer : public Rewriter {
 public:
  LoopOrderer(ir::Arena& arena, const ir::GlobalFunction& global) : Rewriter(arena), global_(global) {
    CountUses(global.function->body, uses_);
  }

 protected:
  Expr* FinishLets(const std::vector<Binding>& chain, Expr* body) override {
    const ir::GlobalExpr* callee = ir::GlobalCallee(body);
    if (callee == nullptr || callee->name != global_.name) return MakeLets(arena_, chain, body);
    std::vector<Binding> first;
    std::vector<Step> last;
    for (const Binding& binding : chain) {
      const ir::Var* next = NextValueOf(binding, *Cast<ir::Call>(body));
      if (next != nullptr) {
        last.push_back({binding, next});
      } else {
        first.push_back(binding);
      }
    }
    while (!last.empty()) {
      // In a cycle of parameters, one value is computed first, into a temporary register.
      auto step = std::find_if(last.begin(), last.end(), [&](const Step& s) { return !IsReadByOther(s, last); });
      if (step == last.end()) step = last.begin();
      first.push_back(step->binding);
      last.erase(step);
    }
    return MakeLets(arena_, first, body);
  }

 private:
  struct Step {
    Binding binding;
    const ir::Var* param;  // whose next value it is
  };

  // Returns the parameter that `binding` is the next value of, if it can be computed last; else null.
  const ir::Var* NextValueOf(const Binding& binding, const ir::Call& call) const {
    const auto* operation = DynCast<ir::Call>(binding.value);
    auto uses = uses_.find(binding.var);
    if (operation == nullptr || uses == uses_.end() || uses->second.all != 1) return nullptr;
    if (!ops::SelectScalar(*operation)) return nullptr;
    for (size_t i = 0; i < call.args.size(); ++i) {
      const auto* use = DynCast<ir::VarExpr>(call.args[i]);
      if (use != nullptr && use->var == binding.var) return global_.function->params[i];
    }
    return nullptr;
  }

  static bool IsReadByOther(const Step& step, const std::vector<Step>& steps) {
    for (const Step& other : steps) {
      if (other.binding.var == step.binding.var) continue;
      for (const Expr* arg : Cast<ir::Call>(other.binding.value)->args) {
        const auto* use = DynCast<ir::VarExpr>(arg);
        if (use != nullptr && use->var == step.param) return true;
      }
    }
    return false;
  }

  const ir::GlobalFunction& global_;
  UseCounts uses_;
};

absl::StatusOr<ir::Module> OrderLoopSteps(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return LoopOrderer(*module.arena, global).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kOrderLoopSteps = {.name = "order_loop_steps",
                              .summary = "the next values of a loop computed last, in an order that needs no moves",
                              .run = OrderLoopSteps,
                              .needs = Forms(Form::kANormal) | Form::kKernels,
                              .keeps_effect_order = true};

}  // namespace rvm::passes
