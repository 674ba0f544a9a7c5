#include "compiler/passes/placement/marks.h"

#include <optional>
#include <vector>

#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"

namespace rvm::passes {
namespace {

using ir::DynCast;

// Returns the virtual device where a mark places the operator that gives its argument; nullopt: nowhere.
std::optional<std::string> DeviceOfMark(const ir::Call& mark) {
  bool is_copy = ir::OpCallee(&mark)->name == "device_copy";
  if (!is_copy && !mark.attrs.GetBool("constrain_body")) return std::nullopt;
  const char* attr = is_copy ? "src_virtual_device" : "virtual_device";
  if (mark.attrs.IsNone(attr)) return std::nullopt;
  return std::string(mark.attrs.GetString(attr));
}

}  // namespace

const ir::Call* AsMark(const ir::Expr* expr) {
  const ops::OpDef* op = ir::OpCallee(expr);
  bool is_mark = op != nullptr && (op->name == "on_device" || op->name == "device_copy");
  return is_mark ? ir::Cast<ir::Call>(expr) : nullptr;
}

Marks::Marks(const ir::Expr* body) {
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

const std::string* Marks::Find(const ir::Call& call) const {
  auto found = places_.find(&call);
  return found == places_.end() ? nullptr : &found->second;
}

// Views and tuples have no place; what they are made of has.
void Marks::Place(const ir::Expr* value, const std::string& device) {
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

}  // namespace rvm::passes
