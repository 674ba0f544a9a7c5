// Handlers of tensors; the work is in tensor_shape.cc.
#ifndef RVM_VM_INTERPRETER_EXEC_TENSOR_H_
#define RVM_VM_INTERPRETER_EXEC_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/operands.h"

namespace rvm::vm {

[[clang::preserve_none]] inline void ExecLoadConst(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  Operands<Opcode::kLoadConst> in(pc);
  r[in.Get<"dst">()] = AsSlot(vm->caller.constant(in.Get<"constant">()));
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecGetDim(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                const FunctionInfo* fn) {
  Operands<Opcode::kGetDim> in(pc);
  r[in.Get<"dst">()] = static_cast<Slot>(AsTensor(r[in.Get<"tensor">()])->dims[in.Get<"axis">()]);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

// Reads an element of a tensor that is not on the host yet.
[[clang::preserve_none]] void ExecFetchElement(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                               const FunctionInfo* fn);

[[clang::preserve_none]] inline void ExecGetElement(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  Operands<Opcode::kGetElement> in(pc);
  const Tensor& tensor = *AsTensor(r[in.Get<"tensor">()]);
  if (tensor.data == nullptr) [[unlikely]] {
    [[clang::musttail]] return ExecFetchElement(pc, r, vm, budget, fn);
  }
  r[in.Get<"dst">()] =
      LoadScalar(tensor.dtype, static_cast<const std::byte*>(tensor.data) + in.Get<"element">() * tensor.dtype.bytes());
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecFetchElement(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                      const FunctionInfo* fn) {
  Operands<Opcode::kGetElement> in(pc);
  if (!vm->caller.FetchToHost(AsTensor(r[in.Get<"tensor">()]))) [[unlikely]]
    return vm->StopInCall(pc, r, fn);
  [[clang::musttail]] return ExecGetElement(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecView(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                              const FunctionInfo* fn) {
  Operands<Opcode::kView> in(pc);
  if (!vm->MakeView(pc, r)) [[unlikely]]
    return vm->Stop(pc, r, fn, std::move(vm->error));
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCheckShape(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  Operands<Opcode::kCheckShape> in(pc);
  Slot tensor = r[in.Get<"src">()];
  if (!vm->CheckShape(*AsTensor(tensor), TypeId(in.Get<"type">()))) [[unlikely]] {
    return vm->Stop(pc, r, fn, std::move(vm->error));
  }
  r[in.Get<"dst">()] = tensor;
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCheckDims(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  Operands<Opcode::kCheckDims> in(pc);
  if (!vm->CheckDims(static_cast<int64_t>(r[in.Get<"a">()]), static_cast<int64_t>(r[in.Get<"b">()]),
                     DimRelation{static_cast<uint8_t>(in.Get<"what">())})) [[unlikely]] {
    return vm->Stop(pc, r, fn, std::move(vm->error));
  }
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_TENSOR_H_
