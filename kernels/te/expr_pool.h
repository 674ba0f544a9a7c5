// Hash-consed expressions: equal subexpressions are one node, so that expressions are equal iff their pointers are.
// Reads have one operand here, the row-major linear offset.
#ifndef RVM_KERNELS_TE_EXPR_POOL_H_
#define RVM_KERNELS_TE_EXPR_POOL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "kernels/te/tensor.h"

namespace rvm::te {

// int_value of a read whose indices are in bounds at every position of the loops, so it may be hoisted.
inline constexpr int64_t kReadIsSafe = 1;

// The replacements to make while copying an expression.
struct Rewrite {
  absl::flat_hash_map<int64_t, Expr> variables;                // by id
  absl::flat_hash_map<const ExprNode*, Expr> done;             // seeded with replacements of nodes
  std::function<Expr(const Tensor&, std::vector<Expr>)> read;  // replaces a read at indices; null keeps reads
};

// Makes expressions unique and simplifies index arithmetic.
class ExprPool {
 public:
  Expr Copy(const Expr& e, Rewrite& rewrite);
  Expr Intern(ExprNode node);
  Expr Variable(const IndexVar& variable);
  // A variable that is not an axis of a tensor; its id is negative.
  IndexVar Fresh(const Dim& extent, std::string name) { return {--next_id_, extent, std::move(name)}; }
  Expr Extent(const Dim& dim);
  Expr Binary(BinaryOp op, const Expr& a, const Expr& b);
  // Returns whether 0 <= e < bound, provably.
  bool IsBelow(const Expr& e, const Expr& bound);
  // Row-major position of `indices` in a tensor of `dims`.
  Expr Offset(const Dims& dims, const std::vector<Expr>& indices);
  // Returns a read at `indices`, which are inside the tensor.
  Expr SafeRead(const Tensor& tensor, const std::vector<Expr>& indices);

 private:
  Expr CopyOnThisStack(const Expr& e, Rewrite& rewrite);
  Expr Simplify(const ExprNode& node);
  struct Division {
    Expr quotient, rest;  // null: zero
  };
  Division Divide(const Expr& e, int64_t divisor, int depth);
  int64_t DimNumber(const Dim& dim);
  bool IsExtent(const Expr& e, const Dim& dim);

  using Key = absl::InlinedVector<uint64_t, 14>;
  absl::flat_hash_map<Key, Expr> nodes_;
  absl::flat_hash_map<std::string, int64_t> dims_;  // number by canonical text
  int64_t num_dims_ = 0;
  // Rewrites identify nodes by address, so the nodes must stay alive.
  std::vector<Expr> keep_;
  int64_t next_id_ = 0;
};

// Returns whether index arithmetic `e` is provably never negative.
bool IsNonNegative(const Expr& e);
// Returns the coefficient of the variable in `e`; nullopt if `e` is not linear in it.
std::optional<int64_t> Stride(const Expr& e, int64_t variable);
// Nodes reachable from `roots`, each once, operands first. Does not enter other tensors.
std::vector<const ExprNode*> Postorder(const std::vector<Expr>& roots);
bool DependsOn(const Expr& e, int64_t variable);
// Returns true if evaluating `e` where it is not needed could read out of bounds.
bool MustBranch(const Expr& e);

}  // namespace rvm::te

#endif  // RVM_KERNELS_TE_EXPR_POOL_H_
