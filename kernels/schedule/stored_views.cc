#include "kernels/schedule/stored_views.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "kernels/schedule/rewrite_tensors.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::ExprPool;
using te::IndexVar;
using te::Tensor;
using te::TensorKind;
using te::TensorNode;

// Minimum extent of the last axis of a result: less is stored side by side otherwise.
constexpr int64_t kMinColumns = 16;

bool IsPlain(const Tensor& tensor) {
  return tensor->kind == TensorKind::kCompute && !tensor->self && !tensor->is_ordered && !tensor->is_stored &&
         tensor->update == nullptr;
}
bool IsView(const Tensor& tensor) { return IsPlain(tensor) && tensor->body->kind == ExprKind::kRead; }

bool IsSumOfProducts(const Tensor& tensor) {
  if (!IsPlain(tensor)) return false;
  const ExprNode& sum = *tensor->body;
  return sum.kind == ExprKind::kReduce && sum.reduce == te::ReduceOp::kSum &&
         sum.operands[0]->kind == ExprKind::kBinary && sum.operands[0]->binary == BinaryOp::kMultiply;
}

std::vector<Expr> VariablesOf(const Tensor& tensor, ExprPool& pool) {
  std::vector<Expr> variables;
  for (const IndexVar& axis : tensor->axes) variables.push_back(pool.Variable(axis));
  return variables;
}

te::Rewrite AtPlace(const Tensor& tensor, const std::vector<Expr>& place) {
  te::Rewrite rewrite;
  for (size_t i = 0; i < place.size(); ++i) rewrite.variables[tensor->axes[i].id] = place[i];
  return rewrite;
}

// Follows views from `tensor` at `place` to what they are views of, and to the place there.
void FollowViews(Tensor& tensor, std::vector<Expr>& place, ExprPool& pool) {
  while (IsView(tensor)) {
    te::Rewrite rewrite = AtPlace(tensor, place);
    std::vector<Expr> next;
    for (const Expr& index : tensor->body->operands) next.push_back(pool.Copy(index, rewrite));
    place = std::move(next);
    tensor = Tensor(tensor->body->tensor);
  }
}

bool IsLinear(const Expr& index) {
  for (const ExprNode* node : te::Postorder({index})) {
    bool is_leaf = node->kind == ExprKind::kIndex || node->kind == ExprKind::kIntConst || node->kind == ExprKind::kDim;
    bool is_linear =
        node->kind == ExprKind::kBinary && (node->binary == BinaryOp::kAdd || node->binary == BinaryOp::kMultiply);
    if (!is_leaf && !is_linear) return false;
  }
  return true;
}

class ViewStorer {
 public:
  ViewStorer(const te::Computation& computation, ExprPool& pool) : computation_(computation), pool_(pool) {
    for (const Tensor& output : computation.outputs) outputs_.insert(output.get());
  }

  te::Computation Run() {
    FindViews();
    if (views_.empty()) return computation_;
    return RewriteTensors(computation_, pool_, [&](const Tensor& tensor) {
      auto found = tensor.rank() > 0 ? views_.find(tensor->axes[0].id) : views_.end();
      return found == views_.end() ? tensor : Stored(tensor, found->second);
    });
  }

 private:
  void FindViews() {
    std::vector<Tensor> tensors;
    RewriteTensors(computation_, pool_, [&](const Tensor& tensor) {
      tensors.push_back(tensor);
      return tensor;
    });
    for (const Tensor& tensor : tensors) {
      absl::flat_hash_set<const TensorNode*> read;
      for (const ExprNode* node : te::Postorder(Definitions(tensor))) {
        if (node->kind == ExprKind::kRead) read.insert(node->tensor.get());
      }
      if (tensor->update != nullptr) read.insert(tensor->update->base.get());
      for (const TensorNode* node : read) ++readers_[node];
    }
    for (const Tensor& tensor : tensors) {
      std::vector<Tensor> moved = MovedBy(tensor);
      if (moved.empty()) continue;
      // Views of views: the last one is stored.
      for (Tensor inner = tensor->body->tensor; IsView(inner); inner = inner->body->tensor) {
        if (inner.rank() > 0) views_.erase(inner->axes[0].id);
      }
      std::vector<int64_t>& ids = views_[tensor->axes[0].id];
      for (const Tensor& one : moved) ids.push_back(one->axes[0].id);
    }
  }

  static std::vector<Expr> Definitions(const Tensor& tensor) {
    std::vector<Expr> all = {tensor->body};
    if (tensor->update == nullptr) return all;
    std::vector<Expr> update = te::Expressions(*tensor->update);
    all.insert(all.end(), update.begin(), update.end());
    return all;
  }

  bool IsReadOnce(const Tensor& tensor) const {
    auto found = readers_.find(tensor.get());
    return found != readers_.end() && found->second == 1 && !outputs_.contains(tensor.get());
  }

  // The tensors from `base` to a sum of products, each of which is computed from the next one position by position, and
  // is all that reads it. Empty if there are none.
  std::vector<Tensor> ChainFrom(const Tensor& base) const {
    std::vector<Tensor> chain = {base};
    while (!IsSumOfProducts(chain.back())) {
      Tensor next = NextOf(chain.back());
      if (!next) return {};
      chain.push_back(std::move(next));
    }
    return chain;
  }

  // A sum comes before other tensors.
  Tensor NextOf(const Tensor& tensor) const {
    Tensor next;
    if (!IsPlain(tensor) || tensor->body->kind == ExprKind::kReduce) return next;
    for (const ExprNode* node : te::Postorder({tensor->body})) {
      bool follows = node->kind == ExprKind::kRead && IsPlain(node->tensor) && IsReadOnce(node->tensor) &&
                     node->tensor.rank() > 0 && IsSamePosition(*node, tensor);
      if (follows && (!next || IsSumOfProducts(node->tensor))) next = node->tensor;
    }
    return next;
  }

  static bool IsSamePosition(const ExprNode& read, const Tensor& tensor) {
    if (read.tensor.rank() != tensor.rank()) return false;
    for (size_t i = 0; i < tensor.rank(); ++i) {
      const Expr& index = read.operands[i];
      bool is_axis = index->kind == ExprKind::kIndex && index->index.id == tensor->axes[i].id;
      bool are_one = read.tensor.dims()[i] == Dim(1) && tensor.dims()[i] == Dim(1);
      if (are_one) continue;
      if (!is_axis || CompareDims(read.tensor.dims()[i], tensor.dims()[i]) != DimEquality::kEqual) return false;
    }
    return true;
  }

  // Returns the tensors that move to the places of the view; empty if it stays.
  std::vector<Tensor> MovedBy(const Tensor& view) const {
    if (!IsView(view) || view.rank() == 0) return {};
    for (Tensor inner = view->body->tensor; IsView(inner); inner = inner->body->tensor) {
      if (!IsReadOnce(inner)) return {};
    }
    Tensor base = view;
    std::vector<Expr> own = VariablesOf(view, pool_), place = own;
    FollowViews(base, place, pool_);
    if (base->kind != TensorKind::kCompute || !IsReadOnce(base)) return {};
    std::vector<Tensor> chain = ChainFrom(base);
    bool fits = !chain.empty() && base.rank() > 0 &&
                CompareDims(NumElements(view.dims()), NumElements(base.dims())) == DimEquality::kEqual &&
                KeepsLines(*chain.back(), view, place);
    bool moves = fits && pool_.Offset(base.dims(), place).get() != pool_.Offset(view.dims(), own).get();
    return moves ? chain : std::vector<Tensor>();
  }

  // Returns whether the rows and columns of the sum are axes of the view, and its last axis is one of them.
  static bool KeepsLines(const TensorNode& sum, const Tensor& view, const std::vector<Expr>& place) {
    const std::vector<Expr>& factors = sum.body->operands[0]->operands;
    absl::flat_hash_set<int64_t> lines;
    for (size_t i = 0; i < place.size(); ++i) {
      if (!IsLinear(place[i])) return false;
      int64_t axis = sum.axes[i].id;
      if (sum.dims[i] == Dim(1) || te::DependsOn(factors[0], axis) == te::DependsOn(factors[1], axis)) continue;
      if (place[i]->kind != ExprKind::kIndex || !lines.insert(place[i]->index.id).second) return false;
    }
    for (size_t i = view.rank(); i-- > 0;) {
      if (view.dims()[i] == Dim(1)) continue;
      return lines.contains(view->axes[i].id) && view.dims()[i].AsConst().value_or(kMinColumns) >= kMinColumns;
    }
    return false;
  }

  // Returns the view as a sum of its own. `moved`: the ids of the first axes of the tensors that move to it.
  Tensor Stored(const Tensor& view, const std::vector<int64_t>& moved) {
    Tensor base = view->body->tensor;
    while (IsView(base)) base = base->body->tensor;
    std::vector<Tensor> chain = {base};
    for (size_t i = 1; i < moved.size(); ++i) {
      for (const ExprNode* node : te::Postorder({chain[i - 1]->body})) {
        bool is_next = node->kind == ExprKind::kRead && node->tensor->kind == TensorKind::kCompute &&
                       node->tensor.rank() > 0 && node->tensor->axes[0].id == moved[i];
        if (is_next) chain.push_back(node->tensor);
        if (is_next) break;
      }
    }
    Tensor done;
    for (size_t i = chain.size(); i-- > 0;) {
      done = te::ComputeTensor(chain[i]->name, chain[i].dtype(), view.dims(), [&](std::span<const Expr> at) {
        Tensor tensor = view;
        std::vector<Expr> own;
        for (const Expr& index : at) own.push_back(pool_.Intern(*index));
        std::vector<Expr> place = own;
        FollowViews(tensor, place, pool_);
        te::Rewrite rewrite = AtPlace(chain[i], place);
        rewrite.read = [&](const Tensor& read, std::vector<Expr> indices) {
          bool is_next = i + 1 < chain.size() && read.get() == chain[i + 1].get();
          return pool_.Intern(is_next ? *done(own) : *read(indices));
        };
        return pool_.Copy(chain[i]->body, rewrite);
      });
    }
    return done;
  }

  const te::Computation& computation_;
  ExprPool& pool_;
  absl::flat_hash_set<const TensorNode*> outputs_;
  absl::flat_hash_map<const TensorNode*, int> readers_;
  // The ids of the first axes of the tensors that move to a view, by that of the view. Tensors keep their axes when
  // their reads change.
  absl::flat_hash_map<int64_t, std::vector<int64_t>> views_;
};

}  // namespace

te::Computation StoreViewsOfProducts(const te::Computation& computation, ExprPool& pool) {
  return ViewStorer(computation, pool).Run();
}

Tensor BaseInSamePlace(const Tensor& tensor, ExprPool& pool) {
  if (!IsView(tensor)) return Tensor();
  Tensor base = tensor;
  std::vector<Expr> own = VariablesOf(tensor, pool);
  for (size_t i = 0; i < own.size(); ++i) {
    if (tensor.dims()[i] == Dim(1)) own[i] = pool.Intern(*te::Index(0));
  }
  std::vector<Expr> place = own;
  FollowViews(base, place, pool);
  return pool.Offset(base.dims(), place).get() == pool.Offset(tensor.dims(), own).get() ? base : Tensor();
}

bool IsStridedView(const Tensor& tensor, ExprPool& pool) {
  if (!IsView(tensor)) return false;
  Tensor base = tensor;
  std::vector<Expr> place = VariablesOf(tensor, pool);
  FollowViews(base, place, pool);
  return IsLinear(pool.Offset(base.dims(), place));
}

}  // namespace rvm::schedule
