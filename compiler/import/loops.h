// Control flow in Relay: branches whose results are joined, and loops as functions that call themselves last.
#ifndef RVM_COMPILER_IMPORT_LOOPS_H_
#define RVM_COMPILER_IMPORT_LOOPS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "compiler/import/lists.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

// Returns the results of one of two blocks. An extent that differs between the blocks is unknown in the result. Each
// block is called once or twice: the types of its results are derived before its steps are made.
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
// `body` is called several times: its types are derived before its steps are made. A list that is read at the index
// alone, or that steps only append to, costs a step the same however long it is.
Rolled Roll(Steps& c, Operand limit, Operand condition, const Operands& state, StepBody body);

// Rows as StackRows wants them: with a first axis of extent 1.
Operands WithFirstAxis(Steps& c, Operands rows);
// Returns the rows of a loop as a tensor with a new first axis.
Operand StackRows(Steps& c, const Rolled& rolled, size_t row);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_LOOPS_H_
