#include "compiler/lowering/matrix_product.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/lowering/symbol_numbers.h"
#include "kernels/schedule/gpu_schedule.h"
#include "kernels/te/expr_pool.h"
#include "serialization/device_contract.h"

namespace rvm::lowering {
namespace {

using schedule::BlockTile;
using schedule::LoopNest;
using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using Matrix = DeviceProduct::Matrix;

// constant + sum of coefficients * variables
struct Linear {
  Dim constant = 0;
  absl::flat_hash_map<int64_t, Dim> coefficients;  // by id of the variable

  Linear Times(const Dim& factor) const {
    Linear product = *this;
    product.constant = product.constant * factor;
    for (auto& [variable, coefficient] : product.coefficients) coefficient = coefficient * factor;
    return product;
  }
};

std::optional<Linear> CombineLinear(BinaryOp op, const Linear& a, const Linear& b) {
  if (op == BinaryOp::kMultiply && b.coefficients.empty()) return a.Times(b.constant);
  if (op == BinaryOp::kMultiply && a.coefficients.empty()) return b.Times(a.constant);
  if (op != BinaryOp::kAdd) return std::nullopt;
  Linear sum = a;
  sum.constant = sum.constant + b.constant;
  for (const auto& [variable, coefficient] : b.coefficients) {
    auto [it, added] = sum.coefficients.try_emplace(variable, coefficient);
    if (!added) it->second = it->second + coefficient;
  }
  return sum;
}

bool IsInt(const Expr& e, int64_t value) { return e->kind == ExprKind::kIntConst && e->int_value == value; }

// The extent that a te::BroadcastIndex depends on: the index is 0 where the extent is 1.
const Expr* BroadcastExtent(const ExprNode& node) {
  if (node.kind != ExprKind::kSelect || !IsInt(node.operands[1], 0)) return nullptr;
  const Expr& condition = node.operands[0];
  bool fits = condition->kind == ExprKind::kBinary && condition->binary == BinaryOp::kEqual;
  for (size_t i : {0, 1}) {
    if (fits && IsInt(condition->operands[1 - i], 1)) return &condition->operands[i];
  }
  return nullptr;
}

// nullopt for index arithmetic of another form.
std::optional<Linear> LinearOf(const Expr& e) {
  absl::flat_hash_map<const ExprNode*, Linear> known;
  auto value_of = [&](const Expr& operand) -> std::optional<Linear> {
    auto found = known.find(operand.get());
    return found == known.end() ? std::nullopt : std::optional(found->second);
  };
  for (const ExprNode* node : te::Postorder({e})) {
    Linear value;
    if (node->kind == ExprKind::kIntConst && node->int_value >= 0) {
      value.constant = node->int_value;
    } else if (node->kind == ExprKind::kDim) {
      value.constant = node->dim;
    } else if (node->kind == ExprKind::kIndex) {
      value.coefficients.emplace(node->index.id, 1);
    } else if (const Expr* extent = BroadcastExtent(*node)) {
      std::optional<Linear> of_extent = value_of(*extent), index = value_of(node->operands[2]);
      if (!of_extent || !of_extent->coefficients.empty() || !index) continue;
      value = index->Times(Min(of_extent->constant - 1, 1));
    } else if (node->kind == ExprKind::kBinary) {
      std::optional<Linear> a = value_of(node->operands[0]), b = value_of(node->operands[1]);
      std::optional<Linear> combined = a && b ? CombineLinear(node->binary, *a, *b) : std::nullopt;
      if (!combined) continue;
      value = *std::move(combined);
    } else {
      continue;
    }
    known.emplace(node, std::move(value));
  }
  return value_of(e);
}

bool IsConst(const Expr& e) { return e->kind == ExprKind::kFloatConst || e->kind == ExprKind::kIntConst; }
double ConstValue(const Expr& e) {
  return e->kind == ExprKind::kFloatConst ? e->float_value : static_cast<double>(e->int_value);
}

// The expression without conversions from float16 and bfloat16, or to them.
const Expr& Uncast(const Expr& e) {
  const Expr* inner = &e;
  while ((*inner)->kind == ExprKind::kCast && (*inner)->operands[0].dtype().is_float()) inner = &(*inner)->operands[0];
  return *inner;
}

class ProductFinder {
 public:
  ProductFinder(const schedule::Schedule& schedule, const SymbolNumbers& symbols, const LoopNest& nest)
      : schedule_(schedule), symbols_(symbols), nest_(nest), tile_(*nest.block_tile), reduce_(*nest.reduction()) {
    for (const IndexVar& axis : reduce_.axes) depth_.push_back(&axis);
  }

  // nullopt if the nest is no such product.
  std::optional<DeviceProduct> Find() {
    // The first positions of one factor may be batches, in which the other factor is the same.
    for (size_t of_rows = 0; of_rows < tile_.rows.axes.size(); ++of_rows) {
      for (size_t of_columns = 0; of_columns < tile_.columns.axes.size(); ++of_columns) {
        DivideAxes(of_rows, of_columns);
        if (FindFactors() && FindResult()) return std::move(product_);
      }
    }
    return std::nullopt;
  }

 private:
  // Axes of the nest, the last one fastest, that are one of a matrix.
  using Axes = std::vector<const IndexVar*>;

  void DivideAxes(size_t of_rows, size_t of_columns) {
    rows_.clear();
    columns_.clear();
    batches_.clear();
    for (size_t axis : tile_.outer) batches_.push_back(&nest_.axes[axis]);
    auto divide = [&](const std::vector<size_t>& axes, size_t of_batches, Axes& rest) {
      for (size_t i = 0; i < axes.size(); ++i) (i < of_batches ? batches_ : rest).push_back(&nest_.axes[axes[i]]);
    };
    divide(tile_.rows.axes, of_rows, rows_);
    divide(tile_.columns.axes, of_columns, columns_);
    product_ = {.batches = Extent(batches_),
                .rows = Extent(rows_),
                .columns = Extent(columns_),
                .depth = Extent(depth_),
                .a = {},
                .b = {},
                .d = {},
                .addends = {}};
  }

  Dim Extent(const Axes& axes) const {
    Dim extent = 1;
    for (const IndexVar* axis : axes) extent = extent * symbols_.Numbered(axis->extent);
    return extent;
  }

  bool FindFactors() {
    std::optional<Matrix> a = MatrixOf(Uncast(tile_.rows.factor), rows_, depth_),
                          b = MatrixOf(Uncast(tile_.columns.factor), depth_, columns_);
    if (!a || !b || a->dtype != b->dtype || !a->dtype.is_float()) return false;
    product_.allows_tf32 = schedule_.target.rounds_to_tf32 && a->dtype == kFloat32;
    product_.a = *std::move(a);
    product_.b = *std::move(b);
    return true;
  }

  bool FindResult() {
    const schedule::NestTensor* stored = nullptr;
    for (const schedule::NestTensor& tensor : nest_.tensors) {
      if (tensor.stored && stored != nullptr) return false;
      if (tensor.stored) stored = &tensor;
    }
    if (stored == nullptr) return false;
    std::optional<Matrix> d = MatrixAt(stored->tensor, nest_.store_offset, rows_, columns_);
    DataType sums = product_.a.dtype == kFloat64 ? kFloat64 : kFloat32;
    if (!d || (d->dtype != product_.a.dtype && d->dtype != sums) || reduce_.dtype != sums) return false;
    product_.d = *std::move(d);
    // Libraries do not read the factors where the scale is 0, so that no NaN comes of them.
    return FindTerms(stored->value) && product_.scale != 0 && std::isfinite(static_cast<float>(product_.scale));
  }

  const Expr* OwnValue(const Expr& e) const {
    if (e->kind != ExprKind::kRead || e->operands[0].get() != nest_.store_offset.get()) return nullptr;
    for (const schedule::NestTensor& tensor : nest_.tensors) {
      if (tensor.tensor.get() == e->tensor.get()) return &tensor.value;
    }
    return nullptr;
  }

  // Takes `e` apart from its root to the sum of products: what is added on the way, and then what it is scaled by.
  bool FindTerms(const Expr& root) {
    const Expr* e = &root;
    while (e->get() != &reduce_) {
      if ((*e)->kind == ExprKind::kCast && product_.d.dtype.is_small_float()) e = &Uncast(*e);
      if (const Expr* own = OwnValue(*e)) {
        e = own;
      } else if ((*e)->kind != ExprKind::kBinary) {
        return e->get() == &reduce_;
      } else if (!FindTerm(**e, e)) {
        return false;
      }
    }
    return true;
  }

  // Takes one operator apart; `rest`: the operand that the sum of products is in.
  bool FindTerm(const ExprNode& node, const Expr*& rest) {
    bool is_scaled = product_.scale != 1;
    for (size_t i : {0, 1}) {
      const Expr &term = Uncast(node.operands[i]), &other = node.operands[1 - i];
      if (node.binary == BinaryOp::kAdd && !is_scaled && !HasSum(term)) {
        rest = &other;
        return AddAddend(term);
      }
      bool divides = node.binary == BinaryOp::kDivide && i == 1;
      if (IsConst(term) && (node.binary == BinaryOp::kMultiply || divides)) {
        rest = &other;
        product_.scale = divides ? product_.scale / ConstValue(term) : product_.scale * ConstValue(term);
        return true;
      }
    }
    return false;
  }

  bool HasSum(const Expr& e) const {
    for (const ExprNode* node : te::Postorder({e})) {
      bool is_own = node == &reduce_;
      for (const schedule::NestTensor& tensor : nest_.tensors) {
        is_own |= node->kind == ExprKind::kRead && node->tensor.get() == tensor.tensor.get();
      }
      if (is_own) return true;
    }
    return false;
  }

  // A matrix, or a row that is added to each of its rows.
  bool AddAddend(const Expr& e) {
    std::optional<Matrix> addend = MatrixOf(e, rows_, columns_);
    if (!addend || addend->dtype != product_.d.dtype) return false;
    bool is_bias = device_contract::IsBias(*addend);
    if (!is_bias && (addend->row_stride == 0 || addend->column_stride == 0)) return false;
    for (const Matrix& other : product_.addends) {
      if (device_contract::IsBias(other) == is_bias) return false;
    }
    product_.addends.push_back(*std::move(addend));
    return true;
  }

  std::optional<Matrix> MatrixOf(const Expr& read, const Axes& rows, const Axes& columns) const {
    if (read->kind != ExprKind::kRead) return std::nullopt;
    return MatrixAt(read->tensor, read->operands[0], rows, columns);
  }

  std::optional<Matrix> MatrixAt(const te::Tensor& tensor, const Expr& offset, const Axes& rows,
                                 const Axes& columns) const {
    std::optional<Linear> linear = LinearOf(offset);
    if (!linear) return std::nullopt;
    Matrix matrix = {.argument = 0, .dtype = tensor.dtype(), .offset = 0, .batch_stride = 0};
    bool has_strides = TakeStride(batches_, *linear, matrix.batch_stride) &&
                       TakeStride(rows, *linear, matrix.row_stride) &&
                       TakeStride(columns, *linear, matrix.column_stride);
    if (!has_strides || !linear->coefficients.empty()) return std::nullopt;
    matrix.offset = symbols_.Numbered(linear->constant) * Dim(tensor.dtype().bytes());
    return Place(tensor, matrix) ? std::optional(std::move(matrix)) : std::nullopt;
  }

  // Removes the axes from the offset. False if their positions are not equally far apart.
  bool TakeStride(const Axes& axes, Linear& offset, Dim& stride) const {
    Dim next = 0;  // what the axis before must have as its stride
    for (size_t i = axes.size(); i-- > 0;) {
      Dim of_axis = 0;
      if (auto found = offset.coefficients.find(axes[i]->id); found != offset.coefficients.end()) {
        of_axis = symbols_.Numbered(found->second);
        offset.coefficients.erase(found);
      }
      if (i + 1 == axes.size()) {
        stride = of_axis;
      } else if (CompareDims(of_axis, next) != DimEquality::kEqual) {
        return false;
      }
      next = of_axis * symbols_.Numbered(axes[i]->extent);
    }
    return true;
  }

  // Sets the argument that the tensor is in, and adds where it is there. False if it is in none.
  bool Place(const te::Tensor& tensor, Matrix& matrix) const {
    size_t inputs = schedule_.computation.inputs.size();
    if (tensor->kind == te::TensorKind::kInput) {
      matrix.argument = static_cast<uint32_t>(tensor->input_index);
      return tensor.rank() != 0;
    }
    auto buffer = schedule_.buffers.find(tensor.get());
    if (buffer == schedule_.buffers.end()) return false;
    size_t argument = inputs + schedule_.computation.outputs.size();
    if (buffer->second.is_output) {
      argument = inputs + static_cast<size_t>(buffer->second.output);
    } else {
      matrix.offset = matrix.offset + symbols_.Numbered(buffer->second.offset);
    }
    matrix.argument = static_cast<uint32_t>(argument);
    return true;
  }

  const schedule::Schedule& schedule_;
  const SymbolNumbers& symbols_;
  const LoopNest& nest_;
  const BlockTile& tile_;
  const ExprNode& reduce_;
  Axes rows_, columns_, depth_, batches_;
  DeviceProduct product_;
};

}  // namespace

std::vector<DeviceProduct> FindProducts(const schedule::Schedule& schedule) {
  SymbolNumbers symbols(schedule);
  std::vector<DeviceProduct> products;
  std::vector<schedule::NestGroup> launches = schedule::Launches(schedule);
  for (size_t i = 0; i < launches.size(); ++i) {
    const LoopNest& nest = schedule.nests[launches[i].first];
    if (launches[i].count > 1 || !nest.block_tile) continue;
    std::optional<DeviceProduct> product = ProductFinder(schedule, symbols, nest).Find();
    if (!product) continue;
    product->launch = static_cast<uint32_t>(i);
    products.push_back(*std::move(product));
  }
  return products;
}

}  // namespace rvm::lowering
