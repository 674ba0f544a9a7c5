// Dispatch between instruction handlers.
//
// A handler is a function; it ends by tail-calling the handler of the next
// instruction. The parameters are the machine's hot state and stay in host
// registers throughout; rare cases are separate functions, so that common handlers
// have neither prologue nor spills. Handlers rely on what the verifier proves
// (serialization/verifier.h), and do not check it again.
#ifndef RVM_VM_INTERPRETER_DISPATCH_H_
#define RVM_VM_INTERPRETER_DISPATCH_H_

#include <array>
#include <cstdint>

#include "vm/interpreter/execution.h"
#include "vm/interpreter/operands.h"

namespace rvm::vm {

// pc: the instruction. r: the frame's registers. budget: calls and backward jumps until the next poll.
// preserve_none: a handler has no caller whose registers it must save, and the functions that it calls save those that
// hold the state.
using Handler = void (*[[clang::preserve_none]])(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                 const FunctionInfo* fn);

extern const std::array<Handler, 256> kHandlers;

// The code of the frame below the entry's; no opcode has the code 0.
inline constexpr uint16_t kHaltCode[] = {0};
// Runs instructions, from the first of `entry` in the frame `r`, until one halts or stops.
void EnterEntry(Slot* r, Execution* vm, const FunctionInfo* entry);

[[gnu::always_inline, clang::preserve_none]] inline void Next(const uint16_t* pc, Slot* r, Execution* vm,
                                                              int64_t budget, const FunctionInfo* fn) {
  [[clang::musttail]] return kHandlers[*pc](pc, r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_DISPATCH_H_
