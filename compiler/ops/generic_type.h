// The type rule of an operator in the body of a polymorphic function, where the shape or the dtype of an argument
// is a type parameter.
//
// A relation computes with numbers of axes and with dtypes; it has no answer for a parameter. It is therefore
// tried with shapes of each rank up to five and with a dtype of each class in its place. Where all results
// that there are say the same in terms of the parameters (`sum` of a `Tensor[S, t]` is a `Tensor[(), t]`,
// `nn.softmax` of it a `Tensor[S, t]`), that is the type. Where they differ, what they have in common is its form:
// `mean(axis=[0])` of a `Tensor[S, float32]` is a `Tensor[_, float32]`. This is a guess that the uses check: each
// instance of the function has the relation run on its own types (passes/specialize/specialize.cc).
#ifndef RVM_COMPILER_OPS_GENERIC_TYPE_H_
#define RVM_COMPILER_OPS_GENERIC_TYPE_H_

#include <span>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

// The parameters of kinds Shape and BaseType of tensors and of tuples of tensors, each once.
std::vector<const ir::TypeParam*> TensorParams(std::span<const ir::Type* const> types);

// Is a type, a shape or a dtype of `types`, tensors and tuples, a hole?
bool HasHole(std::span<const ir::Type* const> types);

struct GenericResult {
  enum class Answer : uint8_t {
    kKnown,    // `type`
    kDepends,  // on what the parameters stand for; `type` has holes, or is null if not even the form is known
    kNone,     // none of the tries held
  } answer;
  const ir::Type* type = nullptr;
  // Of kNone: what was tried first, for the message.
  ir::TypeSubstitution tried;
};

// `args` have no holes but of dims. `values[i]` is the argument's constant value or null.
GenericResult DeriveGenericResult(TypeRelation relation, const ir::Attrs& attrs, std::span<const ir::Type* const> args,
                                  std::span<const Literal* const> values,
                                  const std::vector<const ir::TypeParam*>& params, ir::Arena& arena);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_GENERIC_TYPE_H_
