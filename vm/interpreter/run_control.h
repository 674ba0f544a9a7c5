// RunControl: ends a run that was cancelled, or whose time is up, or that its owner no longer wants.
#ifndef RVM_VM_INTERPRETER_RUN_CONTROL_H_
#define RVM_VM_INTERPRETER_RUN_CONTROL_H_

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vm/interpreter/native_stack.h"
#include "vm/interpreter/watchdog.h"
#include "vm/limits/limit.h"
#include "vm/limits/stop_signal.h"

namespace rvm::vm {

// A function that a run calls on its own thread; not 0 ends the run.
struct PollHook {
  int (*function)(void* context) = nullptr;  // null: none
  void* context = nullptr;
};

class RunControl {
 public:
  // The time of a run counts from Begin to End. Begin fails if no thread can watch it. `time_limit_ms`: -1 for none.
  absl::Status Begin(double time_limit_ms, PollHook poll) {
    signal_.Clear();
    time_limit_ms_ = time_limit_ms;
    poll_ = poll;
    if (!IsWatched()) return absl::OkStatus();
    auto deadline = Watchdog::Clock::time_point::max();
    if (time_limit_ms >= 0) deadline = Watchdog::Clock::now() + TimeLimit();
    if (watchdog_.Arm(deadline, poll.function == nullptr ? Watchdog::Clock::duration::max() : kPollInterval)) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError("no thread to watch the time limit");
  }
  void End() {
    if (IsWatched()) watchdog_.Disarm();
  }
  // Callable from any thread.
  void Cancel() { signal_.Raise(StopSignal::kCancelled); }

  const StopSignal& signal() const { return signal_; }
  // While a run is on a stack of its own: where the pointer to its caller's stack is, on which hooks and functions of
  // the host run. Null: the run is on that stack. Returns the one that was set before.
  void* const* SetHostStack(void* const* stack) { return std::exchange(host_stack_, stack); }

  // Calls `function` on the stack of the run's caller.
  template <typename F>
  void OnHostStack(F&& function) const {
    if (host_stack_ == nullptr) return function();
    void* left = nullptr;
    CallOnStack(
        *host_stack_, [](void* argument) { (*static_cast<std::remove_reference_t<F>*>(argument))(); }, &function,
        &left);
  }

  // The error of a run that must stop; OK if it may go on. To be called by the run's thread.
  absl::Status Poll() const {
    if (signal_.TakeWake() && poll_.function != nullptr && CallHook() != 0) signal_.Raise(StopSignal::kCancelled);
    switch (signal_.reason()) {
      case StopSignal::kNone: break;
      case StopSignal::kCancelled: return absl::CancelledError("cancelled");
      case StopSignal::kTimeIsUp:
        return LimitReached(Limit::kTime, absl::StrCat("the time limit of ", time_limit_ms_, " ms is over"));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr std::chrono::milliseconds kPollInterval{50};

  int CallHook() const {
    int result = 0;
    OnHostStack([&] { result = poll_.function(poll_.context); });
    return result;
  }

  bool IsWatched() const { return time_limit_ms_ >= 0 || poll_.function != nullptr; }
  // Limits beyond what a clock can count are cut off.
  Watchdog::Clock::duration TimeLimit() const {
    constexpr double kLongestMs = 1e12;  // some thirty years
    return std::chrono::duration_cast<Watchdog::Clock::duration>(
        std::chrono::duration<double, std::milli>(std::min(time_limit_ms_, kLongestMs)));
  }

  mutable StopSignal signal_;  // Poll takes wakes
  double time_limit_ms_ = -1;
  PollHook poll_;
  void* const* host_stack_ = nullptr;
  Watchdog watchdog_{signal_};
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_RUN_CONTROL_H_
