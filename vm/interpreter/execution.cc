#include "vm/interpreter/execution.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/interpreter/backtrace.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/operands.h"
#include "vm/interpreter/pending_calls.h"
#include "vm/interpreter/scalar_cast.h"
#include "vm/limits/limit.h"

namespace rvm::vm {
namespace {

uint32_t MaxFrameSlots(const LinkInfo& link) {
  uint32_t slots = 1 + kLinkSlots;
  for (const FunctionInfo& function : link.functions) slots = std::max(slots, function.frame_slots);
  return slots;
}

}  // namespace

absl::Status NoClauseFits() { return absl::InvalidArgumentError("no clause of this match fits the value"); }
absl::Status NestedTooDeeply(int64_t limit_bytes) {
  return LimitReached(Limit::kStack,
                      absl::StrCat("calls are nested too deeply: the stack limit is ", BytesText(limit_bytes)));
}
absl::Status WrongConstructor() {
  return absl::InvalidArgumentError("the value has another constructor than its fields are taken of");
}

Execution::Execution(const Executable& executable, const LinkInfo& link, const InterpreterLimits& limits,
                     Profiler* profiler)
    : caller(executable, link, heap, control, limits.threads, profiler, limits.memory_bytes, limits.share),
      executable(executable),
      heap(link.layouts, control.signal(), limits.memory_bytes, limits.fail_allocation),
      arena(heap),
      // A frame at the soft end, the frame it may call, and arguments being moved.
      stack(limits.stack_bytes, 4 * int64_t{MaxFrameSlots(link)}),
      scratch_offset(MaxFrameSlots(link)),
      functions(link.functions.data()),
      layouts(link.layouts.data()),
      root{kHaltCode, 1 + kLinkSlots, 1, 0},
      profiler(profiler) {
  heap.SetDeviceMemoryOwner(caller.device());
  if (limits.share.waiter != nullptr) control.SetHostStack(limits.share.waiter->HostStack());
  // Machine code of functions calls kernels at once.
  if (link.native != nullptr && !link.has_batches && limits.runs_native && profiler == nullptr && CanSwitchStacks()) {
    native = std::make_unique<NativeMachine>(*link.native, *this, limits.stack_bytes);
  }
  if (profiler != nullptr) profiler->WatchHeap(heap);
}

absl::StatusOr<Slot> Execution::Run(FunctionId function, std::span<const Slot> args) {
  caller.Begin(control.signal());
  error = absl::OkStatus();
  fuel = fuel_limit;
  budget_handed_out = 0;
  poll_distance.Begin();
  if (native != nullptr && native->CanEnter(function)) return native->Run(function, args);
  if (stack.begin() == nullptr && !stack.Grow()) {
    return absl::ResourceExhaustedError("no memory for the stack of calls");
  }
  stack_soft_end = stack.soft_end();
  // A frame of root's calls the entry.
  Slot* base = stack.begin() + kLinkSlots;
  Slot* r = base + root.frame_slots;
  r[-3] = AsSlot(kHaltCode);
  r[-2] = AsSlot(&root);
  r[-1] = 0;
  std::copy(args.begin(), args.end(), r);
  EnterEntry(r, this, functions + function.value);
  if (error.ok() && caller.has_pending() && !caller.RunPending()) {
    const uint16_t* noted = caller.error_place();
    error = WithNoted(noted, caller.TakeError(), "");
  }
  if (!error.ok()) return std::move(error);
  return result;
}

// The host's function runs on the stack of its own thread.
bool Execution::CallHost(const uint16_t* pc, Slot* r) {
  Operands<Opcode::kCallHost> in(pc);
  const Object* self = AsObject(r[in.Get<"self">()]);
  std::vector<Slot> args;
  for (uint32_t i = 0; i < in.Count<"args">(); ++i) args.push_back(r[in.Elements<"args">()[i]]);
  absl::StatusOr<Slot> value;
  control.OnHostStack([&] {
    value = host_calls->Call(static_cast<int64_t>(self->fields()[0]), executable.layouts[self->layout - 1].type, args);
  });
  if (!value.ok()) return Fail(value.status());
  r[in.Get<"dst">()] = *value;
  return true;
}

bool Execution::ShowResults(const Slot* r) {
  std::optional<Profiler::Ended> ended = profiler->EndedWithResults();
  if (!ended) return true;
  const FunctionDesc& function = executable.functions[ended->function];
  const Operand& results = (*ended->instruction)[0];
  for (uint32_t i = 0; i < results.count; ++i) {
    const TypeDesc& type = executable.types[function.registers[results.u16(i)].type.value];
    Slot slot = r[results.u16(i)];
    SeenResult seen = {.function = ended->function,
                       .pc = ended->pc,
                       .line = FindLine(function, ended->pc),
                       .kernel = ended->kernel,
                       .result = i};
    if (type.kind == TypeDescKind::kScalar) {
      seen.tensor = ScalarLiteral(type.dtype, slot);
    } else {
      if (!caller.FetchToHost(AsTensor(slot))) return Fail(caller.TakeError());
      seen.tensor = CopyElements(*AsTensor(slot));
    }
    absl::Status status;
    control.OnHostStack([&] { status = profiler->sink()->Take(std::move(seen)); });
    if (!status.ok()) return Fail(std::move(status));
  }
  return true;
}

int64_t Execution::PollOrStop(const uint16_t* pc, Slot* r, const FunctionInfo* fn, int64_t budget) {
  if (budget < 0) {
    if (absl::Status status = RefillBudget(budget); !status.ok()) {
      Stop(pc, r, fn, std::move(status));
      return 0;
    }
  } else {
    ++budget;  // the instruction pays when it runs again
  }
  while (r + fn->frame_slots > stack_soft_end) {
    ptrdiff_t offset = r - stack.begin();
    if (!stack.Grow()) {
      Stop(pc, r, fn, NestedTooDeeply(stack.limit_bytes()));
      return 0;
    }
    r = stack.begin() + offset;
    stack_soft_end = stack.soft_end();
  }
  frame_after_poll = r;
  if (profiler != nullptr) profiler->WillRetry();
  return budget;
}

absl::Status Execution::RefillBudget(int64_t& budget) {
  RVM_RETURN_IF_ERROR(control.Poll());
  if (fuel == 0) {
    return LimitReached(Limit::kFuel, absl::StrCat("out of fuel: more than ", fuel_limit, " calls and backward jumps"));
  }
  budget = poll_distance.Next(budget_handed_out);
  if (fuel > 0) {
    budget = std::min(budget, fuel);
    fuel -= budget;
  }
  budget_handed_out = budget;
  return absl::OkStatus();
}

absl::Status Execution::At(FunctionId function, uint32_t pc, const absl::Status& status,
                           const Backtrace& backtrace) const {
  const SourceLine* line = FindLine(executable.functions[function.value], pc);
  bool has_what = line != nullptr && line->pc == pc && !line->what.empty();
  return WithMessage(status, absl::StrCat(has_what ? line->what + ": " : "", status.message(), backtrace.ToString()));
}

// `status` of the call that was noted at such an instruction, with its place; `needed` is the backtrace of where its
// result was needed, or "".
absl::Status Execution::WithNoted(const uint16_t* noted, const absl::Status& status, const std::string& needed) const {
  for (uint32_t f = 0; f < executable.functions.size(); ++f) {
    const std::vector<uint16_t>& code = executable.functions[f].code;
    if (noted < code.data() || noted >= code.data() + code.size()) continue;
    auto pc = static_cast<uint32_t>(noted - code.data());
    Backtrace backtrace(executable);
    backtrace.Add(FunctionId(f), pc);
    absl::Status at = At(FunctionId(f), pc, status, backtrace);
    return WithMessage(at,
                       absl::StrCat(at.message(), needed.empty() ? "" : ", whose result was needed later:", needed));
  }
  return status;
}

// An error of a call that waits, which comes first in the program, comes before that of control.
void Execution::Stop(const uint16_t* pc, const Slot* r, const FunctionInfo* fn, absl::Status status) {
  bool was_interrupted = absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
  if (caller.has_pending() && !was_interrupted && !caller.RunPending()) return StopInCall(pc, r, fn);
  StopAt(nullptr, pc, r, fn, std::move(status));
}

void Execution::StopAt(const uint16_t* noted, const uint16_t* pc, const Slot* r, const FunctionInfo* fn,
                       absl::Status status) {
  if (fn == &root) {
    error = std::move(status);
    return;
  }
  auto function_of = [&](const FunctionInfo* info) { return FunctionId(static_cast<uint32_t>(info - functions)); };
  FunctionId innermost = function_of(fn);
  auto innermost_pc = static_cast<uint32_t>(pc - fn->code);
  Backtrace backtrace(executable);
  while (fn != &root) {
    FunctionId function = function_of(fn);
    auto at = static_cast<uint32_t>(pc - fn->code);
    bool is_entry = reinterpret_cast<const FunctionInfo*>(r[-2]) == &root;
    if (is_entry) backtrace.AddEntry(function, at);
    if (is_entry || !backtrace.Add(function, at)) break;
    // The address after the call; one unit before it is within the call.
    pc = reinterpret_cast<const uint16_t*>(r[-3]) - 1;
    fn = reinterpret_cast<const FunctionInfo*>(r[-2]);
    r -= fn->frame_slots;
  }
  error = noted == nullptr ? At(innermost, innermost_pc, status, backtrace)
                           : WithNoted(noted, status, backtrace.ToString());
}

void Execution::StopOutOfMemory(const uint16_t* pc, const Slot* r, const FunctionInfo* fn) {
  Stop(pc, r, fn, caller.OutOfMemory());
}

void Execution::StopInCall(const uint16_t* pc, const Slot* r, const FunctionInfo* fn) {
  const uint16_t* noted = caller.error_place();
  absl::Status status = caller.TakeError();
  return noted == nullptr ? Stop(pc, r, fn, std::move(status)) : StopAt(noted, pc, r, fn, std::move(status));
}

bool Execution::StopsInKernel(const uint16_t* pc, const Slot* r, const FunctionInfo* fn, const KernelInfo& kernel,
                              int32_t code) {
  absl::Status status = caller.KernelError(kernel, code);
  if (status.ok()) return false;
  Stop(pc, r, fn, std::move(status));
  return true;
}

}  // namespace rvm::vm
