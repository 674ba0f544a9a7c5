// Handlers of tensors; the work is in tensor_shape.cc.
#ifndef RVM_VM_INTERPRETER_EXEC_TENSOR_H_
#define RVM_VM_INTERPRETER_EXEC_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "vm/interpreter/dispatch.h"

namespace rvm::vm {

[[clang::preserve_none]] inline void ExecLoadConst(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  r[pc[1]] = AsSlot(vm->caller.constant(Read32(pc + 2)));
  [[clang::musttail]] return Next(pc + 4, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecGetDim(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                const FunctionInfo* fn) {
  r[pc[1]] = static_cast<Slot>(AsTensor(r[pc[2]])->dims[pc[3]]);
  [[clang::musttail]] return Next(pc + 4, r, vm, budget, fn);
}

// Reads an element of a tensor that is not on the host yet.
[[clang::preserve_none]] void ExecFetchElement(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                               const FunctionInfo* fn);

[[clang::preserve_none]] inline void ExecGetElement(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  const Tensor& tensor = *AsTensor(r[pc[2]]);
  if (tensor.data == nullptr) [[unlikely]] {
    [[clang::musttail]] return ExecFetchElement(pc, r, vm, budget, fn);
  }
  r[pc[1]] = LoadScalar(tensor.dtype, static_cast<const std::byte*>(tensor.data) + pc[3] * tensor.dtype.bytes());
  [[clang::musttail]] return Next(pc + 4, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecFetchElement(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                      const FunctionInfo* fn) {
  if (!vm->caller.FetchToHost(AsTensor(r[pc[2]]))) [[unlikely]]
    return vm->StopInCall(pc, r, fn);
  [[clang::musttail]] return ExecGetElement(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecView(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                              const FunctionInfo* fn) {
  if (!vm->MakeView(pc, r)) [[unlikely]]
    return vm->Stop(pc, r, fn, std::move(vm->error));
  [[clang::musttail]] return Next(pc + 6 + pc[5], r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCheckShape(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  Slot tensor = r[pc[2]];
  if (!vm->CheckShape(*AsTensor(tensor), TypeId(Read32(pc + 3)))) [[unlikely]] {
    return vm->Stop(pc, r, fn, std::move(vm->error));
  }
  r[pc[1]] = tensor;
  [[clang::musttail]] return Next(pc + 5, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCheckDims(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  if (!vm->CheckDims(static_cast<int64_t>(r[pc[1]]), static_cast<int64_t>(r[pc[2]]),
                     DimRelation{static_cast<uint8_t>(pc[3])})) [[unlikely]] {
    return vm->Stop(pc, r, fn, std::move(vm->error));
  }
  [[clang::musttail]] return Next(pc + 4, r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_TENSOR_H_
