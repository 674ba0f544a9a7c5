// EqualExtents: extents of an entry's arguments that share a name, as `n` in
// `fn (%x: Tensor[(n, 3), float32], %y: Tensor[(n), int32])`.
#ifndef RVM_VM_LINK_EQUAL_EXTENTS_H_
#define RVM_VM_LINK_EQUAL_EXTENTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/value.h"
#include "serialization/executable.h"

namespace rvm::vm {

// The extent `axis` of argument `param`, which must equal that of an earlier axis.
struct EqualExtents {
  uint32_t param, axis;
  uint32_t first_param, first_axis;
  std::string name;
};

// Returns the pairs of an entry. Skips metadata that does not fit the types, and extents that are expressions.
std::vector<EqualExtents> FindEqualExtents(const Executable& executable, const Entry& entry);

// kInvalidArgument for the first pair that differs. `args` have the types of the entry.
absl::Status CheckEqualExtents(const Entry& entry, std::span<const EqualExtents> pairs, std::span<const Value> args);

}  // namespace rvm::vm

#endif  // RVM_VM_LINK_EQUAL_EXTENTS_H_
