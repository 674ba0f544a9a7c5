// Names of devices, as users give them.
#ifndef RVM_VM_DEVICE_CHOOSE_DEVICES_H_
#define RVM_VM_DEVICE_CHOOSE_DEVICES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "vm/device/device.h"

namespace rvm::device {

// The devices that `text` stands for, names between commas: a device that `relayvm devices` lists ("opencl:1"), a kind
// of them ("opencl"), "gpu" for those of cuda and opencl, "gpu:1" for number 1 of these, and "host", which adds none.
// Rules of a compilation ("opencl:nn.*") stand for their kind. kFailedPrecondition names what is not there.
absl::StatusOr<DeviceList> ChooseDevices(std::string_view text, DeviceList all);

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_CHOOSE_DEVICES_H_
