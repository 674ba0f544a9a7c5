#include "compiler/lowering/device_kind.h"

#include "compiler/lowering/opencl_source.h"
#include "compiler/lowering/tile_product.h"

namespace rvm::lowering {
namespace {

constexpr DeviceKind kKinds[] = {
    {.name = "cuda", .target = kPtxTarget},
    {.name = "opencl", .target = kOpenClTarget},
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

std::string_view DeviceOf(const ir::Attrs& attrs) {
  const ir::AttrValue* device = attrs.Find(kDeviceAttr);
  return device == nullptr || device->AsString() == nullptr ? std::string_view() : *device->AsString();
}

}  // namespace rvm::lowering
