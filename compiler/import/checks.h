// Checks that importers add to a program for values that only its run tells, and the refusals of what must be known.
#ifndef RVM_COMPILER_IMPORT_CHECKS_H_
#define RVM_COMPILER_IMPORT_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "compiler/import/steps.h"

namespace rvm::importing {

// Returns the extent of an axis that the importer has to know; a mistake that names `--shape` if it is not. `what` is
// the tensor: "index tuples".
std::optional<int64_t> KnownExtent(Steps& c, Operand x, int64_t axis, std::string_view what);

// Returns `x`; the program fails unless a >= b, two int64 scalars. `what` begins the message.
Operand CheckAtLeast(Steps& c, Operand x, Operand a, Operand b, std::string_view what);

// Returns `x`; the program fails unless `least` <= v <= `greatest` for each of the integers `values`.
Operand CheckRange(Steps& c, Operand x, Operand values, Operand least, Operand greatest, std::string_view what);

// Returns `x`, which is split along `axis`; the program fails unless the sizes add up to the extent and none is
// negative.
Operand CheckSizes(Steps& c, Operand x, int64_t axis, const Dims& sizes);
Operand CheckSizes(Steps& c, Operand x, int64_t axis, Operand sizes);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_CHECKS_H_
