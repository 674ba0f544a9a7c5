// The kinds of devices that kernels are compiled for, and what each can compute.
#ifndef RVM_COMPILER_TARGET_DEVICE_KIND_H_
#define RVM_COMPILER_TARGET_DEVICE_KIND_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/expr.h"

namespace rvm::target {

struct DeviceKind {
  std::string_view name;    // "opencl"
  std::string_view target;  // of its code (serialization/device_contract.h); "" for a kind with members
  // Whether a typed call of an operator may be placed there; null: every call may.
  bool (*accepts)(const ir::Call&) = nullptr;
  bool fuses = true;  // a kernel may consist of several operators
  // The kinds for which it stands: a kernel has code for each, and runs on the first that is there.
  std::span<const std::string_view> members = {};
};

std::span<const DeviceKind> DeviceKinds();
// Returns the kind of this name, or null.
const DeviceKind* FindDeviceKind(std::string_view name);

// Returns the kinds that code is made for: the members of `kind`, or `kind` itself.
std::vector<const DeviceKind*> MembersOf(const DeviceKind& kind);
// Returns true if code for `target` (serialization/device_contract.h) is made for `kind`.
bool UsesTarget(const DeviceKind& kind, std::string_view target);

// Returns the name of a place, a device of a kind: "opencl" (the first), "opencl:1".
std::string PlaceName(const DeviceKind& kind, size_t number);
// Returns the kind of a place, or null.
const DeviceKind* KindOfPlace(std::string_view place);

// Attribute of an operator call, and of a primitive function, that names the place where it runs; absent on the host.
inline constexpr char kDeviceAttr[] = "device";
// Returns the value of kDeviceAttr; "" on the host.
std::string_view DeviceOf(const ir::Attrs& attrs);

}  // namespace rvm::target

#endif  // RVM_COMPILER_TARGET_DEVICE_KIND_H_
