// RegisterStack: the frames of Relay calls, one contiguous region that grows by
// moving. Frames hold no addresses of registers, so moving is cheap and safe.
#ifndef RVM_VM_INTERPRETER_REGISTER_STACK_H_
#define RVM_VM_INTERPRETER_REGISTER_STACK_H_

#include <cstdint>

#include "vm/memory/object.h"

namespace rvm::vm {

class RegisterStack {
 public:
  // `headroom`: slots that are there beyond any frame base at or below soft_end().
  RegisterStack(int64_t limit_bytes, int64_t headroom_slots);
  ~RegisterStack();
  RegisterStack(const RegisterStack&) = delete;
  RegisterStack& operator=(const RegisterStack&) = delete;

  int64_t limit_bytes() const { return limit_bytes_; }
  Slot* begin() const { return begin_; }
  // A frame may begin up to here without growing.
  Slot* soft_end() const { return soft_end_; }
  // Doubles the stack; begin() changes. False at the limit.
  bool Grow();
  // Gives the memory back, until the next Grow.
  void Release();

 private:
  bool Resize(int64_t bytes);

  int64_t limit_bytes_;
  int64_t headroom_slots_;
  int64_t bytes_ = 0;
  Slot* begin_ = nullptr;
  Slot* soft_end_ = nullptr;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_REGISTER_STACK_H_
