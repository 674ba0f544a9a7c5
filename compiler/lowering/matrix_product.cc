#include "compiler/lowering/matrix_product.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/lowering/linear_index.h"
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

bool IsConst(const Expr& e) { return e->kind == ExprKind::kFloatConst || e->kind == ExprKind::kIntConst; }
double ConstValue(const Expr& e) {
  return e->kind == ExprKind::kFloatConst ? e->float_value : static_cast<double>(e->int_value);
}

// Returns the expression without conversions from float16 and bfloat16, or to them.
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
  std::optional<DeviceProduct> Find() { return FindUpTo(nullptr); }

  struct WithTail {
    DeviceProduct product;
    const schedule::NestTensor* stored = nullptr;
    Expr value, linear;  // of `stored`; the part of it that is the product
  };
  // A product that is a part of what the nest stores, all of which is computed from it position by position.
  std::optional<WithTail> FindWithTail() {
    te::ExprPool& pool = *schedule_.pool;
    const schedule::NestTensor* stored = OnlyStored();
    if (stored == nullptr) return std::nullopt;
    WithTail found{.product = {}, .stored = stored, .value = InlinedValue(pool, *stored), .linear = {}};
    absl::flat_hash_map<const ExprNode*, std::vector<const Expr*>> users = UsersOfSum(found.value);
    // From the sum outwards, as far as the library goes.
    const Expr* at = &nest_.tensors[0].value;
    while (at->get() != found.value.get()) {
      std::optional<DeviceProduct> product = FindUpTo(at);
      if (!product) break;
      if (at->dtype() == stored->tensor.dtype()) {
        found.product = *std::move(product);
        found.linear = *at;
      }
      auto next = users.find(at->get());
      if (next == users.end() || next->second.size() != 1) break;
      at = next->second[0];
    }
    return found.linear ? std::optional(std::move(found)) : std::nullopt;
  }

 private:
  // `root`: what the result is; null: what the nest stores.
  std::optional<DeviceProduct> FindUpTo(const Expr* root) {
    // The first positions of one factor may be batches, in which the other factor is the same.
    for (size_t of_rows = 0; of_rows < tile_.rows.axes.size(); ++of_rows) {
      for (size_t of_columns = 0; of_columns < tile_.columns.axes.size(); ++of_columns) {
        DivideAxes(of_rows, of_columns);
        if (FindFactors() && FindResult(root)) return std::move(product_);
      }
    }
    return std::nullopt;
  }

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

  // Returns the tensor that the nest stores; null if there are several.
  const schedule::NestTensor* OnlyStored() const {
    const schedule::NestTensor* stored = nullptr;
    for (const schedule::NestTensor& tensor : nest_.tensors) {
      if (tensor.stored && stored != nullptr) return nullptr;
      if (tensor.stored) stored = &tensor;
    }
    return stored;
  }

  // The value with those of the nest's other tensors in place of reads.
  Expr InlinedValue(te::ExprPool& pool, const schedule::NestTensor& stored) const {
    absl::flat_hash_map<const te::TensorNode*, Expr> values;
    for (const schedule::NestTensor& tensor : nest_.tensors) {
      te::Rewrite rewrite;
      for (const ExprNode* node : te::Postorder({tensor.value})) {
        auto own = node->kind == ExprKind::kRead ? values.find(node->tensor.get()) : values.end();
        if (own != values.end() && node->operands[0].get() == nest_.store_offset.get()) {
          rewrite.done.emplace(node, own->second);
        }
      }
      Expr value = tensor.value.get() == &reduce_ ? tensor.value : pool.Copy(tensor.value, rewrite);
      values.emplace(tensor.tensor.get(), value);
    }
    return values.at(stored.tensor.get());
  }

  // By node, those that have it as an operand: of the sum and of what is computed from it.
  absl::flat_hash_map<const ExprNode*, std::vector<const Expr*>> UsersOfSum(const Expr& root) const {
    absl::flat_hash_map<const ExprNode*, std::vector<const Expr*>> users;
    absl::flat_hash_set<const ExprNode*> seen;
    auto visit = [&](const Expr& user) {
      if (user.get() == &reduce_ || !seen.insert(user.get()).second || !DependsOnSum(user)) return;
      for (const Expr& operand : user->operands) users[operand.get()].push_back(&user);
    };
    for (const ExprNode* node : te::Postorder({root})) {
      for (const Expr& operand : node->operands) visit(operand);
    }
    visit(root);
    return users;
  }

  bool DependsOnSum(const Expr& e) const {
    std::vector<const ExprNode*> nodes = te::Postorder({e});
    return std::find(nodes.begin(), nodes.end(), &reduce_) != nodes.end();
  }

  bool FindResult(const Expr* root) {
    const schedule::NestTensor* stored = OnlyStored();
    if (stored == nullptr) return false;
    std::optional<Matrix> d = MatrixAt(stored->tensor, nest_.store_offset, rows_, columns_);
    DataType sums = product_.a.dtype == kFloat64 ? kFloat64 : kFloat32;
    if (!d || (d->dtype != product_.a.dtype && d->dtype != sums) || reduce_.dtype != sums) return false;
    product_.d = *std::move(d);
    // Libraries do not read the factors where the scale is 0, so that no NaN comes of them.
    return FindTerms(root == nullptr ? stored->value : *root) && product_.scale != 0 &&
           std::isfinite(static_cast<float>(product_.scale));
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

namespace {

// Returns whether a library is faster by more than the pass over its results that a tail is.
bool PaysForTail(const DeviceProduct& product) {
  bool is_fast = product.a.dtype.is_small_float() || product.allows_tf32;
  Dim count = product.batches * product.rows * product.columns * product.depth;
  return is_fast && count.AsConst().value_or(device_contract::kMinLibraryMultiplications) >=
                        device_contract::kMinLibraryMultiplications;
}

// Returns the nest that finishes the product in place.
LoopNest TailOf(te::ExprPool& pool, const LoopNest& nest, const ProductFinder::WithTail& found) {
  const te::Tensor& tensor = found.stored->tensor;
  LoopNest tail;
  tail.axes = nest.axes;
  tail.store_offset = nest.store_offset;
  tail.product = te::Tensor(std::make_shared<const te::TensorNode>(te::TensorNode{
      .kind = te::TensorKind::kSelf, .dtype = tensor.dtype(), .dims = tensor.dims(), .name = "product"}));
  ExprNode read{.kind = ExprKind::kRead, .dtype = tensor.dtype()};
  read.tensor = tail.product;
  read.operands = {nest.store_offset};
  read.int_value = te::kReadIsSafe;
  te::Rewrite rewrite;
  rewrite.done.emplace(found.linear.get(), pool.Intern(std::move(read)));
  tail.tensors = {{tensor, pool.Copy(found.value, rewrite), true}};
  schedule::CollapseAxes(pool, tail);
  return tail;
}

}  // namespace

void AddTails(schedule::Schedule& schedule) {
  SymbolNumbers symbols(schedule);
  std::vector<schedule::NestGroup> launches = schedule::Launches(schedule);
  for (size_t i = launches.size(); i-- > 0;) {
    const LoopNest& nest = schedule.nests[launches[i].first];
    if (launches[i].count > 1 || !nest.block_tile) continue;
    ProductFinder finder(schedule, symbols, nest);
    if (finder.Find()) continue;
    std::optional<ProductFinder::WithTail> found = finder.FindWithTail();
    if (!found || !PaysForTail(found->product)) continue;
    schedule::InsertTail(schedule, launches[i], TailOf(*schedule.pool, nest, *found));
  }
}

std::vector<DeviceProduct> FindProducts(const schedule::Schedule& schedule) {
  SymbolNumbers symbols(schedule);
  std::vector<DeviceProduct> products;
  std::vector<schedule::NestGroup> launches = schedule::Launches(schedule);
  for (size_t i = 0; i < launches.size(); ++i) {
    const LoopNest& nest = schedule.nests[launches[i].first];
    if (launches[i].count > 1 || !nest.block_tile) continue;
    ProductFinder finder(schedule, symbols, nest);
    bool has_tail = i + 1 < launches.size() && schedule.nests[launches[i + 1].first].product;
    std::optional<DeviceProduct> product;
    if (has_tail) {
      product = finder.FindWithTail()->product;
      product->has_tail = true;
    } else {
      product = finder.Find();
    }
    if (!product) continue;
    product->launch = static_cast<uint32_t>(i);
    products.push_back(*std::move(product));
  }
  return products;
}

}  // namespace rvm::lowering
