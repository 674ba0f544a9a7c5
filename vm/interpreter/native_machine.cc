#include "vm/interpreter/native_machine.h"

#include <cstddef>
#include <utility>

#include "vm/interpreter/backtrace.h"
#include "vm/interpreter/execution.h"

namespace rvm::vm {

// The layout of objects, as machine code knows it.
static_assert(kImmortal == kRvmImmortalCount && sizeof(Object) == kRvmFieldsOffset &&
              offsetof(Object, count) == kRvmCountOffset && offsetof(Object, tag) == kRvmTagOffset &&
              offsetof(Object, layout) == kRvmLayoutOffset && offsetof(Tensor, data) == kRvmTensorDataOffset &&
              offsetof(Tensor, dims) == kRvmTensorDimsOffset && offsetof(Tensor, dtype) == kRvmTensorTypeOffset &&
              sizeof(DataType) == 4 && offsetof(Tensor, rank) == kRvmTensorRankOffset &&
              offsetof(Tensor, storage) == kRvmTensorStorageOffset && offsetof(Tensor, inline_dims) == 15 &&
              offsetof(Tensor, block_bytes) == kRvmTensorBytesOffset &&
              Heap::kTensorHeaderBytes == kRvmTensorHeaderBytes && kPlannedHeaderBytes == kRvmTensorHeaderBytes &&
              static_cast<int>(TensorStorage::kInline) == kRvmTensorInline &&
              static_cast<int>(TensorStorage::kBorrowed) == kRvmTensorBorrowed);
// A change of these is a new RVM_MACHINE_ABI_VERSION.
static_assert(RVM_MACHINE_ABI_VERSION == 1 && offsetof(RvmMachine, stack_limit) == 0 &&
              offsetof(RvmMachine, heap) == 8 && offsetof(RvmMachine, code) == 16 &&
              offsetof(RvmMachine, closures) == 24 && offsetof(RvmMachine, constants) == 32 &&
              offsetof(RvmMachine, kernels) == 40 && offsetof(RvmMachine, kernel_context) == 48 &&
              offsetof(RvmMachine, attention) == 56 && offsetof(RvmMachine, overflow) == 64 &&
              offsetof(RvmHeap, allocations) == 0 && offsetof(RvmHeap, frees) == 8 &&
              offsetof(RvmHeap, live_bytes) == 16 && offsetof(RvmHeap, peak_bytes) == 24 &&
              offsetof(RvmHeap, fail_at) == 32 && offsetof(RvmHeap, cells) == 40 && offsetof(RvmPool, free) == 16);

NativeMachine::NativeMachine(const NativeCode& code, Execution& vm, int64_t stack_limit_bytes)
    : code_(code), vm_(vm), stack_(stack_limit_bytes), overflow_(code.max_values) {
  machine_ = {.stack_limit = nullptr,
              .heap = vm.heap.state(),
              .code = code.bytecode.data(),
              .closures = code.closures.data(),
              .constants = vm.caller.constants(),
              .kernels = code.kernels.data(),
              .kernel_context = vm.caller.context(),
              .attention = vm.control.signal().attention_word(),
              .overflow = overflow_.data(),
              .runtime = &vm};
}

absl::StatusOr<Slot> NativeMachine::Run(FunctionId function, std::span<const Slot> args) {
  if (!stack_.Map()) return absl::ResourceExhaustedError("no memory for the stack of calls");
  machine_.stack_limit = stack_.limit();
  struct Call {
    void (*entry)(RvmMachine* machine, const Slot* args, Slot* result);
    RvmMachine* machine;
    const Slot* args;
    Slot result;
  } call = {reinterpret_cast<decltype(Call::entry)>(const_cast<void*>(code_.entries[function.value])), &machine_,
            args.data(), 0};
  // The hook of polls runs on the caller's stack.
  void* const* outer = vm_.control.SetHostStack(&host_stack_);
  if (outer != nullptr) vm_.control.SetHostStack(outer);
  CallOnStack(
      stack_.top(),
      [](void* argument) {
        auto* c = static_cast<Call*>(argument);
        c->entry(c->machine, c->args, &c->result);
      },
      &call, &host_stack_);
  vm_.control.SetHostStack(outer);
  if (!vm_.error.ok()) return std::move(vm_.error);
  return call.result;
}

void NativeMachine::SetError(const absl::Status& status, const void* frame) {
  // A frame begins with the caller's frame pointer and the address to return to.
  struct Frame {
    const Frame* caller;
    uintptr_t address;
  };
  const auto* at = static_cast<const Frame*>(frame);
  Backtrace backtrace(vm_.executable);
  const NativeCode::Place* innermost = code_.PlaceOfCall(at->address);
  for (const NativeCode::Place* place = innermost; place != nullptr;) {
    at = at->caller;
    const NativeCode::Place* caller = code_.PlaceOfCall(at->address);
    FunctionId function(place->function);
    if (caller == nullptr) backtrace.AddEntry(function, place->line - 1);
    if (caller == nullptr || !backtrace.Add(function, place->line - 1)) break;
    place = caller;
  }
  vm_.error =
      innermost == nullptr ? status : vm_.At(FunctionId(innermost->function), innermost->line - 1, status, backtrace);
}

}  // namespace rvm::vm
