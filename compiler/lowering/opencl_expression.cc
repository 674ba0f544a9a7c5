#include "compiler/lowering/opencl_expression.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "compiler/lowering/opencl_source.h"

namespace rvm::lowering {
namespace {

// Functions that OpenCL C lacks, or defines otherwise than base/scalar_op.h.
constexpr char kPrelude[] = R"(long rvm_floordiv(long x, long y) {
  if (y == 0) return 0;
  if (y == -1) return (long)(0 - (ulong)x);
  long q = x / y;
  return x % y != 0 && (x % y < 0) != (y < 0) ? q - 1 : q;
}
long rvm_floormod(long x, long y) {
  if (y == 0 || y == -1) return 0;
  long r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
long rvm_truncdiv(long x, long y) { return y == 0 ? 0 : y == -1 ? (long)(0 - (ulong)x) : x / y; }
long rvm_truncmod(long x, long y) { return y == 0 || y == -1 ? 0 : x % y; }
ulong rvm_udiv(ulong x, ulong y) { return y == 0 ? 0 : x / y; }
ulong rvm_umod(ulong x, ulong y) { return y == 0 ? 0 : x % y; }
long rvm_power(long base, long exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  ulong result = 1, factor = (ulong)base;
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return (long)result;
}
long rvm_broadcast(long x, long y) { return x == 1 ? y : x; }
float rvm_load_half(__global const ushort* p, long at) { return vload_half(at, (__global const half*)p); }
void rvm_store_half(__global ushort* p, long at, float x) { vstore_half_rte(x, at, (__global half*)p); }
float rvm_half(ushort bits) { return vload_half(0, (const half*)&bits); }
float rvm_round_half(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (half*)&bits);
  return rvm_half(bits);
}
float rvm_bfloat(ushort bits) { return as_float((uint)bits << 16); }
ushort rvm_bfloat_bits(float x) {
  uint bits = as_uint(x);
  return isnan(x) ? (ushort)(bits >> 16 | 0x40) : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float rvm_max_float(float x, float y) {
  return isnan(x) || isnan(y) ? NAN : x == y ? as_float(as_uint(x) & as_uint(y)) : x > y ? x : y;
}
float rvm_min_float(float x, float y) {
  return isnan(x) || isnan(y) ? NAN : x == y ? as_float(as_uint(x) | as_uint(y)) : x < y ? x : y;
}
)";
constexpr char kPreludeOfFloat64[] = R"(double rvm_max_double(double x, double y) {
  return isnan(x) || isnan(y) ? NAN : x == y ? as_double(as_ulong(x) & as_ulong(y)) : x > y ? x : y;
}
double rvm_min_double(double x, double y) {
  return isnan(x) || isnan(y) ? NAN : x == y ? as_double(as_ulong(x) | as_ulong(y)) : x < y ? x : y;
}
)";

// Returns the unsigned type in which integers wrap; those narrower than int are promoted to int, which is wide enough
// for their sums, but not for the products of 16-bit ones.
const char* WrappingType(DataType dtype) { return dtype.bits == 64 ? "ulong" : "uint"; }

std::string Call(const char* function, const std::string& x) { return absl::StrCat(function, "(", x, ")"); }
std::string Call(const char* function, const std::string& x, const std::string& y) {
  return absl::StrCat(function, "(", x, ", ", y, ")");
}

std::string FloatUnary(UnaryOp op, const std::string& type, const std::string& x) {
  std::string one = absl::StrCat("(", type, ")1"), zero = absl::StrCat("(", type, ")0");
  switch (op) {
    case UnaryOp::kNegative: return "-" + x;
    case UnaryOp::kAbs: return Call("fabs", x);
    case UnaryOp::kSign:
      return absl::StrFormat("%s > 0 ? %s : %s < 0 ? -%s : %s == 0 ? %s : %s", x, one, x, one, x, zero, x);
    case UnaryOp::kFloor: return Call("floor", x);
    case UnaryOp::kCeil: return Call("ceil", x);
    case UnaryOp::kRound: return Call("rint", x);
    case UnaryOp::kTrunc: return Call("trunc", x);
    case UnaryOp::kSqrt: return Call("sqrt", x);
    case UnaryOp::kRsqrt: return absl::StrFormat("%s / sqrt(%s)", one, x);
    case UnaryOp::kExp: return Call("exp", x);
    case UnaryOp::kLog: return Call("log", x);
    case UnaryOp::kLog2: return Call("log2", x);
    case UnaryOp::kLog10: return Call("log10", x);
    case UnaryOp::kTanh: return Call("tanh", x);
    case UnaryOp::kSigmoid: return absl::StrFormat("%s / (%s + exp(-%s))", one, one, x);
    case UnaryOp::kErf: return Call("erf", x);
    case UnaryOp::kSin: return Call("sin", x);
    case UnaryOp::kCos: return Call("cos", x);
    case UnaryOp::kTan: return Call("tan", x);
    case UnaryOp::kAsin: return Call("asin", x);
    case UnaryOp::kAcos: return Call("acos", x);
    case UnaryOp::kAtan: return Call("atan", x);
    case UnaryOp::kSinh: return Call("sinh", x);
    case UnaryOp::kCosh: return Call("cosh", x);
    case UnaryOp::kAsinh: return Call("asinh", x);
    case UnaryOp::kAcosh: return Call("acosh", x);
    case UnaryOp::kAtanh: return Call("atanh", x);
    case UnaryOp::kIsNan: return absl::StrFormat("%s != %s", x, x);
    case UnaryOp::kIsInf: return absl::StrFormat("fabs(%s) == INFINITY", x);
    case UnaryOp::kIsFinite: return absl::StrFormat("fabs(%s) < INFINITY", x);
    case UnaryOp::kLogicalNot:
    case UnaryOp::kBitwiseNot: break;
  }
  RVM_UNREACHABLE("a logical operation on floats");
}

std::string IntUnary(UnaryOp op, DataType dtype, const std::string& x) {
  std::string negative = absl::StrFormat("(%s)(0 - (%s)%s)", OpenClType(dtype), WrappingType(dtype), x);
  switch (op) {
    case UnaryOp::kNegative: return dtype.is_bool() ? x : negative;
    case UnaryOp::kAbs: return dtype.is_int() ? absl::StrFormat("%s < 0 ? %s : %s", x, negative, x) : x;
    case UnaryOp::kSign:
      return dtype.is_int() ? absl::StrFormat("(%s > 0) - (%s < 0)", x, x) : absl::StrFormat("%s != 0", x);
    case UnaryOp::kLogicalNot: return absl::StrFormat("%s == 0", x);
    case UnaryOp::kBitwiseNot: return dtype.is_bool() ? absl::StrFormat("%s == 0", x) : "~" + x;
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf: return "0";
    case UnaryOp::kIsFinite: return "1";
#define RVM_CASE(Name, text) case UnaryOp::k##Name:
      RVM_UNARY_ROUNDING_OPS(RVM_CASE)
      RVM_UNARY_FLOAT_OPS(RVM_CASE)
#undef RVM_CASE
      return x;  // an integer stays as it is
  }
}

std::string Infix(const std::string& x, const char* op, const std::string& y) {
  return absl::StrCat(x, " ", op, " ", y);
}

std::string FloatBinary(BinaryOp op, DataType dtype, const std::string& x, const std::string& y) {
  const char* type = OpenClType(dtype);
  // In double, so that a quotient just below an integer is not rounded up to it.
  std::string quotient = absl::StrFormat("(double)%s / (double)%s", x, y);
  switch (op) {
    case BinaryOp::kAdd: return Infix(x, "+", y);
    case BinaryOp::kSubtract: return Infix(x, "-", y);
    case BinaryOp::kMultiply: return Infix(x, "*", y);
    case BinaryOp::kDivide: return Infix(x, "/", y);
    case BinaryOp::kFloorDivide: return absl::StrFormat("(%s)floor(%s)", type, quotient);
    case BinaryOp::kFloorMod: return absl::StrFormat("(%s)((double)%s - (double)%s * floor(%s))", type, x, y, quotient);
    case BinaryOp::kTruncDivide: return absl::StrFormat("(%s)trunc(%s)", type, quotient);
    case BinaryOp::kTruncMod: return Call("fmod", x, y);
    case BinaryOp::kPower: return Call("pow", x, y);
    case BinaryOp::kMaximum: return Call(dtype.bits == 64 ? "rvm_max_double" : "rvm_max_float", x, y);
    case BinaryOp::kMinimum: return Call(dtype.bits == 64 ? "rvm_min_double" : "rvm_min_float", x, y);
    case BinaryOp::kEqual: return Infix(x, "==", y);
    case BinaryOp::kNotEqual: return Infix(x, "!=", y);
    case BinaryOp::kLess: return Infix(x, "<", y);
    case BinaryOp::kLessEqual: return Infix(x, "<=", y);
    case BinaryOp::kGreater: return Infix(x, ">", y);
    case BinaryOp::kGreaterEqual: return Infix(x, ">=", y);
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kXor:
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight: break;
  }
  RVM_UNREACHABLE("a bitwise operation on floats");
}

std::string BoolBinary(BinaryOp op, const std::string& x, const std::string& y) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMaximum:
    case BinaryOp::kOr: return Infix(x, "|", y);
    case BinaryOp::kSubtract:
    case BinaryOp::kXor:
    case BinaryOp::kNotEqual: return Infix(x, "^", y);
    case BinaryOp::kMultiply:
    case BinaryOp::kMinimum:
    case BinaryOp::kAnd:
    case BinaryOp::kDivide:
    case BinaryOp::kTruncDivide:
    case BinaryOp::kFloorDivide: return Infix(x, "&", y);
    case BinaryOp::kFloorMod:
    case BinaryOp::kTruncMod: return "0";
    case BinaryOp::kPower:
    case BinaryOp::kGreaterEqual: return Infix(x, "|", "!" + y);
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
    case BinaryOp::kGreater: return Infix(x, "&", "!" + y);
    case BinaryOp::kEqual: return Infix(x, "==", y);
    case BinaryOp::kLess: return Infix("!" + x, "&", y);
    case BinaryOp::kLessEqual: return Infix("!" + x, "|", y);
  }
  RVM_UNREACHABLE("no such operation");
}

std::string IntBinary(BinaryOp op, DataType dtype, const std::string& x, const std::string& y) {
  const char *type = OpenClType(dtype), *wide = WrappingType(dtype);
  bool is_signed = dtype.is_int();
  auto wrapping = [&](const char* op_text) {
    return absl::StrFormat("(%s)((%s)%s %s (%s)%s)", type, wide, x, op_text, wide, y);
  };
  auto dividing = [&](const char* of_signed, const char* of_unsigned) {
    return absl::StrFormat("(%s)%s(%s, %s)", type, is_signed ? of_signed : of_unsigned, x, y);
  };
  std::string in_range = absl::StrFormat("(ulong)%s < %dUL", y, dtype.bits);
  switch (op) {
    case BinaryOp::kAdd: return wrapping("+");
    case BinaryOp::kSubtract: return wrapping("-");
    case BinaryOp::kMultiply: return wrapping("*");
    case BinaryOp::kDivide:
    case BinaryOp::kTruncDivide: return dividing("rvm_truncdiv", "rvm_udiv");
    case BinaryOp::kTruncMod: return dividing("rvm_truncmod", "rvm_umod");
    case BinaryOp::kFloorDivide: return dividing("rvm_floordiv", "rvm_udiv");
    case BinaryOp::kFloorMod: return dividing("rvm_floormod", "rvm_umod");
    case BinaryOp::kPower: return absl::StrFormat("(%s)rvm_power((long)%s, (long)%s)", type, x, y);
    case BinaryOp::kMaximum: return absl::StrFormat("%s > %s ? %s : %s", x, y, x, y);
    case BinaryOp::kMinimum: return absl::StrFormat("%s < %s ? %s : %s", x, y, x, y);
    case BinaryOp::kAnd: return Infix(x, "&", y);
    case BinaryOp::kOr: return Infix(x, "|", y);
    case BinaryOp::kXor: return Infix(x, "^", y);
    case BinaryOp::kShiftLeft:
      return absl::StrFormat("%s ? (%s)((%s)%s << %s) : (%s)0", in_range, type, wide, x, y, type);
    case BinaryOp::kShiftRight:
      return absl::StrFormat("%s ? (%s)(%s >> %s) : (%s)%s", in_range, type, x, y, type,
                             is_signed ? absl::StrFormat("(%s < 0 ? -1 : 0)", x) : "0");
    case BinaryOp::kEqual: return Infix(x, "==", y);
    case BinaryOp::kNotEqual: return Infix(x, "!=", y);
    case BinaryOp::kLess: return Infix(x, "<", y);
    case BinaryOp::kLessEqual: return Infix(x, "<=", y);
    case BinaryOp::kGreater: return Infix(x, ">", y);
    case BinaryOp::kGreaterEqual: return Infix(x, ">=", y);
  }
  RVM_UNREACHABLE("no such operation");
}

}  // namespace

std::string OpenClPrelude(bool uses_fp64) {
  if (!uses_fp64) return kPrelude;
  return absl::StrCat("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n", kPrelude, kPreludeOfFloat64);
}

const char* OpenClType(DataType dtype) {
  if (dtype.is_bool()) return "int";
  if (dtype.is_float()) return dtype.bits == 64 ? "double" : "float";
  switch (dtype.bits) {
    case 8: return dtype.is_int() ? "char" : "uchar";
    case 16: return dtype.is_int() ? "short" : "ushort";
    case 32: return dtype.is_int() ? "int" : "uint";
    default: return dtype.is_int() ? "long" : "ulong";
  }
}

const char* OpenClMemoryType(DataType dtype) {
  if (dtype.is_bool()) return "uchar";
  return dtype.is_small_float() ? "ushort" : OpenClType(dtype);
}

std::string OpenClDim(const Dim& dim) {
  if (dim.is_const()) return absl::StrCat(dim.constant(), "L");
  if (!dim.is_binary()) return absl::StrCat("s", dim.id());
  std::string x = OpenClDim(dim.lhs()), y = OpenClDim(dim.rhs());
  switch (dim.kind()) {
    case DimKind::kAdd: return absl::StrFormat("(%s + %s)", x, y);
    case DimKind::kSub: return absl::StrFormat("(%s - %s)", x, y);
    case DimKind::kMul: return absl::StrFormat("(%s * %s)", x, y);
    case DimKind::kFloorDiv: return Call("rvm_floordiv", x, y);
    case DimKind::kFloorMod: return Call("rvm_floormod", x, y);
    case DimKind::kMin: return Call("min", x, y);
    case DimKind::kMax: return Call("max", x, y);
    case DimKind::kBroadcast: return Call("rvm_broadcast", x, y);
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole: break;
  }
  RVM_UNREACHABLE("a kernel has a dim without a value");
}

std::string OpenClConstant(DataType dtype, int64_t bits) {
  if (!dtype.is_float()) {
    return absl::StrFormat("(%s)0x%xUL", OpenClType(dtype), static_cast<uint64_t>(bits));
  }
  auto value = std::bit_cast<double>(bits);
  if (dtype.bits == 64) return absl::StrFormat("as_double(0x%xUL)", static_cast<uint64_t>(bits));
  auto narrow = static_cast<float>(value);
  if (!std::isfinite(narrow)) return absl::StrFormat("as_float(0x%xU)", std::bit_cast<uint32_t>(narrow));
  std::string text = absl::StrFormat("%.9g", narrow);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string OpenClFromBits(DataType dtype, const std::string& bits) {
  if (dtype == kFloat16) return absl::StrFormat("rvm_half((ushort)%s)", bits);
  if (dtype == kBFloat16) return absl::StrFormat("rvm_bfloat((ushort)%s)", bits);
  if (dtype == kFloat32) return absl::StrFormat("as_float((uint)%s)", bits);
  if (dtype == kFloat64) return absl::StrFormat("as_double(%s)", bits);
  return absl::StrFormat("(%s)%s", OpenClType(dtype), bits);
}

std::string OpenClLoad(DataType dtype, const std::string& buffer, const std::string& at) {
  if (dtype == kFloat16) return Call("rvm_load_half", buffer, at);
  std::string element = absl::StrFormat("%s[%s]", buffer, at);
  if (dtype == kBFloat16) return Call("rvm_bfloat", element);
  return dtype.is_bool() ? absl::StrCat("(", element, " != 0)") : element;
}

std::string OpenClStore(DataType dtype, const std::string& buffer, const std::string& at, const std::string& value) {
  if (dtype == kFloat16) return absl::StrFormat("rvm_store_half(%s, %s, %s)", buffer, at, value);
  std::string bits = dtype == kBFloat16 ? Call("rvm_bfloat_bits", value) : value;
  return absl::StrFormat("%s[%s] = %s", buffer, at, bits);
}

std::string OpenClUnary(UnaryOp op, DataType dtype, const std::string& x) {
  return dtype.is_float() ? FloatUnary(op, OpenClType(dtype), x) : IntUnary(op, dtype, x);
}

std::string OpenClBinary(BinaryOp op, DataType dtype, const std::string& x, const std::string& y) {
  if (dtype.is_float()) return FloatBinary(op, dtype, x, y);
  return dtype.is_bool() ? BoolBinary(op, x, y) : IntBinary(op, dtype, x, y);
}

bool ComputesInFloat64(BinaryOp op, DataType dtype) {
  return dtype.is_float() &&
         (op == BinaryOp::kFloorDivide || op == BinaryOp::kFloorMod || op == BinaryOp::kTruncDivide);
}

std::string OpenClCast(DataType from, DataType to, const std::string& x) {
  if (to.is_bool()) return absl::StrFormat("%s != 0", x);
  if (to == kFloat16) return absl::StrFormat("rvm_round_half((float)%s)", x);
  if (to == kBFloat16) return absl::StrFormat("rvm_bfloat(rvm_bfloat_bits((float)%s))", x);
  if (from.is_float() && to.is_integral())
    return absl::StrFormat("%s != %s ? 0 : convert_%s_sat(%s)", x, x, OpenClType(to), x);
  return absl::StrFormat("(%s)%s", OpenClType(to), x);
}

}  // namespace rvm::lowering
