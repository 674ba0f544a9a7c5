#include "vm/device/choose_devices.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/abseil.h"

namespace rvm::device {
namespace {

std::string_view KindOf(const Device& device) {
  std::string_view id = device.info().id;
  return id.substr(0, id.find(':'));
}

bool IsOfKind(const Device& device, std::string_view kind) {
  std::string_view own = KindOf(device);
  return own == kind || (kind == "gpu" && (own == "cuda" || own == "opencl"));
}

// "gpu:1", "opencl", "opencl:nn.*"
struct Name {
  explicit Name(std::string_view text) : kind(text.substr(0, text.find(':'))) {
    size_t parsed = 0;
    if (kind.size() < text.size() && absl::SimpleAtoi(Abseil(text.substr(kind.size() + 1)), &parsed)) {
      number = parsed;
      has_number = true;
    }
  }
  std::string_view kind;
  bool has_number = false;
  size_t number = 0;
};

// Marks the devices that the name stands for; false if there are none.
bool Mark(const Name& name, const DeviceList& list, std::vector<bool>& chosen) {
  size_t seen = 0;
  bool found = false;
  for (size_t i = 0; i < list.devices.size(); ++i) {
    if (!IsOfKind(*list.devices[i], name.kind)) continue;
    bool fits = !name.has_number || seen == name.number;
    ++seen;
    if (!fits) continue;
    chosen[i] = found = true;
  }
  return found;
}

}  // namespace

absl::StatusOr<DeviceList> ChooseDevices(std::string_view text, DeviceList all) {
  std::vector<bool> chosen(all.devices.size());
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(Abseil(text), ','))) {
    if (part == "host" || part.starts_with("host:") || Mark(Name(part), all, chosen)) continue;
    std::string ids, missing;
    for (const std::shared_ptr<Device>& device : all.devices) {
      absl::StrAppend(&ids, ids.empty() ? "" : ", ", "`", device->info().id, "`");
    }
    for (const std::string& line : all.missing) absl::StrAppend(&missing, "\n  ", line);
    return absl::FailedPreconditionError(
        absl::StrCat("no device `", part, "`; this machine has ", ids.empty() ? "none" : ids, missing));
  }
  DeviceList result{{}, std::move(all.missing)};
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i]) result.devices.push_back(all.devices[i]);
  }
  return result;
}

}  // namespace rvm::device
