#include "kernels/schedule/rewrite_tensors.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::Tensor;
using te::TensorKind;
using te::TensorNode;

class Rewriter {
 public:
  Rewriter(te::ExprPool& pool, const std::function<Tensor(const Tensor&)>& change) : pool_(pool), change_(change) {}

  // Producers first, without recursion: chains of tensors may be long.
  Tensor Rewritten(const Tensor& root) {
    std::vector<Tensor> path = {root};
    while (!path.empty()) {
      Tensor tensor = path.back();
      if (tensor->kind != TensorKind::kCompute || done_.contains(tensor.get())) {
        path.pop_back();
        continue;
      }
      size_t before = path.size();
      for (const Tensor& read : ReadTensors(tensor)) {
        if (read->kind == TensorKind::kCompute && !done_.contains(read.get())) path.push_back(read);
      }
      if (path.size() > before) continue;
      path.pop_back();
      done_.emplace(tensor.get(), change_(WithNewReads(tensor)));
      keep_.push_back(tensor);
    }
    return root->kind == TensorKind::kCompute ? done_.at(root.get()) : root;
  }

 private:
  // Returns the tensors that the definitions of `tensor` read.
  static std::vector<Tensor> ReadTensors(const Tensor& tensor) {
    std::vector<Expr> definitions = {tensor->body};
    std::vector<Tensor> reads;
    if (tensor->update) {
      std::vector<Expr> update = Expressions(*tensor->update);
      definitions.insert(definitions.end(), update.begin(), update.end());
      reads.push_back(tensor->update->base);
    }
    for (const ExprNode* node : te::Postorder(definitions)) {
      if (node->kind == ExprKind::kRead) reads.push_back(node->tensor);
    }
    return reads;
  }

  Tensor WithNewReads(const Tensor& tensor) {
    bool changes = false;
    te::Rewrite reads;
    reads.read = [&](const Tensor& read, std::vector<Expr> at) {
      auto found = done_.find(read.get());
      Tensor now = found == done_.end() ? read : found->second;
      changes |= now.get() != read.get();
      return pool_.Intern(*now(at));
    };
    TensorNode node = *tensor;
    node.body = pool_.Copy(tensor->body, reads);
    if (tensor->update) {
      te::TensorUpdate update = *tensor->update;
      auto copy = [&](Expr& e) {
        if (e) e = pool_.Copy(e, reads);
      };
      copy(update.position.value);
      copy(update.position.condition);
      for (std::vector<Expr>* list : {&update.position.place, &update.counts, &update.usual}) {
        for (Expr& e : *list) copy(e);
      }
      if (auto found = done_.find(update.base.get()); found != done_.end()) {
        changes |= found->second.get() != update.base.get();
        update.base = found->second;
      }
      node.update = std::make_shared<const te::TensorUpdate>(std::move(update));
    }
    if (!changes) return tensor;
    return Tensor(std::make_shared<const TensorNode>(std::move(node)));
  }

  te::ExprPool& pool_;
  const std::function<Tensor(const Tensor&)>& change_;
  absl::flat_hash_map<const TensorNode*, Tensor> done_;
  std::vector<Tensor> keep_;  // the keys of done_
};

}  // namespace

te::Computation RewriteTensors(const te::Computation& computation, te::ExprPool& pool,
                               const std::function<Tensor(const Tensor&)>& change) {
  Rewriter rewriter(pool, change);
  te::Computation result = computation;
  for (Tensor& output : result.outputs) output = rewriter.Rewritten(output);
  return result;
}

}  // namespace rvm::schedule
