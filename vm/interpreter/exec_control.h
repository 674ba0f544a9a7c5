// Handlers of control: jumps, calls, returns.
#ifndef RVM_VM_INTERPRETER_EXEC_CONTROL_H_
#define RVM_VM_INTERPRETER_EXEC_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/exec_scalar.h"
#include "vm/interpreter/operands.h"

namespace rvm::vm {

// Polls and makes room on the stack, then runs the instruction again.
[[gnu::noinline, clang::preserve_none]] inline void PollAndRetry(const uint16_t* pc, Slot* r, Execution* vm,
                                                                 int64_t budget, const FunctionInfo* fn) {
  budget = vm->PollOrStop(pc, r, fn, budget);
  if (budget <= 0) return;
  // The stack may have moved.
  r = vm->frame_after_poll;
  [[clang::musttail]] return Next(pc, r, vm, budget, fn);
}

// ---- jumps. Backward jumps pay from the budget.

[[clang::preserve_none]] inline void ExecJump(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                              const FunctionInfo* fn) {
  Operands<Opcode::kJump> in(pc);
  const uint16_t* target = fn->code + in.Get<"target">();
  if (target <= pc && --budget < 0) [[unlikely]] {
    [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
  }
  [[clang::musttail]] return Next(target, r, vm, budget, fn);
}

// A branch on two operands; the label follows them.
template <auto kCondition>
[[clang::preserve_none]] void BranchBinary(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                           const FunctionInfo* fn) {
  Operands<Opcode::kBranchEqInt> in(pc);
  if (kCondition(r[in.Get<"a">()], r[in.Get<"b">()])) {
    const uint16_t* target = fn->code + in.Get<"target">();
    if (target <= pc && --budget < 0) [[unlikely]] {
      [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
    }
    [[clang::musttail]] return Next(target, r, vm, budget, fn);
  }
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

// Like BranchBinary; the second operand is an immediate.
template <auto kCondition>
[[clang::preserve_none]] void BranchImm(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                        const FunctionInfo* fn) {
  Operands<Opcode::kBranchEqImm> in(pc);
  if (kCondition(r[in.Get<"a">()], Imm16(in.Get<"value">()))) {
    const uint16_t* target = fn->code + in.Get<"target">();
    if (target <= pc && --budget < 0) [[unlikely]] {
      [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
    }
    [[clang::musttail]] return Next(target, r, vm, budget, fn);
  }
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

inline constexpr Handler ExecBranchEqInt = BranchBinary<EqInt>;
inline constexpr Handler ExecBranchNeInt = BranchBinary<NeInt>;
inline constexpr Handler ExecBranchLtInt = BranchBinary<LtInt>;
inline constexpr Handler ExecBranchLeInt = BranchBinary<LeInt>;
inline constexpr Handler ExecBranchEqImm = BranchImm<EqInt>;
inline constexpr Handler ExecBranchNeImm = BranchImm<NeInt>;
inline constexpr Handler ExecBranchLtImm = BranchImm<LtInt>;
inline constexpr Handler ExecBranchGeImm = BranchImm<GeInt>;

template <Slot kTaken>
[[clang::preserve_none]] void BranchBool(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                         const FunctionInfo* fn) {
  Operands<Opcode::kBranchIf> in(pc);
  if (r[in.Get<"cond">()] == kTaken) {
    const uint16_t* target = fn->code + in.Get<"target">();
    if (target <= pc && --budget < 0) [[unlikely]] {
      [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
    }
    [[clang::musttail]] return Next(target, r, vm, budget, fn);
  }
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

inline constexpr Handler ExecBranchIf = BranchBool<1>;
inline constexpr Handler ExecBranchUnless = BranchBool<0>;

[[clang::preserve_none]] inline void ExecBranchTag(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  Operands<Opcode::kBranchTag> in(pc);
  if (TagOf(r[in.Get<"adt">()]) == in.Get<"tag">()) {
    const uint16_t* target = fn->code + in.Get<"target">();
    if (target <= pc && --budget < 0) [[unlikely]] {
      [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
    }
    [[clang::musttail]] return Next(target, r, vm, budget, fn);
  }
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecSwitch(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                const FunctionInfo* fn) {
  Operands<Opcode::kSwitch> in(pc);
  const uint16_t* target = fn->code + Read32(in.Elements<"targets">() + 2 * size_t{TagOf(r[in.Get<"adt">()])});
  if (target <= pc && --budget < 0) [[unlikely]] {
    [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
  }
  [[clang::musttail]] return Next(target, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecFatal(const uint16_t* pc, Slot* r, Execution* vm, int64_t,
                                               const FunctionInfo* fn) {
  vm->Stop(pc, r, fn, NoClauseFits());
}

// ---- calls

// Begins the function `fn` in the frame `r`, whose arguments are there; takes a window of the arena first.
[[gnu::noinline, clang::preserve_none]] inline void EnterWithWindow(const uint16_t* pc, Slot* r, Execution* vm,
                                                                    int64_t budget, const FunctionInfo* fn) {
  std::byte* window = vm->arena.Push(fn->arena_bytes);
  r[fn->num_registers] = AsSlot(window);
  if (window == nullptr) return vm->StopOutOfMemory(fn->code, r, fn);
  pc = fn->code;
  [[clang::musttail]] return Next(pc, r, vm, budget, fn);
}

[[gnu::always_inline, clang::preserve_none]] inline void Enter(const uint16_t* pc, Slot* r, Execution* vm,
                                                               int64_t budget, const FunctionInfo* fn) {
  if (fn->arena_bytes != 0) [[unlikely]] {
    [[clang::musttail]] return EnterWithWindow(pc, r, vm, budget, fn);
  }
  pc = fn->code;
  [[clang::musttail]] return Next(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCall(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                              const FunctionInfo* fn) {
  Operands<Opcode::kCall> in(pc);
  Slot* base = r + fn->frame_slots;
  if (--budget < 0 || base > vm->stack_soft_end) [[unlikely]] {
    [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
  }
  const FunctionInfo* callee = vm->functions + in.Get<"callee">();
  uint32_t count = in.Count<"args">();
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) base[i] = r[in.Elements<"args">()[i]];
  base[-3] = AsSlot(in.End());
  base[-2] = AsSlot(fn);
  base[-1] = in.Get<"dst">();
  [[clang::musttail]] return Enter(pc, base, vm, budget, callee);
}

// Like ExecCall; the link holds the address of the destination registers.
[[clang::preserve_none]] inline void ExecCallFields(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  Slot* base = r + fn->frame_slots;
  if (--budget < 0 || base > vm->stack_soft_end) [[unlikely]] {
    [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
  }
  Operands<Opcode::kCallFields> in(pc);
  base[-1] = AsSlot(in.Elements<"dsts">());
  const FunctionInfo* callee = vm->functions + in.Get<"callee">();
  uint32_t count = in.Count<"args">();
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) base[i] = r[in.Elements<"args">()[i]];
  base[-3] = AsSlot(in.End());
  base[-2] = AsSlot(fn);
  [[clang::musttail]] return Enter(pc, base, vm, budget, callee);
}

[[clang::preserve_none]] inline void ExecCallClosure(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                     const FunctionInfo* fn) {
  Operands<Opcode::kCallClosure> in(pc);
  Slot* base = r + fn->frame_slots;
  if (--budget < 0 || base > vm->stack_soft_end) [[unlikely]] {
    [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
  }
  Slot closure = r[in.Get<"closure">()];
  const FunctionInfo* callee = vm->functions + vm->layouts[AsObject(closure)->layout].function;
  uint32_t count = in.Count<"args">();
  base[0] = closure;
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) base[1 + i] = r[in.Elements<"args">()[i]];
  base[-3] = AsSlot(in.End());
  base[-2] = AsSlot(fn);
  base[-1] = in.Get<"dst">();
  [[clang::musttail]] return Enter(pc, base, vm, budget, callee);
}

// Moves arguments to the front of the current frame. Source and destination may overlap, so they are copied through the
// stack's headroom, which is beyond the frame of any function.
[[clang::preserve_none]] inline void MoveArgs(const uint16_t* regs, uint32_t count, const Slot* r, Slot* to,
                                              Slot* scratch) {
  if (count == 1) {
    to[0] = r[regs[0]];
    return;
  }
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) scratch[i] = r[regs[i]];
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) to[i] = scratch[i];
}

[[gnu::noinline, clang::preserve_none]] inline void LeaveWindowAndEnter(const uint16_t* pc, Slot* r, Execution* vm,
                                                                        int64_t budget, const FunctionInfo* fn) {
  vm->arena.Pop(reinterpret_cast<std::byte*>(vm->window_to_leave));
  [[clang::musttail]] return Enter(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecTailCall(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                  const FunctionInfo* fn) {
  Operands<Opcode::kTailCall> in(pc);
  if (--budget < 0) [[unlikely]] {
    [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
  }
  const FunctionInfo* callee = vm->functions + in.Get<"callee">();
  bool has_window = fn->arena_bytes != 0;
  if (has_window) [[unlikely]]
    vm->window_to_leave = r[fn->num_registers];
  MoveArgs(in.Elements<"args">(), in.Count<"args">(), r, r, r + vm->scratch_offset);
  if (has_window) [[unlikely]] {
    [[clang::musttail]] return LeaveWindowAndEnter(pc, r, vm, budget, callee);
  }
  [[clang::musttail]] return Enter(pc, r, vm, budget, callee);
}

[[clang::preserve_none]] inline void ExecTailCallClosure(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                         const FunctionInfo* fn) {
  Operands<Opcode::kTailCallClosure> in(pc);
  if (--budget < 0) [[unlikely]] {
    [[clang::musttail]] return PollAndRetry(pc, r, vm, budget, fn);
  }
  Slot closure = r[in.Get<"closure">()];
  const FunctionInfo* callee = vm->functions + vm->layouts[AsObject(closure)->layout].function;
  bool has_window = fn->arena_bytes != 0;
  if (has_window) [[unlikely]]
    vm->window_to_leave = r[fn->num_registers];
  MoveArgs(in.Elements<"args">(), in.Count<"args">(), r, r + 1, r + vm->scratch_offset);
  r[0] = closure;
  if (has_window) [[unlikely]] {
    [[clang::musttail]] return LeaveWindowAndEnter(pc, r, vm, budget, callee);
  }
  [[clang::musttail]] return Enter(pc, r, vm, budget, callee);
}

[[clang::preserve_none]] inline void ExecCallHost(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                  const FunctionInfo* fn) {
  Operands<Opcode::kCallHost> in(pc);
  // The host sees what comes before, and no error of it later.
  if (vm->caller.has_pending() && !vm->caller.RunPending()) [[unlikely]]
    return vm->StopInCall(pc, r, fn);
  if (!vm->CallHost(pc, r)) [[unlikely]]
    return vm->Stop(pc, r, fn, std::move(vm->error));
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[gnu::noinline, clang::preserve_none]] inline void ReturnFromWindow(const uint16_t* pc, Slot* r, Execution* vm,
                                                                     int64_t budget, const FunctionInfo* fn) {
  Operands<Opcode::kReturn> in(pc);
  vm->arena.Pop(reinterpret_cast<std::byte*>(r[fn->num_registers]));
  const auto* caller = reinterpret_cast<const FunctionInfo*>(r[-2]);
  Slot* base = r - caller->frame_slots;
  base[r[-1]] = r[in.Get<"result">()];
  pc = reinterpret_cast<const uint16_t*>(r[-3]);
  [[clang::musttail]] return Next(pc, base, vm, budget, caller);
}

[[clang::preserve_none]] inline void ExecReturn(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                const FunctionInfo* fn) {
  Operands<Opcode::kReturn> in(pc);
  if (fn->arena_bytes != 0) [[unlikely]] {
    [[clang::musttail]] return ReturnFromWindow(pc, r, vm, budget, fn);
  }
  const auto* caller = reinterpret_cast<const FunctionInfo*>(r[-2]);
  Slot* base = r - caller->frame_slots;
  base[r[-1]] = r[in.Get<"result">()];
  pc = reinterpret_cast<const uint16_t*>(r[-3]);
  [[clang::musttail]] return Next(pc, base, vm, budget, caller);
}

[[gnu::always_inline, clang::preserve_none]] inline void ReturnFieldsToCaller(const uint16_t* pc, Slot* r,
                                                                              Execution* vm, int64_t budget,
                                                                              const FunctionInfo*) {
  Operands<Opcode::kReturnFields> in(pc);
  const auto* caller = reinterpret_cast<const FunctionInfo*>(r[-2]);
  Slot* base = r - caller->frame_slots;
  const auto* dsts = reinterpret_cast<const uint16_t*>(r[-1]);
  uint32_t count = in.Count<"fields">();
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) base[dsts[i]] = r[in.Elements<"fields">()[i]];
  pc = reinterpret_cast<const uint16_t*>(r[-3]);
  [[clang::musttail]] return Next(pc, base, vm, budget, caller);
}

[[gnu::noinline, clang::preserve_none]] inline void ReturnFieldsFromWindow(const uint16_t* pc, Slot* r, Execution* vm,
                                                                           int64_t budget, const FunctionInfo* fn) {
  vm->arena.Pop(reinterpret_cast<std::byte*>(r[fn->num_registers]));
  [[clang::musttail]] return ReturnFieldsToCaller(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecReturnFields(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                      const FunctionInfo* fn) {
  if (fn->arena_bytes != 0) [[unlikely]] {
    [[clang::musttail]] return ReturnFieldsFromWindow(pc, r, vm, budget, fn);
  }
  [[clang::musttail]] return ReturnFieldsToCaller(pc, r, vm, budget, fn);
}

// The code of the frame under the entry's.
[[clang::preserve_none]] inline void ExecHalt(const uint16_t*, Slot* r, Execution* vm, int64_t, const FunctionInfo*) {
  vm->result = r[0];
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_CONTROL_H_
