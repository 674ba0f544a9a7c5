#include "kernels/schedule/bordered_images.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::Tensor;

// An axis of a copy: where the image is along it.
struct CopiedAxis {
  int64_t stride;               // of the image
  int64_t copied_stride;        // of the copy
  int64_t first, extent;        // positions of the copy that hold the image
  std::optional<size_t> range;  // that of the nest's axis; none: all positions do
};

bool IsOrder(const ExprNode& node) {
  return node.kind == ExprKind::kBinary && node.operands[0].dtype() == kInt64 && node.dtype == kBool;
}

class Borderer {
 public:
  explicit Borderer(Schedule& schedule) : schedule_(schedule), pool_(*schedule.pool) {}

  void Run() {
    for (size_t n = 0; n < schedule_.nests.size(); ++n) StoreInto(schedule_.nests[n]);
  }

 private:
  void StoreInto(LoopNest& copy) {
    const bool is_plain = copy.form == NestForm::kPositions && copy.tensors.size() == 1 && copy.replicas.empty();
    if (!is_plain || copy.update || copy.limit) return;
    const Expr value = copy.tensors[0].value;
    if (value->kind != ExprKind::kSelect || value->operands[1]->kind != ExprKind::kRead) return;
    const ExprNode& read = *value->operands[1];
    LoopNest* writer = OnlyWriter(read.tensor);
    if (writer == nullptr || writer == &copy || read.dtype != value->dtype) return;
    std::optional<std::vector<CopiedAxis>> axes = AxesOf(copy, value->operands[0], read);
    std::optional<Expr> offset = axes ? OffsetIn(*axes, *writer) : std::nullopt;
    if (!offset) return;
    for (size_t i = 0; i < axes->size(); ++i) {
      if ((*axes)[i].range) copy.ranges[i][*(*axes)[i].range].is_image = true;
    }
    for (NestTensor& stored : writer->tensors) {
      if (stored.stored) stored.tensor = copy.tensors[0].tensor;
    }
    MoveStores(*writer, *offset);
    copy.tensors[0].value = value->operands[2];
  }

  // Returns the nest that stores the tensor and nothing else, if the tensor is no result and is read at one place.
  LoopNest* OnlyWriter(const Tensor& tensor) {
    auto is_tensor = [&](const Tensor& other) { return other.get() == tensor.get(); };
    if (std::ranges::any_of(schedule_.outputs, is_tensor) || CountReads(tensor) != 1) return nullptr;
    LoopNest* found = nullptr;
    for (LoopNest& nest : schedule_.nests) {
      if (nest.tile && is_tensor(nest.tile->panels)) return nullptr;
      for (const NestTensor& t : nest.tensors) {
        if (!is_tensor(t.tensor)) continue;
        const auto num_stored = std::ranges::count_if(nest.tensors, [](const NestTensor& each) { return each.stored; });
        if (found != nullptr || num_stored != 1 || !t.stored || nest.form != NestForm::kTiles || nest.update ||
            nest.limit)
          return nullptr;
        found = &nest;
      }
    }
    return found;
  }

  // Returns the number of reads, with those of calls with few rows.
  size_t CountReads(const Tensor& tensor) const {
    size_t count = 0;
    for (const LoopNest& nest : schedule_.nests) {
      absl::flat_hash_set<const ExprNode*> reads;
      std::vector<Expr> roots = ReadExpressions(nest);
      for (const Expr& value : Values(nest)) roots.push_back(value);
      if (nest.direct) roots.push_back(nest.direct);
      for (const ExprNode* node : te::Postorder(roots)) {
        if (node->kind == ExprKind::kRead && node->tensor.get() == tensor.get()) reads.insert(node);
      }
      count += reads.size();
    }
    return count;
  }

  // Returns where the image is in the copy, by the nest's axes; nullopt if the copy does not have all of it.
  std::optional<std::vector<CopiedAxis>> AxesOf(const LoopNest& copy, const Expr& inside, const ExprNode& read) const {
    if (copy.ranges.size() != copy.axes.size()) return std::nullopt;
    std::vector<CopiedAxis> axes;
    std::vector<const ExprNode*> known;
    for (size_t i = 0; i < copy.axes.size(); ++i) {
      const IndexVar& axis = copy.axes[i];
      std::optional<int64_t> stride = te::Stride(read.operands[0], axis.id),
                             copied = te::Stride(copy.store_offset, axis.id);
      if (!stride || !copied || *stride <= 0 || !axis.extent.is_const()) return std::nullopt;
      CopiedAxis& found = axes.emplace_back(CopiedAxis{*stride, *copied, 0, axis.extent.constant(), std::nullopt});
      for (size_t r = 0; r < copy.ranges[i].size(); ++r) {
        const AxisRange& range = copy.ranges[i][r];
        if (std::ranges::any_of(range.known, [](const auto& fact) { return !fact.second; })) continue;
        if (found.range) return std::nullopt;
        found.range = r;
        found.first = range.begin;
        found.extent = range.end - range.begin;
        for (const auto& [node, truth] : range.known) known.push_back(node);
      }
      const bool has_border = !copy.ranges[i].empty();
      // Copies of planes are kept in the first-level cache, plane by plane.
      if (has_border && (!found.range || *stride == 1)) return std::nullopt;
    }
    for (const ExprNode* node : te::Postorder({inside})) {
      if (IsOrder(*node) && std::ranges::find(known, node) == known.end()) return std::nullopt;
      if (node->dtype == kBool && !IsOrder(*node) &&
          !(node->kind == ExprKind::kBinary && node->binary == BinaryOp::kAnd))
        return std::nullopt;
    }
    return IsWhole(axes, read) ? std::optional(std::move(axes)) : std::nullopt;
  }

  // Returns whether each element of the tensor that is read stands at one position.
  bool IsWhole(std::vector<CopiedAxis> axes, const ExprNode& read) const {
    te::Rewrite at_first;
    for (const ExprNode* node : te::Postorder({read.operands[0]})) {
      if (node->kind == ExprKind::kIndex) at_first.variables[node->index.id] = pool_.Intern(*te::Index(0));
    }
    const Expr origin = pool_.Copy(read.operands[0], at_first);
    if (origin->kind != ExprKind::kIntConst) return false;
    int64_t first = origin->int_value, next = 1;
    std::ranges::sort(axes, {}, &CopiedAxis::stride);
    for (const CopiedAxis& axis : axes) {
      if (axis.stride != next) return false;
      next *= axis.extent;
      first += axis.stride * axis.first;
    }
    return first == 0 && NumElements(read.tensor.dims()) == Dim(next);
  }

  // Returns where the writer's positions are in the copy; nullopt if neighbours would lie apart.
  std::optional<Expr> OffsetIn(std::vector<CopiedAxis> axes, const LoopNest& writer) const {
    std::ranges::sort(axes, {}, &CopiedAxis::stride);
    int64_t first = 0;
    for (const CopiedAxis& axis : axes) first += axis.first * axis.copied_stride;
    Expr offset = pool_.Intern(*te::Index(first));
    te::Rewrite at_first;
    int64_t positions = 1;
    for (const IndexVar& axis : writer.axes) {
      at_first.variables[axis.id] = pool_.Intern(*te::Index(0));
      std::optional<int64_t> stride = te::Stride(writer.store_offset, axis.id);
      if (!stride || !axis.extent.is_const()) return std::nullopt;
      auto along = std::ranges::find(axes, *stride, &CopiedAxis::stride);
      if (along == axes.end() || (*stride == 1 && along->extent != axis.extent.constant())) return std::nullopt;
      positions *= axis.extent.constant();
      Expr rest = pool_.Variable(axis);
      int64_t left = axis.extent.constant();
      for (; left > 1; ++along) {
        if (along == axes.end() || left % along->extent != 0) return std::nullopt;
        left /= along->extent;
        Expr extent = pool_.Extent(along->extent);
        Expr here = left == 1 ? rest : pool_.Binary(BinaryOp::kFloorMod, rest, extent);
        offset = pool_.Binary(BinaryOp::kAdd, offset,
                              pool_.Binary(BinaryOp::kMultiply, here, pool_.Extent(along->copied_stride)));
        if (left > 1) rest = pool_.Binary(BinaryOp::kFloorDivide, rest, extent);
      }
    }
    const Expr origin = pool_.Copy(writer.store_offset, at_first);
    int64_t elements = 1;
    for (const CopiedAxis& axis : axes) elements *= axis.extent;
    const bool is_whole = origin->kind == ExprKind::kIntConst && origin->int_value == 0 && positions == elements;
    return is_whole ? std::optional(std::move(offset)) : std::nullopt;
  }

  // Changes where the nest stores, and where its tensors read one another.
  void MoveStores(LoopNest& nest, const Expr& offset) const {
    te::Rewrite rewrite;
    for (const ExprNode* node : te::Postorder(Values(nest))) {
      const bool is_own = node->kind == ExprKind::kRead && std::ranges::any_of(nest.tensors, [&](const NestTensor& t) {
                            return t.tensor.get() == node->tensor.get();
                          });
      if (!is_own) continue;
      ExprNode moved = *node;
      moved.operands = {offset};
      rewrite.done.emplace(node, pool_.Intern(std::move(moved)));
    }
    for (NestTensor& t : nest.tensors) t.value = pool_.Copy(t.value, rewrite);
    nest.store_offset = offset;
  }

  Schedule& schedule_;
  te::ExprPool& pool_;
};

}  // namespace

void StoreIntoBorders(Schedule& schedule) { Borderer(schedule).Run(); }

}  // namespace rvm::schedule
