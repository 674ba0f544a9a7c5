// NVIDIA's GPUs, through the driver that is installed with them.
#ifndef RVM_VM_DEVICE_CUDA_DEVICE_H_
#define RVM_VM_DEVICE_CUDA_DEVICE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "vm/device/device.h"

namespace rvm::device {

// "cuda:0", "cuda:1", ...: those of compute capability 7.5 or later. kUnavailable, with the reason, if there are none.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> CudaDevices();

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_CUDA_DEVICE_H_
