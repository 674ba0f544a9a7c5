// Arguments as people write them: Relay values, read with the type of the parameter in hand.
#ifndef RVM_VM_VALUE_TEXT_H_
#define RVM_VM_VALUE_TEXT_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "serialization/executable.h"

namespace rvm::vm {

// `1`, `-2.5`, `1i64`, `True`; `[[1, 2], [3, 4]]`; `(1, True)`; `Cons(1, Nil)`, and `[1, 2]` for an ADT
// named List; `ref(3)`; `Constant([], (0, 3), float32)` for a tensor without elements. A number without a suffix takes
// the dtype that the type asks for. kInvalidArgument with the place: "at column 6: saw `x`; expected int32", then the
// text and a caret.
absl::StatusOr<Value> ParseValueText(const Executable& executable, TypeId type, std::string_view text);

}  // namespace rvm::vm

#endif  // RVM_VM_VALUE_TEXT_H_
