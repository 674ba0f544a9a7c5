// The kinds of devices that kernels can be compiled for.
#ifndef RVM_DEVICES_DEVICE_KINDS_H_
#define RVM_DEVICES_DEVICE_KINDS_H_

#include <string_view>
#include <vector>

#include "compiler/target/device_kind.h"

namespace rvm::target {

// Returns all kinds: those of the tree, and those of the accelerator libraries that are open.
std::vector<const DeviceKind*> DeviceKinds();
// Returns the kind of this name, or null.
const DeviceKind* FindDeviceKind(std::string_view name);

// Returns the kinds that code is made for: the members of `kind`, or `kind` itself.
std::vector<const DeviceKind*> MembersOf(const DeviceKind& kind);
// Returns true if code for `target` (DeviceCode::target) is made for `kind`.
bool UsesTarget(const DeviceKind& kind, std::string_view target);

// Returns the kind of a place (PlaceName), or null.
const DeviceKind* KindOfPlace(std::string_view place);

}  // namespace rvm::target

#endif  // RVM_DEVICES_DEVICE_KINDS_H_
