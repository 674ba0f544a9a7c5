// A device that runs nothing, and ends the process where the VM breaks a rule of vm/device/device.h.
#ifndef RVM_TESTS_FUZZ_CHECKED_DEVICE_H_
#define RVM_TESTS_FUZZ_CHECKED_DEVICE_H_

#include <memory>

#include "vm/device/device.h"

namespace rvm::fuzz {

// Its code is any bytes, and its memory is 0 until the host writes to it.
std::shared_ptr<device::Device> MakeCheckedDevice(device::DeviceInfo info);

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_CHECKED_DEVICE_H_
