// The instructions of operators on scalars, which need no kernel.
#ifndef RVM_COMPILER_OPS_SCALAR_INSTRUCTION_H_
#define RVM_COMPILER_OPS_SCALAR_INSTRUCTION_H_

#include <optional>

#include "base/data_type.h"
#include "serialization/isa/isa.h"

namespace rvm::ops {

// `dst := opcode a b`, or `dst := opcode a` for unary opcodes.
struct ScalarInstruction {
  Opcode opcode;
  bool unary = false;
  bool swap = false;    // operands exchanged: `a > b` is `b < a`
  bool negate = false;  // followed by not_bool
  bool wrap = false;    // followed by wrap_int to the operands' dtype
};

// By dtype of the operands; where there is none, the operator takes a kernel.
struct ScalarInstructions {
  std::optional<ScalarInstruction> i32, integer, boolean, f32, f64;
  std::optional<ScalarInstruction> other = {};  // floats of 16 bits

  std::optional<ScalarInstruction> For(DataType dtype) const;
};

namespace scalar {

using enum Opcode;
constexpr ScalarInstruction Plain(Opcode opcode) { return {opcode}; }
constexpr ScalarInstruction Swapped(Opcode opcode) { return {.opcode = opcode, .swap = true}; }
constexpr ScalarInstruction Negated(Opcode opcode) { return {.opcode = opcode, .negate = true}; }
constexpr ScalarInstruction Wrapped(Opcode opcode) { return {.opcode = opcode, .wrap = true}; }
constexpr ScalarInstruction Unary(Opcode opcode, bool wrap = false) {
  return {.opcode = opcode, .unary = true, .wrap = wrap};
}
constexpr std::optional<ScalarInstruction> kNone;

constexpr ScalarInstructions kAdd = {Plain(kAddI32), Wrapped(kAddInt), kNone, Plain(kAddF32), Plain(kAddF64)};
constexpr ScalarInstructions kSubtract = {Plain(kSubI32), Wrapped(kSubInt), kNone, Plain(kSubF32), Plain(kSubF64)};
constexpr ScalarInstructions kMultiply = {Plain(kMulI32), Wrapped(kMulInt), kNone, Plain(kMulF32), Plain(kMulF64)};
constexpr ScalarInstructions kDivide = {Wrapped(kTruncDivInt), Wrapped(kTruncDivInt), kNone, Plain(kDivF32),
                                        Plain(kDivF64)};

constexpr ScalarInstructions OfIntegers(ScalarInstruction instruction) {
  return {instruction, instruction, kNone, kNone, kNone};
}
constexpr ScalarInstructions kFloorDivide = OfIntegers(Wrapped(kFloorDivInt));
constexpr ScalarInstructions kFloorMod = OfIntegers(Plain(kFloorModInt));
constexpr ScalarInstructions kTruncDivide = OfIntegers(Wrapped(kTruncDivInt));
constexpr ScalarInstructions kTruncMod = OfIntegers(Plain(kTruncModInt));
constexpr ScalarInstructions kMinimum = {Plain(kMinInt), Plain(kMinInt), kNone, Plain(kMinF32), Plain(kMinF64)};
constexpr ScalarInstructions kMaximum = {Plain(kMaxInt), Plain(kMaxInt), kNone, Plain(kMaxF32), Plain(kMaxF64)};
constexpr ScalarInstructions kNegative = {Unary(kNegInt, true), Unary(kNegInt, true), kNone, Unary(kNegF32),
                                          Unary(kNegF64)};

constexpr ScalarInstructions OfBits(Opcode opcode) {
  return {Plain(opcode), Plain(opcode), Plain(opcode), kNone, kNone};
}
constexpr ScalarInstructions OfBools(ScalarInstruction instruction) {
  return {kNone, kNone, instruction, kNone, kNone};
}
constexpr ScalarInstructions kBitwiseAnd = OfBits(kAndInt);
constexpr ScalarInstructions kBitwiseOr = OfBits(kOrInt);
constexpr ScalarInstructions kBitwiseXor = OfBits(kXorInt);
constexpr ScalarInstructions kLogicalAnd = OfBools(Plain(kAndInt));
constexpr ScalarInstructions kLogicalOr = OfBools(Plain(kOrInt));
constexpr ScalarInstructions kLogicalXor = OfBools(Plain(kXorInt));
constexpr ScalarInstructions kLogicalNot = OfBools(Unary(kNotBool));

constexpr ScalarInstructions OfAll(ScalarInstruction integer, ScalarInstruction f32, ScalarInstruction f64) {
  return {integer, integer, integer, f32, f64};
}
constexpr ScalarInstructions kEqual = OfAll(Plain(kEqInt), Plain(kEqF32), Plain(kEqF64));
constexpr ScalarInstructions kNotEqual = OfAll(Plain(kNeInt), Negated(kEqF32), Negated(kEqF64));
constexpr ScalarInstructions kLess = OfAll(Plain(kLtInt), Plain(kLtF32), Plain(kLtF64));
constexpr ScalarInstructions kLessEqual = OfAll(Plain(kLeInt), Plain(kLeF32), Plain(kLeF64));
constexpr ScalarInstructions kGreater = OfAll(Swapped(kLtInt), Swapped(kLtF32), Swapped(kLtF64));
constexpr ScalarInstructions kGreaterEqual = OfAll(Swapped(kLeInt), Swapped(kLeF32), Swapped(kLeF64));

constexpr ScalarInstructions kSqrt = {kNone, kNone, kNone, Unary(kSqrtF32), Unary(kSqrtF64)};

constexpr ScalarInstructions Everywhere(ScalarInstruction i) { return {i, i, i, i, i, i}; }
constexpr ScalarInstructions kCopy = Everywhere(Unary(kMove));
constexpr ScalarInstructions kCastScalar = Everywhere(Unary(kCast));

}  // namespace scalar

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_SCALAR_INSTRUCTION_H_
