// Products with constants that are stored in a narrower dtype than they are multiplied in.
#ifndef RVM_KERNELS_SCHEDULE_STORED_FACTORS_H_
#define RVM_KERNELS_SCHEDULE_STORED_FACTORS_H_

#include <vector>

#include "kernels/schedule/target.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

// Makes sums of products read their factors from constant inputs directly, where tensors between them only convert
// elements and move them: a tile then packs the constant as it is stored and converts vectors as it loads them. The
// same where tensors between compute float32 factors from narrow constants, as weights of 4 bits with a scale for each
// block: axes of the sum that the factor divides are split, and the tile computes vectors as it loads them. `may_read`:
// by input, whether it may be read so; it is set to false for all inputs that are not.
te::Computation ReadStoredFactors(const te::Computation& computation, std::vector<bool>& may_read);

// Returns the operand of `factor` if that is a cast that tiles apply to vectors as they load them, else null: from a
// number that takes no more bytes to a float, or from a narrower integer to int32.
te::Expr StoredFactor(const te::Expr& factor);

// Returns whether the tensor is an input that is a constant at every call. `constant_inputs`: by input.
bool IsConstantInput(const te::Tensor& tensor, const std::vector<bool>& constant_inputs);

// Returns the element of float16 or bfloat16 that `factor` is converted from, if it is one that the target converts
// vector by vector at hardly more than the cost of loading them; else `factor`.
te::Expr ElementOf(const te::Expr& factor, const Target& target);

// Returns whether `factor` is arithmetic on elements of inputs that tiles do on vectors: to float32, of numbers of 16
// bits or fewer, and of float32.
bool IsExpansion(const te::Expr& factor);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_STORED_FACTORS_H_
