#include "kernels/schedule/cpu_loops.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/schedule/nest_cost.h"
#include "kernels/schedule/transposition.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

// Maximum number of conditions that a loop is unswitched by: each doubles the code of the innermost loop.
constexpr size_t kMaxUnswitched = 2;
// Maximum cost per position for non-temporal stores. Above it, computation hides the cost of the stores.
constexpr int64_t kMaxStreamedCost = 32;
// Rows of more vectors gain little if their last elements are vectors, too.
constexpr int64_t kMaxVectorsOfShortRow = 8;
// Maximum cost per position of a row that is divided into runs: each run has code of its own.
constexpr int64_t kMaxCostInRuns = 32;

// Returns conditions that choose between reads, one of which may be out of bounds, and are the same in all iterations
// of the innermost loop: one with branches would not be vectorised.
std::vector<Expr> Unswitched(const LoopNest& nest) {
  std::vector<Expr> conditions;
  if (nest.form != NestForm::kPositions || nest.axes.empty() || nest.reduction() != nullptr) return conditions;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind != ExprKind::kSelect || conditions.size() == kMaxUnswitched) continue;
    const Expr& condition = node->operands[0];
    bool is_same = true;
    for (const ExprNode* part : te::Postorder({condition})) {
      is_same = is_same && part->kind != ExprKind::kRead &&
                !(part->kind == ExprKind::kIndex && part->index.id == nest.axes.back().id);
    }
    bool branches = te::MustBranch(node->operands[1]) || te::MustBranch(node->operands[2]);
    bool is_new = std::none_of(conditions.begin(), conditions.end(),
                               [&](const Expr& known) { return known.get() == condition.get(); });
    if (is_same && branches && is_new) conditions.push_back(condition);
  }
  return conditions;
}

// Returns the lanes of a vector if rows of the innermost axis are divided into runs of whole vectors (VectorRuns), else
// 0. LLVM ends a row element by element, which takes most of the time of a short one.
int64_t RunLanes(const LoopNest& nest, const Target& target) {
  const bool is_unrolled = nest.form == NestForm::kColumns && nest.column_block == 0;
  const bool is_plain = nest.form == NestForm::kPositions && nest.reduction() == nullptr && !nest.update &&
                        !nest.streamed && nest.replicas.empty();
  if ((!is_plain && !is_unrolled) || nest.axes.empty() || !target.has_vectors || !nest.axes.back().extent.is_const())
    return 0;
  int bits = nest.tensors.back().tensor.dtype().bits;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind == ExprKind::kRead) bits = std::max<int>(bits, node->dtype.bits);
  }
  const int64_t lanes = target.vector_bits / std::max(bits, 8);
  const bool is_short = nest.axes.back().extent.constant() < kMaxVectorsOfShortRow * lanes;
  const bool is_cheap = is_unrolled || CostOfPosition(nest) <= kMaxCostInRuns;
  return is_short && !IsInterleaved(nest.axes.back()) && is_cheap ? lanes : 0;
}

// Returns nullopt if the result is never so large that its stores should bypass the caches, or if its elements are not
// stored in a way that allows it.
std::optional<StreamedStores> Streamed(const Schedule& schedule, size_t number) {
  const LoopNest& nest = schedule.nests[number];
  if (!schedule.target.has_streamed_stores || nest.update || nest.form != NestForm::kPositions ||
      !nest.replicas.empty() || nest.axes.empty())
    return std::nullopt;
  const NestTensor& last = nest.tensors.back();
  bool is_only =
      std::none_of(nest.tensors.begin(), nest.tensors.end() - 1, [](const NestTensor& t) { return t.stored; });
  if (!last.stored || !is_only || last.tensor->self || last.tensor->is_ordered) return std::nullopt;
  auto buffer = schedule.buffers.find(last.tensor.get());
  bool is_read_here = CountReaders(schedule.nests, last.tensor) > 0;
  if (buffer == schedule.buffers.end() || !buffer->second.is_output || is_read_here) return std::nullopt;
  if (te::Stride(nest.store_offset, nest.axes.back().id) != 1 || CostOfPosition(nest) > kMaxStreamedCost)
    return std::nullopt;
  StreamedStores streamed{.row = nest.axes.back().extent * last.tensor.dtype().bytes(),
                          .size = last.tensor.dtype().bytes()};
  for (const IndexVar& axis : nest.axes) streamed.size = streamed.size * axis.extent;
  auto known_below = [](const Dim& dim, int64_t least) { return dim.is_const() && dim.constant() < least; };
  if (known_below(streamed.row, StreamedStores::kMinRow) || known_below(streamed.size, StreamedStores::kMinSize))
    return std::nullopt;
  for (const Reuse& reuse : schedule.reuses) {
    if (reuse.nest == number && reuse.output == buffer->second.output) streamed.replaced.push_back(reuse.input);
  }
  return streamed;
}

}  // namespace

void PlanLoops(Schedule& schedule) {
  for (size_t n = 0; n < schedule.nests.size(); ++n) {
    LoopNest& nest = schedule.nests[n];
    nest.unswitched = Unswitched(nest);
    nest.streamed = Streamed(schedule, n);
    nest.run_lanes = RunLanes(nest, schedule.target);
    nest.work = WorkOf(nest);
  }
}

}  // namespace rvm::schedule
