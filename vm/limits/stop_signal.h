// StopSignal: whether a run must stop, and why. Any thread may raise it; long operations poll it. It also asks the
// run's own thread to look after its owner (RunControl::Poll), which does not stop kernels.
#ifndef RVM_VM_LIMITS_STOP_SIGNAL_H_
#define RVM_VM_LIMITS_STOP_SIGNAL_H_

#include <atomic>
#include <cstdint>

namespace rvm::vm {

class StopSignal {
 public:
  enum Reason : int32_t { kNone = 0, kCancelled = 1, kTimeIsUp = 2 };

  void Clear() {
    reason_.store(kNone, std::memory_order_relaxed);
    attention_.store(0, std::memory_order_relaxed);
  }
  void Raise(Reason reason) {
    reason_.store(reason, std::memory_order_relaxed);
    attention_.store(1, std::memory_order_release);
  }
  // Asks the run's thread to call RunControl::Poll between two instructions.
  void Wake() { attention_.store(1, std::memory_order_relaxed); }
  // Nonzero after Wake, and when raised.
  int32_t attention() const { return attention_.load(std::memory_order_relaxed); }
  // Its word, for machine code.
  const volatile int32_t* attention_word() const { return reinterpret_cast<const volatile int32_t*>(&attention_); }
  // Returns true once after Wake. Leaves a raised signal as it is.
  bool TakeWake() {
    if (attention_.exchange(0, std::memory_order_acquire) == 0) return false;
    if (!is_raised()) return true;
    attention_.store(1, std::memory_order_relaxed);
    return false;
  }
  Reason reason() const { return static_cast<Reason>(reason_.load(std::memory_order_relaxed)); }
  bool is_raised() const { return reason() != kNone; }

  // The signal as kernels see it: nonzero when raised.
  const volatile int32_t* word() const {
    static_assert(sizeof(reason_) == sizeof(int32_t) && std::atomic<int32_t>::is_always_lock_free);
    return reinterpret_cast<const volatile int32_t*>(&reason_);
  }

 private:
  std::atomic<int32_t> reason_ = kNone;
  std::atomic<int32_t> attention_ = 0;
};

// Operations of many short steps poll the signal once per so many steps: every few tens of microseconds.
inline constexpr int64_t kStepsPerLook = 4096;

// Counts the steps.
class StopWatcher {
 public:
  explicit StopWatcher(const StopSignal& signal) : signal_(signal) {}

  // To be called once per step: whether the operation must stop.
  bool MustStop() {
    if (--steps_ > 0) [[likely]]
      return false;
    steps_ = kStepsPerLook;
    return signal_.is_raised();
  }

 private:
  const StopSignal& signal_;
  int64_t steps_ = kStepsPerLook;
};

}  // namespace rvm::vm

#endif  // RVM_VM_LIMITS_STOP_SIGNAL_H_
