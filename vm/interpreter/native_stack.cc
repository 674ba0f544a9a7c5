#include "vm/interpreter/native_stack.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/huge_pages.h"

// The registers that a callee must preserve are pushed onto the stack that is left, whose pointer is then stored.
// They are at the same places when it is entered again.
#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .type rvm_call_on_stack, @function
rvm_call_on_stack:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  movq %rsp, (%rcx)
  movq %rsp, %rbx
  movq %rdi, %rsp
  movq %rdx, %rdi
  callq *%rsi
  movq %rbx, %rsp
.Lrvm_return_to_caller:
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  .cfi_def_cfa %rsp, 8
  retq
  .cfi_endproc
  .size rvm_call_on_stack, . - rvm_call_on_stack

  .p2align 4
  .type rvm_leave_stack, @function
rvm_leave_stack:
  movq %rdi, %rsp
  jmp .Lrvm_return_to_caller
  .size rvm_leave_stack, . - rvm_leave_stack

  .p2align 4
  .type rvm_switch_stacks, @function
rvm_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  jmp .Lrvm_return_to_caller
  .size rvm_switch_stacks, . - rvm_switch_stacks
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .p2align 4
  .type rvm_call_on_stack, @function
rvm_call_on_stack:
  .cfi_startproc
  stp x29, x30, [sp, #-160]!
  .cfi_def_cfa_offset 160
  .cfi_offset x29, -160
  .cfi_offset x30, -152
  mov x29, sp
  .cfi_def_cfa_register x29
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x19, sp
  str x19, [x3]
  mov sp, x0
  mov x0, x2
  blr x1
  mov sp, x19
.Lrvm_return_to_caller:
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  .cfi_def_cfa sp, 0
  ret
  .cfi_endproc
  .size rvm_call_on_stack, . - rvm_call_on_stack

  .p2align 4
  .type rvm_leave_stack, @function
rvm_leave_stack:
  mov sp, x0
  b .Lrvm_return_to_caller
  .size rvm_leave_stack, . - rvm_leave_stack

  .p2align 4
  .type rvm_switch_stacks, @function
rvm_switch_stacks:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  b .Lrvm_return_to_caller
  .size rvm_switch_stacks, . - rvm_switch_stacks
)");
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define RVM_STACKS_ARE_WATCHED 1
#endif
#endif

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(RVM_STACKS_ARE_WATCHED)
#define RVM_HAS_STACK_SWITCH 1
#endif

namespace rvm::vm {
namespace {

// For kernels and functions of the VM, and for a frame with the registers of any function.
constexpr int64_t kReserveBytes = 2 << 20;
// Beyond the limit: a program without calls always has its frame.
constexpr int64_t kFirstFrameBytes = 4096;
constexpr int64_t kPageBytes = 4096;
// The first frames lie on small pages, so that a run without deep calls does not touch a huge one.
constexpr size_t kSmallPagesBytes = kHugePageBytes;

}  // namespace

#ifdef RVM_HAS_STACK_SWITCH

extern "C" {
void rvm_call_on_stack(void* top, void (*function)(void*), void* argument, void** left);
[[noreturn]] void rvm_leave_stack(void* left);
void rvm_switch_stacks(void** left, void* to);
}

bool CanSwitchStacks() {
#ifdef __x86_64__
  // The instruction leaves the register alone where there is no shadow stack.
  uint64_t shadow_stack = 0;
  asm volatile("rdsspq %0" : "+r"(shadow_stack));
  return shadow_stack == 0;
#else
  return true;
#endif
}

void CallOnStack(void* top, void (*function)(void* argument), void* argument, void** left) {
  rvm_call_on_stack(top, function, argument, left);
}
void LeaveStack(void* left) { rvm_leave_stack(left); }
void SwitchStacks(void** left, void* to) { rvm_switch_stacks(left, to); }

#else

bool CanSwitchStacks() { return false; }
void CallOnStack(void*, void (*function)(void* argument), void* argument, void**) { function(argument); }
void LeaveStack(void*) { __builtin_trap(); }
void SwitchStacks(void**, void*) { __builtin_trap(); }

#endif

bool NativeStack::Map() {
  if (memory_ != nullptr) return true;
  for (int64_t limit = wanted_bytes_;; limit /= 2) {
    auto bytes =
        static_cast<size_t>((limit + kFirstFrameBytes + kReserveBytes + 2 * kPageBytes - 1) / kPageBytes * kPageBytes);
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) {
      if (limit == 0) return false;
      continue;
    }
    mprotect(memory, kPageBytes, PROT_NONE);
    if (bytes > 2 * kSmallPagesBytes) AskForHugePages(memory, bytes - kSmallPagesBytes);
    memory_ = static_cast<std::byte*>(memory);
    bytes_ = bytes;
    limit_bytes_ = limit;
    return true;
  }
}

void NativeStack::Release() {
  if (memory_ != nullptr) munmap(std::exchange(memory_, nullptr), bytes_);
  bytes_ = 0;
}

const char* NativeStack::limit() const {
  return reinterpret_cast<const char*>(top() - kFirstFrameBytes - limit_bytes_);
}

}  // namespace rvm::vm
