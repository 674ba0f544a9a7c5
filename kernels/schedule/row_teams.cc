#include "kernels/schedule/row_teams.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/scalar_op.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::ExprPool;
using te::IndexVar;
using te::Tensor;

// Maximum number of elements of a row for one warp, and for one block, if they stay in registers.
constexpr int64_t kMaxWarpElements = 1024, kMaxBlockElements = 8192;
// Rows of at most so many elements occupy a warp each, however few rows there are.
constexpr int64_t kShortRow = 128;
// Number of rows that occupy a GPU with one warp for each.
constexpr int64_t kManyRows = 1024;
// Maximum number of slices of the results of a reduction.
constexpr int64_t kMaxSlices = 8;
// Maximum number of values that a thread keeps in registers from nest to nest, and that it loads before it sums up.
constexpr int64_t kMaxKept = 160, kMaxLoaded = 96;
// Maximum number of values that a thread of a loop loads at once: more would cost registers for which fewer blocks run.
constexpr int64_t kMaxLoadedInLoop = 32;
// Maximum size of straight-line code for the elements of a thread, in operations.
constexpr int64_t kMaxCode = 12000;
constexpr int64_t kFunctionCode = 20;  // of exp, tanh and others
constexpr size_t kMaxNests = 16;       // of a launch

std::vector<const ExprNode*> Reads(const LoopNest& nest) {
  std::vector<const ExprNode*> reads;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind == ExprKind::kRead) reads.push_back(node);
  }
  return reads;
}

int64_t CodeOf(const std::vector<Expr>& roots) {
  int64_t code = 0;
  for (const ExprNode* node : te::Postorder(roots)) {
    bool is_function = node->kind == ExprKind::kUnary && IsTranscendental(node->unary);
    bool is_power = node->kind == ExprKind::kBinary && node->binary == BinaryOp::kPower;
    code += is_function || is_power ? kFunctionCode : 1;
  }
  return code;
}

// Returns whether `offset` is a multiple of `vector` where the element is.
bool IsAligned(const Expr& offset, int64_t element, int64_t vector) {
  if (offset->kind == ExprKind::kIntConst) return offset->int_value % vector == 0;
  if (offset->kind == ExprKind::kIndex) return offset->index.id == element;
  if (offset->kind != ExprKind::kBinary) return false;
  const Expr &a = offset->operands[0], &b = offset->operands[1];
  if (offset->binary == BinaryOp::kAdd) return IsAligned(a, element, vector) && IsAligned(b, element, vector);
  return offset->binary == BinaryOp::kMultiply && (IsAligned(a, element, vector) || IsAligned(b, element, vector));
}

// Nests over rows of the same extents.
class RowTeamMaker {
 public:
  RowTeamMaker(Schedule& schedule, const std::vector<IndexVar>& rows, int64_t elements)
      : schedule_(schedule), pool_(*schedule.pool) {
    for (const IndexVar& row : rows) team_.rows.push_back(pool_.Fresh(row.extent, "i"));
    team_.element = pool_.Fresh(Dim(elements), "k");
  }

  // Takes the next nest in. Returns false if it has other rows, or needs more than its row.
  bool Add(const LoopNest& nest);
  // Returns the plan, or nullopt if threads cannot keep what the nests need.
  std::optional<RowTeamPlan> Finish(size_t first);

 private:
  bool MapRows(std::span<const IndexVar> axes, te::Rewrite& rewrite);
  std::vector<LoopNest> Fitted(const LoopNest& nest);
  std::vector<LoopNest> Slices(const LoopNest& nest);
  LoopNest Rewritten(const LoopNest& nest, te::Rewrite rewrite, bool is_of_elements);
  bool MatchReads(LoopNest& nest);
  Expr Match(const ExprNode& read);
  bool Shares(const LoopNest& nest) const;
  bool IsWritten(const Tensor& tensor) const;
  bool IsReadBehind(const Tensor& tensor, size_t first) const;
  bool SlicesStayInside(size_t first) const;
  void DropStores(size_t first);
  bool ReadsResults(const LoopNest& nest) const;
  bool ChooseThreads();
  void ChooseVector();
  int64_t KeptStreams() const;

  Schedule& schedule_;
  ExprPool& pool_;
  RowTeam team_;
  std::vector<LoopNest> nests_;
  std::vector<bool> of_elements_;  // by nest
  std::vector<Tensor> sliced_;     // results that several nests compute
  size_t replaced_ = 0;
};

// Replaces the axes by rows; several rows may be one axis.
bool RowTeamMaker::MapRows(std::span<const IndexVar> axes, te::Rewrite& rewrite) {
  size_t next = 0;
  for (const IndexVar& axis : axes) {
    if (next == team_.rows.size()) return false;
    Dim extent = team_.rows[next].extent;
    Expr place = pool_.Variable(team_.rows[next++]);
    while (CompareDims(extent, axis.extent) != DimEquality::kEqual) {
      if (next == team_.rows.size()) return false;
      const IndexVar& row = team_.rows[next++];
      Expr scaled = pool_.Binary(BinaryOp::kMultiply, place, pool_.Extent(row.extent));
      place = pool_.Binary(BinaryOp::kAdd, scaled, pool_.Variable(row));
      extent = extent * row.extent;
    }
    rewrite.variables[axis.id] = place;
  }
  return next == team_.rows.size();
}

LoopNest RowTeamMaker::Rewritten(const LoopNest& nest, te::Rewrite rewrite, bool is_of_elements) {
  LoopNest result = nest;
  result.axes = team_.rows;
  if (is_of_elements) result.axes.push_back(team_.element);
  result.elements_per_thread = 1;
  const ExprNode* reduce = nest.reduction();
  if (reduce != nullptr) rewrite.variables[reduce->axes[0].id] = pool_.Variable(team_.element);
  Apply(pool_, result, std::move(rewrite));
  if (reduce != nullptr) {
    ExprNode node = *result.reduction();
    node.axes = {team_.element};
    result.tensors[0].value = pool_.Intern(std::move(node));
  }
  return result;
}

// Returns the nest over rows, or nests of slices of it; none if it has other rows.
std::vector<LoopNest> RowTeamMaker::Fitted(const LoopNest& nest) {
  bool is_reduction = nest.form == NestForm::kTeams && nest.team->are_neighbours;
  bool is_plain = nest.form == NestForm::kPositions && nest.reduction() == nullptr;
  const Tensor& tensor = nest.tensors[0].tensor;
  if ((!is_reduction && !is_plain) || nest.update || tensor->self || tensor->is_ordered || !nest.replicas.empty() ||
      !nest.ranges.empty())
    return {};
  if (is_reduction) {
    const ExprNode& reduce = *nest.reduction();
    if (reduce.axes.size() != 1 || reduce.axes[0].extent != team_.element.extent) return {};
  }
  te::Rewrite rewrite;
  if (MapRows(nest.axes, rewrite)) return {Rewritten(nest, std::move(rewrite), false)};
  if (is_reduction) return Slices(nest);
  te::Rewrite of_elements;
  bool fits = !nest.axes.empty() && nest.axes.back().extent == team_.element.extent &&
              MapRows(std::span(nest.axes).first(nest.axes.size() - 1), of_elements);
  if (!fits) return {};
  of_elements.variables[nest.axes.back().id] = pool_.Variable(team_.element);
  return {Rewritten(nest, std::move(of_elements), true)};
}

// Results of a reduction as slices of the rows: a later nest reads one of each, as gates of a recurrent cell.
std::vector<LoopNest> RowTeamMaker::Slices(const LoopNest& nest) {
  if (nest.axes.size() != team_.rows.size() || nest.axes.empty()) return {};
  const Dim &all = nest.axes.back().extent, &slice = team_.rows.back().extent;
  if (!all.is_const() || !slice.is_const() || slice.constant() < 1 || all.constant() % slice.constant() != 0) return {};
  int64_t count = all.constant() / slice.constant();
  if (count < 2 || count > kMaxSlices) return {};
  std::vector<LoopNest> slices;
  for (int64_t n = 0; n < count; ++n) {
    te::Rewrite rewrite;
    for (size_t axis = 0; axis < nest.axes.size(); ++axis) {
      if (axis + 1 < nest.axes.size() && nest.axes[axis].extent != team_.rows[axis].extent) return {};
      rewrite.variables[nest.axes[axis].id] = pool_.Variable(team_.rows[axis]);
    }
    Expr& last = rewrite.variables[nest.axes.back().id];
    if (n > 0) last = pool_.Binary(BinaryOp::kAdd, last, pool_.Intern(*te::Index(n * slice.constant())));
    slices.push_back(Rewritten(nest, std::move(rewrite), false));
  }
  for (const NestTensor& t : nest.tensors) {
    if (t.stored) sliced_.push_back(t.tensor);
  }
  return slices;
}

bool RowTeamMaker::IsWritten(const Tensor& tensor) const {
  return std::any_of(nests_.begin(), nests_.end(), [&](const LoopNest& nest) {
    return std::any_of(nest.tensors.begin(), nest.tensors.end(),
                       [&](const NestTensor& t) { return t.tensor.get() == tensor.get(); });
  });
}

// Returns the offset at which a nest stores the element that is read; null if none does at this position.
Expr RowTeamMaker::Match(const ExprNode& read) {
  const Expr& offset = read.operands[0];
  auto at_zero = [&](const Expr& e) {
    te::Rewrite zero;
    for (const IndexVar& row : team_.rows) zero.variables[row.id] = pool_.Intern(*te::Index(0));
    zero.variables[team_.element.id] = pool_.Intern(*te::Index(0));
    return pool_.Copy(e, zero);
  };
  auto is_same = [&](const Expr& stored) {
    if (stored.get() == offset.get()) return true;
    auto same_stride = [&](const IndexVar& variable) {
      std::optional<int64_t> a = te::Stride(stored, variable.id), b = te::Stride(offset, variable.id);
      return a && a == b;
    };
    return std::all_of(team_.rows.begin(), team_.rows.end(), same_stride) && same_stride(team_.element) &&
           at_zero(stored).get() == at_zero(offset).get();
  };
  for (const LoopNest& nest : nests_) {
    for (const NestTensor& t : nest.tensors) {
      if (t.tensor.get() == read.tensor.get() && is_same(nest.store_offset)) return nest.store_offset;
    }
  }
  return Expr();
}

// Reads of what nests before have computed get the offset at which it is stored. Returns false for other elements.
bool RowTeamMaker::MatchReads(LoopNest& nest) {
  te::Rewrite rewrite;
  for (const ExprNode* read : Reads(nest)) {
    if (!IsWritten(read->tensor)) continue;
    Expr stored = Match(*read);
    if (!stored) return false;
    ExprNode same = *read;
    same.operands = {stored};
    same.int_value = te::kReadIsSafe;
    rewrite.done.emplace(read, pool_.Intern(std::move(same)));
  }
  if (rewrite.done.empty()) return true;
  Expr offset = nest.store_offset;
  Apply(pool_, nest, std::move(rewrite));
  nest.store_offset = offset;
  return true;
}

// Returns whether the nest reads what the others compute, or the same elements.
bool RowTeamMaker::Shares(const LoopNest& nest) const {
  absl::flat_hash_set<const te::TensorNode*> read;
  for (const LoopNest& other : nests_) {
    for (const ExprNode* node : Reads(other)) {
      if (te::DependsOn(node->operands[0], team_.element.id)) read.insert(node->tensor.get());
    }
  }
  for (const ExprNode* node : Reads(nest)) {
    bool is_of_elements = te::DependsOn(node->operands[0], team_.element.id);
    if (IsWritten(node->tensor) || (is_of_elements && read.contains(node->tensor.get()))) return true;
  }
  return false;
}

bool RowTeamMaker::Add(const LoopNest& nest) {
  size_t sliced_before = sliced_.size();
  std::vector<LoopNest> fitted = Fitted(nest);
  bool fits = !fitted.empty() && (nests_.empty() || Shares(fitted[0]));
  // A nest of slices reads nothing of the others: it would read it once for each.
  for (LoopNest& part : fitted) fits = fits && MatchReads(part);
  if (!fits) {
    sliced_.resize(sliced_before);
    return false;
  }
  for (LoopNest& part : fitted) {
    of_elements_.push_back(part.axes.size() > team_.rows.size());
    nests_.push_back(std::move(part));
  }
  ++replaced_;
  return true;
}

// Returns whether a nest behind those of the plan, which begin at number `first`, reads the tensor.
bool RowTeamMaker::IsReadBehind(const Tensor& tensor, size_t first) const {
  for (size_t n = first + replaced_; n < schedule_.nests.size(); ++n) {
    for (const ExprNode* node : te::Postorder(ReadExpressions(schedule_.nests[n]))) {
      if (node->kind == ExprKind::kRead && node->tensor.get() == tensor.get()) return true;
    }
  }
  return false;
}

// Returns whether nothing else reads tensors whose slices are computed apart, and each slice is of use.
bool RowTeamMaker::SlicesStayInside(size_t first) const {
  for (const Tensor& tensor : sliced_) {
    if (schedule_.buffers.contains(tensor.get()) || IsReadBehind(tensor, first)) return false;
    for (size_t n = first + replaced_; n < schedule_.nests.size(); ++n) {
      if (schedule_.nests[n].update) return false;
    }
    bool is_read = false;
    for (const LoopNest& nest : nests_) {
      for (const ExprNode* read : Reads(nest))
        is_read |= read->tensor.get() == tensor.get() && nest.tensors[0].tensor.get() != tensor.get();
    }
    if (!is_read) return false;
  }
  return true;
}

// Keeps what no other nest reads in registers.
void RowTeamMaker::DropStores(size_t first) {
  for (LoopNest& nest : nests_) {
    for (NestTensor& t : nest.tensors) {
      if (schedule_.buffers.contains(t.tensor.get())) continue;
      t.stored = t.stored && IsReadBehind(t.tensor, first);
    }
  }
}

// Returns whether a reduction needs what others compute.
bool RowTeamMaker::ReadsResults(const LoopNest& nest) const {
  for (const ExprNode* node : te::Postorder({nest.reduction()->operands[0]})) {
    if (node->kind == ExprKind::kRead && IsWritten(node->tensor)) return true;
  }
  return false;
}

// Values that a thread keeps, or loads at once, for each of its elements.
int64_t RowTeamMaker::KeptStreams() const {
  absl::flat_hash_set<const ExprNode*> streams;
  for (const LoopNest& nest : nests_) {
    for (const ExprNode* read : Reads(nest)) {
      bool is_of_elements = te::DependsOn(read->operands[0], team_.element.id);
      if (is_of_elements && (nest.reduction() != nullptr || IsWritten(read->tensor))) streams.insert(read);
    }
  }
  return std::max<int64_t>(static_cast<int64_t>(streams.size()), 1);
}

// Loads and stores of up to 16 bytes, if the accesses that are contiguous allow it.
void RowTeamMaker::ChooseVector() {
  std::vector<Expr> offsets;
  int64_t bytes = 1;
  bool is_safe = true;
  auto add = [&](const Expr& offset, DataType dtype) {
    if (te::Stride(offset, team_.element.id) != 1) return;
    offsets.push_back(offset);
    bytes = std::max(bytes, dtype.bytes());
  };
  for (size_t n = 0; n < nests_.size(); ++n) {
    for (const ExprNode* read : Reads(nests_[n])) {
      if (IsWritten(read->tensor)) continue;
      add(read->operands[0], read->dtype);
      bool is_of_elements = te::DependsOn(read->operands[0], team_.element.id);
      is_safe = is_safe && (!is_of_elements || read->int_value == te::kReadIsSafe);
    }
    for (const NestTensor& t : nests_[n].tensors) {
      if (t.stored && of_elements_[n]) add(nests_[n].store_offset, t.tensor.dtype());
    }
  }
  int64_t most = is_safe && !offsets.empty() ? 16 / std::max<int64_t>(bytes, 2) : 1;
  auto fits = [&](int64_t vector) {
    return team_.elements() % vector == 0 && std::all_of(offsets.begin(), offsets.end(), [&](const Expr& offset) {
             return IsAligned(offset, team_.element.id, vector);
           });
  };
  while (most > 1 && !fits(most)) most /= 2;
  team_.vector = most;
  // Half as wide, if then all threads have as many elements.
  bool is_even = team_.is_whole() || team_.elements() % (team_.threads * most / 2) != 0;
  if (most > 1 && most * bytes > 8 && !is_even) team_.vector = most / 2;
  team_.steps = (team_.elements() + team_.threads * team_.vector - 1) / (team_.threads * team_.vector);
}

// Returns false if a thread would have too much.
bool RowTeamMaker::ChooseThreads() {
  bool has_elements = std::find(of_elements_.begin(), of_elements_.end(), true) != of_elements_.end();
  bool keeps = has_elements;
  int64_t code = 0;
  for (size_t n = 0; n < nests_.size(); ++n) {
    if (nests_[n].reduction() != nullptr) {
      keeps |= ReadsResults(nests_[n]);
      code += CodeOf({nests_[n].reduction()->operands[0]});
    } else if (of_elements_[n]) {
      code += CodeOf(Values(nests_[n]));
    }
  }
  Dim rows = te::NumPositions(team_.rows);
  bool has_many = rows.is_const() && rows.constant() >= kManyRows;
  if (nests_.size() == 1) {
    team_.threads = nests_[0].team->threads;
  } else {
    bool is_at_once = team_.elements() * KeptStreams() <= kMaxLoaded * kWarpThreads;
    bool in_warp = has_elements ? team_.elements() <= (has_many ? kMaxWarpElements : kShortRow) : is_at_once;
    team_.threads = in_warp ? kWarpThreads : kBlockThreads;
  }
  if (keeps && team_.elements() > kMaxBlockElements) return false;
  ChooseVector();
  int64_t streams = KeptStreams();
  auto fits = [&](int64_t steps, int64_t most) {
    return steps * team_.vector * streams <= most && steps * team_.vector * code <= kMaxCode;
  };
  team_.steps_at_once = team_.steps;
  if (keeps) return fits(team_.steps, kMaxKept);
  if (fits(team_.steps, kMaxLoaded)) return true;
  while (team_.steps_at_once > 1 && !fits(team_.steps_at_once, kMaxLoadedInLoop)) {
    team_.steps_at_once = (team_.steps_at_once + 1) / 2;
  }
  return true;
}

std::optional<RowTeamPlan> RowTeamMaker::Finish(size_t first) {
  bool reduces =
      std::any_of(nests_.begin(), nests_.end(), [](const LoopNest& nest) { return nest.reduction() != nullptr; });
  if (!reduces || !SlicesStayInside(first)) return std::nullopt;
  DropStores(first);
  if (!ChooseThreads()) return std::nullopt;
  for (LoopNest& nest : nests_) {
    if (nest.team) nest.team->threads = team_.threads;
  }
  return RowTeamPlan{std::move(team_), std::move(nests_), replaced_};
}

// Returns the number of elements of the first reduction of rows, if it is known.
std::optional<int64_t> ElementsOfRows(std::span<const LoopNest> nests) {
  for (const LoopNest& nest : nests) {
    bool reduces = nest.form == NestForm::kTeams && nest.team->are_neighbours && nest.reduction()->axes.size() == 1;
    if (!reduces) continue;
    const Dim& extent = nest.reduction()->axes[0].extent;
    return extent.is_const() ? std::optional(extent.constant()) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<RowTeamPlan> PlanRowTeam(Schedule& schedule, size_t first, size_t most) {
  std::span<const LoopNest> nests = std::span<const LoopNest>(schedule.nests).subspan(first);
  nests = nests.first(std::min({nests.size(), most, kMaxNests}));
  std::optional<int64_t> elements = ElementsOfRows(nests);
  std::optional<RowTeamPlan> best;
  if (!elements) return best;
  // Plans as many nests as fit, if these are more than those of the best plan.
  auto try_rows = [&](const std::vector<IndexVar>& rows) {
    size_t count = nests.size(), least = best ? best->replaced : 0;
    while (count > least) {
      RowTeamMaker maker(schedule, rows, *elements);
      size_t added = 0;
      while (added < count && maker.Add(nests[added])) ++added;
      if (added <= least) return;
      if (std::optional<RowTeamPlan> plan = maker.Finish(first)) {
        best = std::move(plan);
        return;
      }
      count = added - 1;
    }
  };
  for (const LoopNest& nest : nests) {
    if (nest.form != NestForm::kTeams && nest.form != NestForm::kPositions) break;
    try_rows(nest.axes);
    bool may_have_elements = nest.form == NestForm::kPositions && !nest.axes.empty();
    if (may_have_elements && nest.axes.back().extent == Dim(*elements))
      try_rows({nest.axes.begin(), nest.axes.end() - 1});
  }
  return best;
}

}  // namespace rvm::schedule
