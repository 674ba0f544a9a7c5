// The test oracle, which also folds constants: evaluates a te computation without a schedule. float16 and bfloat16
// compute in float32 and are rounded at each tensor. It shares no functions of scalars with code generation and with
// recipes (vm/recipe/lane_functions.h), so that a mistake in one of them shows where tests compare them.
#ifndef RVM_KERNELS_TE_EVALUATE_H_
#define RVM_KERNELS_TE_EVALUATE_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "kernels/te/tensor.h"

namespace rvm::te {

// Returns one literal per output. Binds the symbols by matching the dims of the inputs against the shapes of the
// literals; returns kInvalidArgument if they do not match, kResourceExhausted for a tensor of more than 2^32 elements.
absl::StatusOr<std::vector<Literal>> Evaluate(const Computation& computation, std::span<const Literal> inputs);

}  // namespace rvm::te

#endif  // RVM_KERNELS_TE_EVALUATE_H_
