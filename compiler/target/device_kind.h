// A kind of devices that kernels are compiled for. devices/device_kinds.h lists them.
#ifndef RVM_COMPILER_TARGET_DEVICE_KIND_H_
#define RVM_COMPILER_TARGET_DEVICE_KIND_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/attrs.h"

namespace rvm::target {

class Accelerator;  // accelerator.h

struct DeviceKind {
  std::string_view name;    // "opencl"
  std::string_view target;  // of its code, DeviceCode::target; "" for a kind with members
  // The operators that the kind computes, and their code. Null: it computes every operator, and the driver makes its
  // code from schedules (compiler/driver/device_code.cc).
  const Accelerator* accelerator = nullptr;
  // The kinds for which it stands: a kernel has code for each, and runs on the first that is there.
  std::span<const std::string_view> members = {};
};

// Returns the name of a place, a device of a kind: "opencl" (the first), "opencl:1".
std::string PlaceName(const DeviceKind& kind, size_t number);

// Attribute of an operator call, and of a primitive function, that names the place where it runs; absent on the host.
inline constexpr char kDeviceAttr[] = "device";
// Attribute of an operator call: the number of the composite that it is part of, in its function.
inline constexpr char kCompositeAttr[] = "composite";
// Returns the value of kDeviceAttr; "" on the host.
std::string_view DeviceOf(const ir::Attrs& attrs);
// Returns the value of kCompositeAttr.
std::optional<int64_t> CompositeOf(const ir::Attrs& attrs);

}  // namespace rvm::target

#endif  // RVM_COMPILER_TARGET_DEVICE_KIND_H_
