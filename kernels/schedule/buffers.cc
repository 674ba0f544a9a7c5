#include "kernels/schedule/buffers.h"

#include <algorithm>
#include <cstdint>
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

// Returns whether the nest reads the tensor, as panels too.
bool Reads(const LoopNest& nest, const TensorNode& tensor) {
  if (nest.tile && nest.tile->panels.get() == &tensor) return true;
  std::vector<const ExprNode*> nodes = Postorder(ReadExpressions(nest));
  return std::any_of(nodes.begin(), nodes.end(), [&](const ExprNode* node) {
    return node->kind == ExprKind::kRead && node->tensor.get() == &tensor;
  });
}

bool SameShape(const Tensor& a, const Tensor& b) {
  return std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
}

// Returns whether the tensor at `position` of `nest` may overwrite `input`. Nests run one after the other, so only what
// this one and later ones read counts.
bool MayTake(const Schedule& schedule, const Tensor& input, size_t nest, size_t position) {
  // Nests of its group that come before it are back for the next rows when this one has written its own.
  NestGroup group = schedule.GroupOf(nest);
  for (size_t n = group.first; n < nest; ++n) {
    for (const ExprNode* node : Postorder(ReadExpressions(schedule.nests[n]))) {
      bool reads = node->kind == ExprKind::kRead && node->tensor.get() == input.get();
      // Threads do not wait for one another where rows are in registers.
      if (reads && group.team && node->operands[0].get() != schedule.nests[nest].store_offset.get()) return false;
      if (reads && !IsInRow(*schedule.pool, node->operands[0], input, schedule.nests[n].axes[0])) return false;
    }
  }
  for (size_t n = nest; n < schedule.nests.size(); ++n) {
    const LoopNest& reader = schedule.nests[n];
    bool reads_early = reader.update || (reader.tile && reader.tile->few);
    if (reads_early && Reads(reader, *input)) return false;
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
  };
  std::vector<Slot> slots;
  std::vector<std::pair<const TensorNode*, size_t>> placed;
  for (size_t n = 0; n < schedule.nests.size(); ++n) {
    NestGroup group = schedule.GroupOf(n);
    size_t end = group.first + group.count;
    for (const NestTensor& t : schedule.nests[n].tensors) {
      // The border of an image is stored by another nest.
      const bool is_placed = std::ranges::any_of(placed, [&](const auto& at) { return at.first == t.tensor.get(); });
      if (!t.stored || is_placed || schedule.buffers.contains(t.tensor.get()) || schedule.IsLocal(t.tensor)) continue;
      Dim bytes = t.tensor.dtype().bytes(), units = 1;
      for (const Dim& dim : t.tensor.dims()) {
        Dim& factor = dim.is_const() ? bytes : units;
        factor = factor * dim;
      }
      size_t last = end - 1;
      for (size_t later = end; later < schedule.nests.size(); ++later) {
        if (Reads(schedule.nests[later], *t.tensor)) last = later;
      }
      auto usable = [&](const Slot& slot) {
        return slot.busy_until < group.first && CompareDims(slot.units, units) == DimEquality::kEqual;
      };
      auto slot = std::find_if(slots.begin(), slots.end(), usable);
      if (slot == slots.end()) slot = slots.insert(slots.end(), {bytes, units, last});
      slot->bytes = Max(slot->bytes, bytes);
      slot->busy_until = last;
      placed.emplace_back(t.tensor.get(), static_cast<size_t>(slot - slots.begin()));
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
