// Decides where the operator calls of a function run, and which of them an accelerator computes as one.
#ifndef RVM_COMPILER_PASSES_PLACEMENT_FIND_PLACES_H_
#define RVM_COMPILER_PASSES_PLACEMENT_FIND_PLACES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/expr.h"
#include "compiler/passes/placement/device_rules.h"
#include "compiler/passes/placement/marks.h"

namespace rvm::passes {

struct Placement {
  std::string place;                 // target::PlaceName; "" for a view in a composite
  std::optional<int64_t> composite;  // number of the composite in its function, of several calls
};

// Returns the places of the calls that do not run on the host, in a body in A-normal form. Each call that needs a
// kernel runs on the first of its candidates (DeviceRules) that computes it: a device for all operators, or an
// accelerator that accepts the longest chain of calls, in the order of one of its patterns, that begins with it. A
// chain is of one block; each of its calls may run there, and no result within it has another use, or a mark.
absl::flat_hash_map<const ir::Call*, Placement> FindPlaces(const ir::Expr* body, const DeviceRules& rules,
                                                           const Marks& marks);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PLACEMENT_FIND_PLACES_H_
