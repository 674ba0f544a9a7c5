#include "compiler/bytecode/code_buffer.h"

namespace rvm::bytecode {

CodeBuffer& CodeBuffer::Op(Opcode opcode) {
  muted_ = !reachable_;
  if (!muted_) jump_at_ = opcode == Opcode::kJump ? pc() : kUnbound;
  Flow flow = SpecOf(opcode).flow;
  if (flow == Flow::kJump || flow == Flow::kSwitch || flow == Flow::kReturn || flow == Flow::kStop) reachable_ = false;
  return Unit(static_cast<uint16_t>(opcode));
}

Label CodeBuffer::NewLabel() {
  labels_.emplace_back();
  return {static_cast<uint32_t>(labels_.size() - 1)};
}

void CodeBuffer::Patch(uint32_t at, uint32_t target) {
  units_[at] = static_cast<uint16_t>(target);
  units_[at + 1] = static_cast<uint16_t>(target >> 16);
}

CodeBuffer& CodeBuffer::L(Label label) {
  if (muted_) return *this;
  LabelState& state = labels_[label.index];
  state.used = true;
  if (state.target == kUnbound) state.references.push_back(pc());
  return U32(state.target);
}

void CodeBuffer::Bind(Label label) {
  LabelState& state = labels_[label.index];
  // A label bound after the jump would have to move with it.
  bool jumps_here = jump_at_ != kUnbound && jump_at_ + kJumpUnits == pc() && bound_at_ != pc() &&
                    !state.references.empty() && state.references.back() == jump_at_ + 1;
  if (jumps_here) {
    units_.resize(jump_at_);
    state.references.pop_back();
    jump_at_ = kUnbound;
  }
  bound_at_ = pc();
  state.target = pc();
  reachable_ = reachable_ || state.used;
  for (uint32_t reference : state.references) Patch(reference, state.target);
  state.references.clear();
}

}  // namespace rvm::bytecode
