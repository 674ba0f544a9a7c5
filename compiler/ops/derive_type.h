// The run-time shape rule of an operator: its type relation evaluated on known argument types.
#ifndef RVM_COMPILER_OPS_DERIVE_TYPE_H_
#define RVM_COMPILER_OPS_DERIVE_TYPE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {

// A condition on dims that must be checked at run time.
struct DimCheck {
  Dim a, b;
  DimRelation relation = DimRelation::kEqual;
  std::string what;
};

struct DerivedResult {
  const ir::Type* result;        // dims are expressions of the arguments' dims
  std::vector<DimCheck> checks;  // to be made when the operator is called
};

// Implements TypeContext::ValueDim for arguments that are not constant.
using ValueDims = std::function<Dim(size_t arg, int64_t element)>;
// Implements TypeContext::KnownValue for arguments that are not constant; null: nothing is known.
using KnownValues = std::function<std::optional<Dim>(size_t arg, int64_t element)>;

// `args` have no holes; their dims may be variables. `values[i]` is the argument's constant value or null. Returns
// kInvalidArgument with the relation's message if the relation does not hold.
absl::StatusOr<DerivedResult> DeriveResult(TypeRelation relation, std::string_view name, const ir::Attrs& attrs,
                                           std::span<const ir::Type* const> args,
                                           std::span<const Literal* const> values, ir::Arena& arena,
                                           const ValueDims& value_dims, const KnownValues& known_values = nullptr);
absl::StatusOr<DerivedResult> DeriveResult(const OpDef& op, const ir::Attrs& attrs,
                                           std::span<const ir::Type* const> args,
                                           std::span<const Literal* const> values, ir::Arena& arena,
                                           const ValueDims& value_dims, const KnownValues& known_values = nullptr);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_DERIVE_TYPE_H_
