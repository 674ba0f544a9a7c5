// FunctionEmitter: kernel calls and the memory of their results: a new tensor, a slot in the activation's arena, or the
// memory of an argument that is dead after the call.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/bytecode/function_emitter.h"
#include "serialization/isa/isa.h"

namespace rvm::bytecode {
namespace {

// A larger arena would make deep recursions expensive; bigger tensors are on the heap.
constexpr int64_t kMaxPlannedBytes = int64_t{64} << 10;
// Ranks whose header fits the space before a planned tensor's elements.
constexpr size_t kMaxPlannedRank = 4;

}  // namespace

absl::StatusOr<FunctionEmitter::KernelArgs> FunctionEmitter::TakeKernelArgs(const ir::Call& call) {
  KernelArgs args;
  std::vector<const ir::Var*> vars;
  for (const ir::Expr* arg : call.args) {
    const auto* constant = ir::DynCast<ir::Constant>(arg);
    vars.push_back(constant == nullptr ? ir::Cast<ir::VarExpr>(arg)->var : nullptr);
    if (constant != nullptr) {
      ConstantId id = tables_.Constant(*constant);
      if (id.value < kConstantArg) {
        args.units.push_back(static_cast<uint16_t>(kConstantArg | id.value));
        continue;
      }
    }
    args.units.push_back(Borrow(arg, args.operands).value);
  }
  for (size_t i = 0; i < vars.size(); ++i) {
    if (vars[i] == nullptr || !DiesHere(vars[i]) || std::count(vars.begin(), vars.end(), vars[i]) > 1) continue;
    const VarState& state = vars_.at(vars[i]);
    if (state.slot) {
      args.planned.push_back({i, vars[i]});
    } else if (Owns(state.reg)) {
      args.units[i] |= kMovedArg;
      args.moved.push_back(vars[i]);
      std::erase(args.operands.borrowed, vars[i]);
    }
  }
  // Their registers may be reused for the results.
  for (const ir::Var* var : args.moved) GiveUp(var);
  return args;
}

std::optional<int64_t> FunctionEmitter::PlannedBytes(const KernelTensor& output, TypeId type, const ir::Var* var) {
  std::optional<Shape> shape = StaticShape(output.dims);
  std::optional<int64_t> count = shape ? NumElements(*shape) : std::nullopt;
  bool plan = tables_.options().plan_memory && var != nullptr && !liveness_.Escapes(var) && !output.dims.empty() &&
              output.dims.size() <= kMaxPlannedRank && count && *count * output.dtype.bytes() <= kMaxPlannedBytes &&
              type == tables_.types().Lower(var->type);
  if (!plan) return std::nullopt;
  return *count * output.dtype.bytes();
}

uint32_t FunctionEmitter::SlotFor(const KernelDesc& kernel, size_t result, int64_t bytes, KernelArgs& args) {
  for (auto it = args.planned.begin(); it != args.planned.end(); ++it) {
    if (!kernel.MayReuse(result, it->index)) continue;
    uint32_t slot = *std::exchange(vars_.at(it->var).slot, std::nullopt);
    args.units[it->index] |= kMovedArg;
    args.planned.erase(it);
    return slot;
  }
  return registers_.AllocateSlot(kPlannedHeaderBytes + bytes);
}

absl::Status FunctionEmitter::EmitKernelCall(const ir::Call& call, const std::vector<const ir::Var*>& results,
                                             const Target& target) {
  std::vector<bool> constant_inputs;
  for (const ir::Expr* arg : call.args) {
    constant_inputs.push_back(tables_.options().pack_constants && arg->expr_kind == ir::ExprKind::kConstant);
  }
  RVM_ASSIGN_OR_RETURN(KernelUse use, tables_.Kernel(*ir::Cast<ir::Function>(call.callee), std::move(constant_inputs)));
  RVM_ASSIGN_OR_RETURN(KernelArgs args, TakeKernelArgs(call));

  const KernelDesc& kernel = tables_.kernel(use.id);
  RVM_CHECK(kernel.results.size() == results.size(), "a kernel's outputs do not fit the variables they go to");
  std::vector<Reg> regs;
  std::vector<std::optional<uint32_t>> slots;
  bool is_planned = false;
  for (size_t i = 0; i < results.size(); ++i) {
    TypeId type = tables_.types().Tensor(kernel.results[i].dtype, kernel.results[i].dims);
    std::optional<int64_t> bytes =
        use.is_static ? PlannedBytes(kernel.results[i], type, results[i]) : std::optional<int64_t>();
    slots.push_back(bytes ? std::optional(SlotFor(kernel, i, *bytes, args)) : std::nullopt);
    regs.push_back(bytes ? registers_.Allocate(type, true) : Destination(results[i], target, type));
    is_planned = is_planned || bytes.has_value();
  }
  Opcode opcode = !use.is_static ? Opcode::kCallKernelDynamic
                  : is_planned   ? Opcode::kCallKernelPlanned
                                 : Opcode::kCallKernel;
  code_.Op(opcode).Rs(regs);
  if (is_planned) {
    code_.Unit(static_cast<uint16_t>(slots.size()));
    for (std::optional<uint32_t> slot : slots) code_.U32(slot.value_or(kNoOffset));
  }
  code_.U32(use.id.value).Unit(static_cast<uint16_t>(args.units.size()));
  for (uint16_t unit : args.units) code_.Unit(unit);
  Release(args.operands);
  for (size_t i = 0; i < results.size(); ++i) {
    if (slots[i]) {
      Bind(results[i], regs[i], registers_.desc(regs[i]).type, slots[i]);
      DropIfUnused(results[i]);
    } else {
      RVM_RETURN_IF_ERROR(Deliver(regs[i], registers_.desc(regs[i]).type, results[i], target));
    }
  }
  return absl::OkStatus();
}

}  // namespace rvm::bytecode
