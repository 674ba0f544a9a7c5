// Steps that keep the elements of a tensor and change its axes.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_MOVES_H_
#define RVM_COMPILER_IMPORT_BLOCKS_MOVES_H_

#include <cstdint>
#include <optional>
#include <span>

#include "compiler/import/steps.h"

namespace rvm::importing {

// Returns x as a vector.
Operand Flat(Steps& c, Operand x);

// Returns x with two axes swapped; a scalar as it is.
Operand SwapAxes(Steps& c, Operand x, int64_t a, int64_t b);

// Replaces the extent -1 of `to` by what the others leave of a tensor of shape `from` and, with `copies_zeros`, each 0
// by the extent of that axis. A mistake for other negative extents and for a second -1.
std::optional<Dims> TargetShape(Steps& c, const Dims& from, Dims to, bool copies_zeros = false);

// Maximum number of parts that a node may split a tensor into, each of which is a step.
inline constexpr int64_t kMaxParts = 65536;
// Returns the parts of `sizes` extents that x has along an axis, one behind the other.
Operands PartsOf(Steps& c, Operand x, int64_t axis, const Dims& sizes);
// Returns `count` parts whose sizes are the elements of an int64 vector.
Operands PartsOf(Steps& c, Operand x, int64_t axis, Operand sizes, int64_t count);

// Returns the unsigned integers of the same width.
DataType UnsignedOf(DataType dtype);
// Returns the bits of x as elements of another dtype. Of a wider one the elements along the last axis, whose extent is
// the quotient of the widths, are one element, the first of them its lowest bits; of a narrower one there is a new
// axis.
Operand BitsAs(Steps& c, Operand x, DataType dtype);

// Returns the attribute `pad_width` for the widths before and after each axis in turn.
ir::AttrValue::List PadWidths(std::span<const int64_t> widths);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_MOVES_H_
