// Watchdog: a thread that raises a flag when a run takes too long, so that nothing that is
// stopped by the flag has to read a clock.
#ifndef RVM_VM_INTERPRETER_WATCHDOG_H_
#define RVM_VM_INTERPRETER_WATCHDOG_H_

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace rvm::vm {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  // Writes `value` to `flag`, which outlives the watchdog.
  Watchdog(std::atomic<int32_t>& flag, int32_t value) : flag_(flag), value_(value) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // The flag is raised at `deadline` unless Disarm comes first. False: there is no thread to be had.
  bool Arm(Clock::time_point deadline);
  // The flag is not raised any more.
  void Disarm();

 private:
  static void* Main(void* self);
  void Loop();

  std::atomic<int32_t>& flag_;
  int32_t value_;
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
