// Control flow in Relay: branches whose results are joined, loops as functions that call themselves last, lists.
#ifndef RVM_COMPILER_IMPORT_LOOPS_H_
#define RVM_COMPILER_IMPORT_LOOPS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

// The results of one of two blocks. Extents that differ between them are unknown behind.
Operands Branch(Steps& c, Operand condition, absl::FunctionRef<Operands()> then_block,
                absl::FunctionRef<Operands()> else_block);

struct Step {
  Operand condition = nullptr;  // whether to go on; null: always
  Operands state;
  Operands rows;  // what each step adds to the lists of rows, each with a first axis of extent 1 if they are stacked
};
struct Rolled {
  Operands state;
  Operands lists;           // of the rows, last one first
  Operand count = nullptr;  // the limit
  bool is_counted = false;  // nothing but the limit ends it
};
using StepBody = absl::FunctionRef<Step(Operand index, const Operands& state)>;

// Runs `body` for the indices 0, 1, ... below `limit` (null: without end) while `condition` (null: always) holds.
// `body` is called several times: its types are derived before its steps are made.
Rolled Roll(Steps& c, Operand limit, Operand condition, const Operands& state, StepBody body);

// ---- lists

// A list of no elements; what its elements are is found where it is used.
Operand EmptyList(Steps& c);
bool IsEmptyList(Steps& c, Operand list);
Operand ListOf(Steps& c, const Operands& elements);
Operand Length(Steps& c, Operand list);
// `onto` behind the elements of `list` turned round.
Operand ReverseOnto(Steps& c, Operand list, Operand onto);
// The same list with elements of the element type of `type`, which are less exactly known.
Operand WidenList(Steps& c, Operand list, const ir::Type* type);
// The element at an int64 index; negative ones count from the end.
Operand ElementAt(Steps& c, Operand list, Operand index);
// The first `count` elements turned round, and the others.
Operands SplitAt(Steps& c, Operand list, Operand count);
// Tensors joined along an axis. `is_reversed`: the last one comes first.
Operand Join(Steps& c, Operand list, int64_t axis, bool is_reversed);
// Rows as StackRows wants them: with a first axis of extent 1.
Operands WithFirstAxis(Steps& c, Operands rows);
// The rows of a loop as a tensor with a new first axis.
Operand StackRows(Steps& c, const Rolled& rolled, size_t row);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_LOOPS_H_
