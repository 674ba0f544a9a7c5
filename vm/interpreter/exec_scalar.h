// Handlers of moves, constants and scalar arithmetic.
#ifndef RVM_VM_INTERPRETER_EXEC_SCALAR_H_
#define RVM_VM_INTERPRETER_EXEC_SCALAR_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/operands.h"
#include "vm/interpreter/scalar_cast.h"

namespace rvm::vm {

// ---- what the operators compute, on slots

inline Slot OfI32(uint32_t value) { return static_cast<Slot>(static_cast<int64_t>(static_cast<int32_t>(value))); }
// An operand that is sign-extended to 64 bits.
inline Slot Imm16(uint16_t unit) { return static_cast<Slot>(int64_t{static_cast<int16_t>(unit)}); }
inline int64_t I64(Slot slot) { return static_cast<int64_t>(slot); }
inline float F32(Slot slot) { return std::bit_cast<float>(static_cast<uint32_t>(slot)); }
inline double F64(Slot slot) { return std::bit_cast<double>(slot); }
inline Slot OfF32(float value) { return std::bit_cast<uint32_t>(value); }
inline Slot OfF64(double value) { return std::bit_cast<Slot>(value); }

inline Slot AddI32(Slot a, Slot b) { return OfI32(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }
inline Slot SubI32(Slot a, Slot b) { return OfI32(static_cast<uint32_t>(a) - static_cast<uint32_t>(b)); }
inline Slot MulI32(Slot a, Slot b) { return OfI32(static_cast<uint32_t>(a) * static_cast<uint32_t>(b)); }
inline Slot AddInt(Slot a, Slot b) { return a + b; }
inline Slot SubInt(Slot a, Slot b) { return a - b; }
inline Slot MulInt(Slot a, Slot b) { return a * b; }
inline Slot TruncDivInt(Slot a, Slot b) {
  if (b == 0) return 0;
  if (I64(b) == -1) return -a;  // the least number has no negative: it wraps
  return static_cast<Slot>(I64(a) / I64(b));
}
inline Slot TruncModInt(Slot a, Slot b) { return b == 0 || I64(b) == -1 ? 0 : static_cast<Slot>(I64(a) % I64(b)); }
inline Slot FloorDivInt(Slot a, Slot b) {
  if (b == 0) return 0;
  Slot quotient = TruncDivInt(a, b);
  bool rounds_up = a != quotient * b && (I64(a) < 0) != (I64(b) < 0);
  return quotient - (rounds_up ? 1 : 0);
}
inline Slot FloorModInt(Slot a, Slot b) { return b == 0 ? 0 : a - b * FloorDivInt(a, b); }
inline Slot MinInt(Slot a, Slot b) { return static_cast<Slot>(std::min(I64(a), I64(b))); }
inline Slot MaxInt(Slot a, Slot b) { return static_cast<Slot>(std::max(I64(a), I64(b))); }
inline Slot NegInt(Slot a) { return -a; }
inline Slot AndInt(Slot a, Slot b) { return a & b; }
inline Slot OrInt(Slot a, Slot b) { return a | b; }
inline Slot XorInt(Slot a, Slot b) { return a ^ b; }
inline Slot NotBool(Slot a) { return a ^ 1; }
inline Slot EqInt(Slot a, Slot b) { return a == b; }
inline Slot NeInt(Slot a, Slot b) { return a != b; }
inline Slot LtInt(Slot a, Slot b) { return I64(a) < I64(b); }
inline Slot LeInt(Slot a, Slot b) { return I64(a) <= I64(b); }
inline Slot GeInt(Slot a, Slot b) { return I64(a) >= I64(b); }
inline Slot AddF32(Slot a, Slot b) { return OfF32(F32(a) + F32(b)); }
inline Slot SubF32(Slot a, Slot b) { return OfF32(F32(a) - F32(b)); }
inline Slot MulF32(Slot a, Slot b) { return OfF32(F32(a) * F32(b)); }
inline Slot DivF32(Slot a, Slot b) { return OfF32(F32(a) / F32(b)); }
inline Slot NegF32(Slot a) { return OfF32(-F32(a)); }
inline Slot SqrtF32(Slot a) { return OfF32(std::sqrt(F32(a))); }
// NaN if either is NaN; -0 is below 0.
template <typename T>
T Minimum(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
inline Slot MinF32(Slot a, Slot b) { return OfF32(Minimum(F32(a), F32(b))); }
inline Slot MaxF32(Slot a, Slot b) { return OfF32(-Minimum(-F32(a), -F32(b))); }
inline Slot EqF32(Slot a, Slot b) { return F32(a) == F32(b); }
inline Slot LtF32(Slot a, Slot b) { return F32(a) < F32(b); }
inline Slot LeF32(Slot a, Slot b) { return F32(a) <= F32(b); }
inline Slot AddF64(Slot a, Slot b) { return OfF64(F64(a) + F64(b)); }
inline Slot SubF64(Slot a, Slot b) { return OfF64(F64(a) - F64(b)); }
inline Slot MulF64(Slot a, Slot b) { return OfF64(F64(a) * F64(b)); }
inline Slot DivF64(Slot a, Slot b) { return OfF64(F64(a) / F64(b)); }
inline Slot NegF64(Slot a) { return OfF64(-F64(a)); }
inline Slot SqrtF64(Slot a) { return OfF64(std::sqrt(F64(a))); }
inline Slot MinF64(Slot a, Slot b) { return OfF64(Minimum(F64(a), F64(b))); }
inline Slot MaxF64(Slot a, Slot b) { return OfF64(-Minimum(-F64(a), -F64(b))); }
inline Slot EqF64(Slot a, Slot b) { return F64(a) == F64(b); }
inline Slot LtF64(Slot a, Slot b) { return F64(a) < F64(b); }
inline Slot LeF64(Slot a, Slot b) { return F64(a) <= F64(b); }

// ---- handlers

template <auto kOperator>
[[clang::preserve_none]] void Binary(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                     const FunctionInfo* fn) {
  Operands<Opcode::kAddI32> in(pc);
  r[in.Get<"dst">()] = kOperator(r[in.Get<"a">()], r[in.Get<"b">()]);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

template <auto kOperator>
[[clang::preserve_none]] void Unary(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                    const FunctionInfo* fn) {
  Operands<Opcode::kNegInt> in(pc);
  r[in.Get<"dst">()] = kOperator(r[in.Get<"a">()]);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

inline constexpr Handler ExecAddI32 = Binary<AddI32>;
inline constexpr Handler ExecSubI32 = Binary<SubI32>;
inline constexpr Handler ExecMulI32 = Binary<MulI32>;
inline constexpr Handler ExecAddInt = Binary<AddInt>;
inline constexpr Handler ExecSubInt = Binary<SubInt>;
inline constexpr Handler ExecMulInt = Binary<MulInt>;
inline constexpr Handler ExecFloorDivInt = Binary<FloorDivInt>;
inline constexpr Handler ExecFloorModInt = Binary<FloorModInt>;
inline constexpr Handler ExecTruncDivInt = Binary<TruncDivInt>;
inline constexpr Handler ExecTruncModInt = Binary<TruncModInt>;
inline constexpr Handler ExecMinInt = Binary<MinInt>;
inline constexpr Handler ExecMaxInt = Binary<MaxInt>;
inline constexpr Handler ExecNegInt = Unary<NegInt>;
inline constexpr Handler ExecAndInt = Binary<AndInt>;
inline constexpr Handler ExecOrInt = Binary<OrInt>;
inline constexpr Handler ExecXorInt = Binary<XorInt>;
inline constexpr Handler ExecNotBool = Unary<NotBool>;
inline constexpr Handler ExecEqInt = Binary<EqInt>;
inline constexpr Handler ExecNeInt = Binary<NeInt>;
inline constexpr Handler ExecLtInt = Binary<LtInt>;
inline constexpr Handler ExecLeInt = Binary<LeInt>;
inline constexpr Handler ExecAddF32 = Binary<AddF32>;
inline constexpr Handler ExecSubF32 = Binary<SubF32>;
inline constexpr Handler ExecMulF32 = Binary<MulF32>;
inline constexpr Handler ExecDivF32 = Binary<DivF32>;
inline constexpr Handler ExecNegF32 = Unary<NegF32>;
inline constexpr Handler ExecSqrtF32 = Unary<SqrtF32>;
inline constexpr Handler ExecMinF32 = Binary<MinF32>;
inline constexpr Handler ExecMaxF32 = Binary<MaxF32>;
inline constexpr Handler ExecEqF32 = Binary<EqF32>;
inline constexpr Handler ExecLtF32 = Binary<LtF32>;
inline constexpr Handler ExecLeF32 = Binary<LeF32>;
inline constexpr Handler ExecAddF64 = Binary<AddF64>;
inline constexpr Handler ExecSubF64 = Binary<SubF64>;
inline constexpr Handler ExecMulF64 = Binary<MulF64>;
inline constexpr Handler ExecDivF64 = Binary<DivF64>;
inline constexpr Handler ExecNegF64 = Unary<NegF64>;
inline constexpr Handler ExecSqrtF64 = Unary<SqrtF64>;
inline constexpr Handler ExecMinF64 = Binary<MinF64>;
inline constexpr Handler ExecMaxF64 = Binary<MaxF64>;
inline constexpr Handler ExecEqF64 = Binary<EqF64>;
inline constexpr Handler ExecLtF64 = Binary<LtF64>;
inline constexpr Handler ExecLeF64 = Binary<LeF64>;

[[clang::preserve_none]] inline void ExecMove(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                              const FunctionInfo* fn) {
  Operands<Opcode::kMove> in(pc);
  r[in.Get<"dst">()] = r[in.Get<"src">()];
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecLoadInt(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                 const FunctionInfo* fn) {
  Operands<Opcode::kLoadInt> in(pc);
  r[in.Get<"dst">()] = OfI32(in.Get<"value">());
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecLoadBits(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                  const FunctionInfo* fn) {
  Operands<Opcode::kLoadBits> in(pc);
  r[in.Get<"dst">()] = in.Get<"bits">();
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecAddImmI32(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  Operands<Opcode::kAddImmI32> in(pc);
  r[in.Get<"dst">()] = AddI32(r[in.Get<"a">()], Imm16(in.Get<"value">()));
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecAddImmInt(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  Operands<Opcode::kAddImmInt> in(pc);
  r[in.Get<"dst">()] = r[in.Get<"a">()] + Imm16(in.Get<"value">());
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecWrapInt(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                 const FunctionInfo* fn) {
  Operands<Opcode::kWrapInt> in(pc);
  r[in.Get<"dst">()] = WrapToDType(r[in.Get<"a">()], in.Get<"dtype">());
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecCast(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                              const FunctionInfo* fn) {
  Operands<Opcode::kCast> in(pc);
  r[in.Get<"dst">()] = CastScalar(r[in.Get<"src">()], in.Get<"from">(), in.Get<"to">());
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_SCALAR_H_
