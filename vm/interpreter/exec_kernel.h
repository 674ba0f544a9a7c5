// Handlers of kernel calls. The common calls are made here: machine code that gives one tensor, of a static shape or of
// extents that its arguments have. What else there is to do is in kernel_call.cc.
#ifndef RVM_VM_INTERPRETER_EXEC_KERNEL_H_
#define RVM_VM_INTERPRETER_EXEC_KERNEL_H_

#include "serialization/isa/isa.h"
#include "vm/interpreter/dispatch.h"

namespace rvm::vm {

inline const Tensor* Interpreter::ArgTensor(uint16_t arg, const Slot* r) const {
  if ((arg & kConstantArg) != 0) return constants_[arg & ~kConstantArg];
  return AsTensor(r[arg & ~kMovedArg]);
}

inline void Interpreter::BindTensors(const uint16_t* args, uint32_t count, const Slot* r) {
  void** buffers = buffers_.data();
  uint32_t bits = 0;
#pragma clang loop unroll(disable)  // a few arguments
  for (uint32_t i = 0; i < count; ++i) {
    bits |= args[i];
    buffers[i] = ArgTensor(args[i], r)->data;
  }
  num_moved_ = 0;
  if ((bits & kMovedArg) != 0) NoteMoved(args, count, r);
}

inline Tensor* Interpreter::PlaceTensor(Slot window, uint32_t offset, const KernelInfo::TensorInfo& info) {
  std::byte* place = reinterpret_cast<std::byte*>(window) + offset;
  auto* tensor = reinterpret_cast<Tensor*>(place);
  *tensor = info.planned_header;
  tensor->data = place + kPlannedHeaderBytes;
  return tensor;
}

[[gnu::always_inline]] inline bool Interpreter::RunKernel(const KernelInfo& kernel, uint32_t num_args, Tensor* result,
                                                          const uint16_t* pc, Slot* r, const FunctionInfo* fn) {
  buffers_[num_args] = result->data;
  r[pc[2]] = AsSlot(result);
  int32_t code = kernel.function(buffers_.data(), symbols_.data(), &context_);
  if ((code | stop_.reason()) != 0) [[unlikely]] {
    StopInKernel(pc, r, fn, kernel, code);
    return false;
  }
  if (num_moved_ > 0) DropMoved();
  return true;
}

template <bool kIsPlanned>
[[clang::preserve_none]] void ExecAnyStaticKernel(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                  const FunctionInfo* fn) {
  pc = vm->CallStaticKernel<kIsPlanned>(pc, r, fn);
  if (pc == nullptr) [[unlikely]]
    return;
  [[clang::musttail]] return Next(pc, r, vm, budget, fn);
}

// Of an instruction with one result.
template <bool kIsPlanned>
[[gnu::always_inline, clang::preserve_none]] inline void ExecStaticKernel(const uint16_t* pc, Slot* r, Interpreter* vm,
                                                                          int64_t budget, const FunctionInfo* fn) {
  const uint16_t* index = pc + (kIsPlanned ? 6 : 3);
  uint32_t offset = kIsPlanned ? Read32(pc + 4) : 0;
  const KernelInfo* kernel = vm->kernels_ + (pc[1] == 1 ? Read32(index) : 0);
  if (pc[1] != 1 || kernel->plain_workspace > vm->workspace_bytes_ || offset == kNoOffset) [[unlikely]] {
    [[clang::musttail]] return ExecAnyStaticKernel<kIsPlanned>(pc, r, vm, budget, fn);
  }
  const uint16_t* args = index + 3;
  uint32_t num_args = index[2];
  vm->BindTensors(args, num_args, r);
  const KernelInfo::TensorInfo& info = kernel->results[0];
  Tensor* result = kIsPlanned            ? vm->PlaceTensor(r[fn->num_registers], offset, info)
                   : vm->num_moved_ == 0 ? vm->heap_.TryNewTensor(info.heap_header)
                                         : nullptr;
  if (!kIsPlanned && result == nullptr) [[unlikely]]
    result = vm->NewStaticResult(info);
  if (!kIsPlanned && result == nullptr) [[unlikely]]
    return vm->StopOutOfMemory(pc, r, fn);
  if (!vm->RunKernel(*kernel, num_args, result, pc, r, fn)) [[unlikely]]
    return;
  [[clang::musttail]] return Next(args + num_args, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernel(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  [[clang::musttail]] return ExecStaticKernel<false>(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernelPlanned(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                           const FunctionInfo* fn) {
  [[clang::musttail]] return ExecStaticKernel<true>(pc, r, vm, budget, fn);
}

inline const uint16_t* Interpreter::BindShapes(const KernelInfo& kernel, const uint16_t* args, uint32_t count,
                                               Slot* r) {
  const uint16_t* code = kernel.shape_code.data();
  void** buffers = buffers_.data();
  int64_t* symbols = symbols_.data();
  uint32_t bits = 0;
#pragma clang loop unroll(disable)  // a few arguments
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t arg = args[i];
    uint32_t rank = *code++;
    if (rank == 0 && (arg & kConstantArg) == 0) {
      buffers[i] = &r[arg];
      continue;
    }
    const Tensor* tensor = ArgTensor(arg, r);
    const int64_t* dims = tensor->dims;
    bits |= arg;
    buffers[i] = tensor->data;
#pragma clang loop unroll(disable) vectorize(disable)  // a few dims
    for (uint32_t axis = 0; axis < rank; ++axis) {
      uint16_t place = *code++;
      int64_t extent = dims[axis];
      if ((place & kBindsSymbol) != 0) {
        symbols[place & ~kBindsSymbol] = extent;
      } else if (extent != symbols[place]) [[unlikely]] {
        return nullptr;
      }
    }
  }
  num_moved_ = 0;
  if ((bits & kMovedArg) != 0) NoteMoved(args, count, r);
  return code;
}

[[gnu::always_inline]] inline Tensor* Interpreter::NewShapedResult(const KernelInfo& kernel, const uint16_t* code) {
  if (num_moved_ > 0) {
    if (Tensor* taken = TakeArg(kernel.results[0]); taken != nullptr) return taken;
  }
  const int64_t* symbols = symbols_.data();
  uint32_t rank = *code++;
  int64_t bytes = kernel.shaped_header.dtype.bytes();
  bool too_big = false;
#pragma clang loop unroll(disable) vectorize(disable)  // a few dims
  for (uint32_t axis = 0; axis < rank; ++axis) too_big |= __builtin_mul_overflow(bytes, symbols[code[axis]], &bytes);
  Tensor* tensor = too_big ? nullptr : heap_.TryNewTensor(kernel.shaped_header, bytes);
  if (tensor == nullptr) [[unlikely]]
    return nullptr;
  int64_t* dims = tensor->dims_after_header();
#pragma clang loop unroll(disable) vectorize(disable)
  for (uint32_t axis = 0; axis < rank; ++axis) dims[axis] = symbols[code[axis]];
  return tensor;
}

[[clang::preserve_none]] inline void ExecAnyDynamicKernel(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                          const FunctionInfo* fn) {
  pc = vm->CallDynamicKernel(pc, r, fn);
  if (pc == nullptr) [[unlikely]]
    return;
  [[clang::musttail]] return Next(pc, r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCallKernelDynamic(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                                           const FunctionInfo* fn) {
  const uint16_t* index = pc + 2 + pc[1];
  const KernelInfo* kernel = vm->kernels_ + Read32(index);
  const uint16_t* args = index + 3;
  uint32_t num_args = index[2];
  const uint16_t* shape =
      kernel->shaped_workspace > vm->workspace_bytes_ ? nullptr : vm->BindShapes(*kernel, args, num_args, r);
  Tensor* result = shape == nullptr ? nullptr : vm->NewShapedResult(*kernel, shape);
  if (result == nullptr) [[unlikely]] {
    [[clang::musttail]] return ExecAnyDynamicKernel(pc, r, vm, budget, fn);
  }
  if (!vm->RunKernel(*kernel, num_args, result, pc, r, fn)) [[unlikely]]
    return;
  [[clang::musttail]] return Next(args + num_args, r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_KERNEL_H_
