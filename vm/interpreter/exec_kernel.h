// Handlers of kernel calls. They make the common calls with the steps of kernel_steps.h, and leave all others to
// KernelCaller.
#ifndef RVM_VM_INTERPRETER_EXEC_KERNEL_H_
#define RVM_VM_INTERPRETER_EXEC_KERNEL_H_

#include <cstdint>

#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/kernel_steps.h"

namespace rvm::vm {

// Ends a run at an instruction of bytecode.
struct StopAtInstruction {
  void OutOfMemory() const { vm->StopOutOfMemory(pc, r, fn); }
  // Returns whether the run has ended.
  bool InKernel(const KernelInfo& kernel, int32_t code) const { return vm->StopsInKernel(pc, r, fn, kernel, code); }

  Execution* vm;
  const uint16_t* pc;
  const Slot* r;
  const FunctionInfo* fn;
};

template <bool kIsPlanned>
[[clang::preserve_none]] void ExecAnyStaticKernel(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                  const FunctionInfo* fn) {
  const uint16_t* next = vm->caller.CallStatic<kIsPlanned>(pc, kIsPlanned ? r[fn->num_registers] : 0, r);
  if (next == nullptr) [[unlikely]]
    return vm->StopInCall(pc, r, fn);
  [[clang::musttail]] return Next(next, r, vm, budget, fn);
}

// Executes a kernel call with one result.
template <bool kIsPlanned>
[[gnu::always_inline, clang::preserve_none]] inline void ExecStaticKernel(const uint16_t* pc, Slot* r, Execution* vm,
                                                                          int64_t budget, const FunctionInfo* fn) {
  const KernelInfo* kernel = PlainKernel<kIsPlanned>(pc, vm);
  if (kernel == nullptr) [[unlikely]] {
    [[clang::musttail]] return ExecAnyStaticKernel<kIsPlanned>(pc, r, vm, budget, fn);
  }
  Slot window = kIsPlanned ? r[fn->num_registers] : 0;
  const uint16_t* next = RunPlainKernel<kIsPlanned>(*kernel, pc, window, r, vm, StopAtInstruction{vm, pc, r, fn});
  if (next == nullptr) [[unlikely]]
    return;
  [[clang::musttail]] return Next(next, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernel(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  [[clang::musttail]] return ExecStaticKernel<false>(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernelPlanned(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                           const FunctionInfo* fn) {
  [[clang::musttail]] return ExecStaticKernel<true>(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecAnyDynamicKernel(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                          const FunctionInfo* fn) {
  const uint16_t* next = vm->caller.CallDynamic(pc, r);
  if (next == nullptr) [[unlikely]]
    return vm->StopInCall(pc, r, fn);
  [[clang::musttail]] return Next(next, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernelDynamic(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                           const FunctionInfo* fn) {
  const uint16_t* index = pc + 2 + pc[1];
  const KernelInfo* kernel = &vm->caller.kernel(Read32(index));
  const uint16_t* args = index + 3;
  uint32_t num_args = index[2];
  Tensor* result = BindShapedCall(*kernel, args, num_args, r, vm);
  if (result == nullptr) [[unlikely]] {
    [[clang::musttail]] return ExecAnyDynamicKernel(pc, r, vm, budget, fn);
  }
  if (!RunKernel(*kernel, num_args, result, pc, r, vm, StopAtInstruction{vm, pc, r, fn})) [[unlikely]]
    return;
  [[clang::musttail]] return Next(args + num_args, r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_KERNEL_H_
