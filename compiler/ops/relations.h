// Type relations that several operators share, and helpers to write others.
#ifndef RVM_COMPILER_OPS_RELATIONS_H_
#define RVM_COMPILER_OPS_RELATIONS_H_

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

// The argument as a tensor whose shape and dtype are known (dims may be symbolic); null while
// it is not (return kStuck) or if it is no tensor (*failed is set, an error was reported).
const ir::TensorType* TensorArg(TypeContext& context, size_t i, bool* failed);

// All arguments as such tensors; kDone, or why not.
Solve TensorArgs(TypeContext& context, std::vector<const ir::TensorType*>& args);

Solve FailRank(TypeContext& context, int arg, size_t rank, std::string_view expected);
Solve FailDType(TypeContext& context, int arg, DataType dtype, std::string_view expected);
// It must have the dtype of another operand, which `expected` names.
Solve FailOtherDType(TypeContext& context, int arg, DataType dtype, std::string_view expected);

// The operands of a product must have one dtype, or be integers if the attribute `out_dtype` says what they are
// multiplied in. Where they are not, an error was reported.
bool RequireFactors(TypeContext& context, DataType a, DataType b);

// out = in, any tensor.
Solve IdentityRelation(TypeContext& context);
// out = in, which must be floating point.
Solve FloatIdentityRelation(TypeContext& context);
// out = broadcast(a, b), equal dtypes.
Solve BroadcastRelation(TypeContext& context);
// The same for integers and bools only.
Solve BroadcastBitsRelation(TypeContext& context);
// Any dtype in, bool out.
Solve BroadcastCompareRelation(TypeContext& context);
// bool in, bool out, broadcast.
Solve BroadcastLogicalRelation(TypeContext& context);

inline bool IsIndexType(DataType dtype) { return dtype.is_integral() && !dtype.is_bool(); }

// Requires that an axis of extent `small` can be repeated to extent `big`: equal, or 1.
bool RequireRepeatable(TypeContext& context, const Dim& small, const Dim& big, std::string_view what);

// `axis` in [-rank, rank) as [0, rank); reports an error otherwise.
std::optional<int64_t> NormalAxis(TypeContext& context, int64_t axis, int64_t rank, std::string_view attr = "axis");

// Requires the arguments from `first` on to be vectors, one element per channel along `axis` of argument 0,
// and of its dtype.
bool RequireChannelVectors(TypeContext& context, const std::vector<const ir::TensorType*>& args, size_t first,
                           int64_t axis, std::string_view op);

// The elements of argument `arg`, an integer tensor of that rank and constant extents, as dims. REQUIRES: its
// Input::decides_shape, and TensorArgs. False if it is no such tensor, and an error was reported.
bool ValueDims(TypeContext& context, size_t arg, size_t rank, Dims& dims);

Solve ResultTensor(TypeContext& context, Dims dims, DataType dtype);

// The relation of a `where` constraint: "Broadcast", "Identity", or an operator's name. Null if
// there is none.
TypeRelation FindRelation(std::string_view name);

// `attrs.dtype`, or `otherwise` if it is "" or None.
DataType DTypeAttr(const ir::Attrs& attrs, std::string_view name, DataType otherwise);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_RELATIONS_H_
