// te: tensor computations as expressions over index spaces.
//
// A computation is a DAG of tensors. Each tensor is an input, or is defined element by element by a scalar expression
// over its index variables, which may read other tensors and reduce over further axes. Extents are Dims over the
// symbols of the inputs. A computation has no schedule: kernels/te/evaluate.h evaluates it naively, as the reference
// for tests, and kernels/schedule determines its loops.
//
// All values are immutable and shared. Building is not thread-safe.
#ifndef RVM_KERNELS_TE_TENSOR_H_
#define RVM_KERNELS_TE_TENSOR_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/data_type.h"
#include "base/dim.h"
#include "base/scalar_op.h"

namespace rvm::te {

struct TensorSpec {
  DataType dtype;
  Dims dims;
};

// ---- scalar expressions -----------------------------------------------------

enum class ExprKind : uint8_t {
  kIntConst,    // of dtype (integers, bool)
  kFloatConst,  // of dtype
  kIndex,       // an index variable; int64
  kDim,         // the value of a Dim; int64
  kRead,        // tensor[indices...]; indices are int64 and in bounds
  kUnary,
  kBinary,
  kSelect,   // operands: condition (bool), then, else; only the chosen one's reads happen
  kCast,     // to dtype; float->int truncates toward zero and saturates, NaN gives 0
  kBitcast,  // to a dtype of as many bits: the same bits
  kReduce,   // over reduce axes; only at the root of a tensor's body
};

using rvm::BinaryOp;
using rvm::ReduceOp;
using rvm::UnaryOp;

struct IndexVar {
  int64_t id;  // unique in the process of building one computation
  Dim extent;  // ranges over [0, extent)
  std::string name;
};

// Returns the number of positions of all axes together: the product of their extents.
inline Dim NumPositions(std::span<const IndexVar> axes) {
  Dim product = 1;
  for (const IndexVar& axis : axes) product = product * axis.extent;
  return product;
}

struct ExprNode;
struct TensorNode;
struct TensorUpdate;

class Expr {
 public:
  Expr() = default;
  explicit Expr(std::shared_ptr<const ExprNode> n) : node_(std::move(n)) {}
  const ExprNode& operator*() const { return *node_; }
  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode* get() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  DataType dtype() const;

 private:
  std::shared_ptr<const ExprNode> node_;
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<const TensorNode> n) : node_(std::move(n)) {}
  const TensorNode& operator*() const { return *node_; }
  const TensorNode* operator->() const { return node_.get(); }
  const TensorNode* get() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  DataType dtype() const;
  const Dims& dims() const;
  size_t rank() const { return dims().size(); }
  // Element at `indices`. REQUIRES: one int64 expression per dim.
  Expr operator()(std::span<const Expr> indices) const;
  Expr operator()(std::initializer_list<Expr> indices) const;

 private:
  std::shared_ptr<const TensorNode> node_;
};

struct ExprNode {
  ExprKind kind;
  DataType dtype;
  int64_t int_value = 0;       // kIntConst
  double float_value = 0;      // kFloatConst
  IndexVar index;              // kIndex
  Dim dim;                     // kDim
  Tensor tensor;               // kRead
  UnaryOp unary{};             // kUnary
  BinaryOp binary{};           // kBinary
  ReduceOp reduce{};           // kReduce
  std::vector<Expr> operands;  // indices of kRead; operands; the reduced expression of kReduce
  std::vector<IndexVar> axes;  // reduce axes of kReduce
};

// ---- tensors -----------------------------------------------------------------

enum class TensorKind : uint8_t {
  kInput,
  kCompute,
  kSelf,  // the tensor as which the body of a scan reads its own earlier elements
};

struct TensorNode {
  TensorKind kind;
  DataType dtype;
  Dims dims;
  std::string name;            // for messages and dumps
  int64_t input_index = 0;     // kInput
  std::vector<IndexVar> axes;  // kCompute: one per dim
  Expr body;                   // kCompute: over axes; a kReduce only at its root
  Tensor self;                 // the kSelf tensor of a scan, else null
  bool is_ordered = false;     // by OrderTensor
  Dim ordered_first = 0;       // if ordered: the keys of each row that are sorted
  bool is_stored = false;      // by Stored
  // Another definition, by WithUpdate; null: none.
  std::shared_ptr<const TensorUpdate> update = nullptr;
};

// A tensor as its base with some elements written: the same tensor as its body defines, for targets that can begin with
// a copy of the base, or with its memory. On its outermost axis that is not 1 it may be longer than the base, whose
// elements it then begins with; all elements behind them are written. Positions of `axes` run in row-major order.
struct TensorUpdate {
  // The expressions of a position: functions of the indices of the axes.
  struct Position {
    std::vector<Expr> place;  // the element of the tensor that is written; in bounds if the condition holds
    Expr condition;           // bool: whether the position writes; null: always
    Expr value;               // what is written, or folded in
  };
  Tensor base;                      // of the same dtype and rank
  Tensor self;                      // kSelf: stands for the tensor in what the scheduler makes of `fold`
  std::optional<BinaryOp> fold;     // the element becomes fold(element, value); none: value
  bool has_distinct_places = true;  // no two positions write the same element: their order does not matter
  Dim estimate = 1;                 // the usual number of positions, for decisions about speed
  std::vector<IndexVar> axes;
  std::vector<Expr> counts;  // by axis: only the positions below this number run; null: all
  std::vector<Expr> usual;   // conditions that usually hold; code may be specialised for them
  Position position;
};

// ---- building ----------------------------------------------------------------

Tensor Input(int64_t index, std::string name, DataType dtype, Dims dims);
// `body` is called once with one index expression per dim and returns an expression of `dtype`.
Tensor ComputeTensor(std::string name, DataType dtype, Dims dims,
                     const std::function<Expr(std::span<const Expr> indices)>& body);
// Like ComputeTensor, but elements are computed one after the other, in row-major order, and the body may read the
// elements of `self` that were computed before.
Tensor ScanTensor(std::string name, DataType dtype, Dims dims,
                  const std::function<Expr(std::span<const Expr> indices, const Tensor& self)>& body);
// Sorts rows of int64 keys of extents `dims` stably. The result has an additional axis of extent 4 before the last one:
// index 0 holds the sorted keys of a row, index 1 their original positions; the others are scratch. Only the first
// `first` of each row may be read. REQUIRES: 0 <= first <= dims.back().
Tensor OrderTensor(std::string name, const Dims& dims, const Dim& first,
                   const std::function<Expr(std::span<const Expr> indices)>& key);
// Elements of the result per row of keys. REQUIRES: the tensor is one of OrderTensor's.
Dim OrderedRowSize(const Tensor& tensor);
// The tensor, computed as a whole and kept in memory before anything reads it, however cheap it is: what arranges data
// for its readers. REQUIRES: it is computed.
Tensor Stored(const Tensor& tensor);
// `tensor` with another definition, by positions over `extents`. `update` has all members but self, axes and position;
// counts and usual conditions are the same at all positions. REQUIRES: `tensor` is computed; both definitions agree.
Tensor WithUpdate(const Tensor& tensor, TensorUpdate update, const Dims& extents,
                  const std::function<TensorUpdate::Position(std::span<const Expr> indices)>& position);
// All expressions of an update; none is null.
std::vector<Expr> Expressions(const TensorUpdate& update);
// Returns a reduction of `body` over axes of `extents`; only allowed as the root of a tensor's body. kSum, kProduct,
// kMaximum and kMinimum keep the dtype of the body (float16 and bfloat16 accumulate in float32).
Expr Reduce(ReduceOp op, std::span<const Dim> extents,
            const std::function<Expr(std::span<const Expr> reduce_indices)>& body);

Expr IntConst(DataType dtype, int64_t value);
Expr FloatConst(DataType dtype, double value);
Expr Const(DataType dtype, double value);  // int or float by dtype
Expr Index(int64_t value);                 // int64 constant
Expr DimValue(const Dim& dim);             // int64
Expr Unary(UnaryOp op, Expr a);
Expr Binary(BinaryOp op, Expr a, Expr b);  // REQUIRES: same dtype
Expr Select(Expr condition, Expr then, Expr otherwise);
Expr Cast(DataType dtype, Expr a);     // no node if the dtype is the same
Expr Bitcast(DataType dtype, Expr a);  // likewise. REQUIRES: as many bits

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);

// The index of a broadcast read: `index` if the extent of the axis read equals the extent iterated, 0 if it is 1, and a
// select if neither is provable.
Expr BroadcastIndex(const Expr& index, const Dim& read_extent, const Dim& iterated_extent);

// The computation of one kernel. Its symbols are the variables in the dims of the inputs, and those that are values of
// elements.
struct Computation {
  // A variable that is the value of an element, numbered in row-major order, of an integer input. Unlike an extent, it
  // may be negative.
  struct ValueSymbol {
    Dim symbol;
    size_t input;
    int64_t element;
  };
  std::string name;
  std::vector<Tensor> inputs;  // inputs[i] is kInput with input_index i
  std::vector<Tensor> outputs;
  std::vector<ValueSymbol> values = {};
};

// "add(%a, %b): c[i, j] = a[i, j] + b[j]", for dumps and goldens.
std::string ToString(const Computation& computation);
std::string ToString(const Expr& expr);

// Returns a canonical text, equal for computations that are equal up to names. A kernel is compiled once per
// fingerprint.
std::string Fingerprint(const Computation& computation);

// Returns the cost of an operation, in additions.
int64_t OperationCost(const ExprNode& e);

}  // namespace rvm::te

#endif  // RVM_KERNELS_TE_TENSOR_H_
