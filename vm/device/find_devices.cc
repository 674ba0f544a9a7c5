// The list of the kinds of devices.
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "vm/device/cuda_device.h"
#include "vm/device/device.h"
#include "vm/device/opencl_device.h"
#include "vm/device/sim_device.h"

namespace rvm::device {

namespace {

void Add(const char* kind, absl::StatusOr<std::vector<std::shared_ptr<Device>>> found, DeviceList& list) {
  if (!found.ok()) return list.missing.push_back(absl::StrCat(kind, ": ", found.status().message()));
  list.devices.insert(list.devices.end(), found->begin(), found->end());
}

}  // namespace

DeviceList FindDevices() {
  DeviceList list;
  Add("cuda", CudaDevices(), list);
  Add("opencl", OpenClDevices(), list);
  list.devices.push_back(MakeSimDevice());
  return list;
}

}  // namespace rvm::device
