// Schedule: how a kernel runs on a target. It is made once per kernel; code generation follows it, and the rest of the
// compiler takes from it which results may reuse the memory of arguments, how much workspace a call needs, and how
// constants are packed.
//
// Elementwise and injective producers are inlined into their consumers unless that repeats expensive work. A reduction
// has its own nest, which also computes the tensors that read it at the same position (its epilogue). A scan or a
// sorted tensor has a nest for itself. Tensors that later nests read are stored in an output or in workspace; workspace
// is reused when its tensor is dead.
//
// Reading order: loop_nest.h, tile.h; nest_builder.cc (any target), cpu_schedule.cc (decisions for a CPU),
// block.h, gpu_schedule.cc (for a GPU), row_groups.cc, row_teams.cc, buffers.cc.
#ifndef RVM_KERNELS_SCHEDULE_SCHEDULE_H_
#define RVM_KERNELS_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <memory>
#include <optional>
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

// An output that may be stored in the memory of an input: each element of the input is read only at its own position,
// before the element of the output is written, and not afterwards.
struct Reuse {
  int64_t output = 0;
  int64_t input = 0;
  size_t nest = 0;  // the nest that writes the output
  bool operator==(const Reuse&) const = default;
};

// Nests [first, first + count), of the same number of rows, run block by block of `rows` rows: all of them on one
// block, then all on the next. A group of one nest runs it as a whole. On a GPU, groups are launches, and blocks of
// threads take a row each. See row_groups.h.
struct NestGroup {
  // A tensor of which only the rows at hand are kept.
  struct Local {
    te::Tensor tensor;
    Dim row_size;             // elements
    int64_t rows = 0;         // at hand: of a block, or of a part of one
    bool is_on_stack = true;  // else in the workspace, where each strip of blocks has memory of its own
    size_t last = 0;          // the last nest that reads it
  };
  size_t first = 0;
  size_t count = 0;
  int64_t rows = 0;
  std::vector<Local> local = {};
  std::optional<RowTeam> team = std::nullopt;  // on a GPU: how threads share rows; else blocks run nest after nest
  // With tiles of rows, of matmuls whose other factor all rows of a matrix share.
  struct Matmuls {
    Dim span;                  // rows at whose multiples a block ends, so that it has rows of one matrix
    int64_t rows_between = 0;  // that nests between tiles take at once
  };
  std::optional<Matmuls> matmuls = std::nullopt;
  Dim blocks = 0;
  Dim strips = 0;  // with tensors in the workspace: neighbouring blocks are a strip, which one thread runs; else 0
  static constexpr int64_t kMaxStrips = 64;

  bool has_strips() const { return !strips.is_const() || strips.constant() > 0; }
  // Returns what the group keeps of the tensor; null: nothing, or all of it.
  const Local* FindLocal(const te::Tensor& tensor) const;
};

// The order of sums that a kernel and its batched variant agree on so that both give the same bits, and the layouts
// that kernels that read the same constants agree on.
struct SumOrder {
  // Sums of floats have an order that does not depend on the number of rows of a tile.
  bool is_fixed = false;
  // Tiles store each element once, so that the output may have the memory of an input that is added to a product. They
  // overlap only for targets without masks.
  bool stores_once = false;
  // The vectors of the other schedule's tiles.
  struct Vectors {
    int64_t panel = 0;  // columns, of vectors that are packed
    int64_t segments = 0;
  };
  absl::flat_hash_map<int64_t, Vectors> vectors = {};  // by the input that they are read from
};

struct Schedule {
  te::Computation source;             // as MakeSchedule was given it
  te::Computation computation;        // as the nests compute it
  std::vector<bool> constant_inputs;  // inputs that are constants at every call
  Target target;
  SumOrder sum_order;

  std::vector<Dim> symbols;         // in the order of the kernel's dims
  std::vector<Dim> values;          // those that may be negative
  std::vector<te::Tensor> outputs;  // distinct computed tensors, one per output
  std::vector<LoopNest> nests;
  std::vector<NestGroup> groups;  // of the nests, in order; empty for a target without vectors and blocks
  absl::flat_hash_map<const te::TensorNode*, TensorBuffer> buffers;  // of the tensors stored, but local ones
  Dim workspace;                                                     // bytes
  std::vector<Reuse> reuses;                                         // by output, then input
  // An output that has the elements of an input, or its memory, when the kernel begins. Nests with an update write the
  // others. The input is not read once the first of them runs.
  struct Update {
    int64_t output = 0;
    int64_t input = 0;
    bool operator==(const Update&) const = default;
  };
  std::vector<Update> updates;  // by output; such outputs have no reuses

  // Owners of the nodes that the nests refer to.
  std::shared_ptr<te::ExprPool> pool;
  std::vector<te::Tensor> tensors;

  // Returns the group of a nest: itself, if there are no groups.
  NestGroup GroupOf(size_t nest) const;
  // How the constant input must be laid out; null: as it is.
  const PackedLayout* Layout(size_t input) const;
};

// Returns a computed tensor, which the schedule owns.
te::Tensor NewTensor(Schedule& schedule, DataType dtype, Dims dims, std::string name);

// How a schedule reads a constant as packed vectors.
struct PackedVectors {
  int64_t panel;  // columns
  Dim rows;       // of the other factor
};

// Returns the packed vectors of the schedule's tiles, by input. An input that two tiles read has those of the last.
absl::flat_hash_map<int64_t, PackedVectors> PackedVectorsOf(const Schedule& schedule);

// Returns kInvalidArgument if an extent is not determined by the inputs.
absl::StatusOr<Schedule> MakeSchedule(te::Computation computation, std::vector<bool> constant_inputs,
                                      const Target& target, const SumOrder& sum_order = {});

// One part per nest, for people and goldens: "tiles 64x768: dense, tanh [6x4 vectors of 16, ...]".
std::string Describe(const Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_SCHEDULE_H_
