// The limit of what a primitive function may hold, for the pass that makes such functions and the stages that read
// them.
#ifndef RVM_COMPILER_IR_PRIMITIVE_H_
#define RVM_COMPILER_IR_PRIMITIVE_H_

#include <cstdint>

namespace rvm::ir {

// Maximum size, in elements, of a constant inside a primitive function. Larger ones are passed as parameters.
inline constexpr int64_t kMaxImmediates = 64;

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_PRIMITIVE_H_
