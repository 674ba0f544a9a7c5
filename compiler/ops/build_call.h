// Calls of operators, typed by the operators' own rules.
#ifndef RVM_COMPILER_OPS_BUILD_CALL_H_
#define RVM_COMPILER_OPS_BUILD_CALL_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dim.h"
#include "compiler/ir/build.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {

// Returns the attributes with defaults for those that are left out. nullopt if one is missing, unknown or of another
// type.
std::optional<ir::Attrs> WithDefaults(const OpDef& op, ir::Attrs attrs);

// Returns the type of a call's result, from the types of its arguments and the values of those that are constants.
// Extents that depend on data are `?`. kInvalidArgument with the operator's own message if it does not take them.
// REQUIRES: attributes with their defaults; arguments of types without holes.
absl::StatusOr<const ir::Type*> ResultType(ir::Arena& arena, const OpDef& op, const ir::Attrs& attrs,
                                           const std::vector<ir::Expr*>& args);

// Returns the same where `elements` gives the elements of arguments that decide extents, over the extents of the
// program's tensors; empty for an argument that is not known (dim_values.h).
absl::StatusOr<const ir::Type*> ResultType(ir::Arena& arena, const OpDef& op, const ir::Attrs& attrs,
                                           const std::vector<ir::Expr*>& args,
                                           const std::function<std::vector<Dim>(size_t arg)>& elements);

// The arguments of a call of `op`, counts that are floating-point numbers as int64.
std::vector<ir::Expr*> WithIntegerCounts(const ir::Builder& at, const OpDef& op, std::vector<ir::Expr*> args);

// Returns a call of an operator. REQUIRES: it takes the arguments and the attributes.
ir::Call* BuildCall(const ir::Builder& at, std::string_view op, std::vector<ir::Expr*> args, ir::Attrs attrs = {});

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_BUILD_CALL_H_
