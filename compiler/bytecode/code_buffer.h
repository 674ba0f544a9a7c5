// CodeBuffer: the code of one function under construction: 16-bit units,
// labels that are patched when bound, and the source line of each instruction.
#ifndef RVM_COMPILER_BYTECODE_CODE_BUFFER_H_
#define RVM_COMPILER_BYTECODE_CODE_BUFFER_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "serialization/executable.h"
#include "serialization/isa/isa.h"

namespace rvm::bytecode {

struct Label {
  uint32_t index;
};

// Operands are appended in the order of isa.def:
//   code.Op(Opcode::kCall).R(dst).U32(callee.value).Rs(args);
// Unreachable instructions are left out, and so are jumps to the next instruction.
class CodeBuffer {
 public:
  CodeBuffer& Op(Opcode opcode);
  CodeBuffer& R(Reg reg) { return Unit(reg.value); }
  CodeBuffer& Rs(std::span<const Reg> regs) {
    Unit(static_cast<uint16_t>(regs.size()));
    for (Reg reg : regs) R(reg);
    return *this;
  }
  CodeBuffer& Unit(uint16_t unit) {
    if (!muted_) units_.push_back(unit);
    return *this;
  }
  CodeBuffer& U32(uint32_t value) {
    return Unit(static_cast<uint16_t>(value)).Unit(static_cast<uint16_t>(value >> 16));
  }
  CodeBuffer& U64(uint64_t value) { return U32(static_cast<uint32_t>(value)).U32(static_cast<uint32_t>(value >> 32)); }
  CodeBuffer& L(Label label);

  Label NewLabel();
  void Bind(Label label);

  uint32_t pc() const { return static_cast<uint32_t>(units_.size()); }
  // All labels that were used must be bound.
  std::vector<uint16_t> Take() { return std::move(units_); }

 private:
  static constexpr uint32_t kUnbound = ~uint32_t{0};
  struct LabelState {
    uint32_t target = kUnbound;
    bool used = false;
    std::vector<uint32_t> references;  // unit indices to patch
  };
  void Patch(uint32_t at, uint32_t target);

  std::vector<uint16_t> units_;
  std::vector<LabelState> labels_;
  bool reachable_ = true;  // whether the next instruction is reachable
  bool muted_ = false;     // the current instruction is left out
  static constexpr uint32_t kJumpUnits = 3;
  uint32_t jump_at_ = kUnbound;   // the last instruction, if it is a jump
  uint32_t bound_at_ = kUnbound;  // where the last label is
};

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_CODE_BUFFER_H_
