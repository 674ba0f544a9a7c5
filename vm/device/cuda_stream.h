// Streams of CUDA devices.
#ifndef RVM_VM_DEVICE_CUDA_STREAM_H_
#define RVM_VM_DEVICE_CUDA_STREAM_H_

#include <memory>

#include "vm/device/cuda_api.h"
#include "vm/device/cuda_core.h"
#include "vm/device/device.h"

namespace rvm::device::cuda {

// Takes `stream`, which belongs to the context of `core`. Without times, and unless the variable RELAYVM_CUDA_GRAPHS of
// the environment is `off`, launches that come again go through graphs.
std::unique_ptr<device::Stream> MakeStream(std::shared_ptr<const Core> core, Stream stream, bool keeps_times);

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_STREAM_H_
