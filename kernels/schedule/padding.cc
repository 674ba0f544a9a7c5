#include "kernels/schedule/padding.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kernels/schedule/rewrite_tensors.h"
#include "kernels/schedule/tile_planner.h"
#include "kernels/schedule/windows.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::Tensor;
using te::TensorNode;

struct Range {
  Dim least, greatest;
};

// Returns the values of an index expression; nullopt if it is not a sum of multiples of variables, their quotients
// and remainders.
std::optional<Range> RangeOf(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kIntConst: return Range{e->int_value, e->int_value};
    case ExprKind::kDim: return Range{e->dim, e->dim};
    case ExprKind::kIndex: return Range{0, e->index.extent - 1};
    case ExprKind::kBinary: break;
    case ExprKind::kFloatConst:
    case ExprKind::kRead:
    case ExprKind::kUnary:
    case ExprKind::kSelect:
    case ExprKind::kCast:
    case ExprKind::kBitcast:
    case ExprKind::kReduce: return std::nullopt;
  }
  std::optional<Range> a = RangeOf(e->operands[0]), b = RangeOf(e->operands[1]);
  if (!a || !b) return std::nullopt;
  bool divides = e->binary == BinaryOp::kFloorDivide || e->binary == BinaryOp::kFloorMod;
  if (divides && b->least.is_const() && b->least == b->greatest && b->least.constant() > 0) {
    if (e->binary == BinaryOp::kFloorMod) return Range{0, b->least - 1};
    // The quotient of an axis of phases, whose extent is a multiple.
    Dim count = a->greatest + 1;
    if (e->operands[0]->kind == ExprKind::kIndex) count = e->operands[0]->index.extent;
    bool whole = FloorMod(count, b->least) == Dim(0);
    return Range{FloorDiv(a->least, b->least), whole ? FloorDiv(count, b->least) - 1 : FloorDiv(a->greatest, b->least)};
  }
  if (e->binary == BinaryOp::kAdd) return Range{a->least + b->least, a->greatest + b->greatest};
  if (e->binary == BinaryOp::kSubtract) return Range{a->least - b->greatest, a->greatest - b->least};
  if (e->binary != BinaryOp::kMultiply) return std::nullopt;
  if (e->operands[0]->kind == ExprKind::kIntConst) std::swap(a, b);
  if (!b->least.is_const() || b->least != b->greatest || b->least.constant() < 0) return std::nullopt;
  return Range{a->least * b->least, a->greatest * b->least};
}

// Returns whether all values are places of an axis of `extent`, provably.
bool Inside(const Range& range, const Dim& extent) {
  if (!range.least.is_const() || range.least.constant() < 0) return false;
  if (CompareDims(range.greatest + 1, extent) == DimEquality::kEqual) return true;
  return range.greatest.is_const() && extent.is_const() && range.greatest.constant() < extent.constant();
}

// Returns whether all values of `from` are values of `to`.
bool Widens(DataType from, DataType to) {
  if (!(from.is_int() || from.is_uint()) || !(to.is_int() || to.is_uint())) return false;
  return from.bits < to.bits && (from.is_uint() || to.is_int());
}

bool Holds(DataType dtype, int64_t value) {
  int64_t end = int64_t{1} << (dtype.is_uint() ? dtype.bits : dtype.bits - 1);
  return value < end && value >= (dtype.is_uint() ? 0 : -end);
}

size_t CountVariables(const std::vector<Expr>& roots) {
  size_t variables = 0;
  for (const ExprNode* node : te::Postorder(roots)) variables += node->kind == ExprKind::kIndex;
  return variables;
}

// The greatest distance of neighbouring windows for which columns are split by their remainder.
constexpr int64_t kMaxPhases = 4;
// Sums of fewer products do not make up for splitting rows that are short for the widest vectors.
constexpr int64_t kMinWideDepth = 16;
constexpr int64_t kWideVectorBits = 512;

// Returns whether the read is the image of a depthwise convolution of floats: no two results share a window, so that
// vectors run along the rows of the image.
bool IsDepthwise(const TensorNode& tensor, const std::vector<Expr>& at) {
  const ExprNode& reduce = *tensor.body;
  const Expr& product = reduce.operands[0];
  if (reduce.reduce != te::ReduceOp::kSum || product->kind != ExprKind::kBinary) return false;
  if (product->binary != BinaryOp::kMultiply || !product.dtype().is_float()) return false;
  for (const te::IndexVar& axis : tensor.axes) {
    bool depends = std::any_of(at.begin(), at.end(), [&](const Expr& index) { return te::DependsOn(index, axis.id); });
    if (axis.extent != Dim(1) && !depends) return false;
  }
  // Windows overlap: an axis of the reduction whose positions do not, between neighbouring results, is one of channels.
  for (const te::IndexVar& step : reduce.axes) {
    for (const Expr& index : at) {
      int64_t by_step = te::Stride(index, step.id).value_or(0), reach = step.extent.AsConst().value_or(0) * by_step;
      if (step.extent == Dim(1) || !te::DependsOn(index, step.id)) continue;
      bool overlaps = std::any_of(tensor.axes.begin(), tensor.axes.end(), [&](const te::IndexVar& axis) {
        int64_t stride = te::Stride(index, axis.id).value_or(0);
        return stride > 0 && stride < reach;
      });
      if (!overlaps) return false;
    }
  }
  return true;
}

// Returns whether the tensor, where its readers compute it, and what it reads in turn, read others only at the position
// that is computed, without choices.
bool IsElementwise(const Tensor& root) {
  absl::flat_hash_set<const TensorNode*> seen;
  std::vector<Tensor> open = {root};
  while (!open.empty()) {
    const Tensor tensor = std::move(open.back());
    open.pop_back();
    bool is_stored = tensor->kind != te::TensorKind::kCompute || tensor->is_stored || tensor->self ||
                     tensor->is_ordered || tensor->body->kind == ExprKind::kReduce;
    if (is_stored || !seen.insert(tensor.get()).second) continue;
    for (const ExprNode* node : te::Postorder({tensor->body})) {
      if (node->kind == ExprKind::kSelect) return false;
      if (node->kind != ExprKind::kRead) continue;
      for (const Expr& index : node->operands) {
        bool is_last = &index == &node->operands.back();
        bool is_along = index->kind == ExprKind::kIndex && index->index.id == tensor->axes.back().id;
        if (index->kind != ExprKind::kIndex && index->kind != ExprKind::kIntConst) return false;
        if (is_along && !is_last) return false;
      }
      open.push_back(node->tensor);
    }
  }
  return true;
}

// Returns whether the reduction folds windows along rows of a tensor, without a padded copy.
bool FoldsRows(te::ExprPool& pool, const TensorNode& tensor, const ExprNode& reduce) {
  std::optional<Windows> windows = FindWindows(pool, tensor.axes, reduce);
  if (!windows) return false;
  for (const ExprNode* node : te::Postorder({windows->value})) {
    if (node->kind != ExprKind::kRead) continue;
    for (const Expr& index : node->operands) {
      bool is_last = &index == &node->operands.back();
      if (te::Stride(index, windows->place.id) != int64_t{is_last}) return false;
    }
    if (!IsElementwise(node->tensor)) return false;
  }
  return true;
}

class PaddingHoister {
 public:
  explicit PaddingHoister(const Target& target) : target_(target) {}

  te::Computation Run(const te::Computation& computation) {
    te::Computation result =
        RewriteTensors(computation, pool_, [this](const Tensor& tensor) { return WithPaddedReads(tensor); });
    return changed_ ? result : computation;
  }

 private:
  Tensor WithPaddedReads(const Tensor& tensor) {
    if (tensor->body->kind != ExprKind::kReduce) return tensor;
    te::Rewrite same, padded;
    Expr body = pool_.Copy(tensor->body, same);  // in which equal windows are one node
    if (FoldsRows(pool_, *tensor, *body)) return tensor;
    for (const ExprNode* node : te::Postorder({body->operands[0]})) {
      if (node->kind != ExprKind::kSelect) continue;
      if (Expr read = PaddedRead(*node, *tensor)) padded.done.emplace(node, read);
    }
    if (padded.done.empty()) ReadInWholeSteps(*body, *tensor, padded);
    if (padded.done.empty()) return tensor;
    changed_ = true;
    TensorNode node = *tensor;
    node.body = pool_.Copy(body, padded);
    return Tensor(std::make_shared<const TensorNode>(std::move(node)));
  }

  // Reads an image without padding from a copy, too, if the rows of its windows are no whole steps of bytes.
  void ReadInWholeSteps(const ExprNode& reduce, const TensorNode& tensor, te::Rewrite& padded) {
    for (const ExprNode* node : te::Postorder({reduce.operands[0]})) {
      if (node->kind != ExprKind::kCast || node->operands[0]->kind != ExprKind::kRead) continue;
      const ExprNode& read = *node->operands[0];
      if (BehindRows(tensor, read.operands, read.tensor.dims(), read.dtype).count == 0) continue;
      Expr always = te::Select(te::IntConst(kBool, 1), pool_.Intern(*node), te::IntConst(node->dtype, 0));
      if (Expr copy = PaddedRead(*always, tensor)) padded.done.emplace(node, copy);
    }
  }

  // Splits the columns that windows of a depthwise convolution read into phases, by their remainder by the distance of
  // neighbouring windows: what these read at one step are then neighbours in memory. Changes the extents, and the
  // indices of the read. Returns the number of phases.
  int64_t SplitPhases(const TensorNode& reader, Dims& dims, std::vector<Expr>& at) {
    if (!dims.back().is_const() || reader.axes.empty() || !IsDepthwise(reader, at)) return 1;
    const te::IndexVar& column = reader.axes.back();
    int64_t stride = te::Stride(at.back(), column.id).value_or(0);
    if (stride < 2 || stride > kMaxPhases) return 1;
    int64_t depth = te::NumPositions(reader.body->axes).AsConst().value_or(0);
    bool fills_wide = target_.vector_bits >= kWideVectorBits &&
                      column.extent.AsConst().value_or(0) * 2 >= target_.Lanes(reader.dtype);
    if (fills_wide && depth < kMinWideDepth) return 1;
    dims.back() = (dims.back().constant() + stride - 1) / stride;
    dims.insert(dims.end() - 1, Dim(stride));
    te::Rewrite at_first;
    at_first.variables[column.id] = pool_.Intern(*te::Index(0));
    Expr rest = pool_.Copy(at.back(), at_first), phases = pool_.Intern(*te::Index(stride));
    at.back() = pool_.Binary(BinaryOp::kFloorMod, rest, phases);
    at.push_back(
        pool_.Binary(BinaryOp::kAdd, pool_.Variable(column), pool_.Binary(BinaryOp::kFloorDivide, rest, phases)));
    return stride;
  }

  // Positions behind an axis of a padded tensor.
  struct Behind {
    size_t axis = 0;
    int64_t count = 0;
  };

  // Returns how many positions a row of a window of `at` has less than whole steps of bytes, along the last axis of the
  // image, or as columns before its channels. The row runs along the last axis.
  Behind BehindRows(const TensorNode& reader, const std::vector<Expr>& at, const Dims& dims, DataType stored) const {
    const te::IndexVar& innermost = reader.body->axes.back();
    if (stored.bits != 8 || reader.dtype != kInt32 || !innermost.extent.is_const()) return {};
    const int64_t step = target_.has_pair_products ? DepthStep(target_, stored, stored) : 1;
    const size_t last = at.size() - 1;
    for (const te::IndexVar& axis : reader.body->axes) {
      if (axis.extent.AsConst().value_or(1) % step != 0) continue;
      for (size_t i = 0; i < at.size(); ++i) {
        const bool is_along = te::Stride(at[i], axis.id) == int64_t{1};
        if (is_along && (i == last || at[i]->kind == ExprKind::kIndex))
          return {};  // PairDepth takes steps of that axis
      }
    }
    const int64_t count = (step - innermost.extent.constant() % step) % step;
    if (te::Stride(at[last], innermost.id) != int64_t{1}) return {};
    if (CountVariables({at[last]}) > 1) return {last, count};
    // Behind the channels of a pixel are those of the next one.
    const bool has_all = last > 0 && innermost.extent == dims[last] && innermost.extent.constant() < kMinDepthOfBytes;
    if (!has_all || CountVariables({at[last - 1]}) <= 1) return {};
    return {last - 1, (count + innermost.extent.constant() - 1) / innermost.extent.constant()};
  }

  // Returns whether a copy with a border of that constant holds the elements before they are widened.
  bool IsPaddedAsStored(DataType from, DataType to, const ExprNode& border) const {
    if (border.kind == ExprKind::kIntConst) return Widens(from, to) && Holds(from, border.int_value);
    const bool is_zero = border.kind == ExprKind::kFloatConst && border.float_value == 0;
    return is_zero && from == kBFloat16 && to == kFloat32 && target_.has_bfloat_matrices;
  }

  // Returns the read of `select` from a padded tensor; null if it is no window over the edge of one.
  Expr PaddedRead(const ExprNode& select, const TensorNode& reader) {
    Expr otherwise = select.operands[2];
    const bool is_scalar = otherwise->kind == ExprKind::kRead && otherwise->tensor.dims().empty();
    const bool is_fixed =
        is_scalar || otherwise->kind == ExprKind::kIntConst || otherwise->kind == ExprKind::kFloatConst;
    // Integers are padded as they are stored, and widened where they are read. So is bfloat16 that is multiplied as it
    // is.
    Expr stored = select.operands[1];
    while (stored->kind == ExprKind::kCast &&
           IsPaddedAsStored(stored->operands[0].dtype(), stored->dtype, *otherwise)) {
      stored = stored->operands[0];
    }
    const bool is_integer = otherwise->kind == ExprKind::kIntConst;
    const double border = is_integer ? static_cast<double>(otherwise->int_value) : otherwise->float_value;
    if (stored->dtype != select.dtype) otherwise = te::Const(stored->dtype, border);
    Expr read = stored;
    while (read->kind == ExprKind::kCast) read = read->operands[0];
    if (read->kind != ExprKind::kRead || !is_fixed) return Expr();
    // Axes along which windows slide or hang over are padded as far as they reach; the others stay as they are.
    Dims dims = read->tensor.dims();
    std::vector<Expr> at = read->operands, first(at.size());
    bool slides = false;
    for (size_t i = 0; i < at.size(); ++i) {
      std::optional<Range> range = RangeOf(at[i]);
      if (!range) return Expr();
      if (CountVariables({at[i]}) <= 1 && Inside(*range, dims[i])) continue;
      slides = true;
      dims[i] = Max(range->greatest - range->least + 1, 0);
      first[i] = pool_.Intern(*te::DimValue(range->least));
      at[i] = pool_.Binary(BinaryOp::kSubtract, at[i], first[i]);
    }
    if (!slides) return Expr();
    bool closed = true;
    size_t last = at.size() - 1;
    const Behind behind = BehindRows(reader, at, dims, stored->dtype);
    const size_t ended = behind.count > 0 ? behind.axis : last;  // the axis that has more than windows cover
    Dim width = dims[ended];
    dims[ended] = dims[ended] + behind.count;
    int64_t phases = first[last] ? SplitPhases(reader, dims, at) : 1;
    Tensor padded = te::ComputeTensor("padded", stored->dtype, dims, [&](std::span<const Expr> i) {
      te::Rewrite place;
      Expr in_row;
      for (size_t axis = 0; axis < first.size(); ++axis) {
        Expr here = pool_.Intern(*i[axis]);
        if (axis == last && phases > 1) {
          Expr column = pool_.Binary(BinaryOp::kMultiply, pool_.Intern(*i[axis + 1]), pool_.Intern(*te::Index(phases)));
          here = pool_.Binary(BinaryOp::kAdd, column, here);
        }
        if (axis == ended && (phases > 1 || behind.count > 0)) {
          in_row = pool_.Intern(*te::Binary(BinaryOp::kLess, here, pool_.Extent(width)));
        }
        if (first[axis]) here = pool_.Binary(BinaryOp::kAdd, here, first[axis]);
        place.done.emplace(read->operands[axis].get(), here);
      }
      Expr inside = pool_.Copy(select.operands[0], place), value = pool_.Copy(stored, place);
      // All that it depends on must be the place in the tensor.
      for (const ExprNode* node : te::Postorder({inside, value})) {
        bool own = node->kind != ExprKind::kIndex || std::any_of(i.begin(), i.end(), [&](const Expr& index) {
                     return index->index.id == node->index.id;
                   });
        closed = closed && own;
      }
      if (in_row) inside = pool_.Intern(*te::Binary(BinaryOp::kAnd, inside, in_row));
      return te::Select(inside, value, otherwise);
    });
    return closed ? pool_.Intern(*te::Cast(select.dtype, pool_.Intern(*padded(at)))) : Expr();
  }

  const Target& target_;
  te::ExprPool pool_;
  bool changed_ = false;
};

}  // namespace

te::Computation HoistPadding(const te::Computation& computation, const Target& target) {
  return PaddingHoister(target).Run(computation);
}

}  // namespace rvm::schedule
