// The kinds of devices that kernels are compiled for, and what each can compute.
#ifndef RVM_COMPILER_LOWERING_DEVICE_KIND_H_
#define RVM_COMPILER_LOWERING_DEVICE_KIND_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/expr.h"

namespace rvm::lowering {

// Text of PTX; the features of its code name the compute capability that it needs: "+sm_75".
inline constexpr char kPtxTarget[] = "ptx";

struct DeviceKind {
  std::string_view name;    // "opencl"
  std::string_view target;  // of its code; "": that of its members
  // Whether a typed call of an operator may be placed there; null: every call may.
  bool (*accepts)(const ir::Call&) = nullptr;
  bool fuses = true;  // a kernel may consist of several operators
  // The kinds for which it stands: a kernel has code for each, and runs on the first that is there.
  std::span<const std::string_view> members = {};
};

std::span<const DeviceKind> DeviceKinds();
// Null if no kind has this name.
const DeviceKind* FindDeviceKind(std::string_view name);

// A place: a kind of devices, and which of them: "opencl" (the first), "opencl:1".
std::string PlaceName(const DeviceKind& kind, size_t number);
// Null if it is none.
const DeviceKind* KindOfPlace(std::string_view place);

// The attribute of an operator call, and of a primitive function, that names the place where it runs; absent on the
// host.
inline constexpr char kDeviceAttr[] = "device";
// "" on the host.
std::string_view DeviceOf(const ir::Attrs& attrs);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_DEVICE_KIND_H_
