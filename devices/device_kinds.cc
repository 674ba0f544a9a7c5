// The compiler's list of the kinds of devices.
#include "devices/device_kinds.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "devices/plugin/accelerator_library.h"
#include "devices/plugin/plugin_accelerator.h"
#include "devices/sim/sim_accelerator.h"
#include "devices/sim/tile_target.h"
#include "serialization/device_contract.h"

namespace rvm::target {
namespace {

using device_contract::kOpenClTarget;
using device_contract::kPtxTarget;

constexpr std::string_view kGpus[] = {"cuda", "opencl"};

constexpr DeviceKind kKinds[] = {
    {.name = "cuda", .target = kPtxTarget},
    {.name = "opencl", .target = kOpenClTarget},
    {.name = "gpu", .target = "", .members = kGpus},
    {.name = "sim", .target = device::kTileTarget, .accelerator = &kSimAccelerator},
};

// The kind of an accelerator library.
struct PluginKind {
  explicit PluginKind(const rvm_accelerator& table)
      : accelerator(table), kind{.name = table.kind, .target = table.target, .accelerator = &accelerator} {}
  PluginAccelerator accelerator;
  DeviceKind kind;
};

// Returns the kind of a library, which is made once.
const DeviceKind* KindOf(const rvm_accelerator& table) {
  static std::mutex mutex;
  static auto* const kinds = new std::map<const rvm_accelerator*, std::unique_ptr<const PluginKind>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<const PluginKind>& kind = (*kinds)[&table];
  if (kind == nullptr) kind = std::make_unique<const PluginKind>(table);
  return &kind->kind;
}

const DeviceKind* FindIn(std::span<const DeviceKind* const> kinds, std::string_view name) {
  auto found = std::find_if(kinds.begin(), kinds.end(), [&](const DeviceKind* kind) { return kind->name == name; });
  return found == kinds.end() ? nullptr : *found;
}

}  // namespace

std::vector<const DeviceKind*> DeviceKinds() {
  std::vector<const DeviceKind*> kinds;
  for (const DeviceKind& kind : kKinds) kinds.push_back(&kind);
  for (const rvm_accelerator* table : device::OpenedAcceleratorLibraries().tables) kinds.push_back(KindOf(*table));
  return kinds;
}

const DeviceKind* FindDeviceKind(std::string_view name) {
  // Most names are of the host, which has none, or of the tree: no lock is needed for those.
  if (name.empty()) return nullptr;
  for (const DeviceKind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return FindIn(DeviceKinds(), name);
}

std::vector<const DeviceKind*> MembersOf(const DeviceKind& kind) {
  if (kind.members.empty()) return {&kind};
  std::vector<const DeviceKind*> members;
  for (std::string_view name : kind.members) members.push_back(FindDeviceKind(name));
  return members;
}

bool UsesTarget(const DeviceKind& kind, std::string_view target) {
  std::vector<const DeviceKind*> members = MembersOf(kind);
  return std::any_of(members.begin(), members.end(), [&](const DeviceKind* one) { return one->target == target; });
}

const DeviceKind* KindOfPlace(std::string_view place) { return FindDeviceKind(place.substr(0, place.find(':'))); }

}  // namespace rvm::target
