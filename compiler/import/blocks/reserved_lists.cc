#include "compiler/import/blocks/reserved_lists.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "compiler/import/blocks/complex.h"
#include "compiler/import/loops.h"

namespace rvm::importing {

bool IsReserved(Operand list) { return ir::DynCast<ir::TupleType>(list->type) != nullptr && !IsComplex(list); }
bool IsTensor(Operand list) { return ir::DynCast<ir::TensorType>(list->type) != nullptr; }

Operand Zeros(Steps& c, Operand reserved, Dims element) {
  Operand count = c.emit().Field(reserved, 0), zero = c.emit().Field(reserved, 1);
  const std::optional<Dims> length = c.Symbols(count);
  if (length) {
    element.insert(element.begin(), (*length)[0]);
    return c.BroadcastTo(zero, element);
  }
  Operand extents = c.Reshape(count, {1});
  if (!element.empty()) extents = c.Concatenate({extents, c.emit().FromDims(element)}, 0);
  element.insert(element.begin(), Dim::Any());
  return c.emit().OpAs(element, "dyn.broadcast_to", {zero, extents});
}

Operands RunLoop(Steps& c, Operands state, absl::FunctionRef<Operand(const Operands&)> goes_on,
                 absl::FunctionRef<Operands(const Operands&)> next_state) {
  if (c.failed()) return {};
  Emitter& emit = c.emit();
  // A step says of what shape the elements of reserved lists are. Several may depend on each other.
  for (size_t round = 0; round < state.size(); ++round) {
    const auto reserved = std::ranges::find_if(state, IsReserved);
    if (reserved == state.end()) break;
    const int64_t watermark = emit.Watermark();
    emit.BeginDry();
    const Operands next = next_state(state);
    emit.EndDry();
    if (c.failed() || next.size() != state.size()) return {};
    bool changes = false;
    for (size_t i = 0; i < state.size(); ++i) {
      if (!IsReserved(state[i]) || next[i]->is_placeholder || !IsTensor(next[i])) continue;
      const auto* tensor = ir::DynCast<ir::TensorType>(emit.Escape(next[i]->type, watermark));
      const Dims& dims = tensor->shape.dims;
      const Dims element(dims.begin() + (dims.empty() ? 0 : 1), dims.end());
      if (std::ranges::any_of(element, [](const Dim& dim) { return ContainsAny(dim); })) {
        c.Unsupported("a list whose elements have a shape that only its loop knows");
        return {};
      }
      state[i] = Zeros(c, state[i], element);
      changes = true;
    }
    if (!changes) break;
  }
  Operand first = goes_on(state);
  if (c.failed() || first->is_placeholder) return {};
  Rolled rolled = Roll(c, nullptr, first, state, [&](Operand, const Operands& own) -> Step {
    Operands next = next_state(own);
    if (c.failed() || next.size() != own.size()) return {nullptr, own, {}};
    return {goes_on(next), next, {}};
  });
  return rolled.state;
}

}  // namespace rvm::importing
