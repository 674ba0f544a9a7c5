// The operators `extent`, `check_extent` and `check_at_least`, which measure and check at run time.
#ifndef RVM_COMPILER_OPS_FAMILIES_EXTENT_H_
#define RVM_COMPILER_OPS_FAMILIES_EXTENT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/dim.h"
#include "compiler/ir/expr.h"

namespace rvm::ops {

bool IsExtent(const ir::Call& call);
bool IsCheckExtent(const ir::Call& call);
bool IsCheckAtLeast(const ir::Call& call);

// Returns the beginning of the message for a value that does not have its declared extents: "axis 0 of the result of
// `@f`, declared `n`".
std::string DeclaredExtentText(size_t axis, std::string_view of, const Dim& declared);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_EXTENT_H_
