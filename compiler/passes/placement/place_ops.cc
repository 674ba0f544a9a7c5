// Placement: which operator calls run on a device.
//
// Takes and gives A-normal form. Each call of an operator that makes a kernel and is placed on a device gets the
// attribute `device`; fusion then joins only what is on one device. Where values are, and when they are copied, is
// decided when the program runs (docs/decisions/0024-tensors-on-devices.md).
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/abseil.h"
#include "compiler/bytecode/scalar_instruction.h"
#include "compiler/lowering/device_kind.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/placement/device_rules.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

class Placer : public Rewriter {
 public:
  Placer(ir::Arena& arena, const DeviceRules& rules) : Rewriter(arena), rules_(rules) {}

 protected:
  ir::Expr* RewriteNode(ir::Expr* expr) override {
    if (ir::OpCallee(expr) == nullptr) return RewriteChildren(expr);
    const auto& call = *ir::Cast<ir::Call>(expr);
    const lowering::DeviceKind* kind = bytecode::NeedsNoKernel(call) ? nullptr : rules_.PlaceOf(call);
    if (kind == nullptr) return expr;
    ir::Attrs attrs = call.attrs;
    attrs.Set(lowering::kDeviceAttr, std::string(kind->name));
    return At(call.span).Call(call.callee, call.args, std::move(attrs), call.type);
  }

 private:
  const DeviceRules& rules_;
};

absl::StatusOr<ir::Module> PlaceOps(const ir::Module& module, PassContext& context) {
  if (context.devices == nullptr || context.devices->kind() == nullptr) return module;
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return Placer(*module.arena, *context.devices).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kPlaceOps = {.name = "place_ops",
                        .summary = "operator calls placed on a device",
                        .run = PlaceOps,
                        .needs = Form::kANormal,
                        .keeps_effect_order = true};

}  // namespace rvm::passes
