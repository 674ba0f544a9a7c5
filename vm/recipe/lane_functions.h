// Lane functions: loops over arrays of values, from which recipes are run.
//
// A lane holds one value: an int64_t (all integers, in the range of their dtype; uint64 as its bits;
// bool as 0 or 1), a float (float16, bfloat16, float32) or a double. An operand that is the same in
// all lanes is an array of one.
#ifndef RVM_VM_RECIPE_LANE_FUNCTIONS_H_
#define RVM_VM_RECIPE_LANE_FUNCTIONS_H_

#include <cstdint>

#include "base/data_type.h"
#include "base/scalar_op.h"

namespace rvm::vm {

// Lanes computed at a time.
inline constexpr int64_t kBlockLanes = 512;

inline int64_t LaneBytes(DataType dtype) { return dtype.is_float() && dtype.bits != 64 ? 4 : 8; }
// Whether an array of elements in memory is an array of lanes as it is.
inline bool IsLane(DataType dtype) { return !dtype.is_bool() && dtype.bytes() == LaneBytes(dtype); }

using UnaryFunction = void (*)(void* to, const void* a, int64_t n);
using BinaryFunction = void (*)(void* to, const void* a, const void* b, bool one_a, bool one_b, int64_t n);
using SelectFunction = void (*)(void* to, const int64_t* condition, const void* a, const void* b, int64_t n);
// Lanes from elements first, first + stride, ... of memory, all of which exist; and back.
using LoadFunction = void (*)(void* to, const void* memory, int64_t first, int64_t stride, int64_t n);
// Lanes from the elements of these numbers; 0 where there is none among `elements`.
using GatherFunction = void (*)(void* to, const void* memory, int64_t elements, const int64_t* numbers, int64_t n);
using StoreFunction = void (*)(void* memory, int64_t first, int64_t stride, const void* from, int64_t n);
// Folds n lanes into one.
using FoldFunction = void (*)(void* to, const void* from, int64_t n);
// Keeps the extremes and their places: of n lanes, numbered from `place` on, in one (`across`), or lane by lane,
// all at `place`.
using ArgFunction = void (*)(void* best, int64_t* at, const void* from, int64_t place, bool across, int64_t n);

// For operands of `dtype`. The results of integer functions need wrapping where Wraps says so.
UnaryFunction FindUnary(UnaryOp op, DataType dtype);
BinaryFunction FindBinary(BinaryOp op, DataType dtype);
bool Wraps(UnaryOp op);
bool Wraps(BinaryOp op);
// Brings lanes of any integer into the range of `dtype`; null if all are.
UnaryFunction FindWrap(DataType dtype);
UnaryFunction FindCast(DataType from, DataType to);
SelectFunction FindSelect(DataType dtype);
// A value to the front of `to`'s n lanes and all others.
UnaryFunction FindSpread(DataType dtype);
LoadFunction FindLoad(DataType dtype);
GatherFunction FindGather(DataType dtype);
StoreFunction FindStore(DataType dtype);
FoldFunction FindFold(ReduceOp op, DataType dtype);
ArgFunction FindArg(ReduceOp op, DataType dtype);
// The function of two that a reduction repeats. REQUIRES: !IsArg(op).
BinaryOp FoldedOp(ReduceOp op);
// The result over nothing, as one lane.
void StoreIdentity(ReduceOp op, DataType dtype, void* lane);

}  // namespace rvm::vm

#endif  // RVM_VM_RECIPE_LANE_FUNCTIONS_H_
