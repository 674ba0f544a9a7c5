#include "kernels/te/operations.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kernels/te/expr_pool.h"

namespace rvm::te {
namespace {

class Counter {
 public:
  Dim Count(const Computation& computation) {
    for (const Tensor& output : computation.outputs) Reach(output);
    while (!pending_.empty()) {
      const TensorNode* tensor = pending_.back();
      pending_.pop_back();
      total_ = total_ + OfTensor(*tensor);
    }
    return total_;
  }

 private:
  void Reach(const Tensor& tensor) {
    if (tensor->kind == TensorKind::kCompute && reached_.insert(tensor.get()).second) pending_.push_back(tensor.get());
  }

  void ReachReads(const Expr& condition) {
    for (const ExprNode* node : Postorder({condition})) {
      if (node->kind == ExprKind::kRead) Reach(node->tensor);
    }
  }

  Dim OfTensor(const TensorNode& tensor) {
    if (const TensorUpdate* update = tensor.update.get()) {
      Reach(update->base);
      return Dim(OfValue(update->position.value) + (update->fold ? 1 : 0)) * update->estimate;
    }
    int64_t each = OfValue(tensor.body);
    if (tensor.is_ordered) return 0;
    Dim positions = NumPositions(tensor.axes);
    if (tensor.body->kind != ExprKind::kReduce) return Dim(each) * positions;
    return Dim(each + 1) * positions * NumPositions(tensor.body->axes);
  }

  // Returns the operations of one evaluation, and reaches the tensors that it reads.
  int64_t OfValue(const Expr& value) {
    absl::flat_hash_set<const ExprNode*> seen;
    std::vector<const Expr*> pending = {&value};
    int64_t operations = 0;
    while (!pending.empty()) {
      const Expr& e = *pending.back();
      pending.pop_back();
      if (!e || !seen.insert(e.get()).second) continue;
      if (e->kind == ExprKind::kRead) {
        Reach(e->tensor);
        continue;
      }
      bool is_arithmetic = e->kind == ExprKind::kUnary || e->kind == ExprKind::kBinary;
      if (is_arithmetic && !e->dtype.is_bool()) ++operations;
      for (size_t i = 0; i < e->operands.size(); ++i) {
        if (e->kind == ExprKind::kSelect && i == 0) {
          ReachReads(e->operands[i]);
        } else {
          pending.push_back(&e->operands[i]);
        }
      }
    }
    return operations;
  }

  absl::flat_hash_set<const TensorNode*> reached_;
  std::vector<const TensorNode*> pending_;
  Dim total_ = 0;
};

}  // namespace

Dim NumOperations(const Computation& computation) { return Counter().Count(computation); }

}  // namespace rvm::te
