// The handler of instructions whose code a profiler replaced by kProbeCode, and the kernel in place of all kernels.
#ifndef RVM_VM_INTERPRETER_EXEC_PROBE_H_
#define RVM_VM_INTERPRETER_EXEC_PROBE_H_

#include "vm/interpreter/dispatch.h"

namespace rvm::vm {

[[clang::preserve_none]] inline void ExecProbe(const uint16_t* pc, Slot* r, Interpreter* vm, int64_t budget,
                                               const FunctionInfo* fn) {
  uint16_t code = vm->profiler_->Before(pc, fn, Profiler::Now());
  vm->profiler_->Resume();
  [[clang::musttail]] return kHandlers[code](pc, r, vm, budget, fn);
}

inline int32_t ProbeKernel(void* const* buffers, const int64_t* dims, RvmKernelContext* context) {
  return static_cast<Interpreter*>(context->runtime)->profiler_->RunKernel(buffers, dims, context);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_PROBE_H_
