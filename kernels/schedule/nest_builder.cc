// From a computation to loop nests: what is inlined, what has a nest, what is stored.
#include "kernels/schedule/nest_builder.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "kernels/schedule/stored_factors.h"
#include "kernels/schedule/stored_views.h"
#include "kernels/schedule/updates.h"
#include "kernels/te/kernel_symbols.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Computation;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::ExprPool;
using te::Index;
using te::IndexVar;
using te::Postorder;
using te::ReduceOp;
using te::Rewrite;
using te::Tensor;
using te::TensorKind;
using te::TensorNode;
using te::UnaryOp;

bool IsReduce(const Tensor& tensor) { return tensor->body->kind == ExprKind::kReduce; }

// Returns whether the positions that an index takes for different values of one loop overlap those for another: a
// window.
bool Overlaps(const Expr& index, const std::vector<IndexVar>& loops) {
  for (const IndexVar& outer : loops) {
    std::optional<int64_t> far = te::Stride(index, outer.id);
    if (!far || *far <= 0 || outer.extent == Dim(1)) continue;
    for (const IndexVar& inner : loops) {
      std::optional<int64_t> near = inner.id == outer.id ? std::nullopt : te::Stride(index, inner.id);
      if (!near || *near <= 0 || *near > *far || inner.extent == Dim(1)) continue;
      if (!inner.extent.is_const() || inner.extent.constant() * *near > *far) return true;
    }
  }
  return false;
}

// Returns whether `indices` are the same for several values of the loop: they use nothing of it, or only its remainder
// or only its quotient by something.
bool RepeatsAlong(const std::vector<Expr>& indices, const IndexVar& loop) {
  bool quotient = false, remainder = false;
  for (const Expr& index : indices) {
    if (!DependsOn(index, loop.id)) continue;
    bool divided = false;
    for (const ExprNode* node : Postorder({index})) {
      bool divides = node->kind == ExprKind::kBinary && node->operands[0]->kind == ExprKind::kIndex &&
                     node->operands[0]->index.id == loop.id;
      bool by_quotient = divides && node->binary == BinaryOp::kFloorDivide;
      bool by_remainder = divides && node->binary == BinaryOp::kFloorMod;
      quotient |= by_quotient, remainder |= by_remainder;
      divided |= by_quotient || by_remainder;
    }
    if (!divided) return false;
  }
  return !(quotient && remainder);
}

// Returns whether `read` in the body of `consumer` is at the position that is computed.
bool IsSamePosition(const ExprNode& read, const Tensor& consumer) {
  const Dims& dims = read.tensor.dims();
  if (dims.size() != consumer.rank()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Expr& index = read.operands[i];
    bool same_variable = index->kind == ExprKind::kIndex && index->index.id == consumer->axes[i].id;
    bool both_one = dims[i] == Dim(1) && consumer.dims()[i] == Dim(1);
    if (!both_one && !(same_variable && CompareDims(dims[i], consumer.dims()[i]) == DimEquality::kEqual)) return false;
  }
  return true;
}

constexpr int64_t kCheapCost = 16;        // repeated rather than stored
constexpr int64_t kMaxInlineCost = 2000;  // code of one expression

class NestBuilder {
 public:
  // `left_out`: outputs that are not made by updates.
  NestBuilder(Schedule& schedule, const absl::flat_hash_set<size_t>& left_out)
      : computation_(schedule.computation),
        schedule_(schedule),
        updates_(schedule.target.has_updates ? FindUpdates(computation_, left_out) : std::vector<OutputUpdates>()) {
    schedule_.pool = std::make_shared<ExprPool>();
    for (const OutputUpdates& output : updates_) {
      for (const OutputUpdates::Step& step : output.steps) steps_.emplace(step.tensor.get(), &step);
    }
  }

  absl::Status Run();

 private:
  struct Facts {
    int64_t readers = 0;      // tensors that read it
    std::set<int64_t> sites;  // where its value is needed, up to identical positions
    bool replicated = false;  // some site needs each value many times
    bool in_reduce = false;
    int64_t cost = 0;
    bool materialised = false;
    size_t nest = 0;
  };

  ExprPool& pool() { return *schedule_.pool; }
  // Returns whether the tensor is made by an update of its base, in the memory of an output.
  bool IsUpdated(const Tensor& tensor) const { return steps_.contains(tensor.get()); }
  // Returns whether it is of use only when all of it is computed, or is computed in an order of its own.
  bool StaysAlone(const Tensor& tensor) const { return tensor->self || tensor->is_ordered || IsUpdated(tensor); }
  bool HasOwnNest(const Tensor& tensor) const { return IsReduce(tensor) || StaysAlone(tensor); }
  std::vector<Expr> Definition(const Tensor& tensor) const;
  const std::vector<IndexVar>& AxesOf(const Tensor& tensor) const {
    return IsUpdated(tensor) ? tensor->update->axes : tensor->axes;
  }
  absl::Status CheckDims() const;
  void CollectTensors();
  void CollectFrom(const Tensor& root, absl::flat_hash_set<const TensorNode*>& seen);
  void AddCostsAndReaders();
  void VisitReads(const Tensor& consumer);
  bool FinishesReduction(const Tensor& tensor) const;
  void Decide();
  void PlaceAll();
  std::optional<NestTensor> Fits(const Tensor& tensor, LoopNest& nest);
  NestTensor Expand(const Tensor& tensor, const LoopNest& nest);
  bool IsCopy(const Tensor& tensor) const;
  Expr Direct(const Tensor& tensor, const LoopNest& nest, const Expr& value);
  Expr Inline(const Tensor& tensor, const std::vector<Expr>& indices);
  Expr Inline(const Expr& e, const std::vector<IndexVar>& axes, const std::vector<Expr>& indices);
  Expr Rounded(const Tensor& tensor, Expr value);
  void PlaceUpdate(const Tensor& tensor);
  static std::vector<Tensor> ComputedReads(const std::vector<Expr>& expressions);
  void MarkStored();

  const Computation& computation_;
  Schedule& schedule_;
  const std::vector<OutputUpdates> updates_;
  absl::flat_hash_map<const TensorNode*, const OutputUpdates::Step*> steps_;  // by tensor
  absl::flat_hash_map<const TensorNode*, Facts> facts_;
  using InlineKey = std::pair<const TensorNode*, std::vector<const ExprNode*>>;
  std::map<InlineKey, Expr> inlined_;
  bool inlines_copies_ = false;
  int64_t next_site_ = 0;
};

// Returns the expressions that compute the tensor.
std::vector<Expr> NestBuilder::Definition(const Tensor& tensor) const {
  auto found = steps_.find(tensor.get());
  if (found == steps_.end()) return {tensor->body};
  const te::TensorUpdate& update = *tensor->update;
  std::vector<Expr> expressions = Expressions(update);
  if (const Tensor& values = found->second->values) {
    std::vector<Expr> at;
    for (const IndexVar& axis : update.axes) {
      ExprNode index{.kind = ExprKind::kIndex, .dtype = kInt64};
      index.index = axis;
      at.push_back(axis.extent == Dim(1) ? Index(0) : Expr(std::make_shared<const ExprNode>(std::move(index))));
    }
    expressions[0] = values(at);
  }
  return expressions;
}

// Every extent must follow from the symbols.
absl::Status NestBuilder::CheckDims() const {
  const std::vector<Dim>& symbols = schedule_.symbols;
  auto known = [&](const Dim& dim) {
    return EvaluateDim(dim,
                       [&](const Dim& leaf) {
                         bool bound = std::find(symbols.begin(), symbols.end(), leaf) != symbols.end();
                         return bound ? std::optional<int64_t>(1) : std::nullopt;
                       })
        .has_value();
  };
  auto check = [&](const Tensor& tensor) {
    bool ok = std::all_of(tensor.dims().begin(), tensor.dims().end(), known);
    for (const ExprNode* node : tensor->body ? Postorder(Definition(tensor)) : std::vector<const ExprNode*>()) {
      if (node->kind == ExprKind::kDim) ok = ok && known(node->dim);
      for (const IndexVar& axis : node->axes) ok = ok && known(axis.extent);
    }
    if (ok) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("an extent of `", tensor->name, "` does not follow from the inputs of its kernel"));
  };
  for (const Tensor& tensor : computation_.inputs) RVM_RETURN_IF_ERROR(check(tensor));
  for (const Tensor& tensor : schedule_.tensors) RVM_RETURN_IF_ERROR(check(tensor));
  return absl::OkStatus();
}

// Computed tensors that `root` needs, producers first.
void NestBuilder::CollectFrom(const Tensor& root, absl::flat_hash_set<const TensorNode*>& seen) {
  std::vector<std::pair<Tensor, std::vector<Tensor>>> path;
  auto enter = [&](const Tensor& t) {
    if (t->kind != TensorKind::kCompute || !seen.insert(t.get()).second) return;
    std::vector<Tensor> reads;
    for (const ExprNode* node : Postorder(Definition(t))) {
      if (node->kind == ExprKind::kRead) reads.push_back(node->tensor);
    }
    if (IsUpdated(t)) reads.push_back(t->update->base);
    // Reductions come last, so that what finishes one finds all else that it reads before its nest, and joins it.
    std::stable_partition(reads.begin(), reads.end(),
                          [](const Tensor& read) { return read->kind != TensorKind::kCompute || !IsReduce(read); });
    std::reverse(reads.begin(), reads.end());
    path.emplace_back(t, std::move(reads));
  };
  enter(root);
  while (!path.empty()) {
    if (path.back().second.empty()) {
      schedule_.tensors.push_back(path.back().first);
      path.pop_back();
      continue;
    }
    Tensor next = path.back().second.back();
    path.back().second.pop_back();
    enter(next);
  }
}

void NestBuilder::CollectTensors() {
  absl::flat_hash_set<const TensorNode*> seen;
  for (const Tensor& output : computation_.outputs) {
    Tensor tensor = output;
    bool repeated = std::any_of(schedule_.outputs.begin(), schedule_.outputs.end(),
                                [&](const Tensor& o) { return o.get() == output.get(); });
    if (output->kind == TensorKind::kInput || repeated) {
      tensor =
          te::ComputeTensor("copy", output.dtype(), output.dims(), [&](std::span<const Expr> i) { return output(i); });
    }
    schedule_.outputs.push_back(tensor);
  }
  // Updates come last: what else reads their inputs has done so.
  for (bool updated : {false, true}) {
    for (const Tensor& output : schedule_.outputs) {
      if (IsUpdated(output) == updated) CollectFrom(output, seen);
    }
  }
}

void NestBuilder::AddCostsAndReaders() {
  for (const Tensor& tensor : schedule_.tensors) {
    Facts& facts = facts_[tensor.get()];
    std::set<std::pair<const TensorNode*, std::vector<const ExprNode*>>> reads;
    std::set<const TensorNode*> read;
    int64_t cost = 0;
    for (const ExprNode* node : Postorder(Definition(tensor))) {
      cost += te::OperationCost(*node);
      if (node->kind != ExprKind::kRead) continue;
      if (node->tensor->kind == TensorKind::kCompute) read.insert(node->tensor.get());
      std::vector<const ExprNode*> at;
      for (const Expr& index : node->operands) at.push_back(index.get());
      if (node->tensor->kind == TensorKind::kCompute && !HasOwnNest(node->tensor) &&
          reads.emplace(node->tensor.get(), at).second) {
        cost += facts_.at(node->tensor.get()).cost;
      }
    }
    for (const TensorNode* node : read) ++facts_.at(node).readers;
    facts.cost = std::min<int64_t>(cost, 1'000'000);
  }
}

// Adds to the facts of what `consumer` reads.
void NestBuilder::VisitReads(const Tensor& consumer) {
  const Facts from = facts_.at(consumer.get());
  Rewrite rewrite;
  std::vector<Expr> definition;
  for (const Expr& e : Definition(consumer)) definition.push_back(pool().Copy(e, rewrite));
  std::vector<IndexVar> loops = AxesOf(consumer);
  bool updates = IsUpdated(consumer), reduces = !updates && definition[0]->kind == ExprKind::kReduce;
  if (reduces) loops.insert(loops.end(), definition[0]->axes.begin(), definition[0]->axes.end());
  for (const ExprNode* node : Postorder(definition)) {
    if (node->kind != ExprKind::kRead || node->tensor->kind != TensorKind::kCompute) continue;
    Facts& facts = facts_.at(node->tensor.get());
    bool identical = !reduces && !updates && IsSamePosition(*node, consumer);
    facts.in_reduce |= reduces || from.in_reduce;
    facts.replicated |= from.replicated && !from.materialised;
    if (identical) {
      if (from.materialised) {
        facts.sites.insert(-1 - static_cast<int64_t>(from.nest));
      } else {
        facts.sites.insert(from.sites.begin(), from.sites.end());
      }
      continue;
    }
    for (size_t i = 0; i < loops.size(); ++i) {
      const IndexVar& loop = loops[i];
      // An update that does not use the index of a counted axis usually runs one position of it.
      if (loop.extent == Dim(1) || (updates && consumer->update->counts[i])) continue;
      bool unused = std::none_of(node->operands.begin(), node->operands.end(),
                                 [&](const Expr& e) { return DependsOn(e, loop.id); });
      facts.replicated |= unused || (reduces && RepeatsAlong(node->operands, loop));
    }
    for (const Expr& index : node->operands) facts.replicated |= reduces && Overlaps(index, loops);
    facts.sites.insert(next_site_++);
    if (!from.materialised && from.sites.size() > 1) facts.sites.insert(next_site_++);
  }
}

// Returns whether the tensor, as bias and activation are, is computed from a sum at the same position that nothing else
// needs.
bool NestBuilder::FinishesReduction(const Tensor& tensor) const {
  absl::flat_hash_map<const TensorNode*, int64_t>
      readers;  // of them, those at the same position on the way to `tensor`
  std::vector<Tensor> path = {tensor};
  while (!path.empty()) {
    Tensor reader = std::move(path.back());
    path.pop_back();
    std::map<const TensorNode*, std::pair<Tensor, bool>> reads;  // and whether all are at the same position
    for (const ExprNode* node : Postorder({reader->body})) {
      if (node->kind != ExprKind::kRead || node->tensor->kind != TensorKind::kCompute) continue;
      auto& read = reads.try_emplace(node->tensor.get(), node->tensor, true).first->second;
      read.second = read.second && IsSamePosition(*node, reader);
    }
    for (const auto& [node, read] : reads) {
      if (!read.second || ++readers[node] < facts_.at(node).readers) continue;
      if (IsReduce(read.first)) return true;
      if (!StaysAlone(read.first)) path.push_back(read.first);
    }
  }
  return false;
}

void NestBuilder::Decide() {
  absl::flat_hash_set<const TensorNode*> outputs;
  for (const Tensor& output : schedule_.outputs) outputs.insert(output.get());
  size_t number = 0;
  for (size_t i = schedule_.tensors.size(); i-- > 0;) {
    const Tensor& tensor = schedule_.tensors[i];
    Facts& facts = facts_.at(tensor.get());
    bool repeated = facts.sites.size() > 1 || facts.replicated;
    // On a GPU, readers compute places as fast as a copy would, and a launch costs more than either.
    bool is_view = schedule_.target.has_blocks && IsStridedView(tensor, pool());
    // Readers need no copy of elements that are in memory in the same order.
    if (Tensor base = BaseInSamePlace(tensor, pool()); base && !outputs.contains(tensor.get())) {
      is_view |= base->kind == TensorKind::kInput || outputs.contains(base.get()) || HasOwnNest(base);
    }
    bool cheap = is_view || (facts.cost <= kCheapCost && !(facts.replicated && facts.in_reduce && facts.cost > 0));
    // A tensor that is read at other positions would be inlined there. Behind the sum it costs next to nothing.
    bool is_moved = facts.cost > 0 && facts.sites.size() == 1 && *facts.sites.begin() >= 0;
    facts.materialised = outputs.contains(tensor.get()) || HasOwnNest(tensor) || tensor->is_stored ||
                         (repeated && !cheap) || facts.cost > kMaxInlineCost || (is_moved && FinishesReduction(tensor));
    facts.nest = number++;
    VisitReads(tensor);
  }
}

// `e` with values for its axes, and with the bodies of what it reads of tensors that are not materialised.
Expr NestBuilder::Inline(const Expr& e, const std::vector<IndexVar>& axes, const std::vector<Expr>& indices) {
  Rewrite rewrite;
  for (size_t i = 0; i < indices.size(); ++i) rewrite.variables[axes[i].id] = indices[i];
  rewrite.read = [this](const Tensor& read, std::vector<Expr> at) {
    const bool is_computed = read->kind == TensorKind::kCompute;
    if (is_computed && !facts_.at(read.get()).materialised) return Inline(read, at);
    if (is_computed && inlines_copies_ && IsCopy(read)) {
      // Looks at the value: what the tensor copies may be computed from several elements.
      Expr value = Inline(read, at);
      if (ElementOf(value, schedule_.target)->kind == ExprKind::kRead) return value;
    }
    ExprNode node{.kind = ExprKind::kRead, .dtype = read.dtype()};
    node.tensor = read;
    node.operands = {pool().Offset(read.dims(), at)};
    node.int_value = te::kReadIsSafe;
    for (size_t i = 0; i < at.size(); ++i) {
      if (!pool().IsBelow(at[i], pool().Extent(read.dims()[i]))) node.int_value = 0;
    }
    return pool().Intern(std::move(node));
  };
  return WithStack([&] { return pool().Copy(e, rewrite); });
}

// A cast of a value to its own dtype rounds: small floats compute in float32 between tensors.
Expr NestBuilder::Rounded(const Tensor& tensor, Expr value) {
  if (!tensor.dtype().is_small_float()) return value;
  ExprNode round{.kind = ExprKind::kCast, .dtype = tensor.dtype()};
  round.operands = {std::move(value)};
  return pool().Intern(std::move(round));
}

Expr NestBuilder::Inline(const Tensor& tensor, const std::vector<Expr>& indices) {
  InlineKey key{tensor.get(), {}};
  for (const Expr& index : indices) key.second.push_back(index.get());
  if (auto found = inlined_.find(key); found != inlined_.end()) return found->second;
  Expr value = Inline(tensor->body, tensor->axes, indices);
  // An element of another tensor is rounded.
  if (tensor->body->kind != ExprKind::kRead) value = Rounded(tensor, std::move(value));
  inlined_.emplace(std::move(key), value);
  return value;
}

NestTensor NestBuilder::Expand(const Tensor& tensor, const LoopNest& nest) {
  std::vector<Expr> position;
  size_t next = 0;
  for (const Dim& dim : tensor.dims()) {
    position.push_back(dim == Dim(1) ? pool().Intern(*Index(0)) : pool().Variable(nest.axes[next++]));
  }
  Expr value = Inline(tensor, position);
  while (value->kind == ExprKind::kCast && value->operands[0].dtype() == value->dtype) value = value->operands[0];
  if (value->kind == ExprKind::kReduce && !IsArg(value->reduce)) {
    ExprNode node = *value;
    std::erase_if(node.axes, [](const IndexVar& axis) { return axis.extent == Dim(1); });
    value = pool().Intern(std::move(node));
  }
  return {tensor, value, false};
}

// Returns whether the tensor has the elements of another one, or these widened, and one tensor reads it.
bool NestBuilder::IsCopy(const Tensor& tensor) const {
  const Facts& facts = facts_.at(tensor.get());
  bool is_output = std::any_of(schedule_.outputs.begin(), schedule_.outputs.end(),
                               [&](const Tensor& output) { return output.get() == tensor.get(); });
  return facts.materialised && facts.readers == 1 && !is_output && !HasOwnNest(tensor) && !tensor->is_stored &&
         ElementOf(tensor->body, schedule_.target)->kind == ExprKind::kRead;
}

// See LoopNest::direct.
Expr NestBuilder::Direct(const Tensor& tensor, const LoopNest& nest, const Expr& value) {
  auto is_product = [](const Expr& e) {
    return e->kind == ExprKind::kReduce && e->reduce == ReduceOp::kSum && e->operands[0]->kind == ExprKind::kBinary &&
           e->operands[0]->binary == BinaryOp::kMultiply;
  };
  if (!schedule_.target.has_vectors || !is_product(value)) return Expr();
  std::vector<Tensor> reads = ComputedReads({value});
  if (std::none_of(reads.begin(), reads.end(), [&](const Tensor& read) { return IsCopy(read); })) return Expr();
  std::map<InlineKey, Expr> inlined = std::exchange(inlined_, {});
  inlines_copies_ = true;
  Expr direct = Expand(tensor, nest).value;
  inlines_copies_ = false;
  inlined_ = std::move(inlined);
  return is_product(direct) ? direct : Expr();
}

std::vector<Tensor> NestBuilder::ComputedReads(const std::vector<Expr>& expressions) {
  std::vector<Tensor> reads;
  for (const ExprNode* node : Postorder(expressions)) {
    if (node->kind == ExprKind::kRead && node->tensor->kind == TensorKind::kCompute) reads.push_back(node->tensor);
  }
  return reads;
}

// Returns the tensor as part of `nest`, if its own extents are the nest's and it needs what the nest
// computes at the same position only.
std::optional<NestTensor> NestBuilder::Fits(const Tensor& tensor, LoopNest& nest) {
  if (HasOwnNest(tensor) || StaysAlone(nest.tensors[0].tensor)) return std::nullopt;
  Dims dims;
  for (const Dim& dim : tensor.dims()) {
    if (dim != Dim(1)) dims.push_back(dim);
  }
  if (dims.size() != nest.axes.size()) return std::nullopt;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (CompareDims(dims[i], nest.axes[i].extent) != DimEquality::kEqual) return std::nullopt;
  }
  NestTensor t = Expand(tensor, nest);
  for (const ExprNode* node : Postorder({t.value})) {
    if (node->kind != ExprKind::kRead) continue;
    bool own = std::any_of(nest.tensors.begin(), nest.tensors.end(),
                           [&](const NestTensor& other) { return other.tensor.get() == node->tensor.get(); });
    if (own && node->operands[0].get() != nest.store_offset.get()) return std::nullopt;
  }
  return t;
}

// Adds the nest of an update.
void NestBuilder::PlaceUpdate(const Tensor& tensor) {
  const te::TensorUpdate& update = *tensor->update;
  LoopNest nest;
  nest.update = {.is_in_order = !update.has_distinct_places, .estimate = update.estimate};
  std::vector<Expr> at;
  for (const IndexVar& axis : update.axes) {
    if (axis.extent != Dim(1)) nest.axes.push_back(pool().Fresh(axis.extent, "u"));
    at.push_back(axis.extent == Dim(1) ? pool().Intern(*Index(0)) : pool().Variable(nest.axes.back()));
  }
  auto inlined = [&](const Expr& e) { return Inline(e, update.axes, at); };
  Expr condition = update.position.condition;
  for (size_t i = 0; i < update.axes.size(); ++i) {
    const Expr& count = update.counts[i];
    if (update.axes[i].extent != Dim(1)) {
      nest.update->counts.push_back(count ? inlined(count) : Expr());
    } else if (count) {
      Expr runs = te::Binary(BinaryOp::kLess, Index(0), count);
      condition = condition ? te::Binary(BinaryOp::kAnd, runs, condition) : runs;
    }
  }
  if (condition) nest.update->condition = inlined(condition);
  for (const Expr& usual : update.usual) nest.update->usual.push_back(inlined(usual));
  bool has_counts = std::any_of(nest.update->counts.begin(), nest.update->counts.end(),
                                [](const Expr& count) { return static_cast<bool>(count); });
  if (!has_counts) nest.update->counts.clear();
  std::vector<Expr> place;
  for (const Expr& index : update.position.place) place.push_back(inlined(index));
  nest.store_offset = pool().Offset(tensor.dims(), place);
  Expr value = Definition(tensor)[0];
  if (update.fold) value = te::Binary(*update.fold, update.self(update.position.place), value);
  nest.tensors = {{tensor, Rounded(tensor, inlined(value)), false}};
  facts_.at(tensor.get()).nest = schedule_.nests.size();
  schedule_.nests.push_back(std::move(nest));
}

void NestBuilder::PlaceAll() {
  for (const Tensor& tensor : schedule_.tensors) {
    Facts& facts = facts_.at(tensor.get());
    if (!facts.materialised) continue;
    if (IsUpdated(tensor)) {
      PlaceUpdate(tensor);
      continue;
    }
    LoopNest own;
    std::vector<Expr> position;
    for (const Dim& dim : tensor.dims()) {
      if (dim != Dim(1)) own.axes.push_back(pool().Fresh(dim, "i"));
      position.push_back(dim == Dim(1) ? pool().Intern(*Index(0)) : pool().Variable(own.axes.back()));
    }
    own.store_offset = pool().Offset(tensor.dims(), position);
    NestTensor t = Expand(tensor, own);
    size_t earliest = 0;  // the last nest that computes something it needs
    for (const Tensor& read : ComputedReads({t.value})) earliest = std::max(earliest, facts_.at(read.get()).nest);
    std::optional<NestTensor> joined;
    for (size_t n = earliest; n < schedule_.nests.size() && !joined; ++n) {
      joined = Fits(tensor, schedule_.nests[n]);
      if (joined) {
        schedule_.nests[n].tensors.push_back(*joined);
        facts.nest = n;
      }
    }
    if (joined) continue;
    facts.nest = schedule_.nests.size();
    own.direct = Direct(tensor, own, t.value);
    own.tensors = {std::move(t)};
    schedule_.nests.push_back(std::move(own));
  }
}

void NestBuilder::MarkStored() {
  absl::flat_hash_set<const TensorNode*> stored;
  for (size_t i = 0; i < schedule_.outputs.size(); ++i) {
    stored.insert(schedule_.outputs[i].get());
    schedule_.buffers[schedule_.outputs[i].get()] = {true, static_cast<int64_t>(i), Dim(0)};
  }
  for (const OutputUpdates& update : updates_) {
    for (const OutputUpdates::Step& step : update.steps) {
      stored.insert(step.tensor.get());
      schedule_.buffers[step.tensor.get()] = {true, static_cast<int64_t>(update.output), Dim(0)};
    }
    schedule_.updates.push_back({static_cast<int64_t>(update.output), update.input});
  }
  // Known extents leave some tensors without a reader: drops nests of such tensors alone.
  std::vector<LoopNest> nests;
  for (size_t n = schedule_.nests.size(); n-- > 0;) {
    const std::vector<NestTensor>& tensors = schedule_.nests[n].tensors;
    bool is_read = std::any_of(tensors.begin(), tensors.end(),
                               [&](const NestTensor& t) { return stored.contains(t.tensor.get()); });
    if (!is_read) continue;
    for (const Tensor& read : ComputedReads(ReadExpressions(schedule_.nests[n]))) {
      if (facts_.at(read.get()).nest != n) stored.insert(read.get());
    }
    nests.push_back(std::move(schedule_.nests[n]));
  }
  schedule_.nests.assign(std::make_move_iterator(nests.rbegin()), std::make_move_iterator(nests.rend()));
  for (size_t n = 0; n < schedule_.nests.size(); ++n) {
    for (const NestTensor& t : schedule_.nests[n].tensors) facts_.at(t.tensor.get()).nest = n;
  }
  for (LoopNest& nest : schedule_.nests) {
    for (NestTensor& t : nest.tensors) t.stored = stored.contains(t.tensor.get());
    // The base of a copy may be computed beside it, with the copy alone stored.
    std::vector<Tensor> reads = nest.direct ? ComputedReads({nest.direct}) : std::vector<Tensor>();
    bool are_stored =
        std::all_of(reads.begin(), reads.end(), [&](const Tensor& t) { return stored.contains(t.get()); });
    if (!are_stored) nest.direct = Expr();
  }
}

absl::Status NestBuilder::Run() {
  schedule_.symbols = te::KernelSymbols(computation_);
  for (const Computation::ValueSymbol& value : computation_.values) schedule_.values.push_back(value.symbol);
  CollectTensors();
  RVM_RETURN_IF_ERROR(CheckDims());
  AddCostsAndReaders();
  Decide();
  PlaceAll();
  MarkStored();
  for (LoopNest& nest : schedule_.nests) CollapseAxes(pool(), nest);
  return absl::OkStatus();
}

}  // namespace

absl::Status BuildNests(Schedule& schedule) {
  absl::flat_hash_set<size_t> left_out;
  while (true) {
    Schedule attempt;
    attempt.computation = schedule.computation;
    attempt.constant_inputs = schedule.constant_inputs;
    attempt.target = schedule.target;
    attempt.sum_order = schedule.sum_order;
    RVM_RETURN_IF_ERROR(NestBuilder(attempt, left_out).Run());
    std::optional<size_t> late = FindLateRead(attempt);
    if (!late) {
      schedule = std::move(attempt);
      return absl::OkStatus();
    }
    left_out.insert(*late);
  }
}

}  // namespace rvm::schedule
