// Builds programs: statements one after the other, and the expressions of loop nests.
#ifndef RVM_KERNELS_LOOPS_BUILDER_H_
#define RVM_KERNELS_LOOPS_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "kernels/loops/program.h"
#include "kernels/schedule/schedule.h"

namespace rvm::loops {

// Statements go to the innermost scope: the body of a loop or a condition, or a scope of variables. An expression that
// has a value in a scope is computed once. Arithmetic goes to the outermost scope that has all of its operands; loads
// stay where they are asked for, as what surrounds them may keep them from running.
class Builder {
 public:
  explicit Builder(const schedule::Schedule& schedule);

  // ---- values; those of index arithmetic are int64, and simplified
  Value Number(int64_t x) { return Constant(kInt64, x); }
  Value Constant(DataType dtype, int64_t bits);
  Value Extent(const Dim& dim);
  Value block() const { return block_; }
  Value thread() const { return thread_; }
  // `dtype`: of the operands.
  Value Binary(BinaryOp op, DataType dtype, Value x, Value y);
  Value Unary(UnaryOp op, DataType dtype, Value x);
  Value Select(DataType dtype, Value condition, Value x, Value y);
  Value Plus(Value x, Value y) { return Binary(BinaryOp::kAdd, kInt64, x, y); }
  Value Minus(Value x, Value y) { return Binary(BinaryOp::kSubtract, kInt64, x, y); }
  Value Times(Value x, Value y) { return Binary(BinaryOp::kMultiply, kInt64, x, y); }
  // REQUIRES: x >= 0 and y > 0.
  Value Quotient(Value x, Value y) { return Binary(BinaryOp::kTruncDivide, kInt64, x, y); }
  Value Remainder(Value x, Value y) { return Binary(BinaryOp::kTruncMod, kInt64, x, y); }
  Value IsBelow(Value x, Value y) { return Binary(BinaryOp::kLess, kInt64, x, y); }
  Value Minimum(Value x, Value y) { return Binary(BinaryOp::kMinimum, kInt64, x, y); }
  Value And(Value x, Value y) { return Binary(BinaryOp::kAnd, kBool, x, y); }
  // Returns the value as an element of a tensor of that dtype is read: rounded, if the dtype is a small float.
  Value Rounded(DataType dtype, Value x);

  // ---- memory
  BufferId NewShared(DataType dtype, int64_t elements) { return NewBuffer(BufferKind::kShared, dtype, elements); }
  BufferId NewPrivate(DataType dtype, int64_t elements) { return NewBuffer(BufferKind::kPrivate, dtype, elements); }
  // `dtype`: of the value, which the buffer keeps without loss.
  Value Load(DataType dtype, BufferId buffer, Value at);
  void Store(BufferId buffer, Value at, Value value);
  void StoreTensor(const te::Tensor& tensor, Value at, Value value);
  void Barrier() { Append({.op = Op::kBarrier}); }

  // ---- scopes
  void For(Value begin, Value end, Value step, absl::FunctionRef<void(Value at)> body, bool is_unrolled = false);
  void If(Value condition, absl::FunctionRef<void()> body);
  void Scoped(absl::FunctionRef<void()> body);  // variables that are bound in it are bound in it alone

  // ---- expressions
  void Bind(const te::IndexVar& variable, Value value);
  // Binds the axes to the position with that number, the last axis fastest.
  void BindFlat(std::span<const te::IndexVar> axes, Value number);
  // Gives the value of a node of expressions, or of all reads of a tensor.
  void BindNode(const te::ExprNode* node, Value value);
  void BindTensor(const te::Tensor& tensor, Value value);
  Value Emit(const te::ExprNode& node);
  Value Emit(const te::Expr& e) { return Emit(*e); }

  // Returns the program, which runs in so many blocks. Called once, at the end.
  Program Take(const Dim& blocks);

 private:
  struct Known {
    Value value;
    size_t level;  // the scope that it belongs to
  };
  struct Scope {
    std::vector<Statement> body;
    absl::flat_hash_map<const te::ExprNode*, Known> nodes;
    absl::flat_hash_map<int64_t, Value> variables;  // by id
    absl::flat_hash_map<const te::TensorNode*, Value> tensors;
  };

  Value NewValue(DataType dtype);
  BufferId NewBuffer(BufferKind kind, DataType dtype, int64_t elements);
  BufferId BufferOf(const te::Tensor& tensor);
  void Append(Statement statement) { scopes_.back().body.push_back(std::move(statement)); }
  // Adds a statement with a result to a scope.
  Value Define(Statement statement, size_t level);
  Value DefineHere(Statement statement) { return Define(std::move(statement), scopes_.size() - 1); }
  std::optional<Value> Folded(BinaryOp op, Value x, Value y);
  std::optional<Known> Find(const te::ExprNode& node) const;
  Known EmitNode(const te::ExprNode& node);

  const schedule::Schedule& schedule_;
  Program program_;
  std::vector<Scope> scopes_;
  absl::flat_hash_map<std::pair<DataType, int64_t>, Value> constants_;
  absl::flat_hash_map<uint32_t, int64_t> numbers_;  // constants of int64, by value
  absl::flat_hash_map<Dim, Value> extents_;
  absl::flat_hash_map<const te::TensorNode*, BufferId> buffers_;
  Value block_, thread_;
};

}  // namespace rvm::loops

#endif  // RVM_KERNELS_LOOPS_BUILDER_H_
