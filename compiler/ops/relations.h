// Type relations that several operators share, and functions to write others with.
#ifndef RVM_COMPILER_OPS_RELATIONS_H_
#define RVM_COMPILER_OPS_RELATIONS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

using Types = std::vector<const ir::TensorType*>;  // of the arguments

// Returns the argument as a tensor whose shape and dtype are known (dims may be symbolic). Null if they are not known
// yet (return kStuck), or if the argument is not a tensor (*failed is set, and an error was reported).
const ir::TensorType* TensorArg(TypeContext& context, size_t i, bool* failed);

// TensorArg for all arguments.
Solve TensorArgs(TypeContext& context, std::vector<const ir::TensorType*>& args);

Solve FailRank(TypeContext& context, int arg, size_t rank, std::string_view expected);
Solve FailDType(TypeContext& context, int arg, DataType dtype, std::string_view expected);
// For an operand that must have the dtype of another one, which `expected` names.
Solve FailOtherDType(TypeContext& context, int arg, DataType dtype, std::string_view expected);

// Requires the operands of a product to have the same dtype, or to be integers if the attribute `out_dtype` gives the
// dtype of the product. Reports an error if not.
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
// The dtypes of an argument whose Input::is_count is set.
inline bool IsCountType(DataType dtype) { return IsIndexType(dtype) || dtype.is_float(); }

// Returns whether a default value may have `dtype`: that of the values it stands among, an integer, or another float
// for floats.
inline bool FitsAsDefault(DataType dtype, DataType values) {
  if (dtype == values) return true;
  return !values.is_bool() && (IsIndexType(dtype) || (dtype.is_float() && values.is_float()));
}

// Requires extent `small` to broadcast to `big`: to be equal to it, or 1.
bool RequireRepeatable(TypeContext& context, const Dim& small, const Dim& big, std::string_view what);

// Returns the axes that a reduction reduces, by its attributes `axis` and `exclude`. REQUIRES: they are valid.
std::vector<bool> ReducedAxes(const ir::Attrs& attrs, size_t rank);

// `axis` in [-rank, rank) as [0, rank); reports an error otherwise.
std::optional<int64_t> NormalAxis(TypeContext& context, int64_t axis, int64_t rank, std::string_view attr = "axis");

// Requires the arguments from `first` on to be vectors of the dtype of argument 0, with an element for each index of
// its `axis`.
bool RequireChannelVectors(TypeContext& context, const std::vector<const ir::TensorType*>& args, size_t first,
                           int64_t axis, std::string_view op);

// The elements of argument `arg`, a tensor of numbers of rank `rank` and constant extents, as dims. Reports an error
// and returns false if it is anything else. REQUIRES: Input::decides_shape of the argument, and TensorArgs returned
// kDone.
bool ValueDims(TypeContext& context, size_t arg, size_t rank, Dims& dims);

// ValueDims of a vector that is a shape: also requires every extent to be non-negative.
bool ShapeValues(TypeContext& context, size_t arg, Dims& dims);

Solve ResultTensor(TypeContext& context, Dims dims, DataType dtype);

// Returns the relation that a `where` constraint names: "Broadcast", "Identity", or an operator. Null if there is none.
TypeRelation FindRelation(std::string_view name);

// Returns the attribute `name`, or `otherwise` if it is "" or None.
DataType DTypeAttr(const ir::Attrs& attrs, std::string_view name, DataType otherwise);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_RELATIONS_H_
