// The result type of an operator call whose argument types have type parameters for a shape or a dtype, as in the body
// of a polymorphic function.
//
// A type relation needs concrete ranks and dtypes. It is therefore tried with shapes of each rank up to five and with a
// dtype of each class substituted for the parameters. If all results agree when written in terms of the parameters
// (`sum` of a `Tensor[S, t]` is a `Tensor[(), t]`, `nn.softmax` of it a `Tensor[S, t]`), that is the type. If they
// differ, the type is what they have in common: `mean(axis=[0])` of a `Tensor[S, float32]` is a `Tensor[_, float32]`.
// This is a guess. It is checked where the function is instantiated: specialisation runs the relation again on the
// types of each instance (compiler/passes/specialize/specialize.cc).
#ifndef RVM_COMPILER_OPS_GENERIC_TYPE_H_
#define RVM_COMPILER_OPS_GENERIC_TYPE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

// Returns the distinct parameters of kinds Shape and BaseType in tensors and tuples of tensors.
std::vector<const ir::TypeParam*> TensorParams(std::span<const ir::Type* const> types);

// Returns whether a type, shape or dtype in `types` (tensors and tuples of tensors) is a hole.
bool HasHole(std::span<const ir::Type* const> types);

struct GenericResult {
  enum class Answer : uint8_t {
    kKnown,    // `type`
    kDepends,  // the results differ; `type` has holes, or is null if the results have nothing in common
    kNone,     // the relation failed for all substitutions
  } answer;
  const ir::Type* type = nullptr;
  // kNone: the first substitution, for the message.
  ir::TypeSubstitution tried;
};

// `args` have holes only for dims. `values[i]` is the argument's constant value or null.
GenericResult DeriveGenericResult(TypeRelation relation, const ir::Attrs& attrs, std::span<const ir::Type* const> args,
                                  std::span<const Literal* const> values,
                                  const std::vector<const ir::TypeParam*>& params, ir::Arena& arena);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_GENERIC_TYPE_H_
