#include "kernels/schedule/buffers.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/schedule/row_groups.h"
#include "kernels/schedule/stored_factors.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::Postorder;
using te::Tensor;
using te::TensorNode;

bool SameShape(const Tensor& a, const Tensor& b) {
  return std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
}

// Returns whether the tensor at `position` of `nest` may overwrite `input`. Nests run one after the other, so only what
// this one and later ones read counts.
bool MayTake(const Schedule& schedule, const Tensor& input, size_t nest, size_t position) {
  // Nests of its group that come before it are back for the next rows when this one has written its own.
  NestGroup group = schedule.GroupOf(nest);
  const LoopNest& writer = schedule.nests[nest];
  bool stores_rows = IsInRow(*schedule.pool, writer.store_offset, writer.tensors[position].tensor, writer.RowAxes());
  for (size_t n = group.first; n < nest; ++n) {
    for (const ExprNode* node : Postorder(ReadExpressions(schedule.nests[n]))) {
      bool reads = node->kind == ExprKind::kRead && node->tensor.get() == input.get();
      // Threads do not wait for one another where rows are in registers.
      if (reads && group.team && node->operands[0].get() != schedule.nests[nest].store_offset.get()) return false;
      if (reads && !stores_rows) return false;
      if (reads && !IsInRow(*schedule.pool, node->operands[0], input, schedule.nests[n].RowAxes())) return false;
    }
  }
  for (size_t n = nest; n < schedule.nests.size(); ++n) {
    const LoopNest& reader = schedule.nests[n];
    bool reads_early = reader.update || (reader.tile && reader.tile->few);
    if (reads_early && Reads(reader, input)) return false;
    for (size_t t = 0; t < reader.tensors.size(); ++t) {
      // A tile reads its factors for many positions before it stores any; of tiles that overlap, one reads where
      // another has stored.
      bool before_store = n == nest && t <= position && !(reader.tile && (t == 0 || reader.tile->overlaps));
      for (const ExprNode* node : Postorder({reader.tensors[t].value})) {
        if (node->kind != ExprKind::kRead || node->tensor.get() != input.get()) continue;
        if (!before_store || node->operands[0].get() != reader.store_offset.get()) return false;
      }
    }
  }
  return true;
}

}  // namespace

void PlanWorkspace(Schedule& schedule) {
  struct Slot {
    Dim bytes;  // for each unit: a constant
    Dim units;  // the product of the unknown extents
    size_t busy_until;
    // The rows at hand that a group keeps of a tensor.
    struct Rows {
      size_t group;  // its first nest
      int64_t count;
      Dim bytes;  // of one
    };
    std::optional<Rows> rows = std::nullopt;
  };
  std::vector<Slot> slots;
  std::vector<std::pair<const TensorNode*, size_t>> placed;
  auto place = [&](const Tensor& tensor, std::span<const Dim> extents, auto usable, Slot made) {
    made.bytes = tensor.dtype().bytes(), made.units = 1;
    for (const Dim& dim : extents) {
      Dim& factor = dim.is_const() ? made.bytes : made.units;
      factor = factor * dim;
    }
    auto slot = std::ranges::find_if(slots, [&](const Slot& old) {
      return usable(old) && CompareDims(old.units, made.units) == DimEquality::kEqual;
    });
    if (slot == slots.end()) slot = slots.insert(slots.end(), made);
    made.bytes = Max(slot->bytes, made.bytes);
    *slot = made;
    placed.emplace_back(tensor.get(), static_cast<size_t>(slot - slots.begin()));
  };
  for (size_t n = 0; n < schedule.nests.size(); ++n) {
    NestGroup group = schedule.GroupOf(n);
    size_t end = group.first + group.count;
    for (const NestTensor& t : schedule.nests[n].tensors) {
      // The border of an image is stored by another nest.
      const bool is_placed = std::ranges::any_of(placed, [&](const auto& at) { return at.first == t.tensor.get(); });
      if (!t.stored || is_placed || schedule.buffers.contains(t.tensor.get())) continue;
      if (const NestGroup::Local* local = group.FindLocal(t.tensor)) {
        if (local->is_on_stack) continue;
        // Rows may have the memory of rows of the same size that no nest of the group reads any more.
        const Slot::Rows rows = {group.first, local->rows, local->row_size * t.tensor.dtype().bytes()};
        auto usable = [&](const Slot& slot) {
          return slot.busy_until < group.first ||
                 (slot.rows && slot.rows->group == rows.group && slot.busy_until < n &&
                  slot.rows->count == rows.count && CompareDims(slot.rows->bytes, rows.bytes) == DimEquality::kEqual);
        };
        const Dim extents[] = {group.strips, local->rows, local->row_size};
        place(t.tensor, extents, usable, {.busy_until = local->last, .rows = rows});
        continue;
      }
      size_t last = end - 1;
      for (size_t later = end; later < schedule.nests.size(); ++later) {
        if (Reads(schedule.nests[later], t.tensor)) last = later;
      }
      place(t.tensor, t.tensor.dims(), [&](const Slot& slot) { return slot.busy_until < group.first; },
            {.busy_until = last});
    }
  }
  std::vector<Dim> offsets;
  for (const Slot& slot : slots) {
    offsets.push_back(schedule.workspace);
    schedule.workspace = schedule.workspace + FloorDiv(slot.units * slot.bytes + 63, 64) * 64;
  }
  for (const auto& [tensor, slot] : placed) schedule.buffers[tensor] = {false, 0, offsets[slot]};
}

void FindReuses(Schedule& schedule) {
  for (size_t o = 0; o < schedule.outputs.size(); ++o) {
    const Tensor& output = schedule.outputs[o];
    bool is_update = std::any_of(schedule.updates.begin(), schedule.updates.end(), [&](const Schedule::Update& update) {
      return update.output == static_cast<int64_t>(o);
    });
    if (output.rank() == 0 || is_update) continue;
    size_t nest = 0, position = 0;
    for (size_t n = 0; n < schedule.nests.size(); ++n) {
      for (size_t t = 0; t < schedule.nests[n].tensors.size(); ++t) {
        if (schedule.nests[n].tensors[t].tensor.get() == output.get()) nest = n, position = t;
      }
    }
    for (size_t i = 0; i < schedule.computation.inputs.size(); ++i) {
      const Tensor& input = schedule.computation.inputs[i];
      if (IsConstantInput(input, schedule.constant_inputs) || input.dtype().bytes() != output.dtype().bytes() ||
          !SameShape(input, output))
        continue;
      if (MayTake(schedule, input, nest, position)) {
        schedule.reuses.push_back({static_cast<int64_t>(o), static_cast<int64_t>(i), nest});
      }
    }
  }
}

}  // namespace rvm::schedule
