// Schedule: how a computation runs, as loop nests with workspace between them.
//
// Elementwise and injective producers are inlined into what reads them, except
// where that repeats real work. A reduction has a nest of its own, which also
// computes the tensors that read it at the same position (its epilogue). A scan, or what is ordered,
// has one for itself. What is read by
// later nests is stored, in an output or in workspace that is reused once it is dead.
#ifndef RVM_KERNELS_TE_SCHEDULE_H_
#define RVM_KERNELS_TE_SCHEDULE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "kernels/te/loop_nest.h"
#include "kernels/te/tensor.h"

namespace rvm::te {

struct TensorBuffer {
  bool is_output = false;
  int64_t output = 0;  // index
  Dim offset;          // in workspace, bytes; a multiple of 64
};

// An output that may lie where an input lies: each element of the input is read before that of the output is
// written, at the same position, and not after.
struct Reuse {
  int64_t output = 0;
  int64_t input = 0;
  size_t nest = 0;  // which writes the output
};

struct Schedule {
  std::vector<Dim> symbols;  // in the order of the kernel's dims
  std::vector<Dim> values;   // those that may be negative
  std::vector<LoopNest> nests;
  absl::flat_hash_map<const TensorNode*, TensorBuffer> buffers;  // of the tensors stored
  Dim workspace;                                                 // bytes
  std::vector<Reuse> reuses;                                     // by output, then input
  std::string description;                                       // for people

  // What the nests point into.
  std::shared_ptr<ExprPool> pool;
  std::vector<Tensor> tensors;
};

// The variables in the dims of the inputs, in the order they first appear.
std::vector<Dim> KernelSymbols(const Computation& computation);

// Constant inputs may get another layout, so contractions by them are recognised.
absl::StatusOr<Schedule> MakeSchedule(const Computation& computation, const std::vector<bool>& constant_inputs);

}  // namespace rvm::te

#endif  // RVM_KERNELS_TE_SCHEDULE_H_
