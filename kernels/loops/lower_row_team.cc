#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "kernels/loops/lower_forms.h"
#include "kernels/schedule/block.h"
#include "kernels/te/expr_pool.h"

namespace rvm::loops {

using schedule::LoopNest;
using schedule::NestTensor;
using te::ExprKind;
using te::ExprNode;

namespace {

// Maximum number of elements of a thread for which straight-line code is asked for.
constexpr int64_t kMaxUnrolled = 16;

// Lowers nests that share rows. Thread t of a row has its elements t, t + threads, and so on: neighbouring threads have
// neighbouring elements, whatever schedule::RowTeam::vector is.
class RowTeamLowering {
 public:
  RowTeamLowering(Builder& b, const schedule::Schedule& schedule, const schedule::NestGroup& group)
      : b_(b),
        merger_(b),
        nests_(std::span(schedule.nests).subspan(group.first, group.count)),
        team_(*group.team),
        steps_((team_.elements() + team_.threads - 1) / team_.threads) {}

  void Run();

 private:
  struct Store {
    te::Tensor tensor;
    Value offset, value;
  };
  // A read whose values a thread keeps for its elements.
  struct Kept {
    const ExprNode* read;
    BufferId values;
    bool has_values = false;
  };

  bool IsOfElements(const LoopNest& nest) const { return nest.axes.size() > team_.rows.size(); }
  bool IsWritten(const te::Tensor& tensor) const;
  static bool Makes(const LoopNest& nest, const NestTensor& t, const ExprNode* read);
  bool NeedsResults(const LoopNest& nest) const;
  void FindKept();
  void BindRow();
  void ForEachElement(absl::FunctionRef<void(Value step, Value element)> body);
  void BindKept(const LoopNest& nest, Value step);
  void AddPending(const LoopNest& nest);
  void Finish();
  void FinishRowTensor(const LoopNest& nest, const NestTensor& t, Value value);
  void LowerElements(const LoopNest& nest);

  Builder& b_;
  PartMerger merger_;
  std::span<const LoopNest> nests_;
  const schedule::RowTeam& team_;
  int64_t steps_;                              // elements of a thread
  Value lane_;                                 // the number of the thread in its row
  Value is_row_;                               // not valid: each thread has one
  std::vector<const ExprNode*> result_reads_;  // of what a nest of the group computes
  std::vector<Kept> kept_;
  std::vector<const LoopNest*> pending_nests_;  // whose threads have partial results
  std::vector<PartMerger::Pending> pending_;
  std::vector<Store> row_stores_;
};

bool RowTeamLowering::IsWritten(const te::Tensor& tensor) const {
  return std::any_of(nests_.begin(), nests_.end(), [&](const LoopNest& nest) {
    return std::any_of(nest.tensors.begin(), nest.tensors.end(),
                       [&](const NestTensor& t) { return t.tensor.get() == tensor.get(); });
  });
}

// Returns true if the read is one of what the nest stores as `t`.
bool RowTeamLowering::Makes(const LoopNest& nest, const NestTensor& t, const ExprNode* read) {
  return read->tensor.get() == t.tensor.get() && read->operands[0].get() == nest.store_offset.get();
}

// Returns true if the elements that the nest reduces depend on what others compute.
bool RowTeamLowering::NeedsResults(const LoopNest& nest) const {
  std::vector<const ExprNode*> nodes = te::Postorder(nest.reduction()->operands);
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const ExprNode* node) { return node->kind == ExprKind::kRead && IsWritten(node->tensor); });
}

// Finds the reads of elements that a nest computes, and of those that several nests read, if all elements of a thread
// are at hand at once.
void RowTeamLowering::FindKept() {
  absl::flat_hash_set<const ExprNode*> seen, kept;
  for (const LoopNest& nest : nests_) {
    for (const ExprNode* node : te::Postorder(schedule::Values(nest))) {
      if (node->kind != ExprKind::kRead) continue;
      bool is_result = IsWritten(node->tensor), is_first = seen.insert(node).second;
      if (is_result && is_first) result_reads_.push_back(node);
      bool is_of_elements = te::DependsOn(node->operands[0], team_.element.id);
      if (!is_of_elements || (!is_result && is_first) || team_.steps_at_once < team_.steps) continue;
      if (kept.insert(node).second) kept_.push_back({node, b_.NewPrivate(node->dtype, steps_)});
    }
  }
}

// Binds the row of the thread. Threads without a row compute the last one and store nothing.
void RowTeamLowering::BindRow() {
  Dim rows = te::NumPositions(team_.rows);
  Value threads = b_.Number(team_.threads), row = b_.block();
  lane_ = b_.thread();
  if (int64_t of_block = team_.rows_of_block(); of_block > 1) {
    lane_ = b_.Remainder(b_.thread(), threads);
    row = b_.Plus(b_.Times(row, b_.Number(of_block)), b_.Quotient(b_.thread(), threads));
    if (!rows.is_const() || rows.constant() % of_block != 0) {
      is_row_ = b_.IsBelow(row, b_.Extent(rows));
      row = b_.Minimum(row, b_.Minus(b_.Extent(rows), b_.Number(1)));
    }
  }
  b_.BindFlat(team_.rows, row);
}

void RowTeamLowering::ForEachElement(absl::FunctionRef<void(Value step, Value element)> body) {
  auto step = [&](Value at) {
    Value element = b_.Plus(b_.Times(at, b_.Number(team_.threads)), lane_);
    auto emit = [&] {
      b_.Bind(team_.element, element);
      body(at, element);
    };
    if (team_.elements() % team_.threads == 0) return b_.Scoped(emit);
    b_.If(b_.IsBelow(element, b_.Number(team_.elements())), emit);
  };
  if (steps_ == 1) return step(b_.Number(0));
  b_.For(b_.Number(0), b_.Number(steps_), b_.Number(1), step, /*is_unrolled=*/steps_ <= kMaxUnrolled);
}

// Gives the reads of the nest the values that the thread has kept, and keeps those of inputs that it reads first.
void RowTeamLowering::BindKept(const LoopNest& nest, Value step) {
  std::vector<const ExprNode*> nodes = te::Postorder(schedule::Values(nest));
  for (const Kept& kept : kept_) {
    if (std::find(nodes.begin(), nodes.end(), kept.read) == nodes.end()) continue;
    if (kept.has_values) {
      b_.BindNode(kept.read, b_.Load(kept.read->dtype, kept.values, step));
    } else if (!IsWritten(kept.read->tensor)) {
      b_.Store(kept.values, step, b_.Emit(*kept.read));
    }
  }
}

void RowTeamLowering::AddPending(const LoopNest& nest) {
  Reduction reduction(b_, *nest.reduction());
  Reduction::Memory sums = reduction.NewPrivate();
  Value first = b_.Number(0);
  reduction.Store(sums, first, reduction.Initial());
  ForEachElement([&](Value step, Value element) {
    BindKept(nest, step);
    reduction.Store(sums, first, reduction.Combine(reduction.Load(sums, first), element));
  });
  pending_.push_back({reduction, reduction.Load(sums, first)});
  pending_nests_.push_back(&nest);
}

void RowTeamLowering::FinishRowTensor(const LoopNest& nest, const NestTensor& t, Value value) {
  if (t.stored) row_stores_.push_back({t.tensor, b_.Emit(nest.store_offset), value});
  Value rounded = b_.Rounded(t.tensor.dtype(), value);
  for (const ExprNode* read : result_reads_) {
    if (Makes(nest, t, read)) b_.BindNode(read, rounded);
  }
}

// Gives all threads of a row the results of the pending reductions.
void RowTeamLowering::Finish() {
  if (pending_.empty()) return;
  merger_.Merge(pending_, {lane_, team_.threads, 1}, /*to_all=*/true);
  for (size_t i = 0; i < pending_.size(); ++i) {
    const LoopNest& nest = *pending_nests_[i];
    FinishRowTensor(nest, nest.tensors[0], pending_[i].reduction.Result(pending_[i].partial));
    for (size_t t = 1; t < nest.tensors.size(); ++t) {
      FinishRowTensor(nest, nest.tensors[t], b_.Emit(nest.tensors[t].value));
    }
  }
  pending_.clear();
  pending_nests_.clear();
}

void RowTeamLowering::LowerElements(const LoopNest& nest) {
  ForEachElement([&](Value step, Value) {
    BindKept(nest, step);
    std::vector<Store> stores;
    for (const NestTensor& t : nest.tensors) {
      Value value = b_.Emit(t.value);
      if (t.stored) stores.push_back({t.tensor, b_.Emit(nest.store_offset), value});
      Value rounded = b_.Rounded(t.tensor.dtype(), value);
      b_.BindTensor(t.tensor, rounded);
      for (const Kept& kept : kept_) {
        if (Makes(nest, t, kept.read)) b_.Store(kept.values, step, rounded);
      }
    }
    auto store = [&] {
      for (const Store& s : stores) b_.StoreTensor(s.tensor, s.offset, s.value);
    };
    if (stores.empty()) return;
    is_row_.valid() ? b_.If(is_row_, store) : store();
  });
}

void RowTeamLowering::Run() {
  FindKept();
  BindRow();
  for (const LoopNest& nest : nests_) {
    bool waits = nest.reduction() == nullptr || NeedsResults(nest);
    if (waits) Finish();
    if (nest.reduction() != nullptr) {
      AddPending(nest);
    } else if (IsOfElements(nest)) {
      LowerElements(nest);
    } else {
      for (const NestTensor& t : nest.tensors) FinishRowTensor(nest, t, b_.Emit(t.value));
    }
    std::vector<const ExprNode*> nodes = te::Postorder(schedule::Values(nest));
    for (Kept& kept : kept_) {
      kept.has_values |= std::find(nodes.begin(), nodes.end(), kept.read) != nodes.end();
      for (const NestTensor& t : nest.tensors) kept.has_values |= Makes(nest, t, kept.read);
    }
  }
  Finish();
  if (row_stores_.empty()) return;
  Value is_first = b_.Binary(BinaryOp::kEqual, kInt64, lane_, b_.Number(0));
  b_.If(is_row_.valid() ? b_.And(is_first, is_row_) : is_first, [&] {
    for (const Store& s : row_stores_) b_.StoreTensor(s.tensor, s.offset, s.value);
  });
}

}  // namespace

void LowerRowTeam(Builder& b, const schedule::Schedule& schedule, const schedule::NestGroup& group) {
  RowTeamLowering(b, schedule, group).Run();
}

}  // namespace rvm::loops
