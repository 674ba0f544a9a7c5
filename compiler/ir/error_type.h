// The type of what has errors. The parser gives it to what it could not read, and type inference to what it could not
// type: it fits everywhere, so that one mistake does not hide others or cause further messages.
#ifndef RVM_COMPILER_IR_ERROR_TYPE_H_
#define RVM_COMPILER_IR_ERROR_TYPE_H_

#include <cstdint>

#include "compiler/ir/arena.h"
#include "compiler/ir/type.h"

namespace rvm::ir {

// The id of the hole that is the error type.
inline constexpr int64_t kErrorHole = 1;

inline const Type* MakeErrorType(Arena& arena) { return arena.New<HoleType>(kErrorHole); }

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_ERROR_TYPE_H_
