// Handlers of tensors and kernel calls; the work is in kernel_call.cc and tensor_shape.cc.
#ifndef RVM_VM_INTERPRETER_EXEC_TENSOR_H_
#define RVM_VM_INTERPRETER_EXEC_TENSOR_H_

#include "vm/interpreter/dispatch.h"

namespace rvm::vm {

[[clang::preserve_none]] inline void ExecLoadConst(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  r[pc[1]] = AsSlot(vm->constants_[Read32(pc + 2)]);
  [[clang::musttail]] return Next(pc + 4, r, vm, budget, fn);
}

// Makes the call whose kernel index is at `kernel`, by way of `method`; null on an error, else what follows.
template <auto kMethod>
const uint16_t* MakeKernelCall(const uint16_t* pc, const uint16_t* offsets, const uint16_t* kernel, Slot* r,
                               Interpreter* vm, const FunctionInfo* fn) {
  const uint16_t* args = kernel + 2;
  Interpreter::KernelCall call = {&vm->link_.kernels[Read32(kernel)], pc + 1, offsets, args,
                                  reinterpret_cast<std::byte*>(offsets != nullptr ? r[fn->num_registers] : 0)};
  if (!(vm->*kMethod)(call, r)) [[unlikely]] {
    vm->Stop(pc, r, fn, std::move(vm->error_));
    return nullptr;
  }
  return args + 1 + args[0];
}

[[clang::preserve_none]] inline void ExecCallKernel(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  pc = MakeKernelCall<&Interpreter::CallStaticKernel>(pc, nullptr, pc + 2 + pc[1], r, vm, fn);
  if (pc == nullptr) [[unlikely]]
    return;
  [[clang::musttail]] return Next(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernelPlanned(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                           const FunctionInfo* fn) {
  const uint16_t* offsets = pc + 2 + pc[1];
  pc = MakeKernelCall<&Interpreter::CallStaticKernel>(pc, offsets + 1, offsets + 1 + 2 * offsets[0], r, vm, fn);
  if (pc == nullptr) [[unlikely]]
    return;
  [[clang::musttail]] return Next(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernelDynamic(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                           const FunctionInfo* fn) {
  pc = MakeKernelCall<&Interpreter::CallDynamicKernel>(pc, nullptr, pc + 2 + pc[1], r, vm, fn);
  if (pc == nullptr) [[unlikely]]
    return;
  [[clang::musttail]] return Next(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecGetDim(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                const FunctionInfo* fn) {
  r[pc[1]] = static_cast<Slot>(AsTensor(r[pc[2]])->dims[pc[3]]);
  [[clang::musttail]] return Next(pc + 4, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecGetElement(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  const Tensor& tensor = *AsTensor(r[pc[2]]);
  r[pc[1]] = LoadScalar(tensor.dtype, static_cast<const std::byte*>(tensor.data) + pc[3] * tensor.dtype.bytes());
  [[clang::musttail]] return Next(pc + 4, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecView(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                              const FunctionInfo* fn) {
  if (!vm->MakeView(pc, r)) [[unlikely]]
    return vm->Stop(pc, r, fn, std::move(vm->error_));
  [[clang::musttail]] return Next(pc + 6 + pc[5], r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCheckShape(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  Slot tensor = r[pc[2]];
  if (!vm->CheckShape(*AsTensor(tensor), TypeId(Read32(pc + 3)))) [[unlikely]] {
    return vm->Stop(pc, r, fn, std::move(vm->error_));
  }
  r[pc[1]] = tensor;
  [[clang::musttail]] return Next(pc + 5, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCheckDims(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  if (!vm->CheckDims(static_cast<int64_t>(r[pc[1]]), static_cast<int64_t>(r[pc[2]]),
                     DimRelation{static_cast<uint8_t>(pc[3])})) [[unlikely]] {
    return vm->Stop(pc, r, fn, std::move(vm->error_));
  }
  [[clang::musttail]] return Next(pc + 4, r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_TENSOR_H_
