#include "vm/interpreter/watchdog.h"

namespace rvm::vm {

Watchdog::~Watchdog() {
  if (!has_thread_) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  pthread_join(thread_, nullptr);
}

bool Watchdog::Arm(Clock::time_point deadline, Clock::duration interval) {
  bool must_wake;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    deadline_ = deadline;
    interval_ = interval;
    next_wake_ = interval == Clock::duration::max() ? Clock::time_point::max() : Clock::now() + interval;
    is_armed_ = true;
    // Runs that follow each other find the thread asleep until a time that an earlier one set.
    must_wake = NextTime() < wakes_at_;
  }
  if (!has_thread_) {
    has_thread_ = pthread_create(&thread_, nullptr, Main, this) == 0;
  } else if (must_wake) {
    changed_.notify_one();
  }
  return has_thread_;
}

void Watchdog::Disarm() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_armed_ = false;
}

void* Watchdog::Main(void* self) {
  static_cast<Watchdog*>(self)->Loop();
  return nullptr;
}

void Watchdog::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (!is_armed_) {
      wakes_at_ = Clock::time_point::max();
      changed_.wait(lock);
      continue;
    }
    Clock::time_point now = Clock::now();
    if (now >= deadline_) {
      signal_.Raise(StopSignal::kTimeIsUp);
      is_armed_ = false;
    } else if (now >= next_wake_) {
      signal_.Wake();
      next_wake_ = now + interval_;
    } else {
      wakes_at_ = NextTime();
      changed_.wait_until(lock, wakes_at_);
    }
  }
}

}  // namespace rvm::vm
