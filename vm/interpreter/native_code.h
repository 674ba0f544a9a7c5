// NativeCode: an executable's machine code of functions, loaded. Computed once per Program, shared by all machines.
#ifndef RVM_VM_INTERPRETER_NATIVE_CODE_H_
#define RVM_VM_INTERPRETER_NATIVE_CODE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/runtime/imports.h"
#include "kernels/runtime/kernel_library.h"
#include "serialization/executable.h"
#include "vm/memory/object.h"

namespace rvm::vm {

struct NativeCode {
  // The code from `begin` on, up to the next place, belongs to the instruction at unit `line` - 1 of the function's
  // bytecode; line 0: to no instruction.
  struct Place {
    uintptr_t begin = 0;
    uint32_t function = 0;
    uint32_t line = 0;
  };
  // The place of a call that returns to `address`; null: no function's code called.
  const Place* PlaceOfCall(uintptr_t address) const;

  std::shared_ptr<const runtime::KernelLibrary> library;
  std::vector<const void*> entries;   // stubs by function; null for functions that are no entry's
  std::vector<const void*> closures;  // code of a closure's function, by heap layout
  std::vector<Place> places;          // ascending
};

// The functions of the VM that machine code of functions may call (kernels/abi/machine_imports.def).
std::span<const runtime::Import> MachineImports();

// `layouts`: of the heap. kInvalidArgument if the object cannot be linked or lacks a function.
absl::StatusOr<std::shared_ptr<const NativeCode>> LoadNativeCode(const Executable& executable, const ControlCode& code,
                                                                 std::span<const HeapLayout> layouts);

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_NATIVE_CODE_H_
