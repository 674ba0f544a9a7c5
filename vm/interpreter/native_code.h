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
#include "vm/link/link_info.h"

namespace rvm::vm {

struct NativeCode {
  // The code from `begin` on, up to the next place, belongs to the instruction at unit `line` - 1 of the function's
  // bytecode; line 0: to no instruction.
  struct Place {
    uintptr_t begin = 0;
    uint32_t function = 0;
    uint32_t line = 0;
  };
  // Returns the place of a call that returns to `address`; null: no function's code called.
  const Place* PlaceOfCall(uintptr_t address) const;

  std::shared_ptr<const runtime::KernelLibrary> library;
  std::vector<const void*> entries;       // stubs by function; null for functions that are no entry's
  std::vector<const void*> closures;      // code of a closure's function, by heap layout
  std::vector<const uint16_t*> bytecode;  // by function
  std::vector<RvmKernel> kernels;         // null where KernelCaller must make the call
  size_t max_values = 0;                  // that any function takes or returns
  std::vector<Place> places;              // ascending
};

// Returns the functions of the VM that machine code of functions may call (kernels/abi/machine_imports.def).
std::span<const runtime::Import> MachineImports();

// `link`: of the executable, which outlives the result. kInvalidArgument if the object cannot be linked or lacks a
// function.
absl::StatusOr<std::shared_ptr<const NativeCode>> LoadNativeCode(const Executable& executable, const ControlCode& code,
                                                                 const LinkInfo& link);

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_NATIVE_CODE_H_
