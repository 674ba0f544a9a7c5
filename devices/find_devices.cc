// The runtime's list of the kinds of devices.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "devices/plugin/accelerator_library.h"
#include "devices/plugin/plugin_device.h"
#include "devices/sim/sim_device.h"
#include "vm/device/cuda_device.h"
#include "vm/device/device.h"
#include "vm/device/opencl_device.h"

namespace rvm::device {
namespace {

struct Finder {
  std::string_view kind;
  // Returns the devices of the kind; kUnavailable, with the reason, if there are none.
  absl::StatusOr<std::vector<std::shared_ptr<Device>>> (*find)();
};

constexpr Finder kFinders[] = {
    {"cuda", CudaDevices},
    {"opencl", OpenClDevices},
    {"sim", SimDevices},
};

void Add(std::string_view kind, const absl::StatusOr<std::vector<std::shared_ptr<Device>>>& found, DeviceList& list) {
  if (!found.ok()) return list.missing.push_back(absl::StrCat(Abseil(kind), ": ", found.status().message()));
  list.devices.insert(list.devices.end(), found->begin(), found->end());
}

}  // namespace

DeviceList FindDevices() {
  DeviceList list;
  for (const Finder& finder : kFinders) Add(finder.kind, finder.find(), list);
  AcceleratorLibraries libraries = OpenedAcceleratorLibraries();
  for (const rvm_accelerator* table : libraries.tables) Add(table->kind, PluginDevices(*table), list);
  for (const std::string& error : libraries.errors) {
    list.missing.push_back(absl::StrCat("RELAYVM_DEVICE_LIBRARIES: ", error));
  }
  return list;
}

}  // namespace rvm::device
