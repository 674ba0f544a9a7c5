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
      for (const ExprNode* node : te::Postorder({tensor->body})) {
        bool waits = node->kind == ExprKind::kRead && node->tensor->kind == TensorKind::kCompute &&
                     !done_.contains(node->tensor.get());
        if (waits) path.push_back(node->tensor);
      }
      if (path.size() > before) continue;
      path.pop_back();
      done_.emplace(tensor.get(), change_(WithNewReads(tensor)));
      keep_.push_back(tensor);
    }
    return root->kind == TensorKind::kCompute ? done_.at(root.get()) : root;
  }

 private:
  Tensor WithNewReads(const Tensor& tensor) {
    bool changes = false;
    te::Rewrite reads;
    reads.read = [&](const Tensor& read, std::vector<Expr> at) {
      auto found = done_.find(read.get());
      Tensor now = found == done_.end() ? read : found->second;
      changes |= now.get() != read.get();
      return pool_.Intern(*now(at));
    };
    Expr body = pool_.Copy(tensor->body, reads);
    if (!changes) return tensor;
    TensorNode node = *tensor;
    node.body = std::move(body);
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
