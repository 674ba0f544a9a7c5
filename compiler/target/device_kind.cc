#include "compiler/target/device_kind.h"

#include <algorithm>

#include "compiler/target/tile_product.h"
#include "serialization/device_contract.h"

namespace rvm::target {
namespace {

using device_contract::kOpenClTarget;
using device_contract::kPtxTarget;
using device_contract::kTileTarget;

constexpr std::string_view kGpus[] = {"cuda", "opencl"};

constexpr DeviceKind kKinds[] = {
    {.name = "cuda", .target = kPtxTarget},
    {.name = "opencl", .target = kOpenClTarget},
    {.name = "gpu", .target = "", .members = kGpus},
    {.name = "sim", .target = kTileTarget, .accepts = IsTileProduct, .fuses = false},
};

}  // namespace

std::span<const DeviceKind> DeviceKinds() { return kKinds; }

const DeviceKind* FindDeviceKind(std::string_view name) {
  for (const DeviceKind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
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

std::string PlaceName(const DeviceKind& kind, size_t number) {
  std::string name(kind.name);
  return number == 0 ? name : name + ":" + std::to_string(number);
}

const DeviceKind* KindOfPlace(std::string_view place) { return FindDeviceKind(place.substr(0, place.find(':'))); }

std::string_view DeviceOf(const ir::Attrs& attrs) {
  const ir::AttrValue* device = attrs.Find(kDeviceAttr);
  return device == nullptr || device->AsString() == nullptr ? std::string_view() : *device->AsString();
}

}  // namespace rvm::target
