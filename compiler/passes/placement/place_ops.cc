// Decides which operator calls run on a device.
//
// Takes and gives A-normal form. Each call of an operator that makes a kernel and is placed on a device gets the
// attribute `device`; fusion then joins only what is on one device. Where values are, and when they are copied, is
// decided when the program runs (docs/decisions/0024-tensors-on-devices.md).
//
// The operator that gives the argument of `on_device` is placed where that says, others by rules (device_rules.h).
// `on_device` and `device_copy` are removed.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/ops/virtual_device.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/placement/device_rules.h"
#include "compiler/passes/rewriter.h"
#include "compiler/target/device_kind.h"

namespace rvm::passes {
namespace {

using ir::DynCast;

// Returns the call, if it is one of an operator that only says where its argument is; else null.
const ir::Call* AsMark(const ir::Expr* expr) {
  const ops::OpDef* op = ir::OpCallee(expr);
  bool is_mark = op != nullptr && (op->name == "on_device" || op->name == "device_copy");
  return is_mark ? ir::Cast<ir::Call>(expr) : nullptr;
}

// Returns the virtual device where a mark places the operator that gives its argument; nullopt: nowhere.
std::optional<std::string> DeviceOfMark(const ir::Call& mark) {
  bool is_copy = ir::OpCallee(&mark)->name == "device_copy";
  if (!is_copy && !mark.attrs.GetBool("constrain_body")) return std::nullopt;
  const char* attr = is_copy ? "src_virtual_device" : "virtual_device";
  if (mark.attrs.IsNone(attr)) return std::nullopt;
  return std::string(mark.attrs.GetString(attr));
}

// Operator calls of a function that are marked.
class Marks {
 public:
  explicit Marks(const ir::Expr* body) {
    std::vector<const ir::Call*> marks;
    ir::ForEachExpr(body, [&](const ir::Expr* expr) {
      if (const auto* let = DynCast<ir::Let>(expr)) values_[let->var] = let->value;
      if (const ir::Call* mark = AsMark(expr)) marks.push_back(mark);
      return true;
    });
    has_any_ = !marks.empty();
    for (const ir::Call* mark : marks) {
      if (std::optional<std::string> device = DeviceOfMark(*mark)) Place(mark->args[0], *device);
    }
  }

  bool has_any() const { return has_any_; }
  // Null if no mark places the call.
  const std::string* Find(const ir::Call& call) const {
    auto found = places_.find(&call);
    return found == places_.end() ? nullptr : &found->second;
  }

 private:
  // Views and tuples have no place; what they are made of has.
  void Place(const ir::Expr* value, const std::string& device) {
    std::vector<const ir::Expr*> pending = {value};
    while (!pending.empty()) {
      const ir::Expr* expr = pending.back();
      pending.pop_back();
      if (const auto* use = DynCast<ir::VarExpr>(expr)) {
        if (auto found = values_.find(use->var); found != values_.end()) pending.push_back(found->second);
      } else if (const auto* tuple = DynCast<ir::Tuple>(expr)) {
        pending.insert(pending.end(), tuple->fields.begin(), tuple->fields.end());
      } else if (const auto* project = DynCast<ir::Project>(expr)) {
        pending.push_back(project->tuple);
      } else if (ir::OpCallee(expr) != nullptr && AsMark(expr) == nullptr) {
        const auto* call = ir::Cast<ir::Call>(expr);
        if (ops::NeedsNoKernel(*call)) {
          pending.push_back(call->args[0]);
        } else {
          places_.try_emplace(call, device);
        }
      }
    }
  }

  absl::flat_hash_map<const ir::Var*, const ir::Expr*> values_;
  absl::flat_hash_map<const ir::Call*, std::string> places_;
  bool has_any_ = false;
};

class Placer : public Rewriter {
 public:
  // `rules`: null for none.
  Placer(ir::Arena& arena, const DeviceRules* rules, const Marks& marks)
      : Rewriter(arena), rules_(rules), marks_(marks) {}

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
    std::string place = PlaceOf(call);
    if (place.empty()) return RewriteChildren(expr);
    ir::Attrs attrs = call.attrs;
    attrs.Set(target::kDeviceAttr, std::move(place));
    return At(call.span).Call(call.callee, RewriteAll(call.args), std::move(attrs), call.type);
  }

 private:
  ir::Var* NameOf(ir::Var* var) const {
    auto found = renamed_.find(var);
    return found == renamed_.end() ? var : found->second;
  }

  std::string PlaceOf(const ir::Call& call) const {
    if (rules_ == nullptr || rules_->kinds().empty() || ops::NeedsNoKernel(call)) return "";
    const std::string* marked = marks_.Find(call);
    return marked == nullptr ? rules_->PlaceOf(call) : rules_->PlaceOf(call, *marked);
  }

  const DeviceRules* rules_;
  const Marks& marks_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> renamed_;
};

absl::StatusOr<ir::Module> PlaceOps(const ir::Module& module, PassContext& context) {
  bool has_device = context.devices != nullptr && !context.devices->kinds().empty();
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    ir::Expr* body = global.function->body;
    Marks marks(body);
    return has_device || marks.has_any() ? Placer(*module.arena, context.devices, marks).Rewrite(body) : body;
  });
}

}  // namespace

const Pass kPlaceOps = {.name = "place_ops",
                        .summary = "operator calls placed on a device; no `on_device`",
                        .run = PlaceOps,
                        .needs = Form::kANormal,
                        .keeps_effect_order = true};

}  // namespace rvm::passes
