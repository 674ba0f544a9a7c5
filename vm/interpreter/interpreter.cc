// Interpreter, and the handlers of all instructions: this is the only file that compiles them.
#include "vm/interpreter/interpreter.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/interpreter/backtrace.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/exec_cell.h"
#include "vm/interpreter/exec_control.h"
#include "vm/interpreter/exec_kernel.h"
#include "vm/interpreter/exec_probe.h"
#include "vm/interpreter/exec_scalar.h"
#include "vm/interpreter/exec_tensor.h"
#include "vm/interpreter/execution.h"
#include "vm/limits/limit.h"

namespace rvm::vm {
namespace {

constexpr std::array<Handler, 256> MakeHandlers() {
  std::array<Handler, 256> handlers = {};
  handlers[kHaltCode[0]] = ExecHalt;
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) handlers[code] = Exec##Name;
#include "serialization/isa/isa.def"
  handlers[kProbeCode] = ExecProbe;
  return handlers;
}

}  // namespace

constinit const std::array<Handler, 256> kHandlers = MakeHandlers();

void EnterEntry(Slot* r, Execution* vm, const FunctionInfo* entry) { Enter(entry->code, r, vm, 0, entry); }

Interpreter::Interpreter(const Executable& executable, const LinkInfo& link, const InterpreterLimits& limits,
                         Profiler* profiler)
    : execution_(std::make_unique<Execution>(
          executable, profiler == nullptr ? link : profiler->Attach(executable, link, KernelCaller::ProbeKernel),
          limits, profiler)) {}
Interpreter::~Interpreter() = default;

void Interpreter::SetHostCalls(HostCalls* calls) { execution_->host_calls = calls; }

absl::StatusOr<Slot> Interpreter::Run(FunctionId function, std::span<const Slot> args) {
  return execution_->Run(function, args);
}

absl::Status Interpreter::InEntry(FunctionId entry, const absl::Status& error) const {
  Backtrace backtrace(execution_->executable);
  backtrace.AddEntry(entry, 0);
  return WithMessage(error, absl::StrCat(error.message(), backtrace.ToString()));
}

void Interpreter::Reset() {
  execution_->heap.Reset();
  execution_->arena.Forget();
  execution_->caller.Reset();
}

void Interpreter::Trim() {
  Reset();
  execution_->caller.Trim();
  execution_->stack.Release();
  if (execution_->native != nullptr) execution_->native->Trim();
}

absl::Status Interpreter::Begin(int64_t fuel, double time_limit_ms, PollHook poll) {
  execution_->fuel_limit = fuel;
  RVM_RETURN_IF_ERROR(execution_->control.Begin(time_limit_ms, poll));
  if (execution_->caller.was_cancelled()) execution_->control.Cancel();
  return absl::OkStatus();
}
void Interpreter::End() { execution_->control.End(); }
void Interpreter::Cancel() { execution_->control.Cancel(); }
absl::Status Interpreter::Poll() const { return execution_->control.Poll(); }
absl::Status Interpreter::Fetch(Tensor* tensor) {
  return execution_->caller.FetchToHost(tensor) ? absl::OkStatus() : execution_->caller.TakeError();
}
Heap& Interpreter::heap() { return execution_->heap; }
DeviceTensors* Interpreter::device() { return execution_->caller.device(); }

}  // namespace rvm::vm
