// Lists of tensors in Relay, which are the sequences of models.
//
// A list that a loop only appends to is kept with its last element first, so that a step costs the same however long
// the list is: see Emitter::Backwards.
#ifndef RVM_COMPILER_IMPORT_LISTS_H_
#define RVM_COMPILER_IMPORT_LISTS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

// A function of `params` that may call itself: `body` gets itself and its parameters.
using FunctionBody = absl::FunctionRef<builder::Value(const builder::Value& self, const Operands& params)>;
builder::Value DefineFunction(Emitter& emit, std::string_view name, const std::vector<const ir::Type*>& params,
                              const ir::Type* result, FunctionBody body);

// Returns the empty list. Its element type is found where it is used.
Operand EmptyList(Steps& c);
bool IsEmptyList(Steps& c, Operand list);
// Returns the empty list of the type `type`.
Operand Nil(Steps& c, const ir::Type* type);
Operand ListOf(Steps& c, const Operands& elements);
builder::Value Cons(Emitter& emit, const builder::Value& first, const builder::Value& rest);
Operand Length(Steps& c, Operand list);

// Prepends the elements of `list` to `onto`, last one first.
Operand ReverseOnto(Steps& c, Operand list, Operand onto);
// Returns the elements of `list`, last one first.
Operand Reversed(Steps& c, Operand list);
// Converts a list or an option to `type`, whose element type has fewer known extents. Returns other values unchanged.
Operand WidenElements(Steps& c, Operand value, const ir::Type* type);

// Returns the element at an int64 index; negative ones count from the end. The program fails beyond either end.
Operand ElementAt(Steps& c, Operand list, Operand index);
// Returns `list` without its first element; the empty list for itself.
Operand Rest(Steps& c, Operand list);
// Returns the first `count` elements, last one first, and the others. The program fails if there are fewer.
Operands SplitAt(Steps& c, Operand list, Operand count);

// Adds an element behind the last one.
Operand Append(Steps& c, Operand list, Operand element);
// Adds an element before the one at `index`; negative ones count from the end.
Operand InsertAt(Steps& c, Operand list, Operand index, Operand element);
Operand EraseLast(Steps& c, Operand list);
Operand EraseAt(Steps& c, Operand list, Operand index);

// Joins tensors along an axis. `is_reversed`: the last one comes first. The program fails for the empty list if
// `may_be_empty`; else there must be an element.
Operand Join(Steps& c, Operand list, int64_t axis, bool is_reversed, bool may_be_empty = false);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_LISTS_H_
