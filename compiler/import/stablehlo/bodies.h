// Bodies of reductions, scatters and sorts: functions of scalars, recognised or computed for many elements at once.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_BODIES_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_BODIES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {

// Returns the operation that computes the result of a body from its two arguments, in either order if it commutes:
// "add". "update" if the result is the second argument; "" for other bodies.
std::string_view SingleOperation(const Block& body);

// Returns a text that is the same for bodies that do the same operations, with values numbered from 0.
std::string TextOfBody(const Block& body);

// Returns integers with the order that IEEE 754 gives all floats, NaN and -0 included; integers as they are.
Operand TotalOrderKey(NodeContext& c, Operand x);

// Reduces the first axis of `inputs`, in order, by the body of region 0, which is associative, and starts with
// `initial`.
Operands Fold(NodeContext& c, Operands inputs, const Operands& initial);

// The reduction that an operation is in Relay, "sum" of "add", for that dtype; "" if there is none.
std::string_view ReductionOf(std::string_view operation, DataType dtype);
// Returns true if `x` is a constant that changes no value under the operation.
bool IsNeutral(std::string_view operation, Operand x);

// Returns x with `count` elements of `value` behind each element along an axis, but the last one.
Operand WithGaps(NodeContext& c, Operand x, Operand value, int64_t axis, int64_t count);

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_BODIES_H_
