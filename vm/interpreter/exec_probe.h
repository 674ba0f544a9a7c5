// The handler of instructions whose code a profiler replaced by kProbeCode.
#ifndef RVM_VM_INTERPRETER_EXEC_PROBE_H_
#define RVM_VM_INTERPRETER_EXEC_PROBE_H_

#include <cstdint>
#include <utility>

#include "vm/interpreter/dispatch.h"

namespace rvm::vm {

[[clang::preserve_none]] inline void ExecProbe(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                               const FunctionInfo* fn) {
  if (vm->profiler->sink() != nullptr && !vm->ShowResults(r)) [[unlikely]]
    return vm->Stop(pc, r, fn, std::move(vm->error));
  uint16_t code = vm->profiler->Before(pc, fn, Profiler::Now());
  vm->profiler->Resume();
  [[clang::musttail]] return kHandlers[code](pc, r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_PROBE_H_
