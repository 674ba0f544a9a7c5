#include "compiler/target/device_kind.h"

namespace rvm::target {

std::string PlaceName(const DeviceKind& kind, size_t number) {
  std::string name(kind.name);
  return number == 0 ? name : name + ":" + std::to_string(number);
}

std::string_view DeviceOf(const ir::Attrs& attrs) {
  const ir::AttrValue* device = attrs.Find(kDeviceAttr);
  return device == nullptr || device->AsString() == nullptr ? std::string_view() : *device->AsString();
}

std::optional<int64_t> CompositeOf(const ir::Attrs& attrs) {
  const ir::AttrValue* composite = attrs.Find(kCompositeAttr);
  const int64_t* number = composite == nullptr ? nullptr : composite->AsInt();
  return number == nullptr ? std::nullopt : std::optional(*number);
}

}  // namespace rvm::target
