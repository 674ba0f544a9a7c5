// NativeMachine: runs machine code of functions on a stack of its own, with the heap, kernels and limits of an
// Execution. machine_imports.def (kernels/abi) lists what the code calls; native_imports.cc has these functions.
#ifndef RVM_VM_INTERPRETER_NATIVE_MACHINE_H_
#define RVM_VM_INTERPRETER_NATIVE_MACHINE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/abi/machine_abi.h"
#include "serialization/executable.h"
#include "vm/interpreter/native_code.h"
#include "vm/interpreter/native_stack.h"
#include "vm/memory/object.h"

namespace rvm::vm {

struct Execution;

class NativeMachine {
 public:
  // All of these outlive the machine.
  NativeMachine(const NativeCode& code, Execution& vm, int64_t stack_limit_bytes);
  NativeMachine(const NativeMachine&) = delete;
  NativeMachine& operator=(const NativeMachine&) = delete;

  // Like Execution::Run. REQUIRES: CanEnter.
  absl::StatusOr<Slot> Run(FunctionId function, std::span<const Slot> args);
  // Returns whether the code has a stub for `function`: not for all closures.
  bool CanEnter(FunctionId function) const { return code_.entries[function.value] != nullptr; }
  // Gives the memory of the stack back.
  void Trim() { stack_.Release(); }

  // ---- for functions that machine code calls

  int64_t stack_limit_bytes() const { return stack_.limit_bytes(); }
  // Sets the run's error, with the calls from `frame` outwards: the frame pointer of the function that machine code
  // called.
  void SetError(const absl::Status& status, const void* frame);
  // Ends the run. Nothing between here and Run is destroyed.
  [[noreturn]] void Leave() { LeaveStack(host_stack_); }

 private:
  const NativeCode& code_;
  Execution& vm_;
  RvmMachine machine_;
  NativeStack stack_;
  void* host_stack_ = nullptr;
  std::vector<uint64_t> overflow_;  // of arguments and results
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_NATIVE_MACHINE_H_
