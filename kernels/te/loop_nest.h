// Loop nests: what a kernel runs, one after the other.
//
// A nest iterates over some axes and computes, at each position, the values of
// a few tensors of the same extents. Their expressions are expanded: producers are inlined,
// equal subexpressions are one node, and each read has ONE operand, its linear offset in
// row-major order. So equality of expressions is equality of pointers.
#ifndef RVM_KERNELS_TE_LOOP_NEST_H_
#define RVM_KERNELS_TE_LOOP_NEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "kernels/te/tensor.h"

namespace rvm::te {

// int_value of a read whose indices are in bounds wherever the loops are: it may be done early.
inline constexpr int64_t kReadIsSafe = 1;

struct NestTensor {
  Tensor tensor;
  Expr value;           // a kReduce only at the root; may read earlier tensors of this nest at store_offset
  bool stored = false;  // else it lives only inside the nest
};

// sum over k of a(m..., k) * weight, where weight is a constant matrix of its own input.
struct Contraction {
  Expr a;                   // does not depend on the columns
  int64_t input = 0;        // of the weight
  bool transposed = false;  // the weight is [k, n], not [n, k]
  Dim rows, columns, depth;
};

struct LoopNest {
  std::vector<IndexVar> axes;  // no axis of constant extent 1
  Expr store_offset;           // where each tensor is written at a position
  std::vector<NestTensor> tensors;
  std::optional<Contraction> contraction;  // how tensors[0] may be computed; the rest is its epilogue
};

// What to replace while copying an expression.
struct Rewrite {
  absl::flat_hash_map<int64_t, Expr> variables;                // by id
  absl::flat_hash_map<const ExprNode*, Expr> done;             // seeded with replacements of nodes
  std::function<Expr(const Tensor&, std::vector<Expr>)> read;  // of a tensor at indices; null keeps reads
};

// Makes expressions unique and simplifies index arithmetic.
class ExprPool {
 public:
  Expr Copy(const Expr& e, Rewrite& rewrite);
  Expr Intern(ExprNode node);
  Expr Variable(const IndexVar& variable);
  // A variable of no te tensor; its id is negative.
  IndexVar Fresh(const Dim& extent, std::string name) { return {--next_id_, extent, std::move(name)}; }
  Expr Extent(const Dim& dim);
  Expr Binary(BinaryOp op, const Expr& a, const Expr& b);
  // Whether 0 <= e < bound, provably.
  bool IsBelow(const Expr& e, const Expr& bound);
  // Row-major position of `indices` in a tensor of `dims`.
  Expr Offset(const Dims& dims, const std::vector<Expr>& indices);

 private:
  Expr CopyOnThisStack(const Expr& e, Rewrite& rewrite);
  Expr Simplify(const ExprNode& node);
  int64_t DimNumber(const Dim& dim);
  bool IsExtent(const Expr& e, const Dim& dim);

  using Key = absl::InlinedVector<uint64_t, 14>;
  absl::flat_hash_map<Key, Expr> nodes_;
  std::vector<Dim> dims_;
  // Rewrites remember nodes by address, so what they saw must stay alive.
  std::vector<Expr> keep_;
  int64_t next_id_ = 0;
};

// Whether index arithmetic `e` is provably never negative.
bool IsNonNegative(const Expr& e);
// By how much linear `e` changes when the variable grows by one; nullopt if not constant.
std::optional<int64_t> Stride(const Expr& e, int64_t variable);
// Nodes reachable from `roots`, each once, operands first. Does not enter other tensors.
std::vector<const ExprNode*> Postorder(const std::vector<Expr>& roots);
bool DependsOn(const Expr& e, int64_t variable);

// Merges adjacent axes (of the nest, of its reductions) that every expression uses as one.
void CollapseAxes(ExprPool& pool, LoopNest& nest);

}  // namespace rvm::te

#endif  // RVM_KERNELS_TE_LOOP_NEST_H_
