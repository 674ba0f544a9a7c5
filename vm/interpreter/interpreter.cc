#include "vm/interpreter/interpreter.h"

#include <algorithm>

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
#include "vm/limit.h"

namespace rvm::vm {
namespace {

// No opcode has the code 0.
constexpr uint16_t kHaltCode[] = {0};
// Calls and backward jumps between two looks at the cancel flag: some tens of microseconds.
constexpr int64_t kBudget = 16384;

constexpr std::array<Handler, 256> MakeHandlers() {
  std::array<Handler, 256> handlers = {};
  handlers[kHaltCode[0]] = ExecHalt;
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) handlers[code] = Exec##Name;
#include "serialization/isa/isa.def"
  handlers[kProbeCode] = ExecProbe;
  return handlers;
}

uint32_t MaxFrameSlots(const LinkInfo& link) {
  uint32_t slots = 1 + kLinkSlots;
  for (const FunctionInfo& function : link.functions) slots = std::max(slots, function.frame_slots);
  return slots;
}

void RunInPool(RvmKernelContext* context, int64_t count, int64_t grain, ThreadPool::Body body, void* closure) {
  static_cast<Interpreter*>(context->runtime)->pool_->For(count, grain, body, closure);
}

// A limit that is longer than clocks count ends with them.
Watchdog::Clock::duration TimeLimit(double ms) {
  constexpr double kLongestMs = 1e12;  // some thirty years
  return std::chrono::duration_cast<Watchdog::Clock::duration>(
      std::chrono::duration<double, std::milli>(std::min(ms, kLongestMs)));
}

size_t HeaderSlots(const Literal& literal) { return sizeof(Tensor) / sizeof(Slot) + literal.shape().size(); }

}  // namespace

constinit const std::array<Handler, 256> kHandlers = MakeHandlers();

Interpreter::Interpreter(const Executable& executable, const LinkInfo& link, const InterpreterLimits& limits,
                         Profiler* profiler)
    : executable_(executable),
      link_(profiler == nullptr ? link : profiler->Attach(executable, link, ProbeKernel)),
      heap_(link.layouts, stop_, limits.memory_bytes, limits.fail_allocation),
      arena_(heap_),
      // A frame at the soft end, the frame it may call, and arguments on their way.
      stack_(limits.stack_bytes, 4 * int64_t{MaxFrameSlots(link)}),
      scratch_offset_(MaxFrameSlots(link)),
      functions_(link_.functions.data()),
      layouts_(link.layouts.data()),
      kernels_(link_.kernels.data()),
      root_{kHaltCode, 1 + kLinkSlots, 1, 0},
      fuel_limit_(limits.fuel),
      time_limit_ms_(limits.time_ms),
      profiler_(profiler) {
  if (profiler_ != nullptr) profiler_->WatchHeap(heap_);
  buffers_.resize(link.max_kernel_tensors + 1);
  scalars_.resize(link.max_kernel_tensors + 1);
  moved_.resize(link.max_kernel_tensors + 1);
  symbols_.resize(link.max_symbols);
  symbols_.insert(symbols_.end(), link.shape_constants.begin(), link.shape_constants.end());
  symbols_.push_back(0);
  if (limits.threads > 1) {
    pool_ = std::make_unique<ThreadPool>(limits.threads);
    context_.parallel_for = RunInPool;
  }
  context_.cancel = stop_.word();
  context_.runtime = this;

  size_t slots = 0;
  for (const Literal& literal : executable.constants) slots += HeaderSlots(literal);
  constant_headers_ = std::make_unique<Slot[]>(slots + 1);
  Slot* place = constant_headers_.get();
  for (const Literal& literal : executable.constants) {
    auto* tensor = reinterpret_cast<Tensor*>(place);
    tensor->object = {kImmortal, 0, kTensorLayout};
    tensor->dtype = literal.dtype();
    tensor->rank = static_cast<uint16_t>(literal.rank());
    tensor->storage = TensorStorage::kBorrowed;
    tensor->inline_dims = true;
    tensor->data = const_cast<std::byte*>(literal.data());  // never an output
    tensor->owner = nullptr;
    tensor->dims = tensor->dims_after_header();
    std::copy(literal.shape().begin(), literal.shape().end(), tensor->dims_after_header());
    constants_.push_back(tensor);
    place += HeaderSlots(literal);
  }
}

absl::Status Interpreter::Begin() {
  stop_.Clear();
  if (time_limit_ms_ >= 0 && !watchdog_.Arm(Watchdog::Clock::now() + TimeLimit(time_limit_ms_))) {
    return absl::ResourceExhaustedError("no thread to watch the time limit");
  }
  return absl::OkStatus();
}

void Interpreter::End() {
  if (time_limit_ms_ >= 0) watchdog_.Disarm();
}

absl::StatusOr<Slot> Interpreter::Run(FunctionId function, std::span<const Slot> args) {
  error_ = absl::OkStatus();
  fuel_ = fuel_limit_;
  if (stack_.begin() == nullptr && !stack_.Grow()) {
    return absl::ResourceExhaustedError("no memory for the stack of calls");
  }
  stack_soft_end_ = stack_.soft_end();
  // A frame of root_'s calls the entry.
  Slot* base = stack_.begin() + kLinkSlots;
  Slot* r = base + root_.frame_slots;
  const FunctionInfo* entry = functions_ + function.value;
  r[-3] = AsSlot(kHaltCode);
  r[-2] = AsSlot(&root_);
  r[-1] = 0;
  std::copy(args.begin(), args.end(), r);
  Enter(entry->code, r, this, 0, entry);
  if (!error_.ok()) return std::move(error_);
  return result_;
}

int64_t Interpreter::PollOrStop(const uint16_t* pc, Slot* r, const FunctionInfo* fn, int64_t budget) {
  if (budget < 0) {
    if (absl::Status status = RefillBudget(budget); !status.ok()) {
      Stop(pc, r, fn, std::move(status));
      return 0;
    }
  } else {
    ++budget;  // the instruction pays when it runs again
  }
  while (r + fn->frame_slots > stack_soft_end_) {
    ptrdiff_t offset = r - stack_.begin();
    if (!stack_.Grow()) {
      Stop(pc, r, fn,
           LimitReached(Limit::kStack, absl::StrCat("calls are nested too deeply: the stack limit is ",
                                                    BytesText(stack_.limit_bytes()))));
      return 0;
    }
    r = stack_.begin() + offset;
    stack_soft_end_ = stack_.soft_end();
  }
  frame_after_poll_ = r;
  if (profiler_ != nullptr) profiler_->WillRetry();
  return budget;
}

absl::Status Interpreter::RefillBudget(int64_t& budget) {
  RVM_RETURN_IF_ERROR(Poll());
  if (fuel_ == 0) {
    return LimitReached(Limit::kFuel,
                        absl::StrCat("out of fuel: more than ", fuel_limit_, " calls and backward jumps"));
  }
  budget = fuel_ < 0 ? kBudget : std::min(fuel_, kBudget);
  if (fuel_ > 0) fuel_ -= budget;
  return absl::OkStatus();
}

void Interpreter::Stop(const uint16_t* pc, const Slot* r, const FunctionInfo* fn, absl::Status error) {
  Backtrace backtrace(executable_);
  std::string what;
  if (fn != &root_) {
    auto at = static_cast<uint32_t>(pc - fn->code);
    const SourceLine* line = FindLine(executable_.functions[static_cast<size_t>(fn - functions_)], at);
    if (line != nullptr && line->pc == at && !line->what.empty()) what = line->what + ": ";
  }
  while (fn != &root_) {
    FunctionId function(static_cast<uint32_t>(fn - functions_));
    auto at = static_cast<uint32_t>(pc - fn->code);
    bool is_entry = reinterpret_cast<const FunctionInfo*>(r[-2]) == &root_;
    if (is_entry) backtrace.AddEntry(function, at);
    if (is_entry || !backtrace.Add(function, at)) break;
    // The address after the call; one unit before it is within the call.
    pc = reinterpret_cast<const uint16_t*>(r[-3]) - 1;
    fn = reinterpret_cast<const FunctionInfo*>(r[-2]);
    r -= fn->frame_slots;
  }
  error_ = WithMessage(error, absl::StrCat(what, error.message(), backtrace.ToString()));
}

void Interpreter::StopOutOfMemory(const uint16_t* pc, const Slot* r, const FunctionInfo* fn) {
  Stop(pc, r, fn, OutOfMemory());
}

absl::Status Interpreter::OutOfMemory() const {
  RVM_RETURN_IF_ERROR(Poll());
  return heap_.OutOfMemory();
}

absl::Status Interpreter::Poll() const {
  switch (stop_.reason()) {
    case StopSignal::kNone: return absl::OkStatus();
    case StopSignal::kCancelled: return absl::CancelledError("cancelled");
    case StopSignal::kTimeIsUp:
      return LimitReached(Limit::kTime, absl::StrCat("the time limit of ", time_limit_ms_, " ms is over"));
  }
}

void Interpreter::Reset() {
  heap_.Reset();
  arena_.Forget();
  workspace_ = nullptr;
  workspace_bytes_ = 0;
  context_.workspace = nullptr;
}

void Interpreter::Trim() {
  Reset();
  stack_.Release();
}

}  // namespace rvm::vm
