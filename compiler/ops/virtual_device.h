// The names of devices in programs: `on_device(%x, virtual_device="gpu")`.
#ifndef RVM_COMPILER_OPS_VIRTUAL_DEVICE_H_
#define RVM_COMPILER_OPS_VIRTUAL_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rvm::ops {

struct VirtualDevice {
  std::string_view name;  // a number of the device, below 100, may follow: "gpu:1"
  bool is_host;           // otherwise a device that the program is compiled for
  int64_t type = -1;      // DLPack's DLDeviceType; -1: none of its own
};

std::span<const VirtualDevice> VirtualDevices();
// Null if there is no such name.
const VirtualDevice* FindVirtualDevice(std::string_view name);
const VirtualDevice* FindVirtualDevice(int64_t type);
// Returns the number of the device that the name of one gives: 1 of "gpu:1".
size_t NumberOfVirtualDevice(std::string_view name);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_VIRTUAL_DEVICE_H_
