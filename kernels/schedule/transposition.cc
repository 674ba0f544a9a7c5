#include "kernels/schedule/transposition.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/te/expr_pool.h"

namespace rvm::schedule {

// So few elements side by side leave most of a block empty; the vectoriser interleaves them.
constexpr int64_t kMaxInterleaved = 4;

bool IsInterleaved(const te::IndexVar& innermost) {
  return innermost.extent.is_const() && innermost.extent.constant() <= kMaxInterleaved;
}

std::optional<size_t> TransposedAxis(const LoopNest& nest) {
  const te::Tensor& tensor = nest.tensors[0].tensor;
  if (!nest.axes.empty() && IsInterleaved(nest.axes.back())) return std::nullopt;
  bool moves = nest.tensors.size() == 1 && nest.axes.size() > 1 && nest.reduction() == nullptr && !tensor->self &&
               !nest.update && !tensor->is_ordered && te::Stride(nest.store_offset, nest.axes.back().id) == 1;
  if (!moves) return std::nullopt;
  std::vector<int64_t> contiguous(nest.axes.size());
  for (const te::ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind != te::ExprKind::kRead) continue;
    // An unsafe read may stand behind a condition, which a block does not have.
    if (node->int_value != te::kReadIsSafe) return std::nullopt;
    // A value that does not depend on the innermost axis is read once for many positions.
    if (!te::DependsOn(node->operands[0], nest.axes.back().id)) continue;
    for (size_t i = 0; i < nest.axes.size(); ++i) contiguous[i] += te::Stride(node->operands[0], nest.axes[i].id) == 1;
  }
  size_t last = nest.axes.size() - 1;
  auto best = static_cast<size_t>(std::max_element(contiguous.begin(), contiguous.end() - 1) - contiguous.begin());
  return contiguous[best] > 0 && contiguous[best] >= contiguous[last] ? std::optional(best) : std::nullopt;
}

}  // namespace rvm::schedule
