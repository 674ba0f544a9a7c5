// Poller: waits for a driver that can only be asked.
#ifndef RVM_VM_DEVICE_POLL_H_
#define RVM_VM_DEVICE_POLL_H_

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"

namespace rvm::device {

// Waits by asking `is_done`: without pauses for the time `busy`, then in pauses of an eighth of the wait, at most 1 ms.
class Poller {
 public:
  explicit Poller(std::chrono::nanoseconds busy) : busy_(busy) {}

  // Calls `is_done`, which gives absl::StatusOr<bool>, until it returns true or an error, or `time` is over. Calls that
  // end with false and the next one are parts of one wait.
  template <typename F>
  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds time, F is_done) {
    using std::chrono::nanoseconds;
    auto called = Clock::now();
    if (!began_.has_value()) began_ = called;
    for (;;) {
      absl::StatusOr<bool> done = is_done();
      if (!done.ok() || *done) {
        began_.reset();
        return done;
      }
      auto now = Clock::now();
      if (now - called >= time) return false;
      nanoseconds waited = now - *began_;
      if (waited < busy_) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::min<nanoseconds>({waited / 8, kMaxPause, time - (now - called)}));
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kMaxPause{1};

  std::chrono::nanoseconds busy_;
  std::optional<Clock::time_point> began_;  // of the wait that is not over
};

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_POLL_H_
