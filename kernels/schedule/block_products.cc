#include "kernels/schedule/block_products.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kernels/schedule/rewrite_tensors.h"
#include "kernels/schedule/stored_factors.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::Tensor;
using te::TensorKind;

// Smaller blocks do not make up for the scales.
constexpr int64_t kMinBlock = 8;
// Tensors between the rows and the product.
constexpr int kMaxInlined = 16;
// The magnitude of a row's element.
constexpr int64_t kMaxRow = 128;

bool IsBinary(const Expr& e, BinaryOp op) { return e->kind == ExprKind::kBinary && e->binary == op; }

// Returns the operand of a cast to float32 from `dtype`; null for other expressions.
Expr CastFrom(const Expr& e, DataType dtype) {
  bool casts = e->kind == ExprKind::kCast && e->dtype == kFloat32 && e->operands[0].dtype() == dtype;
  return casts ? e->operands[0] : Expr();
}

// Returns the greatest value of bits of a byte, or of a byte, that is read; 0 for other expressions.
int64_t MaxCode(const Expr& code) {
  if (code.dtype() != kUInt8) return 0;
  if (code->kind == ExprKind::kRead) return 255;
  if (!IsBinary(code, BinaryOp::kAnd) || code->operands[1]->kind != ExprKind::kIntConst) return 0;
  const Expr& shifted = code->operands[0];
  const Expr& byte = IsBinary(shifted, BinaryOp::kShiftRight) ? shifted->operands[0] : shifted;
  return byte->kind == ExprKind::kRead ? code->operands[1]->int_value : 0;
}

// Checks whether the byte that the code is read from, or which of its bits, is another one along the axis.
bool ReadsAlong(const Expr& code, const IndexVar& axis) {
  const ExprNode* e = code.get();
  while (e->kind != ExprKind::kRead) e = e->operands[0].get();
  return std::any_of(e->operands.begin(), e->operands.end(),
                     [&](const Expr& index) { return te::DependsOn(index, axis.id); });
}
bool ShiftsAlong(const Expr& code, const IndexVar& axis) {
  return IsBinary(code, BinaryOp::kAnd) && IsBinary(code->operands[0], BinaryOp::kShiftRight) &&
         te::DependsOn(code->operands[0]->operands[1], axis.id);
}

// Checks whether none but the first `count` of the axes occur in `e`.
bool DependsOnFirst(const Expr& e, const std::vector<IndexVar>& axes, size_t count) {
  return std::none_of(axes.begin() + static_cast<std::ptrdiff_t>(count), axes.end(),
                      [&](const IndexVar& axis) { return te::DependsOn(e, axis.id); });
}

// Returns the number of positions of the axes behind the first `outer` ones; 0 if that is not known.
int64_t BlockSize(const std::vector<IndexVar>& axes, size_t outer) {
  return te::NumPositions(std::span(axes).subspan(outer)).AsConst().value_or(0);
}

// Returns the steps in which the target multiplies bytes; with a depth_step of 0 if it does not.
BlockProduct StepsOn(const Target& target, int64_t max_code) {
  BlockProduct steps;
  steps.most_steps = std::numeric_limits<int64_t>::max();
  bool has_fours = target.has_byte_products || (target.has_signed_fours && max_code < kMaxRow);
  if (has_fours) {
    steps.depth_step = 4;
  } else if (target.has_narrow_pairs && max_code < 16) {
    steps.depth_step = 4;
    steps.sums_narrow = true;
    steps.most_steps = std::numeric_limits<int16_t>::max() / (2 * kMaxRow * max_code);
  } else if (target.has_pair_products) {
    steps.depth_step = 2;
  }
  return steps;
}

// A factor as the product of two parts, less a third.
struct Parts {
  Expr value, scale, minimum;  // minimum: null for 0
};

// A sum of the form that MultiplyBlocks finds.
struct Found {
  Expr row, row_scale, code, zero, scale, minimum;  // zero, minimum: null for 0
  size_t outer_axes;
  int64_t depth_step;
};

class BlockMultiplier {
 public:
  BlockMultiplier(const Target& target, te::ExprPool& pool) : target_(target), pool_(pool) {}

  Tensor Run(const Tensor& tensor) {
    const ExprNode& sum = *tensor->body;
    bool fits = sum.kind == ExprKind::kReduce && sum.reduce == te::ReduceOp::kSum && sum.dtype == kFloat32 &&
                IsBinary(sum.operands[0], BinaryOp::kMultiply);
    if (!fits) return tensor;
    const std::vector<Expr>& factors = sum.operands[0]->operands;
    for (size_t side : {1, 0}) {
      if (!IsExpansion(factors[side])) continue;
      if (std::optional<Found> found = Find(*tensor, factors[1 - side], factors[side])) return Written(tensor, *found);
    }
    return tensor;
  }

 private:
  std::optional<Found> Find(const te::TensorNode& tensor, const Expr& rows, const Expr& columns) {
    const bool has_minimum = IsBinary(columns, BinaryOp::kSubtract);
    std::optional<Parts> column =
        Split(has_minimum ? columns->operands[0] : columns, [](const Expr& e) { return static_cast<bool>(CodeOf(e)); });
    if (!column || (has_minimum && ZeroOf(column->value))) return std::nullopt;
    if (has_minimum) column->minimum = columns->operands[1];
    int budget = kMaxInlined;
    std::optional<Parts> row =
        Split(Inlined(rows, budget), [](const Expr& e) { return static_cast<bool>(CastFrom(e, kInt8)); });
    if (!row) return std::nullopt;
    Found found{CastFrom(row->value, kInt8),
                row->scale,
                CodeOf(column->value),
                ZeroOf(column->value),
                column->scale,
                column->minimum,
                0,
                0};
    for (const IndexVar& axis : tensor.axes) {
      if (te::DependsOn(rows, axis.id) && te::DependsOn(columns, axis.id)) return std::nullopt;
    }
    const std::vector<IndexVar>& axes = tensor.body->axes;
    auto is_uniform = [&](size_t count) {
      return DependsOnFirst(found.row_scale, axes, count) && DependsOnFirst(found.scale, axes, count) &&
             (!found.zero || DependsOnFirst(found.zero, axes, count)) &&
             (!found.minimum || DependsOnFirst(found.minimum, axes, count));
    };
    while (!is_uniform(found.outer_axes)) ++found.outer_axes;
    int64_t max_code = MaxCode(found.code), size = BlockSize(axes, found.outer_axes);
    bool fits = size >= kMinBlock && size <= std::numeric_limits<int32_t>::max() / (kMaxRow * max_code);
    size_t inner = axes.size() - found.outer_axes;
    found.depth_step = StepsOn(target_, max_code).depth_step;
    if (!fits || found.depth_step == 0) return std::nullopt;
    // One axis visits bytes, and, where these hold several codes, another one these.
    const IndexVar& bytes = axes[found.outer_axes];
    bool has_parts = inner == 2 && !ReadsAlong(found.code, axes.back());
    bool visits = (inner == 1 || has_parts) && !ShiftsAlong(found.code, bytes);
    return visits && bytes.extent.constant() % found.depth_step == 0 ? std::optional(found) : std::nullopt;
  }

  // Returns the operands of a product, the first of which is_value accepts.
  template <typename IsValue>
  static std::optional<Parts> Split(const Expr& e, IsValue is_value) {
    if (!e || !IsBinary(e, BinaryOp::kMultiply)) return std::nullopt;
    for (size_t side : {0, 1}) {
      if (is_value(e->operands[side])) return Parts{e->operands[side], e->operands[1 - side], Expr()};
    }
    return std::nullopt;
  }

  // Returns the code in `cast(code, float32)` or in that less a zero point; null for other expressions.
  static Expr CodeOf(const Expr& e) {
    Expr code = CastFrom(IsBinary(e, BinaryOp::kSubtract) ? e->operands[0] : e, kUInt8);
    return code && MaxCode(code) > 0 ? code : Expr();
  }
  static Expr ZeroOf(const Expr& e) { return IsBinary(e, BinaryOp::kSubtract) ? e->operands[1] : Expr(); }

  // Returns the expression with the definitions of float tensors in place of reads of them; null if there are too many.
  Expr Inlined(const Expr& e, int& budget) {
    bool fails = false;
    te::Rewrite rewrite;
    rewrite.read = [&](const Tensor& tensor, std::vector<Expr> at) {
      bool is_inlined = tensor->kind == TensorKind::kCompute && tensor.dtype() == kFloat32 && !tensor->is_stored &&
                        !tensor->self && !tensor->is_ordered && tensor->body->kind != ExprKind::kReduce;
      fails |= is_inlined && --budget < 0;
      if (!is_inlined || fails) return pool_.Intern(*tensor(at));
      te::Rewrite inner;
      for (size_t i = 0; i < tensor->axes.size(); ++i) inner.variables[tensor->axes[i].id] = at[i];
      inner.read = rewrite.read;
      return pool_.Copy(tensor->body, inner);
    };
    Expr inlined = pool_.Copy(e, rewrite);
    return fails ? Expr() : inlined;
  }

  // The indices of an element of the sum as those of its rows and blocks, of tensors that the sum reads.
  struct RowAxes {
    std::vector<IndexVar> axes;  // of the sum's tensor, those of its rows, and of the sum, those of blocks
    Dims dims() const {
      Dims dims;
      for (const IndexVar& axis : axes) dims.push_back(axis.extent);
      return dims;
    }
  };

  Tensor Written(const Tensor& tensor, const Found& found) {
    const std::vector<IndexVar>& depth = tensor->body->axes;
    RowAxes rows;
    for (const IndexVar& axis : tensor->axes) {
      if (te::DependsOn(found.row, axis.id) || te::DependsOn(found.row_scale, axis.id)) rows.axes.push_back(axis);
    }
    for (size_t i = 0; i < found.outer_axes; ++i) rows.axes.push_back(depth[i]);
    const Dims inner = InnerExtents(depth, found);
    const Tensor bytes = Bytes(depth, found, rows, inner),
                 sums = found.zero || found.minimum ? Sums(bytes, rows, inner) : Tensor();
    const Tensor scales = Scales(found, rows);
    Dims extents;
    for (size_t i = 0; i < found.outer_axes; ++i) extents.push_back(depth[i].extent);
    extents.insert(extents.end(), inner.begin(), inner.end());
    const double size = static_cast<double>(BlockSize(depth, found.outer_axes));
    return te::ComputeTensor(tensor->name, kFloat32, tensor.dims(), [&](std::span<const Expr> i) {
      return te::Reduce(te::ReduceOp::kSum, extents, [&](std::span<const Expr> r) {
        te::Rewrite at = AtDepth(depth, found, r.subspan(0, found.outer_axes), r.subspan(found.outer_axes));
        for (size_t k = 0; k < i.size(); ++k) at.variables[tensor->axes[k].id] = pool_.Intern(*i[k]);
        std::vector<Expr> block = Positions(rows, at), place = block;
        for (const Expr& index : r.subspan(found.outer_axes)) place.push_back(index);
        Expr product = te::Cast(kFloat32, bytes(place)) * te::Cast(kFloat32, pool_.Copy(found.code, at));
        Expr scale = pool_.Copy(found.scale, at);
        if (!sums) return scales(block) * scale * product;
        Expr mean = te::Cast(kFloat32, sums(block)) * te::Const(kFloat32, 1 / size);
        if (found.zero) return scales(block) * scale * (product - mean * pool_.Copy(found.zero, at));
        return scales(block) * (scale * product - mean * pool_.Copy(found.minimum, at));
      });
    });
  }

  // Returns the extents of the axes that visit a block: steps of bytes, codes of a byte, bytes of a step; or one axis
  // of bytes.
  static Dims InnerExtents(const std::vector<IndexVar>& depth, const Found& found) {
    const IndexVar& bytes = depth[found.outer_axes];
    if (found.outer_axes + 1 == depth.size()) return {bytes.extent};
    return {FloorDiv(bytes.extent, found.depth_step), depth.back().extent, Dim(found.depth_step)};
  }

  // Binds the depth to a position of the axes of blocks and of those that visit a block.
  te::Rewrite AtDepth(const std::vector<IndexVar>& depth, const Found& found, std::span<const Expr> outer,
                      std::span<const Expr> inner) {
    te::Rewrite at;
    for (size_t k = 0; k < outer.size(); ++k) at.variables[depth[k].id] = pool_.Intern(*outer[k]);
    const IndexVar& bytes = depth[found.outer_axes];
    if (inner.size() == 1) {
      at.variables[bytes.id] = pool_.Intern(*inner[0]);
      return at;
    }
    Expr first = pool_.Binary(BinaryOp::kMultiply, pool_.Intern(*inner[0]), pool_.Extent(found.depth_step));
    at.variables[bytes.id] = pool_.Binary(BinaryOp::kAdd, first, pool_.Intern(*inner[2]));
    at.variables[depth.back().id] = pool_.Intern(*inner[1]);
    return at;
  }

  std::vector<Expr> Positions(const RowAxes& rows, const te::Rewrite& at) {
    std::vector<Expr> positions;
    for (const IndexVar& axis : rows.axes) positions.push_back(at.variables.at(axis.id));
    return positions;
  }

  void BindRows(const RowAxes& rows, std::span<const Expr> i, te::Rewrite& at) {
    for (size_t k = 0; k < rows.axes.size(); ++k) at.variables[rows.axes[k].id] = pool_.Intern(*i[k]);
  }

  // Returns the tensor, or one made before that has the same elements: several products may have the same rows.
  Tensor Unique(const Tensor& tensor) {
    const std::vector<IndexVar>& axes = tensor->axes;
    te::Rewrite by_position;
    std::string key = absl::StrCat(DimsToString(tensor.dims()), tensor.dtype().ToString());
    while (positions_.size() < axes.size()) positions_.push_back(pool_.Fresh(0, "position"));
    for (size_t i = 0; i < axes.size(); ++i) by_position.variables[axes[i].id] = pool_.Variable(positions_[i]);
    return made_.try_emplace(std::pair(std::move(key), pool_.Copy(tensor->body, by_position).get()), tensor)
        .first->second;
  }

  // Returns the rows, in the order in which tiles read them.
  Tensor Bytes(const std::vector<IndexVar>& depth, const Found& found, const RowAxes& rows, const Dims& inner) {
    Dims dims = rows.dims();
    dims.insert(dims.end(), inner.begin(), inner.end());
    return Unique(te::Stored(te::ComputeTensor("bytes", kInt8, dims, [&](std::span<const Expr> i) {
      te::Rewrite at = AtDepth(depth, found, {}, i.subspan(rows.axes.size()));
      BindRows(rows, i, at);
      return pool_.Copy(found.row, at);
    })));
  }

  // Returns the sum of the rows in each block.
  Tensor Sums(const Tensor& bytes, const RowAxes& rows, const Dims& inner) {
    Tensor& sums = sums_[bytes.get()];
    if (sums) return sums;
    sums = te::ComputeTensor("row_sums", kInt32, rows.dims(), [&](std::span<const Expr> i) {
      return te::Reduce(te::ReduceOp::kSum, inner, [&](std::span<const Expr> r) {
        std::vector<Expr> place(i.begin(), i.end());
        place.insert(place.end(), r.begin(), r.end());
        return te::Cast(kInt32, bytes(place));
      });
    });
    return sums;
  }

  Tensor Scales(const Found& found, const RowAxes& rows) {
    return Unique(te::Stored(te::ComputeTensor("row_scales", kFloat32, rows.dims(), [&](std::span<const Expr> i) {
      te::Rewrite at;
      BindRows(rows, i, at);
      return pool_.Copy(found.row_scale, at);
    })));
  }

  const Target& target_;
  te::ExprPool& pool_;
  std::vector<IndexVar> positions_;                                            // stand for the axes of a tensor
  absl::flat_hash_map<std::pair<std::string, const ExprNode*>, Tensor> made_;  // by type, and by body over positions_
  absl::flat_hash_map<const te::TensorNode*, Tensor> sums_;                    // by the bytes that they are of
};

}  // namespace

te::Computation MultiplyBlocks(const te::Computation& computation, const Target& target) {
  te::ExprPool pool;
  BlockMultiplier multiplier(target, pool);
  return RewriteTensors(computation, pool, [&](const Tensor& tensor) { return multiplier.Run(tensor); });
}

std::optional<BlockProduct> AsBlockProduct(const ExprNode& sum, const Target& target) {
  const Expr& scaled = sum.operands[0];
  if (!IsBinary(scaled, BinaryOp::kMultiply)) return std::nullopt;
  Expr row_scale = scaled->operands[0], product = scaled->operands[1], scale, correction;
  // row_scale * scale * product, or row_scale * (scale * product - correction).
  const bool has_scales = IsBinary(row_scale, BinaryOp::kMultiply);
  if (has_scales) {
    scale = row_scale->operands[1];
    row_scale = row_scale->operands[0];
  }
  if (IsBinary(product, BinaryOp::kSubtract)) {
    correction = product->operands[1];
    product = product->operands[0];
  }
  if (!IsBinary(product, BinaryOp::kMultiply)) return std::nullopt;
  if (!has_scales) {
    scale = product->operands[0];
    product = product->operands[1];
    if (!correction || !IsBinary(product, BinaryOp::kMultiply)) return std::nullopt;
  }
  Expr row = CastFrom(product->operands[0], kInt8), code = CastFrom(product->operands[1], kUInt8);
  if (!row || row->kind != ExprKind::kRead || !code || MaxCode(code) == 0) return std::nullopt;
  BlockProduct parts = StepsOn(target, MaxCode(code));
  parts.row = row;
  parts.code = code;
  parts.row_scale = row_scale;
  parts.scale = scale;
  if (correction) {
    bool is_scaled = IsBinary(correction, BinaryOp::kMultiply) &&
                     IsBinary(correction->operands[0], BinaryOp::kMultiply) &&
                     correction->operands[0]->operands[1]->kind == ExprKind::kFloatConst;
    if (!is_scaled) return std::nullopt;
    parts.row_sum = correction->operands[0]->operands[0];
    (has_scales ? parts.zero : parts.minimum) = correction->operands[1];
  }
  auto is_uniform = [&](const Expr& e) { return !e || DependsOnFirst(e, sum.axes, parts.outer_axes); };
  while (!is_uniform(parts.row_scale) || !is_uniform(parts.scale) || !is_uniform(parts.row_sum) ||
         !is_uniform(parts.zero) || !is_uniform(parts.minimum)) {
    ++parts.outer_axes;
  }
  if (parts.outer_axes == sum.axes.size() || ShiftsAlong(code, sum.axes.back())) return std::nullopt;
  int64_t size = BlockSize(sum.axes, parts.outer_axes);
  // The mean of a block times its size is its sum.
  bool is_mean = !correction || correction->operands[0]->operands[1]->float_value * static_cast<double>(size) == 1;
  bool fits = size > 0 && is_mean && parts.depth_step > 0 && sum.axes.back().extent.constant() % parts.depth_step == 0;
  return fits ? std::optional(parts) : std::nullopt;
}

}  // namespace rvm::schedule
