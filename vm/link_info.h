// LinkInfo: what the interpreter needs to know of an executable, in the form it
// needs it: computed once per Program, shared by all machines.
#ifndef RVM_VM_LINK_INFO_H_
#define RVM_VM_LINK_INFO_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/abi/kernel_abi.h"
#include "serialization/executable.h"
#include "vm/dim_program.h"
#include "vm/memory/object.h"
#include "vm/recipe/recipe_plan.h"

namespace rvm::vm {

// Slots under each frame's registers: see vm/interpreter/register_stack.h.
inline constexpr uint32_t kLinkSlots = 3;

struct FunctionInfo {
  const uint16_t* code = nullptr;
  // Registers, a slot for the arena window if there is one, and the link of the next frame.
  uint32_t frame_slots = 0;
  uint32_t num_registers = 0;
  uint32_t arena_bytes = 0;
};

struct KernelInfo {
  struct TensorInfo {
    DataType dtype;
    bool scalar = false;
    std::vector<int64_t> dims;  // static shape; empty if dynamic
    int64_t bytes = 0;          // of the static shape
    // How a tensor of the static shape begins, but for `data`: in the arena, on the heap.
    Tensor planned_header = {};
    Tensor heap_header = {};
    std::vector<DimProgram> programs;  // one per dim
    std::vector<uint32_t> may_take;    // of a result: parameters in whose memory it may lie
  };
  // A dim of an argument: a symbol's value, or what it is compared with.
  struct Bind {
    uint32_t param, axis;
    int32_t symbol;  // -1: `expected` is checked instead
    DimProgram expected;
  };
  struct ValueBind {
    uint32_t symbol, param;
    int64_t offset;  // of the element in bytes
  };
  struct Check {
    DimProgram a, b;
    DimRelation relation;
    const std::string* what;
  };
  RvmKernel function = nullptr;
  std::shared_ptr<const RecipePlan> recipe;  // instead of the function
  const KernelDesc* desc = nullptr;
  bool is_static = false;    // every dim of params and results is a constant
  bool has_scalars = false;  // among params and results
  std::vector<TensorInfo> params;
  std::vector<TensorInfo> results;
  // In this order: a value is read when its parameter has the shape it must have.
  std::vector<Bind> binds;         // symbols, and dims that must be constants
  std::vector<ValueBind> values;   // symbols that are values
  std::vector<Bind> expectations;  // all other dims
  std::vector<Check> checks;
  DimProgram workspace;
  int64_t static_workspace = 0;
  // The same for machine code with static shapes, no scalars, one result; others have more than there ever is.
  int64_t plain_workspace = std::numeric_limits<int64_t>::max();
  // The same for machine code that gives one tensor, whose every dim is a symbol or a constant, and computes no values
  // of symbols, checks or workspace from them. `shape_code` has for each parameter, then for the result: the rank, and
  // for each dim the place of its extent among the machine's symbols; with kBindsSymbol it is written there.
  int64_t shaped_workspace = std::numeric_limits<int64_t>::max();
  std::vector<uint16_t> shape_code;
  Tensor shaped_header = {};  // of its result, for Heap::TryNewTensor
};
inline constexpr uint16_t kBindsSymbol = 0x8000;

struct LinkInfo {
  std::vector<FunctionInfo> functions;
  std::vector<HeapLayout> layouts;       // by heap layout: [0] is the tensor, then the
                                         // executable's, then those it has values but no code for
  std::vector<uint16_t> layout_of_type;  // heap layout of a tuple or reference type; 0 for others
  std::vector<KernelInfo> kernels;
  uint32_t max_kernel_tensors = 0;  // parameters and results of one kernel
  uint32_t max_symbols = 0;
  std::vector<int64_t> shape_constants;  // the machine has them behind the symbols, for shape_code
};

// `kernels`: one function per descriptor; none if the executable has recipes. kInvalidArgument for a descriptor that no
// call can satisfy.
absl::StatusOr<std::unique_ptr<const LinkInfo>> MakeLinkInfo(const Executable& executable,
                                                             const std::vector<RvmKernel>& kernels);

inline bool IsPointerType(const Executable& executable, TypeId type) {
  return executable.types[type.value].kind != TypeDescKind::kScalar;
}

}  // namespace rvm::vm

#endif  // RVM_VM_LINK_INFO_H_
