// Types of values while a program is being built. Null: only inference can tell.
#ifndef RVM_COMPILER_BUILDER_VALUE_TYPES_H_
#define RVM_COMPILER_BUILDER_VALUE_TYPES_H_

#include <vector>

#include "base/literal.h"
#include "compiler/ir/build.h"
#include "compiler/ops/op_def.h"

namespace rvm::builder {

using Type = const ir::Type*;

// Returns the result of an operator, by its own type rule. `values[i]`: the argument where it is a constant, else null.
Type OpResult(ir::Arena& arena, const ops::OpDef& op, const ir::Attrs& attrs, const std::vector<Type>& args,
              const std::vector<const Literal*>& values);
// Returns the result of a call of a value of type `callee`, with type parameters and named dims as the arguments say.
// Named dims of which they say nothing are `?`.
Type CallResult(ir::Arena& arena, Type callee, const std::vector<Type>& args);
// Returns the type of a value that is of one of two types: extents that differ are `?`. Where one is null, the other.
Type JoinTypes(ir::Arena& arena, Type a, Type b);
// Returns the type of a field of a tuple; null for other types.
Type FieldType(Type tuple, size_t index);
// Returns the type of a constructor as a function.
Type ConstructorType(ir::Arena& arena, const ir::Constructor& constructor);

}  // namespace rvm::builder

#endif  // RVM_COMPILER_BUILDER_VALUE_TYPES_H_
