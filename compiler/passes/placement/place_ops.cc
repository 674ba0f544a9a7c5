// Decides which operator calls run on a device.
//
// Takes and gives A-normal form. Each call of an operator that makes a kernel and is placed on a device gets the
// attribute `device`; fusion then joins only what is on one device. Calls that an accelerator computes as one function
// get the attribute `composite`, too, and become one kernel (find_places.h). Where values are, and when they are
// copied, is decided when the program runs (docs/decisions/0024-tensors-on-devices.md).
//
// The operator that gives the argument of `on_device` is placed where that says, others by rules (device_rules.h).
// `on_device` and `device_copy` are removed.
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/placement/device_rules.h"
#include "compiler/passes/placement/find_places.h"
#include "compiler/passes/placement/marks.h"
#include "compiler/passes/rewriter.h"
#include "compiler/target/device_kind.h"

namespace rvm::passes {
namespace {

using ir::DynCast;

class Placer : public Rewriter {
 public:
  using Places = absl::flat_hash_map<const ir::Call*, Placement>;
  Placer(ir::Arena& arena, Places places) : Rewriter(arena), places_(std::move(places)) {}

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    const ir::Call* mark = AsMark(let.value);
    const auto* use = mark == nullptr ? nullptr : DynCast<ir::VarExpr>(mark->args[0]);
    // A variable of another type is bound by a step that checks it.
    if (use != nullptr && ir::TypesEqual(let.var->type, use->var->type)) {
      renamed_[let.var] = NameOf(use->var);
    } else {
      Rewriter::RewriteLet(let, chain);
    }
  }

  ir::Expr* RewriteNode(ir::Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      ir::Var* var = NameOf(use->var);
      return var == use->var ? expr : At(expr->span).Use(var);
    }
    if (const ir::Call* mark = AsMark(expr)) return Rewrite(mark->args[0]);
    if (ir::OpCallee(expr) == nullptr) return RewriteChildren(expr);
    const auto& call = *ir::Cast<ir::Call>(expr);
    auto found = places_.find(&call);
    if (found == places_.end()) return RewriteChildren(expr);
    ir::Attrs attrs = call.attrs;
    const auto& [place, composite] = found->second;
    if (!place.empty()) attrs.Set(target::kDeviceAttr, place);
    if (composite) attrs.Set(target::kCompositeAttr, *composite);
    return At(call.span).Call(call.callee, RewriteAll(call.args), std::move(attrs), call.type);
  }

 private:
  ir::Var* NameOf(ir::Var* var) const {
    auto found = renamed_.find(var);
    return found == renamed_.end() ? var : found->second;
  }

  Places places_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> renamed_;
};

absl::StatusOr<ir::Module> PlaceOps(const ir::Module& module, PassContext& context) {
  bool has_device = context.devices != nullptr && !context.devices->kinds().empty();
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    ir::Expr* body = global.function->body;
    Marks marks(body);
    if (!has_device && !marks.has_any()) return body;
    Placer::Places places;
    if (has_device) places = FindPlaces(body, *context.devices, marks);
    return Placer(*module.arena, std::move(places)).Rewrite(body);
  });
}

}  // namespace

const Pass kPlaceOps = {.name = "place_ops",
                        .summary = "operator calls placed on a device; no `on_device`",
                        .run = PlaceOps,
                        .needs = Form::kANormal,
                        .keeps_effect_order = true};

}  // namespace rvm::passes
