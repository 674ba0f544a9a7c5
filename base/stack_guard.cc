#include "base/stack_guard.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#include "base/check.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define RVM_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define RVM_TSAN 1
#endif
#endif

namespace rvm {
namespace {

constexpr size_t kSegmentBytes = size_t{4} << 20;
constexpr size_t kReserveBytes = size_t{128} << 10;
constexpr size_t kGuardBytes = size_t{64} << 10;  // the largest page of any CPU here (AArch64)

// Lowest address of the stack this thread runs on now; 0 until it is first asked for.
thread_local uintptr_t stack_low = 0;

uintptr_t LowOfThread() {
  pthread_attr_t attributes;
  void* address = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  pthread_attr_getstack(&attributes, &address, &size);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<uintptr_t>(address);
}

struct Segment {
  void (*body)(void*);
  void* argument;
  ucontext_t inside;
  ucontext_t outside;
  const void* outside_stack = nullptr;  // for AddressSanitizer
  size_t outside_bytes = 0;
  void* outside_fiber = nullptr;  // for ThreadSanitizer
};

// makecontext passes ints: the pointer travels in two halves.
void Trampoline(unsigned high, unsigned low) {
  auto* segment = reinterpret_cast<Segment*>((uintptr_t{high} << 32) | low);
#ifdef RVM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &segment->outside_stack, &segment->outside_bytes);
#endif
  segment->body(segment->argument);
#ifdef RVM_ASAN
  __sanitizer_start_switch_fiber(nullptr, segment->outside_stack, segment->outside_bytes);
#endif
#ifdef RVM_TSAN
  __tsan_switch_to_fiber(segment->outside_fiber, 0);
#endif
  setcontext(&segment->outside);
}

}  // namespace

bool StackHasRoom() {
  if (stack_low == 0) [[unlikely]]
    stack_low = LowOfThread();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - stack_low > kReserveBytes;
}

void RunOnNewSegment(void (*body)(void*), void* argument) {
  void* memory =
      mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RVM_CHECK(memory != MAP_FAILED, "out of memory for a stack segment");
  mprotect(memory, kGuardBytes, PROT_NONE);
  Segment segment{body, argument, {}, {}};
  getcontext(&segment.inside);
  segment.inside.uc_stack.ss_sp = static_cast<char*>(memory) + kGuardBytes;
  segment.inside.uc_stack.ss_size = kSegmentBytes - kGuardBytes;
  segment.inside.uc_link = nullptr;
  uintptr_t address = reinterpret_cast<uintptr_t>(&segment);
  makecontext(&segment.inside, reinterpret_cast<void (*)()>(Trampoline), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
  uintptr_t saved_low = stack_low;
  stack_low = reinterpret_cast<uintptr_t>(segment.inside.uc_stack.ss_sp);
#ifdef RVM_ASAN
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, segment.inside.uc_stack.ss_sp, segment.inside.uc_stack.ss_size);
#endif
#ifdef RVM_TSAN
  segment.outside_fiber = __tsan_get_current_fiber();
  void* fiber = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(fiber, 0);
#endif
  swapcontext(&segment.outside, &segment.inside);
#ifdef RVM_TSAN
  __tsan_destroy_fiber(fiber);
#endif
#ifdef RVM_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  stack_low = saved_low;
  munmap(memory, kSegmentBytes);
}

}  // namespace rvm
