#include "tools/relayvm/foreseen_devices.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "devices/device_kinds.h"
#include "vm/device/choose_devices.h"
#include "vm/device/device.h"

namespace rvm::tools {
namespace {

class ForeseenDevice : public device::Device {
 public:
  explicit ForeseenDevice(device::DeviceInfo info) : info_(std::move(info)) {}
  const device::DeviceInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<device::Code>> Load(std::span<const uint8_t>, std::span<const std::string>) override {
    return std::make_unique<device::Code>();
  }
  absl::StatusOr<std::unique_ptr<device::Block>> Allocate(int64_t) override { return RunsNothing(); }
  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(bool) override { return RunsNothing(); }

 private:
  static absl::Status RunsNothing() { return absl::UnimplementedError("a device that is foreseen runs nothing"); }
  device::DeviceInfo info_;
};

// Returns the kind of devices that run code of the target; the target itself if it is one of a newer compiler.
std::string KindOfTarget(const std::string& target) {
  for (const target::DeviceKind* kind : target::DeviceKinds()) {
    if (kind->target == target) return std::string(kind->name);
  }
  return target;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const vm::DeviceProgram>> ForeseeDevices(const Executable& executable,
                                                                        const std::string& names) {
  device::DeviceList list;
  vm::DeviceNumbers numbers;
  std::set<std::string> ids;
  for (const DeviceCode& code : executable.device_codes) {
    std::string id = absl::StrCat(KindOfTarget(code.target), ":", numbers.Of(code));
    if (!ids.insert(id).second) continue;  // the first of several codes runs there
    list.devices.push_back(
        std::make_shared<ForeseenDevice>(device::DeviceInfo{std::move(id), "", code.target, code.features, 0}));
  }
  if (!names.empty()) {
    RVM_ASSIGN_OR_RETURN(list, device::ChooseDevices(names, std::move(list)));
  }
  return vm::LoadDeviceProgram(executable, list, /*host_fallback=*/true);
}

}  // namespace rvm::tools
