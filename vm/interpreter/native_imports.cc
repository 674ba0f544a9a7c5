// The functions of the VM that machine code of Relay functions calls: what kernels/abi/machine_imports.def lists.
//
// A function that ends the run leaves the stack, and destroys nothing that lies on it: it must not own anything then.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "kernels/abi/machine_abi.h"
#include "vm/interpreter/execution.h"
#include "vm/interpreter/kernel_steps.h"
#include "vm/interpreter/native_code.h"
#include "vm/interpreter/native_machine.h"
#include "vm/interpreter/scalar_cast.h"

namespace rvm::vm {
namespace {

#define Cold [[clang::preserve_most]]
#define Plain

Execution* VmOf(RvmMachine* machine) { return static_cast<Execution*>(machine->runtime); }

// Ends the run at the call that machine code made: `frame` is that of the function that it called.
[[noreturn, gnu::noinline]] void Stop(Execution* vm, const void* frame, absl::Status (*status)(Execution* vm)) {
  [&] {
    absl::Status error = status(vm);
    vm->native->SetError(error, frame);
  }();
  vm->native->Leave();
}

[[noreturn]] void StopOutOfMemory(Execution* vm, const void* frame) {
  Stop(vm, frame, [](Execution* v) { return v->caller.OutOfMemory(); });
}
// After a function that set the execution's error.
[[noreturn]] void StopWithError(Execution* vm, const void* frame) {
  Stop(vm, frame, [](Execution* v) { return std::move(v->error); });
}
// After a kernel call that failed.
[[noreturn]] void StopInCall(Execution* vm, const void* frame) {
  Stop(vm, frame, [](Execution* v) { return v->caller.TakeError(); });
}

// The frame pointer of the function in which it stands.
#define RVM_FRAME __builtin_frame_address(0)

Cold uint64_t rvm_poll(RvmMachine* machine) {
  Execution* vm = VmOf(machine);
  int64_t budget = 0;
  bool goes_on = [&] {
    vm->error = vm->RefillBudget(budget);
    return vm->error.ok();
  }();
  if (!goes_on) StopWithError(vm, RVM_FRAME);
  return static_cast<uint64_t>(budget - 1);
}

Cold void rvm_stack_overflow(RvmMachine* machine) {
  Stop(VmOf(machine), RVM_FRAME, [](Execution* vm) { return NestedTooDeeply(vm->native->stack_limit_bytes()); });
}

Cold void rvm_stop(RvmMachine* machine, uint64_t reason) {
  Stop(
      VmOf(machine), RVM_FRAME,
      reason == kRvmNoClauseFits ? [](Execution*) { return NoClauseFits(); }
                                 : [](Execution*) { return WrongConstructor(); });
}

Cold void* rvm_new_cell(RvmMachine* machine, uint64_t layout) {
  Execution* vm = VmOf(machine);
  Object* cell = vm->heap.NewCell(static_cast<uint16_t>(layout));
  if (cell == nullptr) StopOutOfMemory(vm, RVM_FRAME);
  return cell;
}

Cold void rvm_free_last(RvmMachine* machine, void* object) {
  VmOf(machine)->heap.FreeLast(static_cast<Object*>(object));
}

Cold void rvm_free_shell(RvmMachine* machine, void* cell) { VmOf(machine)->heap.FreeShell(static_cast<Object*>(cell)); }

Cold void rvm_unpack_shared(RvmMachine* machine, void* cell) {
  VmOf(machine)->heap.ShareFields(static_cast<Object*>(cell));
}

Plain void rvm_ref_write(RvmMachine* machine, void* ref, uint64_t value) {
  Execution* vm = VmOf(machine);
  auto* object = static_cast<Object*>(ref);
  if (!vm->layouts[object->layout].is_tracked) {
    Slot old = std::exchange(object->fields()[0], value);
    vm->heap.Drop(old);
  } else if (!vm->heap.WriteTracked(object, value)) {
    StopOutOfMemory(vm, RVM_FRAME);
  }
}

Plain uint64_t rvm_cast(RvmMachine*, uint64_t value, uint64_t from, uint64_t to) {
  return CastScalar(value, static_cast<uint16_t>(from), static_cast<uint16_t>(to));
}

Plain void* rvm_push_window(RvmMachine* machine, uint64_t bytes) {
  Execution* vm = VmOf(machine);
  std::byte* window = vm->arena.Push(static_cast<uint32_t>(bytes));
  if (window == nullptr) StopOutOfMemory(vm, RVM_FRAME);
  return window;
}

Plain void rvm_pop_window(RvmMachine* machine, void* window) {
  VmOf(machine)->arena.Pop(static_cast<std::byte*>(window));
}

// Ends a run at the call of `frame`.
struct StopAtFrame {
  void OutOfMemory() const { StopOutOfMemory(vm, frame); }
  bool InKernel(const KernelInfo& kernel, int32_t code) const {
    bool goes_on = [&] {
      vm->error = vm->caller.KernelError(kernel, code);
      return vm->error.ok();
    }();
    if (!goes_on) StopWithError(vm, frame);
    return false;
  }

  Execution* vm;
  const void* frame;
};

template <bool kIsPlanned>
[[gnu::always_inline]] inline void CallStatic(RvmMachine* machine, const uint16_t* pc, Slot* r, Slot window,
                                              const void* frame) {
  Execution* vm = VmOf(machine);
  if (const KernelInfo* kernel = PlainKernel<kIsPlanned>(pc, vm); kernel != nullptr) [[likely]] {
    RunPlainKernel<kIsPlanned>(*kernel, pc, window, r, vm, StopAtFrame{vm, frame});
  } else if (vm->caller.CallStatic<kIsPlanned>(pc, window, r) == nullptr) {
    StopInCall(vm, frame);
  }
}

Cold void rvm_after_kernel(RvmMachine* machine, uint64_t kernel, uint64_t code) {
  Execution* vm = VmOf(machine);
  StopAtFrame{vm, RVM_FRAME}.InKernel(vm->caller.kernel(static_cast<uint32_t>(kernel)), static_cast<int32_t>(code));
}

Plain void rvm_call_kernel(RvmMachine* machine, const uint16_t* pc, uint64_t* frame) {
  CallStatic<false>(machine, pc, frame, 0, RVM_FRAME);
}

Plain void rvm_call_kernel_planned(RvmMachine* machine, const uint16_t* pc, uint64_t* frame, void* window) {
  CallStatic<true>(machine, pc, frame, AsSlot(window), RVM_FRAME);
}

Plain void rvm_call_kernel_dynamic(RvmMachine* machine, const uint16_t* pc, uint64_t* frame) {
  Execution* vm = VmOf(machine);
  const uint16_t* index = pc + 2 + pc[1];
  const KernelInfo& kernel = vm->caller.kernel(Read32(index));
  const uint16_t* args = index + 3;
  uint32_t num_args = index[2];
  if (Tensor* result = BindShapedCall(kernel, args, num_args, frame, vm); result != nullptr) [[likely]] {
    RunKernel(kernel, num_args, result, pc, frame, vm, StopAtFrame{vm, RVM_FRAME});
  } else if (vm->caller.CallDynamic(pc, frame) == nullptr) {
    StopInCall(vm, RVM_FRAME);
  }
}

Plain void rvm_view(RvmMachine* machine, const uint16_t* pc, uint64_t* frame) {
  Execution* vm = VmOf(machine);
  if (!vm->MakeView(pc, frame)) StopWithError(vm, RVM_FRAME);
}

Plain void rvm_call_host(RvmMachine* machine, const uint16_t* pc, uint64_t* frame) {
  Execution* vm = VmOf(machine);
  if (!vm->CallHost(pc, frame)) StopWithError(vm, RVM_FRAME);
}

Plain void rvm_check_shape(RvmMachine* machine, const uint16_t* pc, uint64_t* frame) {
  Execution* vm = VmOf(machine);
  Operands<Opcode::kCheckShape> in(pc);
  Slot tensor = frame[in.Get<"src">()];
  if (!vm->CheckShape(*AsTensor(tensor), TypeId(in.Get<"type">()))) StopWithError(vm, RVM_FRAME);
  frame[in.Get<"dst">()] = tensor;
}

Plain void rvm_check_dims(RvmMachine* machine, const uint16_t* pc, uint64_t* frame) {
  Execution* vm = VmOf(machine);
  Operands<Opcode::kCheckDims> in(pc);
  if (!vm->CheckDims(static_cast<int64_t>(frame[in.Get<"a">()]), static_cast<int64_t>(frame[in.Get<"b">()]),
                     DimRelation{static_cast<uint8_t>(in.Get<"what">())})) {
    StopWithError(vm, RVM_FRAME);
  }
}

Cold void rvm_fetch_tensor(RvmMachine* machine, void* tensor) {
  Execution* vm = VmOf(machine);
  if (!vm->caller.FetchToHost(static_cast<Tensor*>(tensor))) StopInCall(vm, RVM_FRAME);
}

}  // namespace

std::span<const runtime::Import> MachineImports() {
  static const runtime::Import kImports[] = {
#define RVM_MACHINE_IMPORT(symbol, type, convention) {#symbol, reinterpret_cast<const void*>(symbol)},
#include "kernels/abi/machine_imports.def"
  };
  return kImports;
}

}  // namespace rvm::vm
