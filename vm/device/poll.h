// PollFor: waits for a driver that can only be asked.
#ifndef RVM_VM_DEVICE_POLL_H_
#define RVM_VM_DEVICE_POLL_H_

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/status/statusor.h"
#include "base/status_macros.h"

namespace rvm::device {

// Asks `is_done`, which gives absl::StatusOr<bool>, until it says so or `time` is over: without pauses for the time
// `busy`, then in pauses that add at most an eighth to the wait.
template <typename F>
absl::StatusOr<bool> PollFor(std::chrono::nanoseconds time, std::chrono::nanoseconds busy, F is_done) {
  auto began = std::chrono::steady_clock::now();
  for (;;) {
    RVM_ASSIGN_OR_RETURN(bool done, is_done());
    if (done) return true;
    std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - began;
    if (waited >= time) return false;
    if (waited < busy) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(waited / 8, time - waited));
    }
  }
}

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_POLL_H_
