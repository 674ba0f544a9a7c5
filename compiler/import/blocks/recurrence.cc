#include "compiler/import/blocks/recurrence.h"

#include <cstddef>

#include "compiler/import/loops.h"

namespace rvm::importing {

Recurrence RunSequence(Steps& c, const Sequence& sequence, const Operands& initial, NextState next_state) {
  Operand limit = c.emit().FromDim(sequence.steps);
  Rolled rolled = Roll(c, limit, nullptr, initial, [&](Operand index, const Operands& own) -> Step {
    Operand at = sequence.is_reversed ? c.Sub(c.Sub(limit, c.Integer(1)), index) : index;
    Operands next = next_state(c.Op("take", {sequence.gates, at}, {{"axis", 0}}), own);
    if (c.failed()) return {nullptr, own, {}};
    Operand row = next[0];
    if (sequence.lengths != nullptr) {
      Operand is_within = c.Op("less", {at, sequence.lengths});
      row = c.Where(is_within, row, c.Number(0, row));
      for (size_t i = 0; i < next.size(); ++i) next[i] = c.Where(is_within, next[i], own[i]);
    }
    for (size_t i = 0; i < next.size(); ++i) next[i] = c.emit().Retyped(next[i], own[i]->type);
    if (!sequence.wants_rows) return {nullptr, next, {}};
    const Dims dims = {Dim::Any(), sequence.batch, sequence.hidden};
    row = c.emit().Retyped(c.Unsqueeze(row, {0}), c.emit().TensorType(dims, c.DTypeOf(row)));
    return {nullptr, next, {row}};
  });
  if (c.failed() || rolled.state.empty() || rolled.state[0]->is_placeholder) return {};
  Operand rows = rolled.state[0];
  if (sequence.wants_rows) {
    rows = StackRows(c, rolled, 0);
    if (sequence.is_reversed && !c.failed()) rows = c.Op("reverse", {rows}, {{"axis", 0}});
  }
  return {rows, rolled.state};
}

}  // namespace rvm::importing
