// DeviceCaller: calls of kernels that run on devices. Arguments go to the device unless they are there; results stay
// there until somebody reads them (device_tensors.h).
#ifndef RVM_VM_INTERPRETER_DEVICE_CALLER_H_
#define RVM_VM_INTERPRETER_DEVICE_CALLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/interpreter/device_tensors.h"
#include "vm/interpreter/kernel_call.h"
#include "vm/interpreter/run_control.h"
#include "vm/link/link_info.h"
#include "vm/memory/heap.h"
#include "vm/profiler/profiler.h"

namespace rvm::vm {

class DeviceCaller {
 public:
  // All of these outlive the caller; `heap` and `control` need not be constructed yet. `profiler` may be null.
  // `memory_limit_bytes`: of the memory on each device.
  DeviceCaller(const DeviceProgram& program, const ConstantTensors& constants, Heap& heap, const RunControl& control,
               Profiler* profiler, int64_t memory_limit_bytes)
      : tensors_(program, heap, memory_limit_bytes, control, profiler),
        constants_(constants),
        heap_(heap),
        control_(control),
        profiler_(profiler) {}

  DeviceTensors& tensors() { return tensors_; }

  // Makes a call in the frame `r`, with these symbols: queues its launches, and gives registers its results. Results
  // that are scalars are read at once; their elements go to `scalars`, by number of the result.
  absl::Status Call(const KernelCall& call, std::span<const int64_t> symbols, std::span<Slot> scalars, Slot* r);

 private:
  struct ScalarResult {
    size_t result;
    std::unique_ptr<device::Block> block;
  };

  absl::Status BindArgs(const KernelCall& call, const Slot* r);
  absl::Status MakeResult(const KernelCall& call, size_t index, std::span<const int64_t> symbols, Slot* r);
  absl::Status LaunchAll(const KernelCall& call, std::span<const int64_t> symbols);
  absl::Status LaunchWith(const KernelCall& call, std::span<const int64_t> symbols, const device::Block* workspace);
  // Returns what the launch passes to its function, until the next call.
  std::span<const device::Argument> ArgsOf(const DeviceLaunch& launch, std::span<const int64_t> symbols);
  // Returns whether the launch is a product that the device's library computes; it is queued then.
  absl::StatusOr<bool> Multiply(const DeviceKernel& kernel, size_t launch, std::span<const int64_t> symbols);

  DeviceTensors tensors_;
  const ConstantTensors& constants_;
  Heap& heap_;
  const RunControl& control_;
  Profiler* profiler_;
  std::vector<device::Argument> args_;         // of the call being made
  std::vector<device::Argument> launch_args_;  // of the launch being made, of those
  std::vector<ScalarResult> scalar_results_;   // of the call being made
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_DEVICE_CALLER_H_
