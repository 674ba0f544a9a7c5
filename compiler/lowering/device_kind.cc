#include "compiler/lowering/device_kind.h"

#include "compiler/lowering/opencl_source.h"
#include "compiler/lowering/tile_product.h"

namespace rvm::lowering {
namespace {

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

std::string PlaceName(const DeviceKind& kind, size_t number) {
  std::string name(kind.name);
  return number == 0 ? name : name + ":" + std::to_string(number);
}

const DeviceKind* KindOfPlace(std::string_view place) { return FindDeviceKind(place.substr(0, place.find(':'))); }

std::string_view DeviceOf(const ir::Attrs& attrs) {
  const ir::AttrValue* device = attrs.Find(kDeviceAttr);
  return device == nullptr || device->AsString() == nullptr ? std::string_view() : *device->AsString();
}

}  // namespace rvm::lowering
