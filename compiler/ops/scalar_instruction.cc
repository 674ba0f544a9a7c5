#include "compiler/ops/scalar_instruction.h"

#include <algorithm>
#include <iterator>

namespace rvm::ops {
namespace {

// Instructions on integers take them for signed ones of 64 bits, and so order and divide uint64 wrongly.
bool IsRightForUInt64(Opcode opcode) {
  using enum Opcode;
  constexpr Opcode kRight[] = {kAddInt, kSubInt, kMulInt, kNegInt, kAndInt, kOrInt,
                               kXorInt, kEqInt,  kNeInt,  kMove,   kCast};
  return std::find(std::begin(kRight), std::end(kRight), opcode) != std::end(kRight);
}

}  // namespace

std::optional<ScalarInstruction> ScalarInstructions::For(DataType dtype) const {
  if (dtype.is_bool()) return boolean;
  if (dtype == kInt32) return i32;
  if (dtype == kFloat32) return f32;
  if (dtype == kFloat64) return f64;
  if (!dtype.is_integral()) return other;
  std::optional<ScalarInstruction> selected = integer;
  if (selected && dtype == kUInt64 && !IsRightForUInt64(selected->opcode)) return std::nullopt;
  if (selected && dtype.bits == 64) selected->wrap = false;
  return selected;
}

}  // namespace rvm::ops
