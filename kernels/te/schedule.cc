#include "kernels/te/schedule.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"

namespace rvm::te {
namespace {

bool IsReduce(const Tensor& tensor) { return tensor->body->kind == ExprKind::kReduce; }
// Whether it is of use when all of it is computed, or computed in an order of its own.
bool StaysAlone(const Tensor& tensor) { return tensor->self || tensor->is_ordered; }
bool HasOwnNest(const Tensor& tensor) { return IsReduce(tensor) || StaysAlone(tensor); }

void AddVariables(const Dim& dim, std::vector<Dim>& symbols) {
  if (dim.is_binary()) {
    AddVariables(dim.lhs(), symbols);
    AddVariables(dim.rhs(), symbols);
  } else if (dim.kind() == DimKind::kVar && std::find(symbols.begin(), symbols.end(), dim) == symbols.end()) {
    symbols.push_back(dim);
  }
}

// How costly an operation is beside an addition.
int64_t Cost(const ExprNode& e) {
  switch (e.kind) {
    case ExprKind::kUnary: return e.unary >= UnaryOp::kSqrt && e.unary <= UnaryOp::kAtanh ? 20 : 1;
    case ExprKind::kBinary:
      if (e.binary == BinaryOp::kPower) return 40;
      return e.binary >= BinaryOp::kDivide && e.binary <= BinaryOp::kTruncMod ? 5 : 1;
    case ExprKind::kCast:
    case ExprKind::kSelect: return 1;
    default: return 0;
  }
}

constexpr int64_t kCheapCost = 16;        // repeated rather than stored
constexpr int64_t kMaxInlineCost = 2000;  // code of one expression

class Scheduler {
 public:
  Scheduler(const Computation& computation, const std::vector<bool>& constant_inputs)
      : computation_(computation), constant_inputs_(constant_inputs) {
    schedule_.pool = std::make_shared<ExprPool>();
  }

  absl::StatusOr<Schedule> Run();

 private:
  struct Facts {
    std::set<int64_t> sites;  // where its value is needed, up to identical positions
    bool replicated = false;  // some site needs each value many times
    bool in_reduce = false;
    int64_t cost = 0;
    bool materialised = false;
    size_t nest = 0;
  };

  ExprPool& pool() { return *schedule_.pool; }
  absl::Status CheckDims() const;
  void CollectTensors();
  void AddCosts();
  void VisitReads(const Tensor& consumer);
  void Decide();
  void PlaceAll();
  std::optional<NestTensor> Fits(const Tensor& tensor, LoopNest& nest);
  NestTensor Expand(const Tensor& tensor, const LoopNest& nest);
  Expr Inline(const Tensor& tensor, const std::vector<Expr>& indices);
  std::vector<Tensor> StoredReads(const NestTensor& t) const;
  void MarkStored();
  void Recognise(LoopNest& nest);
  void PlanWorkspace();
  bool MayTake(const Tensor& input, size_t nest, size_t position) const;
  void FindReuses();
  void Describe();

  const Computation& computation_;
  const std::vector<bool>& constant_inputs_;
  Schedule schedule_;
  std::vector<Tensor> outputs_;  // distinct computed tensors, one per output
  absl::flat_hash_map<const TensorNode*, Facts> facts_;
  using InlineKey = std::pair<const TensorNode*, std::vector<const ExprNode*>>;
  std::map<InlineKey, Expr> inlined_;
  int64_t next_site_ = 0;
};

// Every extent must follow from the symbols.
absl::Status Scheduler::CheckDims() const {
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
    for (const ExprNode* node : tensor->body ? Postorder({tensor->body}) : std::vector<const ExprNode*>()) {
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

// Computed tensors, producers first.
void Scheduler::CollectTensors() {
  absl::flat_hash_set<const TensorNode*> seen;
  for (const Tensor& output : computation_.outputs) {
    Tensor tensor = output;
    bool repeated =
        std::any_of(outputs_.begin(), outputs_.end(), [&](const Tensor& o) { return o.get() == output.get(); });
    if (output->kind == TensorKind::kInput || repeated) {
      tensor = ComputeTensor("copy", output.dtype(), output.dims(), [&](std::span<const Expr> i) { return output(i); });
    }
    outputs_.push_back(tensor);
    std::vector<std::pair<Tensor, std::vector<Tensor>>> path;
    auto enter = [&](const Tensor& t) {
      if (t->kind != TensorKind::kCompute || !seen.insert(t.get()).second) return;
      std::vector<Tensor> reads;
      for (const ExprNode* node : Postorder({t->body})) {
        if (node->kind == ExprKind::kRead) reads.push_back(node->tensor);
      }
      std::reverse(reads.begin(), reads.end());
      path.emplace_back(t, std::move(reads));
    };
    enter(tensor);
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
}

void Scheduler::AddCosts() {
  for (const Tensor& tensor : schedule_.tensors) {
    Facts& facts = facts_[tensor.get()];
    std::set<std::pair<const TensorNode*, std::vector<const ExprNode*>>> reads;
    int64_t cost = 0;
    for (const ExprNode* node : Postorder({tensor->body})) {
      cost += Cost(*node);
      if (node->kind != ExprKind::kRead) continue;
      std::vector<const ExprNode*> at;
      for (const Expr& index : node->operands) at.push_back(index.get());
      if (node->tensor->kind == TensorKind::kCompute && !HasOwnNest(node->tensor) &&
          reads.emplace(node->tensor.get(), at).second) {
        cost += facts_.at(node->tensor.get()).cost;
      }
    }
    facts.cost = std::min<int64_t>(cost, 1'000'000);
  }
}

// Adds to the facts of what `consumer` reads.
void Scheduler::VisitReads(const Tensor& consumer) {
  const Facts from = facts_.at(consumer.get());
  Rewrite rewrite;
  Expr body = pool().Copy(consumer->body, rewrite);
  std::vector<IndexVar> loops = consumer->axes;
  bool reduces = body->kind == ExprKind::kReduce;
  if (reduces) loops.insert(loops.end(), body->axes.begin(), body->axes.end());
  for (const ExprNode* node : Postorder({body})) {
    if (node->kind != ExprKind::kRead || node->tensor->kind != TensorKind::kCompute) continue;
    Facts& facts = facts_.at(node->tensor.get());
    const Dims& dims = node->tensor.dims();
    bool identical = !reduces && dims.size() == consumer.rank();
    for (size_t i = 0; identical && i < dims.size(); ++i) {
      const Expr& index = node->operands[i];
      bool same_variable = index->kind == ExprKind::kIndex && index->index.id == consumer->axes[i].id;
      bool both_one = dims[i] == Dim(1) && consumer.dims()[i] == Dim(1);
      identical = both_one || (same_variable && CompareDims(dims[i], consumer.dims()[i]) == DimEquality::kEqual);
    }
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
    for (const IndexVar& loop : loops) {
      if (loop.extent == Dim(1)) continue;
      bool used = std::any_of(node->operands.begin(), node->operands.end(),
                              [&](const Expr& e) { return DependsOn(e, loop.id); });
      facts.replicated |= !used;
    }
    facts.sites.insert(next_site_++);
    if (!from.materialised && from.sites.size() > 1) facts.sites.insert(next_site_++);
  }
}

void Scheduler::Decide() {
  absl::flat_hash_set<const TensorNode*> outputs;
  for (const Tensor& output : outputs_) outputs.insert(output.get());
  size_t number = 0;
  for (size_t i = schedule_.tensors.size(); i-- > 0;) {
    const Tensor& tensor = schedule_.tensors[i];
    Facts& facts = facts_.at(tensor.get());
    bool repeated = facts.sites.size() > 1 || facts.replicated;
    bool cheap = facts.cost <= kCheapCost && !(facts.replicated && facts.in_reduce && facts.cost > 0);
    facts.materialised =
        outputs.contains(tensor.get()) || HasOwnNest(tensor) || (repeated && !cheap) || facts.cost > kMaxInlineCost;
    facts.nest = number++;
    VisitReads(tensor);
  }
}

Expr Scheduler::Inline(const Tensor& tensor, const std::vector<Expr>& indices) {
  InlineKey key{tensor.get(), {}};
  for (const Expr& index : indices) key.second.push_back(index.get());
  if (auto found = inlined_.find(key); found != inlined_.end()) return found->second;
  Rewrite rewrite;
  for (size_t i = 0; i < indices.size(); ++i) rewrite.variables[tensor->axes[i].id] = indices[i];
  rewrite.read = [this](const Tensor& read, std::vector<Expr> at) {
    if (read->kind == TensorKind::kCompute && !facts_.at(read.get()).materialised) return Inline(read, at);
    ExprNode node{.kind = ExprKind::kRead, .dtype = read.dtype()};
    node.tensor = read;
    node.operands = {pool().Offset(read.dims(), at)};
    node.int_value = kReadIsSafe;
    for (size_t i = 0; i < at.size(); ++i) {
      if (!pool().IsBelow(at[i], pool().Extent(read.dims()[i]))) node.int_value = 0;
    }
    return pool().Intern(std::move(node));
  };
  Expr value = WithStack([&] { return pool().Copy(tensor->body, rewrite); });
  if (tensor.dtype().is_float() && tensor.dtype().bits == 16) {
    // A cast to its own dtype rounds: half types compute in float32 between tensors.
    ExprNode round{.kind = ExprKind::kCast, .dtype = tensor.dtype()};
    round.operands = {value};
    value = pool().Intern(std::move(round));
  }
  inlined_.emplace(std::move(key), value);
  return value;
}

NestTensor Scheduler::Expand(const Tensor& tensor, const LoopNest& nest) {
  std::vector<Expr> position;
  size_t next = 0;
  for (const Dim& dim : tensor.dims()) {
    position.push_back(dim == Dim(1) ? pool().Intern(*Index(0)) : pool().Variable(nest.axes[next++]));
  }
  Expr value = Inline(tensor, position);
  while (value->kind == ExprKind::kCast && value->operands[0].dtype() == value->dtype) value = value->operands[0];
  if (value->kind == ExprKind::kReduce && value->reduce < ReduceOp::kArgMax) {
    ExprNode node = *value;
    std::erase_if(node.axes, [](const IndexVar& axis) { return axis.extent == Dim(1); });
    value = pool().Intern(std::move(node));
  }
  return {tensor, value, false};
}

std::vector<Tensor> Scheduler::StoredReads(const NestTensor& t) const {
  std::vector<Tensor> reads;
  for (const ExprNode* node : Postorder({t.value})) {
    if (node->kind == ExprKind::kRead && node->tensor->kind == TensorKind::kCompute) reads.push_back(node->tensor);
  }
  return reads;
}

// The tensor as part of `nest`, if its own extents are the nest's and it needs what the nest
// computes at the same position only.
std::optional<NestTensor> Scheduler::Fits(const Tensor& tensor, LoopNest& nest) {
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

void Scheduler::PlaceAll() {
  for (const Tensor& tensor : schedule_.tensors) {
    Facts& facts = facts_.at(tensor.get());
    if (!facts.materialised) continue;
    LoopNest own;
    std::vector<Expr> position;
    for (const Dim& dim : tensor.dims()) {
      if (dim != Dim(1)) own.axes.push_back(pool().Fresh(dim, "i"));
      position.push_back(dim == Dim(1) ? pool().Intern(*Index(0)) : pool().Variable(own.axes.back()));
    }
    own.store_offset = pool().Offset(tensor.dims(), position);
    NestTensor t = Expand(tensor, own);
    size_t earliest = 0;  // the last nest that computes something it needs
    for (const Tensor& read : StoredReads(t)) earliest = std::max(earliest, facts_.at(read.get()).nest);
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
    own.tensors = {std::move(t)};
    schedule_.nests.push_back(std::move(own));
  }
}

void Scheduler::MarkStored() {
  absl::flat_hash_set<const TensorNode*> stored;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    stored.insert(outputs_[i].get());
    schedule_.buffers[outputs_[i].get()] = {true, static_cast<int64_t>(i), Dim(0)};
  }
  // What is known of extents leaves some tensors without a reader: nests of those alone go.
  std::vector<LoopNest> nests;
  for (size_t n = schedule_.nests.size(); n-- > 0;) {
    const std::vector<NestTensor>& tensors = schedule_.nests[n].tensors;
    bool is_read = std::any_of(tensors.begin(), tensors.end(),
                               [&](const NestTensor& t) { return stored.contains(t.tensor.get()); });
    if (!is_read) continue;
    for (const NestTensor& t : tensors) {
      for (const Tensor& read : StoredReads(t)) {
        if (facts_.at(read.get()).nest != n) stored.insert(read.get());
      }
    }
    nests.push_back(std::move(schedule_.nests[n]));
  }
  schedule_.nests.assign(std::make_move_iterator(nests.rbegin()), std::make_move_iterator(nests.rend()));
  for (size_t n = 0; n < schedule_.nests.size(); ++n) {
    for (const NestTensor& t : schedule_.nests[n].tensors) facts_.at(t.tensor.get()).nest = n;
  }
  for (LoopNest& nest : schedule_.nests) {
    for (NestTensor& t : nest.tensors) t.stored = stored.contains(t.tensor.get());
  }
}

// Finds a sum over one axis of a product with a constant matrix of the last axis and it.
void Scheduler::Recognise(LoopNest& nest) {
  const Expr& reduce = nest.tensors[0].value;
  if (reduce->kind != ExprKind::kReduce || reduce->reduce != ReduceOp::kSum || reduce->axes.size() != 1) return;
  if (nest.axes.empty() || nest.axes.size() > 2) return;
  const Expr& product = reduce->operands[0];
  bool dtype_fits = product.dtype() == kFloat32 || product.dtype() == kFloat64;
  if (product->kind != ExprKind::kBinary || product->binary != BinaryOp::kMultiply || !dtype_fits) return;
  const IndexVar& n = nest.axes.back();
  const IndexVar& k = reduce->axes[0];
  if (!n.extent.is_const() || !k.extent.is_const() || k.extent.constant() < 1) return;
  Expr vn = pool().Variable(n), vk = pool().Variable(k);
  auto at = [&](const Expr& row, const IndexVar& column, const Expr& v) {
    return pool().Binary(BinaryOp::kAdd, pool().Binary(BinaryOp::kMultiply, row, pool().Extent(column.extent)), v);
  };
  for (int side : {1, 0}) {
    const Expr &weight = product->operands[static_cast<size_t>(side)],
               &a = product->operands[static_cast<size_t>(1 - side)];
    if (weight->kind != ExprKind::kRead || weight->tensor->kind != TensorKind::kInput || weight->tensor.rank() != 2)
      continue;
    auto input = static_cast<size_t>(weight->tensor->input_index);
    if (input >= constant_inputs_.size() || !constant_inputs_[input] || DependsOn(a, n.id)) continue;
    const ExprNode* offset = weight->operands[0].get();
    bool plain = offset == at(vn, k, vk).get(), transposed = offset == at(vk, n, vn).get();
    if (!plain && !transposed) continue;
    // The tensor must be this whole matrix and nobody else may read it: its layout changes.
    Dims whole = plain ? Dims{n.extent, k.extent} : Dims{k.extent, n.extent};
    if (weight->tensor.dims() != whole) continue;
    int64_t readers = 0;
    for (const LoopNest& other : schedule_.nests) {
      std::vector<Expr> roots;
      for (const NestTensor& t : other.tensors) roots.push_back(t.value);
      for (const ExprNode* node : Postorder(roots)) {
        readers += node->kind == ExprKind::kRead && node->tensor.get() == weight->tensor.get();
      }
    }
    if (readers != 1) continue;
    Contraction contraction{a,          static_cast<int64_t>(input),
                            transposed, nest.axes.size() == 2 ? nest.axes[0].extent : Dim(1),
                            n.extent,   k.extent};
    nest.contraction = std::move(contraction);
    return;
  }
}

void Scheduler::PlanWorkspace() {
  struct Slot {
    Dim bytes;
    size_t busy_until;
  };
  std::vector<Slot> slots;
  std::vector<std::pair<const TensorNode*, size_t>> placed;
  for (size_t n = 0; n < schedule_.nests.size(); ++n) {
    for (const NestTensor& t : schedule_.nests[n].tensors) {
      if (!t.stored || schedule_.buffers.contains(t.tensor.get())) continue;
      Dim bytes = t.tensor.dtype().bytes();
      for (const Dim& dim : t.tensor.dims()) bytes = bytes * dim;
      bytes = FloorDiv(bytes + 63, 64) * 64;
      size_t last = n;
      for (size_t later = n + 1; later < schedule_.nests.size(); ++later) {
        for (const NestTensor& reader : schedule_.nests[later].tensors) {
          for (const Tensor& read : StoredReads(reader)) {
            if (read.get() == t.tensor.get()) last = later;
          }
        }
      }
      auto usable = [&](const Slot& slot) {
        return slot.busy_until < n &&
               (CompareDims(slot.bytes, bytes) == DimEquality::kEqual || (slot.bytes.is_const() && bytes.is_const()));
      };
      auto slot = std::find_if(slots.begin(), slots.end(), usable);
      if (slot == slots.end()) slot = slots.insert(slots.end(), {bytes, last});
      if (bytes.is_const()) slot->bytes = std::max(slot->bytes.constant(), bytes.constant());
      slot->busy_until = last;
      placed.emplace_back(t.tensor.get(), static_cast<size_t>(slot - slots.begin()));
    }
  }
  std::vector<Dim> offsets;
  for (const Slot& slot : slots) {
    offsets.push_back(schedule_.workspace);
    schedule_.workspace = schedule_.workspace + slot.bytes;
  }
  for (const auto& [tensor, slot] : placed) schedule_.buffers[tensor] = {false, 0, offsets[slot]};
}

bool SameShape(const Tensor& a, const Tensor& b) {
  if (a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.dims().size(); ++i) {
    if (!(a.dims()[i] == b.dims()[i])) return false;
  }
  return true;
}

// Whether the tensor at `position` of `nest` may overwrite `input`. Nests run one after the other, so only what this
// one and later ones read counts.
bool Scheduler::MayTake(const Tensor& input, size_t nest, size_t position) const {
  for (size_t n = nest; n < schedule_.nests.size(); ++n) {
    const LoopNest& reader = schedule_.nests[n];
    // A contraction reads its left side for a tile of positions at a time.
    std::vector<Expr> tiled;
    if (reader.contraction) tiled.push_back(reader.tensors[0].value);
    for (const ExprNode* node : Postorder(tiled)) {
      if (node->kind == ExprKind::kRead && node->tensor.get() == input.get()) return false;
    }
    for (size_t t = 0; t < reader.tensors.size(); ++t) {
      bool before_store = n == nest && t <= position;
      for (const ExprNode* node : Postorder({reader.tensors[t].value})) {
        if (node->kind != ExprKind::kRead || node->tensor.get() != input.get()) continue;
        if (!before_store || node->operands[0].get() != reader.store_offset.get()) return false;
      }
    }
  }
  return true;
}

void Scheduler::FindReuses() {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const Tensor& output = outputs_[o];
    if (output.rank() == 0) continue;
    size_t nest = facts_.at(output.get()).nest;
    const std::vector<NestTensor>& tensors = schedule_.nests[nest].tensors;
    auto own = std::find_if(tensors.begin(), tensors.end(),
                            [&](const NestTensor& t) { return t.tensor.get() == output.get(); });
    auto position = static_cast<size_t>(own - tensors.begin());
    for (size_t i = 0; i < computation_.inputs.size(); ++i) {
      const Tensor& input = computation_.inputs[i];
      bool constant = i < constant_inputs_.size() && constant_inputs_[i];
      if (constant || input.dtype().bytes() != output.dtype().bytes() || !SameShape(input, output)) continue;
      if (MayTake(input, nest, position)) {
        schedule_.reuses.push_back({static_cast<int64_t>(o), static_cast<int64_t>(i), nest});
      }
    }
  }
}

void Scheduler::Describe() {
  std::vector<std::string> parts;
  for (const LoopNest& nest : schedule_.nests) {
    const Expr& first = nest.tensors[0].value;
    std::string kind = nest.contraction ? "contraction" : first->kind == ExprKind::kReduce ? "reduce" : "loops";
    if (nest.tensors[0].tensor->self) kind = "scan";
    if (nest.tensors[0].tensor->is_ordered) kind = "order";
    std::string extents =
        absl::StrJoin(nest.axes, "x", [](std::string* out, const IndexVar& axis) { *out += axis.extent.ToString(); });
    std::string tensors =
        absl::StrJoin(nest.tensors, ", ", [](std::string* out, const NestTensor& t) { *out += t.tensor->name; });
    parts.push_back(absl::StrCat(kind, " ", extents.empty() ? "1" : extents, ": ", tensors));
  }
  schedule_.description = absl::StrJoin(parts, "; ");
}

absl::StatusOr<Schedule> Scheduler::Run() {
  schedule_.symbols = KernelSymbols(computation_);
  for (const Computation::ValueSymbol& value : computation_.values) schedule_.values.push_back(value.symbol);
  CollectTensors();
  RVM_RETURN_IF_ERROR(CheckDims());
  AddCosts();
  Decide();
  PlaceAll();
  MarkStored();
  for (LoopNest& nest : schedule_.nests) CollapseAxes(pool(), nest);
  for (LoopNest& nest : schedule_.nests) Recognise(nest);
  PlanWorkspace();
  FindReuses();
  Describe();
  return std::move(schedule_);
}

}  // namespace

std::vector<Dim> KernelSymbols(const Computation& computation) {
  std::vector<Dim> symbols;
  for (const Tensor& input : computation.inputs) {
    for (const Dim& dim : input.dims()) AddVariables(dim, symbols);
  }
  for (const Computation::ValueSymbol& value : computation.values) AddVariables(value.symbol, symbols);
  return symbols;
}

absl::StatusOr<Schedule> MakeSchedule(const Computation& computation, const std::vector<bool>& constant_inputs) {
  return Scheduler(computation, constant_inputs).Run();
}

}  // namespace rvm::te
