// AddBatchAxis, AddBatchSum: the computation of several calls of a kernel at once.
#ifndef RVM_KERNELS_TE_BATCH_AXIS_H_
#define RVM_KERNELS_TE_BATCH_AXIS_H_

#include <optional>
#include <vector>

#include "base/dim.h"
#include "kernels/te/tensor.h"

namespace rvm::te {

// A computation over calls of another one, whose symbols it has, and one more.
struct BatchedComputation {
  Computation computation;
  Dim batch;  // the number of calls: a variable

  // Returns `dim`, over the symbols of the other computation, over those of this one. Symbols are numbered in the order
  // of te::KernelSymbols: those behind the batch symbol have an id that is larger by one.
  Dim Translated(const Dim& dim) const;
};

// Gives each output, and each input but those that `shared` names by their index, a new outermost axis, along which
// the calls lie. Tensors that depend on shared inputs alone are computed once. The result has no updates: the bodies
// of the tensors define it. Returns nullopt if all inputs are shared, or if a symbol is the value of an element, which
// may be another in each call.
// REQUIRES: `shared` has an element for each input, and the symbols are the variables 0, 1, ... in the order of
// te::KernelSymbols.
std::optional<BatchedComputation> AddBatchAxis(const Computation& computation, const std::vector<bool>& shared);

// Returns the input to which the only output adds a term: output = input + term. The term is a product or a sum that
// does not read that input, and the positions that it reads do not depend on data. nullopt: there is none.
std::optional<size_t> FindAccumulator(const Computation& computation);

// The computation of a chain of calls, each of which has the result of the one before as its accumulator: that input
// plus the sum of all terms. The accumulator and the output have no axis for the calls. Otherwise as AddBatchAxis.
// REQUIRES: FindAccumulator gives an input, which is shared.
std::optional<BatchedComputation> AddBatchSum(const Computation& computation, const std::vector<bool>& shared);

}  // namespace rvm::te

#endif  // RVM_KERNELS_TE_BATCH_AXIS_H_
