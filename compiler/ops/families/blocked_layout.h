// Convolutions of images and filters in blocked layouts, such as "NCHW4n4c", in terms of those in plain ones.
#ifndef RVM_COMPILER_OPS_FAMILIES_BLOCKED_LAYOUT_H_
#define RVM_COMPILER_OPS_FAMILIES_BLOCKED_LAYOUT_H_

#include <string_view>
#include <vector>

#include "compiler/ir/build.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {

// Returns whether one of the layouts that a convolution names has blocks.
bool HasBlockedLayout(const ir::Attrs& attrs);

// The type relation of a convolution with blocked layouts. `op` is the name of the operator. REQUIRES: TensorArgs
// returned kDone.
Solve BlockedLayoutRelation(TypeContext& context, std::string_view op);

// Returns the computation of such a convolution.
std::vector<te::Tensor> ComputeBlockedLayout(const ComputeContext& context, std::string_view op);

// Returns the call with plain layouts, between rearrangements of its arguments and its result. Null if the call is none
// of a convolution with blocked layouts.
ir::Expr* WithPlainLayouts(const ir::Builder& at, const OpDef& op, const std::vector<ir::Expr*>& args,
                           const ir::Attrs& attrs);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_BLOCKED_LAYOUT_H_
