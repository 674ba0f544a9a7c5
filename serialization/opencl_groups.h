// Groups of work items and features, on which code for OpenCL and its devices agree beyond device_contract.h.
#ifndef RVM_SERIALIZATION_OPENCL_GROUPS_H_
#define RVM_SERIALIZATION_OPENCL_GROUPS_H_

#include <cstdint>

namespace rvm::device_contract {

// Items of each group of a launch, which has as many groups as the kernel has blocks or fewer: no group is without one.
inline constexpr uint32_t kGroupItems = 128;
// Bytes of memory that these share, at most.
inline constexpr uint64_t kMaxSharedBytes = 32 << 10;

// Features of devices, and of code that needs them: float64; groups of so many items, with so much memory.
inline constexpr char kFloat64Feature[] = "+fp64";
inline constexpr char kGroupsFeature[] = "+groups128";

}  // namespace rvm::device_contract

#endif  // RVM_SERIALIZATION_OPENCL_GROUPS_H_
