// Predicts the memory that a call of an entry takes, without running it: interprets the instructions on shapes instead
// of elements. Where data decides, both paths are followed.
#ifndef RVM_VM_FORECAST_MEMORY_FORECAST_H_
#define RVM_VM_FORECAST_MEMORY_FORECAST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/verifier.h"
#include "vm/link/device_program.h"

namespace rvm::vm {

// The memory of one device, in blocks (vm/device/block_bytes.h).
struct DeviceForecast {
  std::string device;      // its id
  int64_t peak_bytes = 0;  // of tensors, workspaces and scalar results at a time: a smaller memory limit stops the run
  int64_t reserved_bytes = 0;  // with blocks that are kept for later tensors: DeviceUse::peak_bytes of a fresh machine
};

struct MemoryForecast {
  int64_t peak_bytes = 0;       // of cells and tensors at a time: MachineStats::peak_bytes of a fresh machine
  int64_t arena_bytes = 0;      // of planned tensors, of all activations at a time
  int64_t workspace_bytes = 0;  // of kernels
  int64_t result_bytes = 0;     // those of `peak_bytes` that belong to the result
  int64_t copied_bytes = 0;     // of tensors that devices made and the host read, at a time
  // Calls that wait at a time at most, in a program with variants of kernels for batches, and the size of such a call:
  // its results, with memory for rows beside them, and its operands. They are not in `peak_bytes`.
  int64_t waiting_calls = 0;
  int64_t waiting_call_bytes = 0;
  bool is_waiting_bound = true;         // false: other calls may take more, since there is no bound for the program
  std::vector<DeviceForecast> devices;  // in use, as DeviceProgram has them
  // Why there is no bound, with the name of the function; the numbers are then what was seen until there. Empty if
  // there is a bound.
  std::string unbounded;
};

// `extent`: of an axis of a parameter that the entry's type leaves open; nullopt is an error that names it. `device`:
// which kernels run on a device; null: none. Its code is not used.
absl::StatusOr<MemoryForecast> ForecastMemory(
    const VerifiedExecutable& executable, const Entry& entry,
    const std::function<std::optional<int64_t>(size_t param, size_t axis)>& extent,
    const DeviceProgram* device = nullptr);

}  // namespace rvm::vm

#endif  // RVM_VM_FORECAST_MEMORY_FORECAST_H_
