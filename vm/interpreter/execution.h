// Execution: the state of a machine's run, as the handlers of instructions see it (dispatch.h). Interpreter owns one
// and is its face to the rest of the VM.
//
// Frames. A function's registers are a window of the register stack; its link lies below them:
//
//   r[-3]  the caller's next instruction   r[-1]  the caller's register for the result, or the address of those for
//                                                 its fields, in the caller's code
//   r[-2]  the caller's FunctionInfo       r[0..] registers, arena window, next link
//
// The window of a callee begins right after its caller's frame (frame_slots).
#ifndef RVM_VM_INTERPRETER_EXECUTION_H_
#define RVM_VM_INTERPRETER_EXECUTION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialization/executable.h"
#include "vm/interpreter/backtrace.h"
#include "vm/interpreter/interpreter.h"
#include "vm/interpreter/kernel_caller.h"
#include "vm/interpreter/native_machine.h"
#include "vm/interpreter/poll_distance.h"
#include "vm/interpreter/register_stack.h"
#include "vm/interpreter/run_control.h"
#include "vm/link/link_info.h"
#include "vm/memory/arena.h"
#include "vm/memory/heap.h"
#include "vm/profiler/profiler.h"

namespace rvm::vm {

// Errors of programs.
absl::Status NoClauseFits();
absl::Status WrongConstructor();
absl::Status NestedTooDeeply(int64_t limit_bytes);

struct Execution {
  // `link`: with a profiler, what it attached to.
  Execution(const Executable& executable, const LinkInfo& link, const InterpreterLimits& limits, Profiler* profiler);

  // Runs `function` on arguments whose counts it takes over.
  absl::StatusOr<Slot> Run(FunctionId function, std::span<const Slot> args);

  // Polls, and makes room on the stack. The new budget of calls and backward jumps, and the frame in
  // frame_after_poll; 0: stopped.
  int64_t PollOrStop(const uint16_t* pc, Slot* r, const FunctionInfo* fn, int64_t budget);
  absl::Status RefillBudget(int64_t& budget);
  // `status` with what the instruction that raised it compares, and the calls that led there.
  absl::Status At(FunctionId function, uint32_t pc, const absl::Status& status, const Backtrace& backtrace) const;
  absl::Status WithNoted(const uint16_t* noted, const absl::Status& status, const std::string& needed) const;
  // Ends the run with an error at the instruction `pc` of the frame `r`.
  void Stop(const uint16_t* pc, const Slot* r, const FunctionInfo* fn, absl::Status status);
  // Likewise; the error is that of a call that was noted at `noted`, if that is not null.
  void StopAt(const uint16_t* noted, const uint16_t* pc, const Slot* r, const FunctionInfo* fn, absl::Status status);
  void StopOutOfMemory(const uint16_t* pc, const Slot* r, const FunctionInfo* fn);
  // Ends the run after a kernel call that failed.
  void StopInCall(const uint16_t* pc, const Slot* r, const FunctionInfo* fn);
  // Ends the run if it must stop after a kernel that gave `code`, and returns whether it did.
  bool StopsInKernel(const uint16_t* pc, const Slot* r, const FunctionInfo* fn, const KernelInfo& kernel, int32_t code);

  // False: the run must end with `error`.
  bool CallHost(const uint16_t* pc, Slot* r);
  // Gives the profiler's sink the results of the instruction before, in the frame `r`. REQUIRES: there is a sink.
  bool ShowResults(const Slot* r);
  bool MakeView(const uint16_t* pc, Slot* r);
  bool CheckShape(const Tensor& tensor, TypeId type);
  bool CheckDims(int64_t a, int64_t b, DimRelation relation);
  bool Fail(absl::Status status) {
    error = std::move(status);
    return false;
  }

  KernelCaller caller;  // first: at the execution's own address, so that handlers need no other for it
  const Executable& executable;
  RunControl control;
  Heap heap;
  Arena arena;
  RegisterStack stack;
  Slot* stack_soft_end = nullptr;
  Slot* frame_after_poll = nullptr;
  uint32_t scratch_offset;  // from a frame to headroom that no frame uses
  const FunctionInfo* functions;
  const HeapLayout* layouts;
  Slot window_to_leave = 0;  // of a tail call that is being made
  Slot result = 0;
  const FunctionInfo root;  // the caller of the entry: its code halts
  int64_t fuel_limit = -1;  // of the run
  int64_t fuel = -1;        // not yet handed out as budget
  int64_t budget_handed_out = 0;
  PollDistance poll_distance;
  absl::Status error;
  HostCalls* host_calls = nullptr;
  Profiler* profiler;                     // null: none, and then no instruction has the probe's code
  std::unique_ptr<NativeMachine> native;  // null: functions run as bytecode
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXECUTION_H_
