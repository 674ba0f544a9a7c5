// LinkInfo: an executable in the form that the interpreter needs. Computed once per
// Program, shared by all machines.
#ifndef RVM_VM_LINK_LINK_INFO_H_
#define RVM_VM_LINK_LINK_INFO_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/abi/kernel_abi.h"
#include "serialization/executable.h"
#include "vm/link/device_program.h"
#include "vm/link/dim_program.h"
#include "vm/link/equal_extents.h"
#include "vm/memory/heap.h"
#include "vm/memory/object.h"
#include "vm/recipe/recipe_plan.h"

namespace rvm::vm {

struct NativeCode;

// Slots below each frame's registers: interpreter/execution.h describes them.
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
    // The header of a tensor of the static shape, except for `data`: in the arena, on the heap.
    Tensor planned_header = {};
    Tensor heap_header = {};
    std::vector<DimProgram> programs;  // one per dim
    std::vector<uint32_t> may_take;    // of a result: parameters whose memory it may reuse
    int32_t begins_as = -1;            // of a result: the parameter of which it has the elements before the kernel runs
    bool grows = false;                // of such a result: it may have more elements than the parameter
  };
  // A dim of an argument: binds a symbol, or is compared with `expected`.
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
  const DeviceKernel* device = nullptr;      // on which it runs then, rather than on the host
  const KernelDesc* desc = nullptr;
  const BatchVariant* batch = nullptr;  // makes many calls at once; null: there is none
  bool is_static = false;               // every dim of params and results is a constant
  bool has_scalars = false;             // among params and results
  std::vector<TensorInfo> params;
  std::vector<TensorInfo> results;
  // Processed in this order: a value is read only after the shape of its parameter was checked.
  std::vector<Bind> binds;         // symbols, and dims that must be constants
  std::vector<ValueBind> values;   // symbols that are values
  std::vector<Bind> expectations;  // all other dims
  std::vector<Check> checks;
  DimProgram workspace;
  int64_t static_workspace = 0;
  // Like static_workspace, for machine code with static shapes, no scalars and one result, no update; INT64_MAX for
  // other kernels, which forces the slow path.
  int64_t plain_workspace = std::numeric_limits<int64_t>::max();
  // Likewise for machine code that gives one tensor, all of whose dims are symbols or constants, with a constant
  // workspace, no checks and no symbols that are values. `shape_code` holds, for each parameter and then for the
  // result, the rank and for each dim the index of its extent among the machine's symbols; kBindsSymbol: the extent is
  // stored there.
  int64_t shaped_workspace = std::numeric_limits<int64_t>::max();
  std::vector<uint16_t> shape_code;
  Tensor shaped_header = {};  // of the result, for Heap::TryNewTensor
};
inline constexpr uint16_t kBindsSymbol = 0x8000;

struct LinkInfo {
  std::vector<FunctionInfo> functions;
  std::vector<HeapLayout> layouts;       // by heap layout: [0] is the tensor, then the
                                         // executable's, then those of values that its code never makes
  std::vector<uint16_t> layout_of_type;  // heap layout of a tuple or reference type; 0 for others
  bool gives_functions = false;          // closures are part of what entries give
  // Heap layout of a closure that stands for a function of the host, by the closure's type; 0: the file has none.
  std::vector<uint16_t> host_layout_of_type;
  std::vector<KernelInfo> kernels;
  std::vector<std::vector<EqualExtents>> equal_extents;  // by entry
  uint32_t max_kernel_tensors = 0;                       // parameters and results of one kernel
  uint32_t max_symbols = 0;
  std::vector<int64_t> shape_constants;      // follow the symbols of a machine, for shape_code
  const DeviceProgram* device = nullptr;     // null: none is used
  bool has_batches = false;                  // kernels have variants for batches, which are used
  std::shared_ptr<const NativeCode> native;  // machine code of functions; null: there is none
};

// `kernels`: one function per descriptor; none if the executable has recipes. `device`: null, or what kernels run on a
// device; it outlives the result. kInvalidArgument for a descriptor that no call can satisfy.
absl::StatusOr<std::unique_ptr<LinkInfo>> MakeLinkInfo(const Executable& executable,
                                                       const std::vector<RvmKernel>& kernels,
                                                       const DeviceProgram* device = nullptr);

// Returns the size of a workspace, in bytes; Heap::kUncountable if its formula, which a file may give, overflows or is
// negative.
inline int64_t WorkspaceBytes(const DimProgram& formula, std::span<const int64_t> symbols) {
  std::optional<int64_t> bytes = formula.Evaluate(symbols);
  return bytes && *bytes >= 0 ? *bytes : Heap::kUncountable;
}

inline bool IsPointerType(const Executable& executable, TypeId type) {
  return executable.types[type.value].kind != TypeDescKind::kScalar;
}

}  // namespace rvm::vm

#endif  // RVM_VM_LINK_LINK_INFO_H_
