// RunControl: ends a run that was cancelled, or whose time is up.
#ifndef RVM_VM_INTERPRETER_RUN_CONTROL_H_
#define RVM_VM_INTERPRETER_RUN_CONTROL_H_

#include <algorithm>
#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vm/interpreter/watchdog.h"
#include "vm/limit.h"
#include "vm/stop_signal.h"

namespace rvm::vm {

class RunControl {
 public:
  // `time_limit_ms`: of a run; -1: no limit.
  explicit RunControl(double time_limit_ms) : time_limit_ms_(time_limit_ms) {}

  // The time of a run counts from Begin to End. Begin fails if no thread can watch it.
  absl::Status Begin() {
    signal_.Clear();
    if (time_limit_ms_ < 0 || watchdog_.Arm(Watchdog::Clock::now() + TimeLimit())) return absl::OkStatus();
    return absl::ResourceExhaustedError("no thread to watch the time limit");
  }
  void End() {
    if (time_limit_ms_ >= 0) watchdog_.Disarm();
  }
  // Callable from any thread.
  void Cancel() { signal_.Raise(StopSignal::kCancelled); }

  const StopSignal& signal() const { return signal_; }
  // The error of a run that must stop; OK if it may go on.
  absl::Status Poll() const {
    switch (signal_.reason()) {
      case StopSignal::kNone: break;
      case StopSignal::kCancelled: return absl::CancelledError("cancelled");
      case StopSignal::kTimeIsUp:
        return LimitReached(Limit::kTime, absl::StrCat("the time limit of ", time_limit_ms_, " ms is over"));
    }
    return absl::OkStatus();
  }

 private:
  // Limits beyond what a clock can count are cut off.
  Watchdog::Clock::duration TimeLimit() const {
    constexpr double kLongestMs = 1e12;  // some thirty years
    return std::chrono::duration_cast<Watchdog::Clock::duration>(
        std::chrono::duration<double, std::milli>(std::min(time_limit_ms_, kLongestMs)));
  }

  StopSignal signal_;
  double time_limit_ms_;
  Watchdog watchdog_{signal_};
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_RUN_CONTROL_H_
