// The runtime's half of an accelerator library.
#ifndef RVM_DEVICES_PLUGIN_PLUGIN_DEVICE_H_
#define RVM_DEVICES_PLUGIN_PLUGIN_DEVICE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "include/relayvm/accelerator.h"
#include "vm/device/device.h"

namespace rvm::device {

// Opens the devices of a library: "npu:0", "npu:1", ... kUnavailable, with the reason, if there are none.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> PluginDevices(const rvm_accelerator& table);

}  // namespace rvm::device

#endif  // RVM_DEVICES_PLUGIN_PLUGIN_DEVICE_H_
