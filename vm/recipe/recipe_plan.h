// RecipePlan: a verified recipe, prepared for execution. Made once per program and shared by all machines.
//
// A nest runs along one of its axes, in blocks of lanes. Along that axis a value is uniform (one lane), linear (an
// integer with a constant stride, such as most element numbers) or a vector (an array of lanes).
#ifndef RVM_VM_RECIPE_RECIPE_PLAN_H_
#define RVM_VM_RECIPE_RECIPE_PLAN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/executable.h"
#include "vm/link/dim_program.h"
#include "vm/recipe/lane_functions.h"

namespace rvm::vm {

// One step. Operands and results are indices into the frame's table of pointers to lanes. A linear value is stored as
// two int64: its first lane and its stride.
struct PlanStep {
  enum Kind : uint8_t {
    kIndex,         // to = the index of axis a
    kIndexAlong,    // linear to = 0, 1, ...
    kUnary,         // to = unary(a)
    kBinary,        // to = binary(a, b)
    kSelect,        // to = select(a, b, c)
    kBitcast,       // to = load(store(a)): the same bits as another dtype
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
    kLimit,         // axis a has at most b positions; uniform
  };
  // Whether a store happens: always, where the uniform c is true, or in the lanes where c is.
  enum Condition : uint8_t { kAlways, kForAll, kByLane };
  Kind kind;
  Condition condition = kAlways;
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

// Steps, grouped by how often they run.
struct PlanPart {
  std::vector<PlanStep> once;   // per nest
  std::vector<PlanStep> row;    // per position of the other axes
  std::vector<PlanStep> block;  // per block of lanes
};

// A plan to run a nest along one axis.
struct NestPlan {
  int axis = -1;   // the axis run along, reduced axes last; -1: none, every position is a row
  PlanPart inner;  // the operand of the reduction
  PlanPart outer;  // the steps after the reduction; all steps if there is none
  uint32_t num_values = 0;
  std::vector<uint32_t> vector_of;  // by value: the index of its array of lanes; kNoVector if it is not a vector
  uint32_t num_vectors = 0;
  uint32_t reduced = 0;                                 // the value of the inner part that is reduced
  uint32_t result = 0;                                  // the value of the outer part that is the result
  uint32_t places = 0;                                  // for Arg*: the value that holds the positions of the extremes
  bool one_reduced = false;                             // `reduced` is uniform
  std::vector<std::pair<uint32_t, int64_t>> constants;  // value, its lane as bits
  std::vector<std::pair<uint32_t, uint32_t>> extents;   // value, index of the extent
  int far_loads = 0;                                    // the number of loads of elements that are not adjacent
};
inline constexpr uint32_t kNoVector = UINT32_MAX;

struct RecipePlan {
  struct Buffer {
    DataType dtype;
    std::vector<DimProgram> dims;  // the product is the number of elements
    DimProgram offset;             // of a workspace
  };
  struct Nest {
    std::vector<DimProgram> axes;  // reduced axes last
    size_t num_outer = 0;          // the number of axes that are not reduced
    std::vector<DimProgram> extents;
    bool reduces = false;
    ReduceOp reduce{};
    DataType reduce_dtype;  // of the values reduced
    // Plans along the last axis that is not reduced, and along the last reduced axis. Only the first if nothing is
    // reduced.
    NestPlan by_column, by_row;
    bool prefers_columns = true;
    FoldFunction fold = nullptr;
    BinaryFunction fold_lanes = nullptr;
    UnaryFunction wrap = nullptr;
    ArgFunction arg = nullptr;
  };
  std::vector<Buffer> buffers;
  size_t num_params = 0, num_results = 0;
  // By result: the parameter whose elements it has, or begins with, when the recipe begins; -1: none.
  std::vector<int64_t> begun;
  std::vector<Nest> nests;
  int64_t scratch_bytes = 0;  // needed at the start of the workspace of a run; a multiple of 64
};

// `desc` is the kernel's descriptor. REQUIRES: `desc` and `recipe` were verified. Returns kInvalidArgument for dims
// that are nested too deeply.
absl::StatusOr<RecipePlan> MakeRecipePlan(const KernelDesc& desc, const KernelRecipe& recipe);

}  // namespace rvm::vm

#endif  // RVM_VM_RECIPE_RECIPE_PLAN_H_
