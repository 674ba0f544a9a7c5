#include "vm/recipe/lane_functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/element.h"
#include "base/fold.h"

namespace rvm::vm {
namespace {

// ---- one value -----------------------------------------------------------------------
// `op` is a compile-time constant at every call, so only one case of each switch remains.

template <typename T>
[[gnu::always_inline]] inline T FloatUnary(UnaryOp op, T a) {
  switch (op) {
    case UnaryOp::kNegative: return -a;
    case UnaryOp::kAbs: return std::abs(a);
    case UnaryOp::kSign: return a != a ? a : static_cast<T>((a > 0) - (a < 0));
    case UnaryOp::kFloor: return std::floor(a);
    case UnaryOp::kCeil: return std::ceil(a);
    case UnaryOp::kRound: return std::nearbyint(a);
    case UnaryOp::kTrunc: return std::trunc(a);
    case UnaryOp::kSqrt: return std::sqrt(a);
    case UnaryOp::kRsqrt: return 1 / std::sqrt(a);
    case UnaryOp::kExp: return std::exp(a);
    case UnaryOp::kLog: return std::log(a);
    case UnaryOp::kLog2: return std::log2(a);
    case UnaryOp::kLog10: return std::log10(a);
    case UnaryOp::kTanh: return std::tanh(a);
    case UnaryOp::kSigmoid: return 1 / (1 + std::exp(-a));
    case UnaryOp::kErf: return std::erf(a);
    case UnaryOp::kSin: return std::sin(a);
    case UnaryOp::kCos: return std::cos(a);
    case UnaryOp::kTan: return std::tan(a);
    case UnaryOp::kAsin: return std::asin(a);
    case UnaryOp::kAcos: return std::acos(a);
    case UnaryOp::kAtan: return std::atan(a);
    case UnaryOp::kSinh: return std::sinh(a);
    case UnaryOp::kCosh: return std::cosh(a);
    case UnaryOp::kAsinh: return std::asinh(a);
    case UnaryOp::kAcosh: return std::acosh(a);
    case UnaryOp::kAtanh: return std::atanh(a);
    case UnaryOp::kLogicalNot:
    case UnaryOp::kBitwiseNot:
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
    case UnaryOp::kIsFinite: return a;
  }
}

template <typename T>  // int64_t or uint64_t
[[gnu::always_inline]] inline T IntUnary(UnaryOp op, T a) {
  switch (op) {
    case UnaryOp::kNegative: return static_cast<T>(-static_cast<uint64_t>(a));
    case UnaryOp::kAbs: return std::is_signed_v<T> && a < 0 ? static_cast<T>(-static_cast<uint64_t>(a)) : a;
    case UnaryOp::kSign: return static_cast<T>((a > 0) - (std::is_signed_v<T> && a < 0));
    case UnaryOp::kLogicalNot: return a == 0;
    case UnaryOp::kBitwiseNot: return ~a;
#define RVM_CASE(Name, text) case UnaryOp::k##Name:
      RVM_UNARY_ROUNDING_OPS(RVM_CASE)
      RVM_UNARY_FLOAT_OPS(RVM_CASE)
      RVM_UNARY_TESTS(RVM_CASE)
#undef RVM_CASE
      return a;  // an integer stays as it is
  }
}

template <typename T>
[[gnu::always_inline]] inline int64_t Test(UnaryOp op, T a) {
  if constexpr (std::is_floating_point_v<T>) {
    T infinity = std::numeric_limits<T>::infinity();
    if (op == UnaryOp::kIsNan) return a != a;
    if (op == UnaryOp::kIsInf) return a == infinity || a == -infinity;
    return a > -infinity && a < infinity;
  } else {
    return op == UnaryOp::kIsFinite;
  }
}

// Combines two equal floats, which differ at most in the sign of zero: the bitwise and (`both`) or or of their bits.
template <bool both, typename T>
[[gnu::always_inline]] inline T BothOrEitherBits(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  Bits x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b);
  return std::bit_cast<T>(both ? x & y : x | y);
}

template <typename T>
[[gnu::always_inline]] inline T FloatBinary(BinaryOp op, T a, T b) {
  T nan = std::numeric_limits<T>::quiet_NaN();
  // Computed in double, so that a quotient just below an integer is not rounded up to it.
  double x = static_cast<double>(a), y = static_cast<double>(b);
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSubtract: return a - b;
    case BinaryOp::kMultiply: return a * b;
    case BinaryOp::kDivide: return a / b;
    case BinaryOp::kFloorDivide: return static_cast<T>(std::floor(x / y));
    case BinaryOp::kFloorMod: return static_cast<T>(x - y * std::floor(x / y));
    case BinaryOp::kTruncDivide: return static_cast<T>(std::trunc(x / y));
    case BinaryOp::kTruncMod: return std::fmod(a, b);
    case BinaryOp::kPower: return std::pow(a, b);
    case BinaryOp::kMaximum: return a != a || b != b ? nan : a == b ? BothOrEitherBits<true>(a, b) : (a > b ? a : b);
    case BinaryOp::kMinimum: return a != a || b != b ? nan : a == b ? BothOrEitherBits<false>(a, b) : (a < b ? a : b);
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kXor:
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
    case BinaryOp::kEqual:
    case BinaryOp::kNotEqual:
    case BinaryOp::kLess:
    case BinaryOp::kLessEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterEqual: return a;
  }
}

int64_t IntPower(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return static_cast<int64_t>(result);
}

template <typename T>
[[gnu::always_inline]] inline T IntDivide(BinaryOp op, T a, T b) {
  if (b == 0) return 0;
  bool modulo = op == BinaryOp::kFloorMod || op == BinaryOp::kTruncMod;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return modulo ? 0 : static_cast<T>(-static_cast<uint64_t>(a));
  T quotient = a / b, rest = a % b;
  bool floors = op == BinaryOp::kFloorDivide || op == BinaryOp::kFloorMod;
  if (std::is_signed_v<T> && floors && rest != 0 && (rest < 0) != (b < 0)) {
    quotient -= 1;
    rest += b;
  }
  return modulo ? rest : quotient;
}

template <typename T>
[[gnu::always_inline]] inline T IntBinary(BinaryOp op, T a, T b, int64_t bits) {
  auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  bool in_range = y < static_cast<uint64_t>(bits);
  switch (op) {
    case BinaryOp::kAdd: return static_cast<T>(x + y);
    case BinaryOp::kSubtract: return static_cast<T>(x - y);
    case BinaryOp::kMultiply: return static_cast<T>(x * y);
    case BinaryOp::kDivide:
    case BinaryOp::kFloorDivide:
    case BinaryOp::kFloorMod:
    case BinaryOp::kTruncDivide:
    case BinaryOp::kTruncMod: return IntDivide(op, a, b);
    case BinaryOp::kPower: return static_cast<T>(IntPower(static_cast<int64_t>(a), static_cast<int64_t>(b)));
    case BinaryOp::kMaximum: return a > b ? a : b;
    case BinaryOp::kMinimum: return a < b ? a : b;
    case BinaryOp::kAnd: return a & b;
    case BinaryOp::kOr: return a | b;
    case BinaryOp::kXor: return a ^ b;
    case BinaryOp::kShiftLeft: return in_range ? static_cast<T>(x << y) : 0;
    case BinaryOp::kShiftRight: return in_range ? a >> y : (std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : 0);
    case BinaryOp::kEqual:
    case BinaryOp::kNotEqual:
    case BinaryOp::kLess:
    case BinaryOp::kLessEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterEqual: return a;
  }
}

template <typename T>
[[gnu::always_inline]] inline int64_t Compare(BinaryOp op, T a, T b) {
  if (op == BinaryOp::kEqual) return a == b;
  if (op == BinaryOp::kNotEqual) return a != b;
  if (op == BinaryOp::kLess) return a < b;
  if (op == BinaryOp::kLessEqual) return a <= b;
  return op == BinaryOp::kGreater ? a > b : a >= b;
}

// ---- loops -----------------------------------------------------------------------------

template <UnaryOp op, typename T>
void UnaryLoop(void* to, const void* from, int64_t n) {
  const T* a = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (IsTest(op)) {
      static_cast<int64_t*>(to)[i] = Test<T>(op, a[i]);
    } else if constexpr (std::is_floating_point_v<T>) {
      static_cast<T*>(to)[i] = FloatUnary<T>(op, a[i]);
    } else {
      static_cast<T*>(to)[i] = IntUnary<T>(op, a[i]);
    }
  }
}

template <BinaryOp op, typename T, int bits>
void BinaryLoop(void* to, const void* lhs, const void* rhs, bool one_a, bool one_b, int64_t n) {
  const T* a = static_cast<const T*>(lhs);
  const T* b = static_cast<const T*>(rhs);
  auto loop = [&](auto at) {
    for (int64_t i = 0; i < n; ++i) {
      auto [x, y] = at(i);
      if constexpr (IsComparison(op)) {
        static_cast<int64_t*>(to)[i] = Compare<T>(op, x, y);
      } else if constexpr (std::is_floating_point_v<T>) {
        static_cast<T*>(to)[i] = FloatBinary<T>(op, x, y);
      } else {
        static_cast<T*>(to)[i] = IntBinary<T>(op, x, y, bits);
      }
    }
  };
  struct Pair {
    T x, y;
  };
  if (one_a) {
    loop([&, x = *a](int64_t i) { return Pair{x, b[i]}; });
  } else if (one_b) {
    loop([&, y = *b](int64_t i) { return Pair{a[i], y}; });
  } else {
    loop([&](int64_t i) { return Pair{a[i], b[i]}; });
  }
}

// Returns the operation whose loop implements `op` on lanes of type T. Operations that are one on integers share a
// loop: the runtime has few of these functions.
template <typename T>
constexpr UnaryOp LoopOf(UnaryOp op) {
  if (std::is_floating_point_v<T>) return op;
  switch (op) {
#define RVM_CASE(Name, text) case UnaryOp::k##Name:
    RVM_UNARY_ROUNDING_OPS(RVM_CASE)
    RVM_UNARY_FLOAT_OPS(RVM_CASE)
#undef RVM_CASE
    return UnaryOp::kFloor;
    case UnaryOp::kIsInf: return UnaryOp::kIsNan;
    case UnaryOp::kNegative:
    case UnaryOp::kAbs:
    case UnaryOp::kSign:
    case UnaryOp::kLogicalNot:
    case UnaryOp::kBitwiseNot:
    case UnaryOp::kIsNan:
    case UnaryOp::kIsFinite: return op;
  }
}

// Returns whether integers have the same results with and without a sign.
constexpr bool IgnoresSign(UnaryOp op) {
  return LoopOf<int64_t>(op) == UnaryOp::kFloor || IsTest(op) || op == UnaryOp::kNegative ||
         op == UnaryOp::kLogicalNot || op == UnaryOp::kBitwiseNot;
}
constexpr bool IgnoresSign(BinaryOp op) {
  return op == BinaryOp::kAdd || op == BinaryOp::kSubtract || op == BinaryOp::kMultiply || op == BinaryOp::kPower ||
         op == BinaryOp::kAnd || op == BinaryOp::kOr || op == BinaryOp::kXor || op == BinaryOp::kShiftLeft ||
         op == BinaryOp::kEqual || op == BinaryOp::kNotEqual;
}
template <auto op, typename T>
using LoopLane = std::conditional_t<std::is_floating_point_v<T> || !IgnoresSign(op), T, int64_t>;

template <typename T>
UnaryFunction UnaryOf(UnaryOp op) {
  switch (op) {
#define RVM_CASE(Name, text) \
  case UnaryOp::k##Name: return UnaryLoop<LoopOf<T>(UnaryOp::k##Name), LoopLane<UnaryOp::k##Name, T>>;
    RVM_UNARY_OPS(RVM_CASE)
#undef RVM_CASE
  }
  RVM_UNREACHABLE("no such function");
}

template <typename T>
BinaryFunction BinaryOf(BinaryOp op) {
  switch (op) {
#define RVM_CASE(Name, text) \
  case BinaryOp::k##Name: return BinaryLoop<BinaryOp::k##Name, LoopLane<BinaryOp::k##Name, T>, 64>;
    RVM_BINARY_OPS(RVM_CASE)
#undef RVM_CASE
  }
  RVM_UNREACHABLE("no such function");
}

// Only shifts depend on the width.
template <BinaryOp shift, typename T>
BinaryFunction ShiftOf(int bits) {
  using Lane = LoopLane<shift, T>;
  switch (bits) {
    case 1: return BinaryLoop<shift, Lane, 1>;
    case 8: return BinaryLoop<shift, Lane, 8>;
    case 16: return BinaryLoop<shift, Lane, 16>;
    case 32: return BinaryLoop<shift, Lane, 32>;
    default: return BinaryLoop<shift, Lane, 64>;
  }
}

template <typename T>
BinaryFunction IntBinaryOf(BinaryOp op, int bits) {
  if (op == BinaryOp::kShiftLeft) return ShiftOf<BinaryOp::kShiftLeft, T>(bits);
  if (op == BinaryOp::kShiftRight) return ShiftOf<BinaryOp::kShiftRight, T>(bits);
  return BinaryOf<T>(op);
}

// ---- memory ----------------------------------------------------------------------------

template <typename E>
constexpr bool kIsClass = std::is_class_v<E>;
template <typename E>
void LoadLoop(void* to, const void* memory, int64_t first, int64_t stride, int64_t n) {
  auto* lanes = static_cast<LaneOf<E>*>(to);
  const E* from = static_cast<const E*>(memory) + first;
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) lanes[i] = static_cast<LaneOf<E>>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) lanes[i] = static_cast<LaneOf<E>>(from[i * stride]);
  }
}

template <typename E>
void GatherLoop(void* to, const void* memory, int64_t elements, const int64_t* numbers, int64_t n) {
  auto* lanes = static_cast<LaneOf<E>*>(to);
  for (int64_t i = 0; i < n; ++i) {
    bool there = static_cast<uint64_t>(numbers[i]) < static_cast<uint64_t>(elements);
    lanes[i] = there ? static_cast<LaneOf<E>>(static_cast<const E*>(memory)[numbers[i]]) : LaneOf<E>{};
  }
}

template <typename E>
void StoreLoop(void* memory, int64_t first, int64_t stride, const void* from, int64_t n) {
  const auto* lanes = static_cast<const LaneOf<E>*>(from);
  E* to = static_cast<E*>(memory) + first;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kIsClass<E>) {
      to[i * stride] = E::From(lanes[i]);
    } else {
      to[i * stride] = static_cast<E>(lanes[i]);
    }
  }
}

// Calls `make` with a value of the type in which lanes of `dtype` compute.
template <typename Make>
auto ByLane(DataType dtype, Make make) {
  if (dtype.is_float()) return dtype.bits == 64 ? make(double{}) : make(float{});
  return dtype.is_int() ? make(int64_t{}) : make(uint64_t{});
}

// ---- conversions -------------------------------------------------------------------------

template <typename To, typename From>
void ConvertLoop(void* to, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<To*>(to)[i] = static_cast<To>(static_cast<const From*>(from)[i]);
}

template <typename From>
void TruthLoop(void* to, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<int64_t*>(to)[i] = static_cast<const From*>(from)[i] != 0;
}

// Rounds toward zero; saturates values out of range; NaN becomes 0.
template <typename Int, typename From>
void SaturateLoop(void* to, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    auto value = static_cast<double>(static_cast<const From*>(from)[i]);
    double least = static_cast<double>(std::numeric_limits<Int>::min());
    double beyond = std::ldexp(1.0, std::numeric_limits<Int>::digits);
    Int result = value != value    ? 0
                 : value <= least  ? std::numeric_limits<Int>::min()
                 : value >= beyond ? std::numeric_limits<Int>::max()
                                   : static_cast<Int>(value);
    static_cast<int64_t*>(to)[i] = static_cast<int64_t>(result);
  }
}

template <typename E, typename From>  // E: a float below 32 bits
void RoundLoop(void* to, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    static_cast<float*>(to)[i] = E::From(static_cast<float>(static_cast<const From*>(from)[i]));
  }
}

template <typename Int>
void WrapLoop(void* to, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    static_cast<int64_t*>(to)[i] = static_cast<int64_t>(static_cast<Int>(static_cast<const int64_t*>(from)[i]));
  }
}

// ---- select, reductions ------------------------------------------------------------------

template <typename Bits>
void SelectLoop(void* to, const int64_t* condition, const void* a, const void* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Bits x = static_cast<const Bits*>(a)[i], y = static_cast<const Bits*>(b)[i];
    static_cast<Bits*>(to)[i] = condition[i] != 0 ? x : y;
  }
}

template <typename Bits>
void SpreadLoop(void* to, const void* from, int64_t n) {
  Bits value = *static_cast<const Bits*>(from);
  for (int64_t i = 0; i < n; ++i) static_cast<Bits*>(to)[i] = value;
}

// Several partial sums: faster, and more accurate.
template <BinaryOp op, typename T>
void FoldLoop(void* to, const void* from, int64_t n) {
  auto fold = [](T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return FloatBinary<T>(op, a, b);
    } else {
      return IntBinary<T>(op, a, b, 64);
    }
  };
  constexpr int64_t kParts = 16;
  const T* values = static_cast<const T*>(from);
  T result = *static_cast<T*>(to);
  int64_t i = 0;
  if (n >= kParts) {
    T parts[kParts];
    for (int64_t p = 0; p < kParts; ++p) parts[p] = values[p];
    for (i = kParts; i + kParts <= n; i += kParts) {
      for (int64_t p = 0; p < kParts; ++p) parts[p] = fold(parts[p], values[i + p]);
    }
    for (int64_t p = 0; p < kParts; ++p) result = fold(result, parts[p]);
  }
  for (; i < n; ++i) result = fold(result, values[i]);
  *static_cast<T*>(to) = result;
}

template <typename T, bool maximum, bool last>
void ArgLoop(void* best, int64_t* at, const void* from, int64_t place, bool across, int64_t n) {
  T* extremes = static_cast<T*>(best);
  for (int64_t i = 0; i < n; ++i) {
    T value = static_cast<const T*>(from)[i];
    T& extreme = extremes[across ? 0 : i];
    int64_t here = across ? place + i : place;
    bool better = maximum ? value > extreme : value < extreme;
    if (last) better |= value == extreme;
    // Comparisons with a NaN are false, so NaNs are tested for: the first NaN is the extreme, the last one if `last`.
    if (value != value) better = last || extreme == extreme;
    if (better || here == 0) {
      extreme = value;
      at[across ? 0 : i] = here;
    }
  }
}

template <typename T>
ArgFunction ArgOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kArgMax: return ArgLoop<T, true, false>;
    case ReduceOp::kArgMin: return ArgLoop<T, false, false>;
    case ReduceOp::kArgMaxLast: return ArgLoop<T, true, true>;
    case ReduceOp::kSum:
    case ReduceOp::kProduct:
    case ReduceOp::kMaximum:
    case ReduceOp::kMinimum:
    case ReduceOp::kAll:
    case ReduceOp::kAny:
    case ReduceOp::kArgMinLast: return ArgLoop<T, false, true>;
  }
}

}  // namespace

UnaryFunction FindUnary(UnaryOp op, DataType dtype) {
  if (dtype.is_bool() && op == UnaryOp::kBitwiseNot) op = UnaryOp::kLogicalNot;
  return ByLane(dtype, [&](auto lane) { return UnaryOf<decltype(lane)>(op); });
}

BinaryFunction FindBinary(BinaryOp op, DataType dtype) {
  return ByLane(dtype, [&](auto lane) -> BinaryFunction {
    using T = decltype(lane);
    if constexpr (std::is_floating_point_v<T>) {
      return BinaryOf<T>(op);
    } else {
      return IntBinaryOf<T>(op, dtype.bits);
    }
  });
}

bool Wraps(UnaryOp op) { return op == UnaryOp::kNegative || op == UnaryOp::kAbs || op == UnaryOp::kBitwiseNot; }

bool Wraps(BinaryOp op) {
  constexpr BinaryOp kOps[] = {BinaryOp::kAdd,    BinaryOp::kSubtract,    BinaryOp::kMultiply,
                               BinaryOp::kDivide, BinaryOp::kFloorDivide, BinaryOp::kTruncDivide,
                               BinaryOp::kPower,  BinaryOp::kShiftLeft};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

UnaryFunction FindWrap(DataType dtype) {
  if (dtype.is_bool()) return TruthLoop<int64_t>;
  return WithElement(dtype, [](auto element) -> UnaryFunction {
    using E = decltype(element);
    if constexpr (std::is_integral_v<E> && sizeof(E) < sizeof(int64_t)) return WrapLoop<E>;
    return nullptr;
  });
}

UnaryFunction FindCast(DataType from, DataType to) {
  return ByLane(from, [&](auto lane) -> UnaryFunction {
    using From = decltype(lane);
    if (to.is_bool()) return TruthLoop<From>;
    if (to.is_float()) {
      return WithElement(to, [](auto element) -> UnaryFunction {
        using E = decltype(element);
        if constexpr (std::is_floating_point_v<E>) {
          return ConvertLoop<E, From>;
        } else if constexpr (std::is_same_v<LaneOf<E>, float>) {
          return RoundLoop<E, From>;
        } else {
          RVM_UNREACHABLE("not a float");
        }
      });
    }
    if constexpr (!std::is_floating_point_v<From>) {
      UnaryFunction wrap = FindWrap(to);
      return wrap != nullptr ? wrap : WrapLoop<int64_t>;
    } else {
      return WithElement(to, [](auto element) -> UnaryFunction {
        using Int = decltype(element);
        if constexpr (std::is_integral_v<Int>) {
          return SaturateLoop<Int, From>;
        } else {
          RVM_UNREACHABLE("not an integer");
        }
      });
    }
  });
}

SelectFunction FindSelect(DataType dtype) {
  return LaneBytes(dtype) == 4 ? SelectLoop<uint32_t> : SelectLoop<uint64_t>;
}

UnaryFunction FindSpread(DataType dtype) { return LaneBytes(dtype) == 4 ? SpreadLoop<uint32_t> : SpreadLoop<uint64_t>; }

LoadFunction FindLoad(DataType dtype) {
  return WithElement(dtype, [](auto element) -> LoadFunction { return LoadLoop<decltype(element)>; });
}

GatherFunction FindGather(DataType dtype) {
  return WithElement(dtype, [](auto element) -> GatherFunction { return GatherLoop<decltype(element)>; });
}

StoreFunction FindStore(DataType dtype) {
  return WithElement(dtype, [](auto element) -> StoreFunction { return StoreLoop<decltype(element)>; });
}

FoldFunction FindFold(ReduceOp op, DataType dtype) {
  return ByLane(dtype, [&](auto lane) -> FoldFunction {
    using T = decltype(lane);
    if (op == ReduceOp::kSum) return FoldLoop<BinaryOp::kAdd, LoopLane<BinaryOp::kAdd, T>>;
    if (op == ReduceOp::kProduct) return FoldLoop<BinaryOp::kMultiply, LoopLane<BinaryOp::kMultiply, T>>;
    if (op == ReduceOp::kMaximum) return FoldLoop<BinaryOp::kMaximum, T>;
    if (op == ReduceOp::kMinimum) return FoldLoop<BinaryOp::kMinimum, T>;
    if (op == ReduceOp::kAll) return FoldLoop<BinaryOp::kAnd, LoopLane<BinaryOp::kAnd, T>>;
    return FoldLoop<BinaryOp::kOr, LoopLane<BinaryOp::kOr, T>>;
  });
}

ArgFunction FindArg(ReduceOp op, DataType dtype) {
  return ByLane(dtype, [&](auto lane) { return ArgOf<decltype(lane)>(op); });
}

void StoreIdentity(ReduceOp op, DataType dtype, void* lane) {
  int64_t bits = FoldIdentity(op, dtype);
  if (LaneBytes(dtype) == 8) {
    std::memcpy(lane, &bits, sizeof(bits));
  } else {
    auto narrow = static_cast<float>(std::bit_cast<double>(bits));
    std::memcpy(lane, &narrow, sizeof(narrow));
  }
}

}  // namespace rvm::vm
