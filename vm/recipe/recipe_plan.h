// RecipePlan: a verified recipe, made ready to run: once per program, shared by all machines.
//
// A nest runs along ONE of its axes a block of lanes at a time. Seen along
// that axis a value is uniform (one lane), linear (an integer that grows by a constant: most element
// numbers, so that most loads are of neighbours) or a vector (an array of lanes).
#ifndef RVM_VM_RECIPE_RECIPE_PLAN_H_
#define RVM_VM_RECIPE_RECIPE_PLAN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/executable.h"
#include "vm/dim_program.h"
#include "vm/recipe/lane_functions.h"

namespace rvm::vm {

// One thing to do. Values are places in the frame's table of pointers to lanes; a linear value is two int64
// there: its first lane and its stride.
struct PlanStep {
  enum Kind : uint8_t {
    kIndex,         // to = the index of axis a
    kIndexAlong,    // linear to = 0, 1, ...
    kUnary,         // to = unary(a)
    kBinary,        // to = binary(a, b)
    kSelect,        // to = select(a, b, c)
    kBitcast,       // to = what `load` gives of a as `store` stores it
    kLinearAdd,     // linear to = a + b
    kLinearSub,     // linear to = a - b
    kLinearScale,   // linear to = a * b, b uniform
    kLinearOf,      // linear to = uniform a, stride 0
    kLinearVector,  // to = the lanes of linear a
    kLoadOne,       // to = buffer[a], a uniform
    kLoadLinear,    // to = buffer[a], a linear
    kGather,        // to = buffer[a], a vector
    kStoreOne,      // buffer[a] = b, a uniform
    kStoreLinear,   // buffer[a] = b, a linear
    kScatter,       // buffer[a] = b, a vector
    kOrder,         // sorts b keys from buffer[a] on; uniform
  };
  Kind kind;
  bool one_a = false, one_b = false;  // kBinary
  DataType dtype;                     // loads and stores: of the buffer
  uint32_t to = 0, a = 0, b = 0, c = 0;
  uint32_t buffer = 0;
  UnaryFunction unary = nullptr;
  BinaryFunction binary = nullptr;
  SelectFunction select = nullptr;
  LoadFunction load = nullptr;
  GatherFunction gather = nullptr;
  StoreFunction store = nullptr;
};

// Steps by how often they run.
struct PlanPart {
  std::vector<PlanStep> once;   // per nest
  std::vector<PlanStep> row;    // per position of the axes that are not run along
  std::vector<PlanStep> block;  // per block of lanes
};

// One way to run a nest.
struct NestPlan {
  int axis = -1;   // run along, reduced ones behind; -1: none, every position is a row
  PlanPart inner;  // what is reduced
  PlanPart outer;  // after it, or all
  uint32_t num_values = 0;
  std::vector<uint32_t> vector_of;  // by value: its place among the vectors; kNoVector if it is none
  uint32_t num_vectors = 0;
  uint32_t reduced = 0;                                 // the value of the inner part that is folded
  uint32_t result = 0;                                  // into this value of the outer part
  uint32_t places = 0;                                  // and, for Arg*, this one: where the extremes are
  bool one_reduced = false;                             // `reduced` is uniform
  std::vector<std::pair<uint32_t, int64_t>> constants;  // lane of a value, as bits
  std::vector<std::pair<uint32_t, uint32_t>> extents;   // value, which
  int far_loads = 0;                                    // loads of elements that are not neighbours
};
inline constexpr uint32_t kNoVector = UINT32_MAX;

struct RecipePlan {
  struct Buffer {
    DataType dtype;
    std::vector<DimProgram> dims;  // whose product is the number of elements
    DimProgram offset;             // of workspaces
  };
  struct Nest {
    std::vector<DimProgram> axes;  // reduced ones behind
    size_t num_outer = 0;          // how many are not
    std::vector<DimProgram> extents;
    bool reduces = false;
    ReduceOp reduce{};
    DataType reduce_dtype;  // of the values reduced
    // Along the last axis; along the last reduced axis. Nests that do not reduce have the first alone.
    NestPlan by_column, by_row;
    bool prefers_columns = true;
    FoldFunction fold = nullptr;
    BinaryFunction fold_lanes = nullptr;
    UnaryFunction wrap = nullptr;
    ArgFunction arg = nullptr;
  };
  std::vector<Buffer> buffers;
  size_t num_params = 0, num_results = 0;
  std::vector<Nest> nests;
  int64_t scratch_bytes = 0;  // what a run needs at the front of its workspace; a multiple of 64
};

// `desc`: of the kernel. REQUIRES: both were verified. kInvalidArgument for dims too deep to be shapes.
absl::StatusOr<RecipePlan> MakeRecipePlan(const KernelDesc& desc, const KernelRecipe& recipe);

}  // namespace rvm::vm

#endif  // RVM_VM_RECIPE_RECIPE_PLAN_H_
