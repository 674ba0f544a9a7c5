#include "base/fold.h"

#include <bit>
#include <limits>

#include "base/check.h"

namespace rvm {

BinaryOp FoldedOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return BinaryOp::kAdd;
    case ReduceOp::kProduct: return BinaryOp::kMultiply;
    case ReduceOp::kMaximum: return BinaryOp::kMaximum;
    case ReduceOp::kMinimum: return BinaryOp::kMinimum;
    case ReduceOp::kAll: return BinaryOp::kAnd;
    case ReduceOp::kAny: return BinaryOp::kOr;
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kArgMaxLast:
    case ReduceOp::kArgMinLast: break;
  }
  RVM_UNREACHABLE("not a fold");
}

int64_t FoldIdentity(ReduceOp op, DataType dtype) {
  double infinity = std::numeric_limits<double>::infinity();
  int unused = 64 - dtype.bits;
  switch (op) {
    case ReduceOp::kProduct: return dtype.is_float() ? std::bit_cast<int64_t>(1.0) : 1;
    case ReduceOp::kAll: return 1;
    case ReduceOp::kMaximum:
      if (dtype.is_float()) return std::bit_cast<int64_t>(-infinity);
      return dtype.is_int() ? std::numeric_limits<int64_t>::min() >> unused : 0;
    case ReduceOp::kMinimum:
      if (dtype.is_float()) return std::bit_cast<int64_t>(infinity);
      if (dtype.is_int()) return std::numeric_limits<int64_t>::max() >> unused;
      return static_cast<int64_t>(~uint64_t{0} >> unused);
    case ReduceOp::kSum:
    case ReduceOp::kAny:
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kArgMaxLast:
    case ReduceOp::kArgMinLast: return 0;
  }
}

}  // namespace rvm
