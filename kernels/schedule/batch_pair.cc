#include "kernels/schedule/batch_pair.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::ReduceOp;
using te::Tensor;
using te::TensorKind;

// A product of so many rows reads its matrix from the caches for most of them.
constexpr int64_t kMinRowsAlone = 8;

// The matmuls of a computation, and how it reads its inputs.
class InputUses {
 public:
  InputUses(const te::Computation& computation, const std::vector<bool>& constant_inputs)
      : computation_(computation), shared_(constant_inputs) {
    shared_.resize(computation.inputs.size(), false);
    is_argument_.resize(computation.inputs.size(), false);
    is_table_.resize(computation.inputs.size(), true);
    for (const Tensor& output : computation.outputs) Collect(output);
    ShareTables();
    for (const Tensor& product : products_) AddProduct(product);
  }

  bool pays() const { return pays_; }
  // Inputs that are arguments, and matrices that all calls have in common, such as weights that are being trained.
  const std::vector<bool>& shared_arguments() const { return is_argument_; }
  const std::vector<bool>& shared() const { return shared_; }

 private:
  // Producers need no order here.
  void Collect(const Tensor& root) {
    std::vector<Tensor> path = {root};
    while (!path.empty()) {
      Tensor tensor = path.back();
      path.pop_back();
      if (tensor->kind == TensorKind::kInput && tensor.get() == root.get()) {
        is_table_[static_cast<size_t>(tensor->input_index)] = false;
      }
      if (tensor->kind != TensorKind::kCompute || !seen_.insert(tensor.get()).second) continue;
      const ExprNode& body = *tensor->body;
      bool is_product = body.kind == ExprKind::kReduce && body.reduce == ReduceOp::kSum &&
                        body.operands[0]->kind == ExprKind::kBinary &&
                        body.operands[0]->binary == te::BinaryOp::kMultiply;
      if (is_product) products_.push_back(tensor);
      for (const ExprNode* node : te::Postorder({tensor->body})) {
        if (node->kind != ExprKind::kRead) continue;
        path.push_back(node->tensor);
        if (node->tensor->kind == TensorKind::kInput && !HasDataInIndex(*node)) {
          is_table_[static_cast<size_t>(node->tensor->input_index)] = false;
        }
      }
    }
  }

  // One factor is a matrix that all calls share: it is computed from constants, or it is an argument.
  void AddProduct(const Tensor& product) {
    const std::vector<Expr>& factors = product->body->operands[0]->operands;
    std::array<bool, 2> shared = {IsShared(factors[0]), IsShared(factors[1])};
    if (shared[0] && shared[1]) return;
    std::array<bool, 2> is_matrix = {IsMatrixOfFewRows(factors[0], product), IsMatrixOfFewRows(factors[1], product)};
    for (size_t i : {0, 1}) {
      if (!is_matrix[i] || shared[1 - i]) continue;
      if (!shared[i]) {
        std::vector<size_t> sources = Sources(factors[i]);
        if (is_matrix[1 - i] || sources.size() != 1) continue;
        shared_[sources[0]] = true;
        is_argument_[sources[0]] = true;
        ShareLowerRanks(product.rank());
      }
      pays_ = true;
    }
  }

  static bool HasDataInIndex(const ExprNode& read) {
    std::vector<const ExprNode*> nodes = te::Postorder(read.operands);
    return std::any_of(nodes.begin(), nodes.end(), [](const ExprNode* node) { return node->kind == ExprKind::kRead; });
  }

  static bool IsLarge(const Tensor& tensor) {
    std::optional<Shape> shape = StaticShape(tensor.dims());
    std::optional<int64_t> count = shape ? NumElements(*shape) : std::nullopt;
    return count && *count > kMinBytesToBatch / tensor.dtype().bytes();
  }

  // Tables from which each call takes some elements: copying one for each call would cost more than that.
  void ShareTables() {
    for (size_t i = 0; i < shared_.size(); ++i) {
      shared_[i] = shared_[i] || (is_table_[i] && IsLarge(computation_.inputs[i]));
    }
  }

  // Beside a weight, what has no axis for rows, such as its bias, is one as well.
  void ShareLowerRanks(size_t rank) {
    for (size_t i = 0; i < shared_.size(); ++i) {
      size_t own = computation_.inputs[i].rank();
      shared_[i] = shared_[i] || (own > 0 && own < rank);
    }
  }

  // Returns the inputs that the factor is computed from without a reduction; empty if there is another source.
  std::vector<size_t> Sources(const Expr& factor) const {
    std::vector<size_t> inputs;
    std::vector<Expr> rest = {factor};
    absl::flat_hash_set<const te::TensorNode*> seen;
    while (!rest.empty()) {
      Expr e = rest.back();
      rest.pop_back();
      for (const ExprNode* node : te::Postorder({e})) {
        if (node->kind == ExprKind::kReduce) return {};
        if (node->kind != ExprKind::kRead || !seen.insert(node->tensor.get()).second) continue;
        if (node->tensor->kind == TensorKind::kSelf) return {};
        if (node->tensor->kind == TensorKind::kInput) {
          inputs.push_back(static_cast<size_t>(node->tensor->input_index));
        } else {
          rest.push_back(node->tensor->body);
        }
      }
    }
    return inputs;
  }

  // Returns whether the factor has a large source, and each element of it is multiplied by few rows, or a number of
  // them that is not known. Of arguments, that number must be known: what is a row of one, and what is not, is then
  // clear.
  bool IsMatrixOfFewRows(const Expr& factor, const Tensor& product) const {
    std::vector<size_t> sources = Sources(factor);
    bool is_large =
        std::any_of(sources.begin(), sources.end(), [&](size_t input) { return IsLarge(computation_.inputs[input]); });
    if (!is_large) return false;
    Dim rows = 1;
    bool has_columns = false;
    for (const IndexVar& axis : product->axes) {
      bool is_column = te::DependsOn(factor, axis.id);
      has_columns = has_columns || is_column;
      if (!is_column) rows = rows * axis.extent;
    }
    if (!has_columns) return false;
    if (rows.is_const()) return rows.constant() < kMinRowsAlone;
    return std::all_of(sources.begin(), sources.end(), [&](size_t input) { return shared_[input]; });
  }

  bool IsShared(const Expr& factor) const {
    std::vector<size_t> sources = Sources(factor);
    return !sources.empty() &&
           std::all_of(sources.begin(), sources.end(), [&](size_t input) { return shared_[input]; });
  }

  const te::Computation& computation_;
  std::vector<bool> shared_;
  std::vector<bool> is_table_;  // by input: all reads are at positions that depend on data
  absl::flat_hash_set<const te::TensorNode*> seen_;
  std::vector<Tensor> products_;
  std::vector<bool> is_argument_;  // by input: a matrix that calls share, and no constant
  bool pays_ = false;
};

SumOrder OrderOf(const Schedule& schedule) {
  SumOrder order{.is_fixed = true};
  for (const LoopNest& nest : schedule.nests) {
    if (!nest.tile) continue;
    std::optional<int64_t> input = VectorInput(*nest.tile);
    if (input) order.vectors[*input] = {nest.tile->is_packed() ? nest.tile->panel() : 0, nest.tile->segments};
  }
  return order;
}

bool SameDepth(const LoopNest& a, const LoopNest& b) {
  const std::vector<IndexVar>&x = a.reduction()->axes, &y = b.reduction()->axes;
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const IndexVar& m, const IndexVar& n) {
    return m.extent.is_const() ? m.extent == n.extent : !n.extent.is_const();
  });
}

// Returns whether both nests add up the elements of a sum in the same order.
bool SumsAlike(const LoopNest& a, const LoopNest& b) {
  if (a.reduction()->reduce != b.reduction()->reduce || a.form != b.form || !SameDepth(a, b)) return false;
  if (!a.tile) return true;
  bool is_float = a.reduction()->dtype.is_float();
  return !is_float ||
         (a.tile->segments == b.tile->segments && !a.tile->few && !b.tile->few &&
          a.tile->vector.dtype() == b.tile->vector.dtype() &&
          static_cast<bool>(a.tile->scale) == static_cast<bool>(b.tile->scale) &&
          a.tile->scaled_axes == b.tile->scaled_axes && a.tile->blocks.has_value() == b.tile->blocks.has_value());
}

std::vector<const LoopNest*> Reductions(const Schedule& schedule) {
  std::vector<const LoopNest*> nests;
  for (const LoopNest& nest : schedule.nests) {
    if (nest.reduction() != nullptr) nests.push_back(&nest);
  }
  return nests;
}

bool GiveTheSameBits(const Schedule& a, const Schedule& b) {
  std::vector<const LoopNest*> x = Reductions(a), y = Reductions(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const LoopNest* m, const LoopNest* n) { return SumsAlike(*m, *n); });
}

// `arranged`: inputs of `b` whose layout is its own.
bool HaveTheSameLayouts(const Schedule& a, const Schedule& b, std::span<const ArrangedInput> arranged = {}) {
  for (size_t i = 0; i < a.computation.inputs.size(); ++i) {
    if (std::ranges::find(arranged, i, &ArrangedInput::input) != arranged.end()) continue;
    const PackedLayout *x = a.Layout(i), *y = b.Layout(i);
    if ((x == nullptr) != (y == nullptr) || (x != nullptr && !(*x == *y))) return false;
  }
  return true;
}

// Inputs of a chain of calls that all of them have in common: the accumulator, and those that nothing reads.
std::vector<bool> SharedInChain(const te::Computation& computation, size_t accumulator) {
  std::vector<bool> is_read(computation.inputs.size(), false);
  std::vector<Tensor> rest = computation.outputs;
  absl::flat_hash_set<const te::TensorNode*> seen;
  while (!rest.empty()) {
    Tensor tensor = rest.back();
    rest.pop_back();
    if (!seen.insert(tensor.get()).second) continue;
    if (tensor->kind == TensorKind::kInput) is_read[static_cast<size_t>(tensor->input_index)] = true;
    if (tensor->kind != TensorKind::kCompute) continue;
    for (const ExprNode* node : te::Postorder({tensor->body})) {
      if (node->kind == ExprKind::kRead) rest.push_back(node->tensor);
    }
  }
  std::vector<bool> shared = std::move(is_read);
  shared.flip();
  shared[accumulator] = true;
  return shared;
}

// Returns whether the output may have the memory of the accumulator.
bool AddsInPlace(const Schedule& schedule, size_t accumulator) {
  return std::ranges::any_of(schedule.reuses, [&](const Reuse& reuse) {
    return reuse.output == 0 && reuse.input == static_cast<int64_t>(accumulator);
  });
}

absl::StatusOr<std::optional<BatchPair>> ScheduleChain(const te::Computation& computation, size_t accumulator,
                                                       const std::vector<bool>& constant_inputs, const Target& target) {
  BatchPair pair{.shared = SharedInChain(computation, accumulator), .has_same_bits = false, .accumulator = accumulator};
  std::optional<te::BatchedComputation> batched = te::AddBatchSum(computation, pair.shared);
  if (!batched) return std::nullopt;
  pair.batched = *std::move(batched);
  const SumOrder in_place = {.stores_once = true};
  RVM_ASSIGN_OR_RETURN(pair.variant, MakeSchedule(pair.batched.computation, constant_inputs, target, in_place));
  RVM_ASSIGN_OR_RETURN(pair.kernel, MakeSchedule(computation, constant_inputs, target, in_place));
  bool fits = AddsInPlace(pair.kernel, accumulator) && AddsInPlace(pair.variant, accumulator) &&
              pair.kernel.updates.empty() && pair.variant.updates.empty() &&
              HaveTheSameLayouts(pair.kernel, pair.variant);
  return fits ? std::optional(std::move(pair)) : std::nullopt;
}

// The kernel that gives `input` in `layout`; nullopt if the layout is none of a matrix, or has columns beside others.
absl::StatusOr<std::optional<ArrangedInput>> ScheduleArrangement(const te::Computation& computation, size_t input,
                                                                 const PackedLayout& layout, const Target& target) {
  const Tensor& from = computation.inputs[input];
  std::optional<Shape> shape = StaticShape(from.dims());
  if (!shape || shape->size() != 2 || !layout.outer.empty() || layout.depth.size() != 1 || layout.depth_step != 1)
    return std::nullopt;
  const StridedAxis &column = layout.column, &depth = layout.depth[0];
  size_t column_axis = column.stride == 1 ? 1 : 0;
  const StridedAxis axes[] = {column_axis == 0 ? column : depth, column_axis == 0 ? depth : column};
  if (axes[0] != StridedAxis{(*shape)[0], (*shape)[1]} || axes[1] != StridedAxis{(*shape)[1], 1}) return std::nullopt;
  Tensor matrix = te::Input(0, from->name, from.dtype(), from.dims());
  Dims dims = {Dim((column.extent + layout.panel - 1) / layout.panel), Dim(depth.extent), Dim(layout.panel)};
  Tensor panels = te::ComputeTensor("panels", from.dtype(), dims, [&](std::span<const Expr> i) {
    Expr at = i[0] * te::Index(layout.panel) + i[2];
    // Lanes beyond the columns repeat the last one; what tiles sum up there is dropped.
    if (column.extent % layout.panel != 0) at = te::Binary(te::BinaryOp::kMinimum, at, te::Index(column.extent - 1));
    return column_axis == 0 ? matrix({at, i[1]}) : matrix({i[1], at});
  });
  ArrangedInput arranged = {input, {"panels", {matrix}, {panels}}, {}};
  RVM_ASSIGN_OR_RETURN(arranged.schedule, MakeSchedule(arranged.computation, {false}, target));
  return arranged;
}

// Schedules the variant as if the matrices were constants, and what arranges them; false if one cannot be.
absl::StatusOr<bool> ScheduleArranged(BatchPair& pair, const std::vector<bool>& constant_inputs,
                                      const std::vector<bool>& matrices, const Target& target) {
  std::vector<bool> known = constant_inputs;
  known.resize(matrices.size(), false);
  for (size_t i = 0; i < matrices.size(); ++i) known[i] = known[i] || matrices[i];
  RVM_ASSIGN_OR_RETURN(pair.variant, MakeSchedule(pair.batched.computation, known, target));
  for (size_t i = 0; i < matrices.size(); ++i) {
    const PackedLayout* layout = matrices[i] ? pair.variant.Layout(i) : nullptr;
    if (layout == nullptr) continue;
    RVM_ASSIGN_OR_RETURN(std::optional<ArrangedInput> arranged,
                         ScheduleArrangement(pair.batched.computation, i, *layout, target));
    if (!arranged) return false;
    pair.arranged.push_back(*std::move(arranged));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::optional<BatchPair>> ScheduleBatchPair(const te::Computation& computation,
                                                           const std::vector<bool>& constant_inputs,
                                                           const Target& target, BatchOptions options) {
  std::optional<size_t> accumulator = options.reuses_inputs ? te::FindAccumulator(computation) : std::nullopt;
  if (accumulator) {
    RVM_ASSIGN_OR_RETURN(std::optional<BatchPair> chain,
                         ScheduleChain(computation, *accumulator, constant_inputs, target));
    if (chain) return chain;
  }
  InputUses uses(computation, constant_inputs);
  if (!uses.pays() && !options.always) return std::nullopt;
  std::optional<te::BatchedComputation> batched = te::AddBatchAxis(computation, uses.shared());
  if (!batched) return std::nullopt;
  BatchPair pair{.shared = uses.shared(), .batched = *std::move(batched)};
  Target without_updates = target;
  without_updates.has_updates = false;
  RVM_ASSIGN_OR_RETURN(pair.variant,
                       MakeSchedule(pair.batched.computation, constant_inputs, without_updates, {.is_fixed = true}));
  RVM_ASSIGN_OR_RETURN(pair.kernel, MakeSchedule(computation, constant_inputs, target, OrderOf(pair.variant)));
  auto fits = [&] {
    return pair.kernel.updates.empty() && HaveTheSameLayouts(pair.kernel, pair.variant, pair.arranged);
  };
  if (fits() && GiveTheSameBits(pair.kernel, pair.variant)) return pair;
  const std::vector<bool>& matrices = uses.shared_arguments();
  if (std::ranges::find(matrices, true) == matrices.end()) return std::nullopt;
  pair.has_same_bits = false;
  RVM_ASSIGN_OR_RETURN(pair.kernel, MakeSchedule(computation, constant_inputs, target));
  RVM_ASSIGN_OR_RETURN(bool is_arranged, ScheduleArranged(pair, constant_inputs, matrices, without_updates));
  if (!is_arranged) {
    pair.arranged.clear();
    RVM_ASSIGN_OR_RETURN(pair.variant, MakeSchedule(pair.batched.computation, constant_inputs, without_updates));
  }
  return fits() ? std::optional(std::move(pair)) : std::nullopt;
}

}  // namespace rvm::schedule
