// A call of a kernel that machine code of a function makes by itself, while it is emitted: emit_kernel.cc has the call,
// emit_result.cc its results.
#ifndef RVM_NATIVE_DIRECT_CALL_H_
#define RVM_NATIVE_DIRECT_CALL_H_

#include <cstdint>
#include <vector>

#include "native/function_emitter.h"
#include "serialization/executable.h"

namespace rvm::native {

struct FunctionEmitter::DirectCall {
  // Returns whether the argument is consumed.
  bool IsMoved(uint32_t arg) const { return IsMovedArg(args.u16(arg)); }
  // Returns the register of an argument that is no constant.
  uint16_t RegisterOf(uint32_t arg) const { return args.u16(arg) & static_cast<uint16_t>(~kMovedArg); }

  const KernelDesc& kernel;
  uint32_t index;
  const Operand& args;
  const Operand& dsts;
  // Block in which the VM makes the call; no branch to it may follow a change of the machine's state.
  Block* by_the_vm;
  Value* code = nullptr;  // null at run time if the kernel has no machine code for the host
  Value* buffers = nullptr;
  Value* dims = nullptr;
  Value* scalars = nullptr;
  // By argument, whether a result has taken its memory; null: none may.
  std::vector<Value*> is_taken;
};

}  // namespace rvm::native

#endif  // RVM_NATIVE_DIRECT_CALL_H_
