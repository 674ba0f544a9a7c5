// StopSignal: that a run shall stop, and why. Raised by any thread; whatever may take long looks at it.
#ifndef RVM_VM_STOP_SIGNAL_H_
#define RVM_VM_STOP_SIGNAL_H_

#include <atomic>
#include <cstdint>

namespace rvm::vm {

class StopSignal {
 public:
  enum Reason : int32_t { kNone = 0, kCancelled = 1, kTimeIsUp = 2 };

  void Clear() { reason_.store(kNone, std::memory_order_relaxed); }
  void Raise(Reason reason) { reason_.store(reason, std::memory_order_relaxed); }
  Reason reason() const { return static_cast<Reason>(reason_.load(std::memory_order_relaxed)); }
  bool is_raised() const { return reason() != kNone; }

  // The same for kernels: not 0 when raised.
  const volatile int32_t* word() const {
    static_assert(sizeof(reason_) == sizeof(int32_t) && std::atomic<int32_t>::is_always_lock_free);
    return reinterpret_cast<const volatile int32_t*>(&reason_);
  }

 private:
  std::atomic<int32_t> reason_ = kNone;
};

// What takes many steps of some nanoseconds each looks at the signal once in so many: some tens of microseconds.
inline constexpr int64_t kStepsPerLook = 4096;

// Counts them.
class StopWatcher {
 public:
  explicit StopWatcher(const StopSignal& signal) : signal_(signal) {}

  // Called once per step: whether the work shall stop.
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

#endif  // RVM_VM_STOP_SIGNAL_H_
