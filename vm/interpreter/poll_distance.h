// PollDistance: how many calls and backward jumps a run makes until it polls again. A poll is cheap beside thousands of
// short ones, and too late after as many long ones: the distance follows from how long the last ones took.
#ifndef RVM_VM_INTERPRETER_POLL_DISTANCE_H_
#define RVM_VM_INTERPRETER_POLL_DISTANCE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace rvm::vm {

class PollDistance {
 public:
  static constexpr int64_t kFirst = 1024;
  static constexpr int64_t kMin = 64;
  static constexpr int64_t kMax = 8192;

  // Starts a run.
  void Begin() {
    distance_ = kFirst;
    last_ = Ticks();
  }
  // Returns the distance to the next poll. To be called at each one; `spent`: the calls and jumps since the last one.
  int64_t Next(int64_t spent) {
    uint64_t now = Ticks();
    if (spent > 0) distance_ = After(spent, now - last_);
    last_ = now;
    return distance_;
  }
  // Returns the distance after `spent` calls and jumps that took `ticks`. It grows by steps, since the next ones may be
  // longer.
  static int64_t After(int64_t spent, uint64_t ticks) {
    double aim = static_cast<double>(spent) * static_cast<double>(TicksPerPoll()) /
                 static_cast<double>(std::max<uint64_t>(ticks, 1));
    return std::clamp<int64_t>(static_cast<int64_t>(std::min(aim, 4.0 * static_cast<double>(spent))), kMin, kMax);
  }
  // Returns the time between two polls that the distance aims at: one to two tenths of a millisecond.
  static uint64_t TicksPerPoll() {
#if defined(__x86_64__)
    return 400'000;  // time stamp counters run at 2 to 4 GHz
#elif defined(__aarch64__)
    uint64_t frequency;
    asm("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency / 8192;
#else
    return 150'000;
#endif
  }

 private:
  // Reads a clock, in a few nanoseconds.
  static uint64_t Ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
#endif
  }

  int64_t distance_ = kFirst;
  uint64_t last_ = 0;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_POLL_DISTANCE_H_
