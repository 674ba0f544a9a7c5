// Watchdog: a thread that raises a signal when a run takes too long, so that operations
// that poll the signal need not read a clock.
#ifndef RVM_VM_INTERPRETER_WATCHDOG_H_
#define RVM_VM_INTERPRETER_WATCHDOG_H_

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "vm/stop_signal.h"

namespace rvm::vm {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  // `signal` outlives the watchdog.
  explicit Watchdog(StopSignal& signal) : signal_(signal) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Raises the signal at `deadline` unless Disarm is called first. False: no thread could be started.
  bool Arm(Clock::time_point deadline);
  // From now on the signal is not raised.
  void Disarm();

 private:
  static void* Main(void* self);
  void Loop();

  StopSignal& signal_;
  pthread_t thread_ = {};
  bool has_thread_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool is_armed_ = false;
  Clock::time_point deadline_;
  Clock::time_point wakes_at_ = Clock::time_point::max();  // the thread looks by itself then
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_WATCHDOG_H_
