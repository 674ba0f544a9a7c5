// Recurrent layers: one direction over a sequence, rolled.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_RECURRENCE_H_
#define RVM_COMPILER_IMPORT_BLOCKS_RECURRENCE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

struct Sequence {
  Operand gates;  // (steps, batch, ...): what the inputs contribute to the gates
  Dim steps, batch;
  int64_t hidden = 0;
  bool is_reversed = false;   // runs from the last step to the first one
  Operand lengths = nullptr;  // (batch, 1): behind these the state stays, and rows are 0. Null: all have `steps`
  bool wants_rows = true;
};
// Computes the next state, of which the hidden one comes first.
using NextState = absl::FunctionRef<Operands(Operand gates, const Operands& state)>;

// Results of a direction; none where the import failed.
struct Recurrence {
  Operand rows = nullptr;  // (steps, batch, hidden), in the order of the sequence; the last state if none are wanted
  Operands state;          // the last one
};
Recurrence RunSequence(Steps& c, const Sequence& sequence, const Operands& initial, NextState next_state);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_RECURRENCE_H_
