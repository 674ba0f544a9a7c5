// Watchdog: a thread that raises a signal when a run takes too long, and wakes the run's thread at intervals, so that
// operations that poll the signal need not read a clock.
#ifndef RVM_VM_INTERPRETER_WATCHDOG_H_
#define RVM_VM_INTERPRETER_WATCHDOG_H_

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "vm/limits/stop_signal.h"

namespace rvm::vm {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  // `signal` outlives the watchdog.
  explicit Watchdog(StopSignal& signal) : signal_(signal) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Until Disarm is called, raises the signal at `deadline`, and wakes the run's thread every `interval`; max() turns
  // either off. False: no thread could be started.
  bool Arm(Clock::time_point deadline, Clock::duration interval);
  // From now on the signal is neither raised nor woken.
  void Disarm();

 private:
  static void* Main(void* self);
  void Loop();
  // When the thread must act next.
  Clock::time_point NextTime() const { return std::min(deadline_, next_wake_); }

  StopSignal& signal_;
  pthread_t thread_ = {};
  bool has_thread_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool is_armed_ = false;
  Clock::time_point deadline_;
  Clock::duration interval_;
  Clock::time_point next_wake_;
  Clock::time_point wakes_at_ = Clock::time_point::max();  // the thread looks by itself then
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_WATCHDOG_H_
