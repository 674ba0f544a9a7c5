// The list of the kinds of devices.
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "vm/device/device.h"
#include "vm/device/opencl_device.h"
#include "vm/device/sim_device.h"

namespace rvm::device {

DeviceList FindDevices() {
  DeviceList list;
  absl::StatusOr<std::vector<std::shared_ptr<Device>>> opencl = OpenClDevices();
  if (opencl.ok()) {
    list.devices = *std::move(opencl);
  } else {
    list.missing.push_back(absl::StrCat("opencl: ", opencl.status().message()));
  }
  list.devices.push_back(MakeSimDevice());
  return list;
}

}  // namespace rvm::device
