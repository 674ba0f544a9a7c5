// The operations on single elements that te expressions and kernel recipes consist of.
//
// Integers wrap, and division or modulo by 0 gives 0. float16 and bfloat16 compute in float32.
#ifndef RVM_BASE_SCALAR_OP_H_
#define RVM_BASE_SCALAR_OP_H_

#include <cstdint>
#include <string_view>

namespace rvm {

// RVM_UNARY(Name, text): on a number, to the same dtype.
#define RVM_UNARY_ARITHMETIC_OPS(RVM_UNARY) \
  RVM_UNARY(Negative, "-")                  \
  RVM_UNARY(Abs, "abs")                     \
  RVM_UNARY(Sign, "sign")
// On floats, to the same dtype; the identity on integers.
#define RVM_UNARY_ROUNDING_OPS(RVM_UNARY)      \
  RVM_UNARY(Floor, "floor")                    \
  RVM_UNARY(Ceil, "ceil")                      \
  RVM_UNARY(Round, "round") /* half to even */ \
  RVM_UNARY(Trunc, "trunc")
// On floats, to the same dtype; the identity on integers.
#define RVM_UNARY_FLOAT_OPS(RVM_UNARY) \
  RVM_UNARY(Sqrt, "sqrt")              \
  RVM_UNARY(Rsqrt, "rsqrt")            \
  RVM_UNARY(Exp, "exp")                \
  RVM_UNARY(Log, "log")                \
  RVM_UNARY(Log2, "log2")              \
  RVM_UNARY(Log10, "log10")            \
  RVM_UNARY(Tanh, "tanh")              \
  RVM_UNARY(Sigmoid, "sigmoid")        \
  RVM_UNARY(Erf, "erf")                \
  RVM_UNARY(Sin, "sin")                \
  RVM_UNARY(Cos, "cos")                \
  RVM_UNARY(Tan, "tan")                \
  RVM_UNARY(Asin, "asin")              \
  RVM_UNARY(Acos, "acos")              \
  RVM_UNARY(Atan, "atan")              \
  RVM_UNARY(Sinh, "sinh")              \
  RVM_UNARY(Cosh, "cosh")              \
  RVM_UNARY(Asinh, "asinh")            \
  RVM_UNARY(Acosh, "acosh")            \
  RVM_UNARY(Atanh, "atanh")
// On an integer or bool, to the same dtype.
#define RVM_UNARY_BIT_OPS(RVM_UNARY) \
  RVM_UNARY(LogicalNot, "not")       \
  RVM_UNARY(BitwiseNot, "~")
// On a number, to bool.
#define RVM_UNARY_TESTS(RVM_UNARY) \
  RVM_UNARY(IsNan, "isnan")        \
  RVM_UNARY(IsInf, "isinf")        \
  RVM_UNARY(IsFinite, "isfinite")
#define RVM_UNARY_OPS(RVM_UNARY)      \
  RVM_UNARY_ARITHMETIC_OPS(RVM_UNARY) \
  RVM_UNARY_ROUNDING_OPS(RVM_UNARY)   \
  RVM_UNARY_FLOAT_OPS(RVM_UNARY)      \
  RVM_UNARY_BIT_OPS(RVM_UNARY)        \
  RVM_UNARY_TESTS(RVM_UNARY)

// RVM_BINARY(Name, text): on two of one dtype, to that dtype. max and min propagate NaN.
// Division of integers truncates.
#define RVM_BINARY_ARITHMETIC_OPS(RVM_BINARY) \
  RVM_BINARY(Add, "+")                        \
  RVM_BINARY(Subtract, "-")                   \
  RVM_BINARY(Multiply, "*")                   \
  RVM_BINARY(Divide, "/")                     \
  RVM_BINARY(FloorDivide, "floordiv")         \
  RVM_BINARY(FloorMod, "floormod")            \
  RVM_BINARY(TruncDivide, "truncdiv")         \
  RVM_BINARY(TruncMod, "truncmod")            \
  RVM_BINARY(Power, "power")                  \
  RVM_BINARY(Maximum, "max")                  \
  RVM_BINARY(Minimum, "min")
// On integers or bools. Shifts by a negative number or by at least the width give 0 (or -1 for right shifts of negative
// numbers).
#define RVM_BINARY_BIT_OPS(RVM_BINARY) \
  RVM_BINARY(And, "and")               \
  RVM_BINARY(Or, "or")                 \
  RVM_BINARY(Xor, "xor")               \
  RVM_BINARY(ShiftLeft, "<<")          \
  RVM_BINARY(ShiftRight, ">>")
// To bool.
#define RVM_COMPARISONS(RVM_BINARY) \
  RVM_BINARY(Equal, "==")           \
  RVM_BINARY(NotEqual, "!=")        \
  RVM_BINARY(Less, "<")             \
  RVM_BINARY(LessEqual, "<=")       \
  RVM_BINARY(Greater, ">")          \
  RVM_BINARY(GreaterEqual, ">=")
#define RVM_BINARY_OPS(RVM_BINARY)      \
  RVM_BINARY_ARITHMETIC_OPS(RVM_BINARY) \
  RVM_BINARY_BIT_OPS(RVM_BINARY)        \
  RVM_COMPARISONS(RVM_BINARY)

// RVM_REDUCE(Name, text): of many to one. Arg* give the index (int64) of the first or last extremum;
// NaN is treated as the extremum.
#define RVM_REDUCE_OPS(RVM_REDUCE)      \
  RVM_REDUCE(Sum, "sum")                \
  RVM_REDUCE(Product, "prod")           \
  RVM_REDUCE(Maximum, "max")            \
  RVM_REDUCE(Minimum, "min")            \
  RVM_REDUCE(All, "all")                \
  RVM_REDUCE(Any, "any")                \
  RVM_REDUCE(ArgMax, "argmax")          \
  RVM_REDUCE(ArgMin, "argmin")          \
  RVM_REDUCE(ArgMaxLast, "argmax_last") \
  RVM_REDUCE(ArgMinLast, "argmin_last")

#define RVM_ENUMERATOR(Name, text) k##Name,
#define RVM_TEXT(Name, text) text,
#define RVM_ONE(Name, text) +1

enum class UnaryOp : uint8_t { RVM_UNARY_OPS(RVM_ENUMERATOR) };
enum class BinaryOp : uint8_t { RVM_BINARY_OPS(RVM_ENUMERATOR) };
enum class ReduceOp : uint8_t { RVM_REDUCE_OPS(RVM_ENUMERATOR) };

inline constexpr std::string_view kUnaryOpNames[] = {RVM_UNARY_OPS(RVM_TEXT)};
inline constexpr std::string_view kBinaryOpNames[] = {RVM_BINARY_OPS(RVM_TEXT)};
inline constexpr std::string_view kReduceOpNames[] = {RVM_REDUCE_OPS(RVM_TEXT)};
inline constexpr uint8_t kNumUnaryOps = 0 RVM_UNARY_OPS(RVM_ONE);
inline constexpr uint8_t kNumBinaryOps = 0 RVM_BINARY_OPS(RVM_ONE);
inline constexpr uint8_t kNumReduceOps = 0 RVM_REDUCE_OPS(RVM_ONE);

#undef RVM_ENUMERATOR
#undef RVM_TEXT
#undef RVM_ONE

constexpr bool IsBitwise(UnaryOp op) { return op == UnaryOp::kLogicalNot || op == UnaryOp::kBitwiseNot; }
constexpr bool IsRoot(UnaryOp op) { return op == UnaryOp::kSqrt || op == UnaryOp::kRsqrt; }
constexpr bool IsTranscendental(UnaryOp op) { return op >= UnaryOp::kExp && op <= UnaryOp::kAtanh; }
constexpr bool IsTest(UnaryOp op) { return op >= UnaryOp::kIsNan; }
constexpr bool IsBitwise(BinaryOp op) { return op >= BinaryOp::kAnd && op <= BinaryOp::kShiftRight; }
constexpr bool IsDivision(BinaryOp op) { return op >= BinaryOp::kDivide && op <= BinaryOp::kTruncMod; }
// Returns true if the result, of floats, may be rounded.
constexpr bool IsRounded(BinaryOp op) { return op <= BinaryOp::kPower; }
constexpr bool IsComparison(BinaryOp op) { return op >= BinaryOp::kEqual; }
constexpr bool IsArg(ReduceOp op) { return op >= ReduceOp::kArgMax; }

}  // namespace rvm

#endif  // RVM_BASE_SCALAR_OP_H_
