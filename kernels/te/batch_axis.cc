#include "kernels/te/batch_axis.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "kernels/te/expr_pool.h"
#include "kernels/te/kernel_symbols.h"

namespace rvm::te {
namespace {

// The operands of output = input[i, j, ...] + term, in this order; null: the output is none.
struct Accumulation {
  Expr input, term;
};

Accumulation AccumulationOf(const Tensor& output) {
  if (output->kind != TensorKind::kCompute || output->update != nullptr || output->self || output->is_ordered)
    return {};
  const ExprNode& body = *output->body;
  if (body.kind != ExprKind::kBinary || body.binary != BinaryOp::kAdd) return {};
  auto is_same_element = [&](const Expr& e) {
    return e->kind == ExprKind::kRead && e->tensor->kind == TensorKind::kInput &&
           std::equal(e->operands.begin(), e->operands.end(), output->axes.begin(), output->axes.end(),
                      [](const Expr& index, const IndexVar& axis) {
                        return index->kind == ExprKind::kIndex && index->index.id == axis.id;
                      });
  };
  for (size_t i : {0, 1}) {
    if (is_same_element(body.operands[i])) return {body.operands[i], body.operands[1 - i]};
  }
  return {};
}

// Returns whether the expression reads an element of a computed tensor whose body can stand in its place.
bool IsInlinable(const Expr& e) {
  return e->kind == ExprKind::kRead && e->tensor->kind == TensorKind::kCompute && e->tensor->update == nullptr &&
         !e->tensor->self && !e->tensor->is_ordered && !e->tensor->is_stored;
}

// Returns the term with such tensors inlined.
Expr InlinedTerm(Expr term) {
  while (IsInlinable(term)) term = term->tensor->body;
  return term;
}

// Returns whether a position that is read for `root` depends on data.
bool HasDataInIndex(const Expr& root) {
  for (const ExprNode* node : Postorder({root})) {
    if (node->kind != ExprKind::kRead) continue;
    for (const ExprNode* part : Postorder(node->operands)) {
      if (part->kind == ExprKind::kRead) return true;
    }
  }
  return false;
}

// Returns whether the term can be added up over calls: it is computed from other inputs than `input`, at fixed
// positions.
bool IsTermOver(const Expr& term, const TensorNode* input) {
  std::vector<Expr> rest = {term};
  absl::flat_hash_set<const TensorNode*> seen;
  while (!rest.empty()) {
    Expr e = rest.back();
    rest.pop_back();
    if (HasDataInIndex(e)) return false;
    for (const ExprNode* node : Postorder({e})) {
      if (node->kind != ExprKind::kRead || !seen.insert(node->tensor.get()).second) continue;
      if (node->tensor.get() == input || node->tensor->kind == TensorKind::kSelf) return false;
      if (node->tensor->kind == TensorKind::kCompute) rest.push_back(node->tensor->body);
    }
  }
  return true;
}

// Returns the computation without outputs, and a batcher's start: its inputs.
std::optional<BatchedComputation> Begin(const Computation& computation, const std::vector<bool>& shared) {
  if (!computation.values.empty()) return std::nullopt;
  // The symbols of the inputs before the first that has the new axis come before it.
  std::vector<Dim> before;
  size_t first = 0;
  while (first < computation.inputs.size() && shared[first]) {
    for (const Dim& dim : computation.inputs[first].dims()) AddVariables(dim, before);
    ++first;
  }
  if (first == computation.inputs.size()) return std::nullopt;
  BatchedComputation result;
  result.computation.name = computation.name;
  result.batch = Dim::Var(static_cast<int64_t>(before.size()), "b");
  return result;
}

class Batcher {
 public:
  // `result` has no inputs and outputs yet.
  Batcher(BatchedComputation& result, const Computation& computation, const std::vector<bool>& shared)
      : result_(result), shared_(shared) {
    for (const Tensor& input : computation.inputs) AddInput(input);
  }

  // Returns the output that is made of `tensor`.
  Tensor Output(const Tensor& tensor) {
    Visit(tensor);
    const Version& version = versions_.at(tensor.get());
    if (version.is_batched) return version.tensor;
    return ComputeTensor("copy", tensor.dtype(), Extents(tensor.dims(), true),
                         [&](std::span<const Expr> i) { return version.tensor(i.subspan(1)); });
  }

  // Returns the output that adds the terms of all calls to an input, as `output` adds its own to it.
  Tensor Sum(const Tensor& output, const Accumulation& accumulation) {
    for (const ExprNode* node : Postorder({InlinedTerm(accumulation.term)})) {
      if (node->kind == ExprKind::kRead) Visit(node->tensor);
    }
    Dims extents = Extents(output.dims(), false);
    Tensor sum = ComputeTensor("sum", output.dtype(), extents, [&](std::span<const Expr> indices) {
      return SumOfTerms(accumulation.term, Renamed(output, indices));
    });
    const Tensor& input = versions_.at(accumulation.input->tensor.get()).tensor;
    return ComputeTensor(output->name, output.dtype(), extents,
                         [&](std::span<const Expr> indices) { return input(indices) + sum(indices); });
  }

 private:
  // The tensor in place of another.
  struct Version {
    Tensor tensor;
    bool is_batched;  // its first axis is the batch
  };

  using Variables = absl::flat_hash_map<int64_t, Expr>;

  // Returns the indices that stand for the axes of a tensor, by the id of the axis.
  static Variables Renamed(const Tensor& tensor, std::span<const Expr> indices) {
    Variables variables;
    for (size_t i = 0; i < indices.size(); ++i) variables[tensor->axes[i].id] = indices[i];
    return variables;
  }

  // The sum over all calls, and over the axes that the term reduces.
  Expr SumOfTerms(Expr term, Variables variables) const {
    std::vector<IndexVar> reduced;
    Expr sum = Reduce(ReduceOp::kSum, {&result_.batch, 1}, [&](std::span<const Expr> call) {
      while (IsInlinable(term)) {
        std::vector<Expr> indices;
        for (const Expr& index : term->operands) indices.push_back(Copied(index, variables, call[0]));
        variables = Renamed(term->tensor, indices);
        term = term->tensor->body;
      }
      Expr copied = Copied(term, variables, call[0]);
      if (copied->kind != ExprKind::kReduce) return copied;
      reduced = copied->axes;
      return copied->operands[0];
    });
    ExprNode node = *sum;
    node.axes.insert(node.axes.end(), reduced.begin(), reduced.end());
    return Expr(std::make_shared<const ExprNode>(std::move(node)));
  }

  Dims Extents(const Dims& dims, bool is_batched) const {
    Dims extents;
    if (is_batched) extents.push_back(result_.batch);
    for (const Dim& dim : dims) extents.push_back(result_.Translated(dim));
    return extents;
  }

  Tensor Add(const Tensor& from, TensorNode node, bool is_batched) {
    Tensor tensor(std::make_shared<const TensorNode>(std::move(node)));
    versions_.insert_or_assign(from.get(), Version{tensor, is_batched});
    return tensor;
  }

  void AddInput(const Tensor& input) {
    bool is_batched = !shared_[static_cast<size_t>(input->input_index)];
    TensorNode node = *input;
    node.dims = Extents(input.dims(), is_batched);
    result_.computation.inputs.push_back(Add(input, std::move(node), is_batched));
  }

  // Producers first, without recursion: chains of tensors may be long.
  void Visit(const Tensor& root) {
    std::vector<Tensor> path = {root};
    while (!path.empty()) {
      Tensor tensor = path.back();
      if (versions_.contains(tensor.get())) {
        path.pop_back();
        continue;
      }
      size_t before = path.size();
      bool is_batched = false;
      for (const ExprNode* node : Postorder({tensor->body})) {
        if (node->kind != ExprKind::kRead || node->tensor->kind == TensorKind::kSelf) continue;
        auto found = versions_.find(node->tensor.get());
        if (found == versions_.end()) path.push_back(node->tensor);
        is_batched = is_batched || (found != versions_.end() && found->second.is_batched);
      }
      if (path.size() > before) continue;
      path.pop_back();
      AddComputed(tensor, is_batched);
    }
  }

  void AddComputed(const Tensor& tensor, bool is_batched) {
    Dims extents = Extents(tensor.dims(), is_batched);
    Tensor self;
    if (tensor->self) {
      TensorNode node = *tensor->self;
      node.dims = extents;
      self = Add(tensor->self, std::move(node), is_batched);
    }
    Tensor computed = ComputeTensor(tensor->name, tensor.dtype(), extents, [&](std::span<const Expr> indices) {
      Variables variables = Renamed(tensor, indices.subspan(is_batched ? 1 : 0));
      return Copied(tensor->body, variables, is_batched ? indices[0] : Expr());
    });
    TensorNode node = *computed;
    node.self = self;
    node.is_ordered = tensor->is_ordered;
    node.ordered_first = result_.Translated(tensor->ordered_first);
    node.is_stored = tensor->is_stored;
    Add(tensor, std::move(node), is_batched);
  }

  // Returns the expression with new variables, symbols and tensors. `call`: the position along the batch; null: none.
  Expr Copied(const Expr& root, const Variables& variables, const Expr& call) const {
    absl::flat_hash_map<const ExprNode*, Expr> copies;
    for (const ExprNode* from : Postorder({root})) {
      ExprNode node = *from;
      for (Expr& operand : node.operands) operand = copies.at(operand.get());
      Expr copy;
      if (node.kind == ExprKind::kIndex) {
        auto found = variables.find(node.index.id);
        if (found != variables.end()) copy = found->second;
        node.index.extent = result_.Translated(node.index.extent);
      } else if (node.kind == ExprKind::kDim) {
        copy = DimValue(result_.Translated(node.dim));
      } else if (node.kind == ExprKind::kRead) {
        const Version& version = versions_.at(node.tensor.get());
        if (version.is_batched) node.operands.insert(node.operands.begin(), call);
        copy = version.tensor(node.operands);
      }
      for (IndexVar& axis : node.axes) axis.extent = result_.Translated(axis.extent);
      copies[from] = copy ? copy : Expr(std::make_shared<const ExprNode>(std::move(node)));
    }
    return copies.at(root.get());
  }

  BatchedComputation& result_;
  const std::vector<bool>& shared_;
  absl::flat_hash_map<const TensorNode*, Version> versions_;
};

}  // namespace

Dim BatchedComputation::Translated(const Dim& dim) const {
  if (dim.is_const()) return dim;
  return SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
    if (leaf.kind() != DimKind::kVar || leaf.id() < batch.id()) return std::nullopt;
    return Dim::Var(leaf.id() + 1, leaf.name());
  });
}

std::optional<BatchedComputation> AddBatchAxis(const Computation& computation, const std::vector<bool>& shared) {
  std::optional<BatchedComputation> result = Begin(computation, shared);
  if (!result) return std::nullopt;
  Batcher batcher(*result, computation, shared);
  for (const Tensor& output : computation.outputs) result->computation.outputs.push_back(batcher.Output(output));
  return result;
}

std::optional<size_t> FindAccumulator(const Computation& computation) {
  if (computation.outputs.size() != 1 || !computation.values.empty()) return std::nullopt;
  Accumulation accumulation = AccumulationOf(computation.outputs[0]);
  if (!accumulation.input) return std::nullopt;
  const Expr term = InlinedTerm(accumulation.term);
  bool is_product = term->kind == ExprKind::kBinary && term->binary == BinaryOp::kMultiply;
  bool is_sum = term->kind == ExprKind::kReduce && term->reduce == ReduceOp::kSum;
  const TensorNode* input = accumulation.input->tensor.get();
  if (!(is_product || is_sum) || !IsTermOver(accumulation.term, input)) return std::nullopt;
  return static_cast<size_t>(input->input_index);
}

std::optional<BatchedComputation> AddBatchSum(const Computation& computation, const std::vector<bool>& shared) {
  std::optional<BatchedComputation> result = Begin(computation, shared);
  if (!result) return std::nullopt;
  Batcher batcher(*result, computation, shared);
  const Tensor& output = computation.outputs[0];
  result->computation.outputs.push_back(batcher.Sum(output, AccumulationOf(output)));
  return result;
}

}  // namespace rvm::te
