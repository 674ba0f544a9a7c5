// Arguments as people write them: Relay values, read with the type of the parameter in hand.
#ifndef RVM_VM_VALUES_VALUE_TEXT_H_
#define RVM_VM_VALUES_VALUE_TEXT_H_

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "serialization/executable.h"

namespace rvm::vm {

// `1`, `-2.5`, `1i64`, `True`; `[[1, 2], [3, 4]]`; `(1, True)`; `Cons(1, Nil)`, and `[1, 2]` for an ADT
// named List; `ref(3)`; `Constant([], (0, 3), float32)` for a tensor without elements. A number without a suffix takes
// the dtype that the type asks for. Comments are skipped. kInvalidArgument with the place: "at column 6: saw `x`;
// expected int32" ("at line 2, column 6" in a text of several lines), then that line and a caret.
absl::StatusOr<Value> ParseValueText(const Executable& executable, TypeId type, std::string_view text);

// Parses as many values as `types`, one after the other, separated by blanks, line ends or a comma.
absl::StatusOr<std::vector<Value>> ParseValueTexts(const Executable& executable, std::span<const TypeId> types,
                                                   std::string_view text);

}  // namespace rvm::vm

#endif  // RVM_VM_VALUES_VALUE_TEXT_H_
