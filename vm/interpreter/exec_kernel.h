// Handlers of kernel calls. They make the common calls themselves, with the steps of KernelCaller, and leave all others
// to it.
#ifndef RVM_VM_INTERPRETER_EXEC_KERNEL_H_
#define RVM_VM_INTERPRETER_EXEC_KERNEL_H_

#include <cstdint>

#include "vm/interpreter/dispatch.h"

namespace rvm::vm {

// Runs machine code that gives one tensor, into `result`, on the arguments that were bound. False: the run has ended.
[[gnu::always_inline]] inline bool RunKernel(const KernelInfo& kernel, uint32_t num_args, Tensor* result,
                                             const uint16_t* pc, Slot* r, Execution* vm, const FunctionInfo* fn) {
  r[pc[2]] = AsSlot(result);
  int32_t code = vm->caller.RunCode(kernel, num_args, result->data);
  if ((code | vm->control.signal().attention()) != 0 && vm->StopsInKernel(pc, r, fn, kernel, code)) [[unlikely]]
    return false;
  if (vm->caller.has_moved()) vm->caller.DropMoved();
  return true;
}

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
  KernelCaller& caller = vm->caller;
  const uint16_t* index = pc + (kIsPlanned ? 6 : 3);
  uint32_t offset = kIsPlanned ? Read32(pc + 4) : 0;
  const KernelInfo* kernel = &caller.kernel(pc[1] == 1 ? Read32(index) : 0);
  if (pc[1] != 1 || kernel->plain_workspace > caller.workspace_bytes() || offset == kNoOffset) [[unlikely]] {
    [[clang::musttail]] return ExecAnyStaticKernel<kIsPlanned>(pc, r, vm, budget, fn);
  }
  const uint16_t* args = index + 3;
  uint32_t num_args = index[2];
  caller.BindTensors(args, num_args, r);
  const KernelInfo::TensorInfo& info = kernel->results[0];
  Tensor* result = kIsPlanned           ? KernelCaller::PlaceTensor(r[fn->num_registers], offset, info)
                   : caller.has_moved() ? nullptr
                                        : vm->heap.TryNewTensor(info.heap_header);
  if (!kIsPlanned && result == nullptr) [[unlikely]]
    result = caller.NewStaticResult(info);
  if (!kIsPlanned && result == nullptr) [[unlikely]]
    return vm->StopOutOfMemory(pc, r, fn);
  if (!RunKernel(*kernel, num_args, result, pc, r, vm, fn)) [[unlikely]]
    return;
  [[clang::musttail]] return Next(args + num_args, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernel(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  [[clang::musttail]] return ExecStaticKernel<false>(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernelPlanned(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                           const FunctionInfo* fn) {
  [[clang::musttail]] return ExecStaticKernel<true>(pc, r, vm, budget, fn);
}

// The result whose extents `code`, the end of a shape_code, names. Null: the slow path makes it.
[[gnu::always_inline]] inline Tensor* NewShapedResult(const KernelInfo& kernel, const uint16_t* code, Execution* vm) {
  if (vm->caller.has_moved()) {
    if (Tensor* reused = vm->caller.ReuseArg(kernel.results[0]); reused != nullptr) return reused;
  }
  const int64_t* symbols = vm->caller.symbols();
  uint32_t rank = *code++;
  int64_t bytes = kernel.shaped_header.dtype.bytes();
  bool too_big = false;
#pragma clang loop unroll(disable) vectorize(disable)  // a few dims
  for (uint32_t axis = 0; axis < rank; ++axis) too_big |= __builtin_mul_overflow(bytes, symbols[code[axis]], &bytes);
  Tensor* tensor = too_big ? nullptr : vm->heap.TryNewTensor(kernel.shaped_header, bytes);
  if (tensor == nullptr) [[unlikely]]
    return nullptr;
  int64_t* dims = tensor->dims_after_header();
#pragma clang loop unroll(disable) vectorize(disable)
  for (uint32_t axis = 0; axis < rank; ++axis) dims[axis] = symbols[code[axis]];
  return tensor;
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
  KernelCaller& caller = vm->caller;
  const uint16_t* index = pc + 2 + pc[1];
  const KernelInfo* kernel = &caller.kernel(Read32(index));
  const uint16_t* args = index + 3;
  uint32_t num_args = index[2];
  const uint16_t* shape =
      kernel->shaped_workspace > caller.workspace_bytes() ? nullptr : caller.BindShapes(*kernel, args, num_args, r);
  Tensor* result = shape == nullptr ? nullptr : NewShapedResult(*kernel, shape, vm);
  if (result == nullptr) [[unlikely]] {
    [[clang::musttail]] return ExecAnyDynamicKernel(pc, r, vm, budget, fn);
  }
  if (!RunKernel(*kernel, num_args, result, pc, r, vm, fn)) [[unlikely]]
    return;
  [[clang::musttail]] return Next(args + num_args, r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_KERNEL_H_
