// Lane functions: loops over arrays of values, which implement the steps of recipes.
//
// A lane holds one value: an int64_t (any integer, in the range of its dtype; uint64 as its bits; bool as 0 or 1), a
// float (float16, bfloat16, float32) or a double. An operand with the same value in all lanes is an array of one lane.
#ifndef RVM_VM_RECIPE_LANE_FUNCTIONS_H_
#define RVM_VM_RECIPE_LANE_FUNCTIONS_H_

#include <cstdint>

#include "base/data_type.h"
#include "base/scalar_op.h"

namespace rvm::vm {

// Lanes computed at a time.
inline constexpr int64_t kBlockLanes = 512;

inline int64_t LaneBytes(DataType dtype) { return dtype.is_float() && dtype.bits != 64 ? 4 : 8; }
// Returns whether elements of `dtype` have the same representation in memory and in lanes.
inline bool IsLane(DataType dtype) { return !dtype.is_bool() && dtype.bytes() == LaneBytes(dtype); }

using UnaryFunction = void (*)(void* to, const void* a, int64_t n);
using BinaryFunction = void (*)(void* to, const void* a, const void* b, bool one_a, bool one_b, int64_t n);
using SelectFunction = void (*)(void* to, const int64_t* condition, const void* a, const void* b, int64_t n);
// Loads n lanes from the elements first, first + stride, ... of `memory`; stores them. REQUIRES: the elements exist.
using LoadFunction = void (*)(void* to, const void* memory, int64_t first, int64_t stride, int64_t n);
// Loads n lanes from the elements with the given numbers; 0 for numbers outside [0, elements).
using GatherFunction = void (*)(void* to, const void* memory, int64_t elements, const int64_t* numbers, int64_t n);
using StoreFunction = void (*)(void* memory, int64_t first, int64_t stride, const void* from, int64_t n);
// Reduces n lanes to one.
using FoldFunction = void (*)(void* to, const void* from, int64_t n);
// Updates the extreme values `best` and their positions `at`. If `across`, reduces n lanes with positions `place`,
// `place` + 1, ... to one; otherwise updates each of n lanes with a value at position `place`.
using ArgFunction = void (*)(void* best, int64_t* at, const void* from, int64_t place, bool across, int64_t n);

// Returns the functions for operands of `dtype`. The results of integer functions must be wrapped if Wraps returns
// true.
UnaryFunction FindUnary(UnaryOp op, DataType dtype);
BinaryFunction FindBinary(BinaryOp op, DataType dtype);
bool Wraps(UnaryOp op);
bool Wraps(BinaryOp op);
// Wraps integer lanes to the range of `dtype`; null if no wrapping is needed.
UnaryFunction FindWrap(DataType dtype);
UnaryFunction FindCast(DataType from, DataType to);
SelectFunction FindSelect(DataType dtype);
// Copies one value to all n lanes of `to`.
UnaryFunction FindSpread(DataType dtype);
LoadFunction FindLoad(DataType dtype);
GatherFunction FindGather(DataType dtype);
StoreFunction FindStore(DataType dtype);
FoldFunction FindFold(ReduceOp op, DataType dtype);
ArgFunction FindArg(ReduceOp op, DataType dtype);
// Stores the identity element of `op`, the result of an empty reduction, as one lane.
void StoreIdentity(ReduceOp op, DataType dtype, void* lane);

}  // namespace rvm::vm

#endif  // RVM_VM_RECIPE_LANE_FUNCTIONS_H_
