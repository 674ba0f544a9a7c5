// Schedule: how a kernel runs on a target, stated once. Code generation follows it; the rest of the compiler learns
// from it which results may lie where arguments lie, how much workspace a call takes, and how constants are packed.
//
// Elementwise and injective producers are inlined into what reads them, except where that repeats real work. A
// reduction has a nest of its own, which also computes the tensors that read it at the same position (its epilogue).
// A scan, or a tensor to be ordered, has a nest for itself. What later nests read is stored, in an output or in
// workspace, which is reused once it is dead.
//
// Reading order: loop_nest.h, tile.h; nest_builder.cc (any target), cpu_schedule.cc (decisions for a CPU), buffers.cc.
#ifndef RVM_KERNELS_SCHEDULE_SCHEDULE_H_
#define RVM_KERNELS_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "kernels/schedule/loop_nest.h"
#include "kernels/schedule/target.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

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
  te::Computation computation;
  std::vector<bool> constant_inputs;  // inputs that are constants at every call
  Target target;

  std::vector<Dim> symbols;         // in the order of the kernel's dims
  std::vector<Dim> values;          // those that may be negative
  std::vector<te::Tensor> outputs;  // distinct computed tensors, one per output
  std::vector<LoopNest> nests;
  absl::flat_hash_map<const te::TensorNode*, TensorBuffer> buffers;  // of the tensors stored
  Dim workspace;                                                     // bytes
  std::vector<Reuse> reuses;                                         // by output, then input

  // What the nests point into.
  std::shared_ptr<te::ExprPool> pool;
  std::vector<te::Tensor> tensors;

  // How the constant input must be laid out; null: as it is.
  const PackedLayout* Layout(size_t input) const;
};

// kInvalidArgument if an extent does not follow from the inputs.
absl::StatusOr<Schedule> MakeSchedule(te::Computation computation, std::vector<bool> constant_inputs,
                                      const Target& target);

// One part per nest, for people and goldens: "tiles 64x768: dense, tanh [6x4 vectors of 16, ...]".
std::string Describe(const Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_SCHEDULE_H_
