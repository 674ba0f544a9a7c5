#include "kernels/te/batch_axis.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "kernels/te/expr_pool.h"
#include "kernels/te/kernel_symbols.h"

namespace rvm::te {
namespace {

class Batcher {
 public:
  Batcher(BatchedComputation& result, const std::vector<bool>& shared) : result_(result), shared_(shared) {}

  void AddInput(const Tensor& input) {
    bool is_batched = !shared_[static_cast<size_t>(input->input_index)];
    TensorNode node = *input;
    node.dims = Extents(input.dims(), is_batched);
    result_.computation.inputs.push_back(Add(input, std::move(node), is_batched));
  }

  // The output that is made of `tensor`.
  Tensor Output(const Tensor& tensor) {
    Visit(tensor);
    const Version& version = versions_.at(tensor.get());
    if (version.is_batched) return version.tensor;
    return ComputeTensor("copy", tensor.dtype(), Extents(tensor.dims(), true),
                         [&](std::span<const Expr> i) { return version.tensor(i.subspan(1)); });
  }

 private:
  // The tensor in place of another.
  struct Version {
    Tensor tensor;
    bool is_batched;  // its first axis is the batch
  };

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
      absl::flat_hash_map<int64_t, Expr> variables;
      std::span<const Expr> own = indices.subspan(is_batched ? 1 : 0);
      for (size_t i = 0; i < own.size(); ++i) variables[tensor->axes[i].id] = own[i];
      return Copied(tensor->body, variables, is_batched ? indices[0] : Expr());
    });
    TensorNode node = *computed;
    node.self = self;
    node.is_ordered = tensor->is_ordered;
    node.ordered_first = result_.Translated(tensor->ordered_first);
    node.is_stored = tensor->is_stored;
    Add(tensor, std::move(node), is_batched);
  }

  // The expression with new variables, symbols and tensors. `call`: the position along the batch; null: none.
  Expr Copied(const Expr& root, const absl::flat_hash_map<int64_t, Expr>& variables, const Expr& call) const {
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
  Batcher batcher(result, shared);
  for (const Tensor& input : computation.inputs) batcher.AddInput(input);
  for (const Tensor& output : computation.outputs) result.computation.outputs.push_back(batcher.Output(output));
  return result;
}

}  // namespace rvm::te
