// The steps of common kernel calls: machine code that gives one tensor, of a static shape or of extents that its
// arguments have. Handlers of bytecode and functions for machine code share them; `stop` is how they end a run.
#ifndef RVM_VM_INTERPRETER_KERNEL_STEPS_H_
#define RVM_VM_INTERPRETER_KERNEL_STEPS_H_

#include <cstdint>

#include "vm/interpreter/execution.h"
#include "vm/interpreter/operands.h"

namespace rvm::vm {

// Runs machine code that gives one tensor, into `result`, on the arguments that were bound. False: the run has ended.
template <typename Stop>
[[gnu::always_inline]] inline bool RunKernel(const KernelInfo& kernel, uint32_t num_args, Tensor* result,
                                             const uint16_t* pc, Slot* r, Execution* vm, const Stop& stop) {
  r[pc[2]] = AsSlot(result);
  int32_t code = vm->caller.RunCode(kernel, num_args, result->data);
  if ((code | vm->control.signal().attention()) != 0 && stop.InKernel(kernel, code)) [[unlikely]]
    return false;
  if (vm->caller.has_moved()) vm->caller.DropMoved();
  return true;
}

// The kernel of a static call whose common steps RunPlainKernel makes; null: KernelCaller::CallStatic makes the call.
template <bool kIsPlanned>
[[gnu::always_inline]] inline const KernelInfo* PlainKernel(const uint16_t* pc, Execution* vm) {
  const KernelInfo* kernel = &vm->caller.kernel(pc[1] == 1 ? Read32(pc + (kIsPlanned ? 6 : 3)) : 0);
  bool is_plain = pc[1] == 1 && kernel->plain_workspace <= vm->caller.workspace_bytes() &&
                  (!kIsPlanned || Read32(pc + 4) != kNoOffset);
  return is_plain ? kernel : nullptr;
}

// Makes a static call with one result. The next instruction; null: the run has ended.
template <bool kIsPlanned, typename Stop>
[[gnu::always_inline]] inline const uint16_t* RunPlainKernel(const KernelInfo& kernel, const uint16_t* pc, Slot window,
                                                             Slot* r, Execution* vm, const Stop& stop) {
  KernelCaller& caller = vm->caller;
  const uint16_t* args = pc + (kIsPlanned ? 9 : 6);
  uint32_t num_args = args[-1];
  caller.BindTensors(args, num_args, r);
  const KernelInfo::TensorInfo& info = kernel.results[0];
  Tensor* result = kIsPlanned           ? KernelCaller::PlaceTensor(window, Read32(pc + 4), info)
                   : caller.has_moved() ? nullptr
                                        : vm->heap.TryNewTensor(info.heap_header);
  if (!kIsPlanned && result == nullptr) [[unlikely]]
    result = caller.NewStaticResult(info);
  if (!kIsPlanned && result == nullptr) [[unlikely]] {
    stop.OutOfMemory();
    return nullptr;
  }
  return RunKernel(kernel, num_args, result, pc, r, vm, stop) ? args + num_args : nullptr;
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

// Binds the arguments of a dynamic call and makes its result, if these are the common steps. Null: CallDynamic makes
// the call.
[[gnu::always_inline]] inline Tensor* BindShapedCall(const KernelInfo& kernel, const uint16_t* args, uint32_t num_args,
                                                     Slot* r, Execution* vm) {
  KernelCaller& caller = vm->caller;
  const uint16_t* shape =
      kernel.shaped_workspace > caller.workspace_bytes() ? nullptr : caller.BindShapes(kernel, args, num_args, r);
  return shape == nullptr ? nullptr : NewShapedResult(kernel, shape, vm);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_KERNEL_STEPS_H_
