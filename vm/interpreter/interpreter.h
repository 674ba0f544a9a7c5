// Interpreter: runs functions of a linked program, one handler per opcode. execution.h has its state, dispatch.h says
// how handlers follow each other.
#ifndef RVM_VM_INTERPRETER_INTERPRETER_H_
#define RVM_VM_INTERPRETER_INTERPRETER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialization/executable.h"
#include "vm/interpreter/pending_calls.h"
#include "vm/interpreter/run_control.h"
#include "vm/link/link_info.h"
#include "vm/memory/heap.h"

namespace rvm::vm {

class DeviceTensors;
class Profiler;
struct Execution;

struct InterpreterLimits {
  int64_t memory_bytes;
  int64_t stack_bytes;
  int64_t fail_allocation;  // 0: none
  int threads;              // that run one kernel
  bool runs_native = true;  // machine code of functions, if the program has some, rather than their bytecode
  QueueShare share = {};
};

// Calls functions of the host.
class HostCalls {
 public:
  virtual ~HostCalls() = default;
  // Calls function number `number`, of type `type`, on arguments whose counts it takes over.
  virtual absl::StatusOr<Slot> Call(int64_t number, TypeId type, std::span<const Slot> args) = 0;
};

class Interpreter {
 public:
  // `executable` (verified) and `link` outlive the interpreter, and so does `profiler`, which may be null.
  Interpreter(const Executable& executable, const LinkInfo& link, const InterpreterLimits& limits,
              Profiler* profiler = nullptr);
  ~Interpreter();

  // REQUIRED before the first run; `calls` outlives the interpreter.
  void SetHostCalls(HostCalls* calls);
  // Runs `function` on arguments whose counts it takes over. An error has a backtrace, and leaves objects behind: the
  // caller resets.
  absl::StatusOr<Slot> Run(FunctionId function, std::span<const Slot> args);
  // The error with the entry as its backtrace: that of a result whose device failed.
  absl::Status InEntry(FunctionId entry, const absl::Status& error) const;
  // Frees everything on the heap.
  void Reset();
  // Frees caches and returns all memory to the system. REQUIRES: no run is under way.
  void Trim();
  // A run lasts from Begin to End. Begin fails if no thread can watch it. `fuel`, `time_limit_ms`: -1 for no limit.
  absl::Status Begin(int64_t fuel, double time_limit_ms, PollHook poll);
  void End();
  // Ends the run soon. Callable from any thread.
  void Cancel();
  // The error of a run that must stop; OK if it may go on.
  absl::Status Poll() const;

  // Gives a tensor its elements, if it has none on the host.
  absl::Status Fetch(Tensor* tensor);

  Heap& heap();
  // Null: the program uses no device.
  DeviceTensors* device();

 private:
  std::unique_ptr<Execution> execution_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_INTERPRETER_H_
