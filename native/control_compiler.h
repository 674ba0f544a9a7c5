// Compiles bytecode to machine code. No LLVM types here.
#ifndef RVM_NATIVE_CONTROL_COMPILER_H_
#define RVM_NATIVE_CONTROL_COMPILER_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/codegen/kernel_compiler.h"
#include "serialization/verifier.h"

namespace rvm::native {

struct CompiledControl {
  ControlCode code;
  std::string llvm_ir;   // before optimisation, if kept
  std::string assembly;  // if kept
};

// Returns whether control flow may repeat: a function jumps back, calls itself by way of others or not, or calls a
// closure. Otherwise an entry runs each instruction once, and machine code gains nothing.
bool HasLoops(const Executable& executable);

// Machine code of all functions for `target`. Deterministic. `kernels`: those of the executable, in order, made for the
// target, so that small ones become part of the functions that call them; empty: they are called.
absl::StatusOr<CompiledControl> CompileControl(const VerifiedExecutable& executable, const codegen::HostTarget& target,
                                               const codegen::CodegenOptions& options,
                                               std::span<const codegen::KernelRequest> kernels = {});

}  // namespace rvm::native

#endif  // RVM_NATIVE_CONTROL_COMPILER_H_
