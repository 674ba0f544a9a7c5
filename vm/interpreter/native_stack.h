// Stacks of the VM's own for machine code of functions, whose depth only the stack limit bounds, and switches between
// stacks.
#ifndef RVM_VM_INTERPRETER_NATIVE_STACK_H_
#define RVM_VM_INTERPRETER_NATIVE_STACK_H_

#include <cstddef>
#include <cstdint>

namespace rvm::vm {

// Returns whether this process may run code on other stacks than those of its threads. Not with sanitizers, which watch
// the threads' own, nor with a shadow stack.
bool CanSwitchStacks();

// Calls function(argument) on the stack that ends at `top`, and returns when it returns, or when LeaveStack(*left) is
// called on that stack. `*left` is also an address below which the stack of the caller is free meanwhile.
void CallOnStack(void* top, void (*function)(void* argument), void* argument, void** left);
// Nothing on the stack that is left is destroyed.
[[noreturn]] void LeaveStack(void* left);

// Leaves this stack, and goes on where the other one was left: `to` is what CallOnStack or SwitchStacks stored then.
// Returns when another switch, or LeaveStack, goes to *left.
void SwitchStacks(void** left, void* to);

class NativeStack {
 public:
  // `limit_bytes`: of frames of Relay functions.
  explicit NativeStack(int64_t limit_bytes) : wanted_bytes_(limit_bytes) {}
  ~NativeStack() { Release(); }
  NativeStack(const NativeStack&) = delete;
  NativeStack& operator=(const NativeStack&) = delete;

  // Maps the stack if it is not there: half as much as wanted, and so on, where the system refuses more. False: there
  // is no memory for any.
  bool Map();
  void Release();

  std::byte* top() const { return memory_ + bytes_; }
  // Returns a function whose frame begins below calls no other. There is room below for the frames of kernels and of
  // the VM.
  const char* limit() const;
  int64_t limit_bytes() const { return limit_bytes_; }

 private:
  int64_t wanted_bytes_;
  int64_t limit_bytes_ = 0;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_NATIVE_STACK_H_
