// The families of operators, one file each.
#ifndef RVM_COMPILER_OPS_FAMILIES_FAMILIES_H_
#define RVM_COMPILER_OPS_FAMILIES_FAMILIES_H_

#include <span>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

#define RVM_FAMILY(name) std::span<const OpDef> name();
#include "compiler/ops/families/families.def"
#undef RVM_FAMILY

// Indices with which a tensor of shape `from` is read at `indices` of the shape `to` it broadcasts to.
std::vector<te::Expr> BroadcastIndices(std::span<const te::Expr> indices, const Dims& from, const Dims& to);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_FAMILIES_H_
