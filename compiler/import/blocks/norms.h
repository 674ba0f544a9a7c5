// The steps that normalisations consist of.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_NORMS_H_
#define RVM_COMPILER_IMPORT_BLOCKS_NORMS_H_

#include <cstdint>

#include "compiler/import/steps.h"

namespace rvm::importing {

// Returns the axes [first, rank).
ir::AttrValue::List AxesFrom(int64_t first, int64_t rank);

// Returns the mean over axes, which keep an extent of 1.
Operand Average(Steps& c, Operand x, const ir::AttrValue::List& axes);

// Returns a vector in the shape that broadcasts along axis 1 of x.
Operand AlongChannels(Steps& c, Operand vector, Operand x);

// Returns 1 / sqrt(the mean of x * x over axes + epsilon).
Operand InverseRoot(Steps& c, Operand x, const ir::AttrValue::List& axes, double epsilon);

// y = (x - mean) * inverse, with inverse = 1 / sqrt(variance + epsilon).
struct Normalised {
  Operand y, mean, inverse;
};
Normalised Normalise(Steps& c, Operand x, const ir::AttrValue::List& axes, double epsilon);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_NORMS_H_
