// The operators that make and keep promises about extents: `extent` and `check_extent`.
#ifndef RVM_COMPILER_OPS_EXTENT_H_
#define RVM_COMPILER_OPS_EXTENT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/dim.h"
#include "compiler/ir/expr.h"

namespace rvm::ops {

bool IsExtent(const ir::Call& call);
bool IsCheckExtent(const ir::Call& call);

// What is in front of the message where a value has not the extents it is declared to have:
// "axis 0 of the result of `@f`, declared `n`".
std::string DeclaredExtentText(size_t axis, std::string_view of, const Dim& declared);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_EXTENT_H_
