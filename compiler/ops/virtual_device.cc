#include "compiler/ops/virtual_device.h"

namespace rvm::ops {
namespace {

constexpr VirtualDevice kDevices[] = {
    {"host", true},         {"cpu", true, 1},      {"device", false},   {"gpu", false},      {"cuda", false, 2},
    {"opencl", false, 4},   {"vulkan", false, 7},  {"metal", false, 8}, {"rocm", false, 10}, {"ext_dev", false, 12},
    {"hexagon", false, 14}, {"webgpu", false, 15}, {"sim", false},
};

}  // namespace

std::span<const VirtualDevice> VirtualDevices() { return kDevices; }

const VirtualDevice* FindVirtualDevice(std::string_view name) {
  size_t colon = name.find(':');
  std::string_view number = colon == std::string_view::npos ? "0" : name.substr(colon + 1);
  if (number.empty() || number.size() > 2 || number.find_first_not_of("0123456789") != std::string_view::npos)
    return nullptr;
  for (const VirtualDevice& device : kDevices) {
    if (device.name == name.substr(0, colon)) return &device;
  }
  return nullptr;
}

size_t NumberOfVirtualDevice(std::string_view name) {
  size_t number = 0;
  size_t colon = name.find(':');
  if (colon == std::string_view::npos) return 0;
  for (char digit : name.substr(colon + 1)) number = 10 * number + static_cast<size_t>(digit - '0');
  return number;
}

const VirtualDevice* FindVirtualDevice(int64_t type) {
  for (const VirtualDevice& device : kDevices) {
    if (device.type == type && type >= 0) return &device;
  }
  return nullptr;
}

}  // namespace rvm::ops
