// KernelCall: a call of a kernel as the code has it. The callers for the host (kernel_caller.h) and for devices
// (device_caller.h) share what is here: operands, the shapes of results, and messages for calls that do not fit.
#ifndef RVM_VM_INTERPRETER_KERNEL_CALL_H_
#define RVM_VM_INTERPRETER_KERNEL_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "serialization/executable.h"
#include "serialization/isa/isa.h"
#include "vm/interpreter/run_control.h"
#include "vm/link/link_info.h"
#include "vm/memory/heap.h"

namespace rvm::vm {

struct KernelCall {
  // Returns whether the value of a parameter, a scalar, is in a register.
  bool IsInRegister(uint32_t param) const { return kernel->params[param].scalar && (args[param] & kConstantArg) == 0; }

  const KernelInfo* kernel;
  const uint16_t* dsts;
  const uint16_t* args;
  uint32_t num_args;
};

// The constants of an executable as tensors; immortal.
class ConstantTensors {
 public:
  // The constants outlive this.
  explicit ConstantTensors(const std::vector<Literal>& constants);

  Tensor* operator[](uint32_t index) const { return tensors_[index]; }
  Tensor* const* data() const { return tensors_.data(); }

  // Returns the tensor that is an argument of a call in the frame `r`.
  Tensor* ArgTensor(uint16_t arg, const Slot* r) const {
    if ((arg & kConstantArg) != 0) return tensors_[arg & ~kConstantArg];
    return AsTensor(r[arg & ~kMovedArg]);
  }

 private:
  std::vector<Tensor*> tensors_;
  std::unique_ptr<Slot[]> headers_;
};

// The shape of a result with extents that the symbols of a call decide.
struct ResultShape {
  // Evaluates the extents. False if one of them overflows or is negative: the call has ShapeError.
  bool Evaluate(const KernelInfo::TensorInfo& result, std::span<const int64_t> symbols);
  std::span<const int64_t> extents() const { return {dims, rank}; }

  int64_t dims[kMaxRank];
  size_t rank;
  int64_t bytes;  // of all elements; Heap::kUncountable if their number overflows
};

// "kernel `fused_add`".
std::string Describe(const KernelInfo& kernel);
// Returns the error of an allocation that failed: that of the run if it must stop.
absl::Status OutOfMemory(const Heap& heap, const RunControl& control);
// These return the error of a call: an extent overflows; a result would have a shape that no tensor has; the extent of
// an argument is another than `expected` (nullopt: that overflows).
absl::Status TooLarge(const KernelInfo& kernel);
absl::Status ShapeError(const KernelInfo& kernel, size_t result, std::span<const int64_t> symbols);
absl::Status ExtentError(const KernelInfo& kernel, const KernelInfo::Bind& bind, int64_t extent,
                         std::optional<int64_t> expected);

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_KERNEL_CALL_H_
