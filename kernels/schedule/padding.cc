#include "kernels/schedule/padding.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/schedule/rewrite_tensors.h"
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

// The values of an index expression; nullopt if it is not a sum of multiples of variables, their quotients
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

// Whether all values are places of an axis of `extent`, provably.
bool Inside(const Range& range, const Dim& extent) {
  if (!range.least.is_const() || range.least.constant() < 0) return false;
  if (CompareDims(range.greatest + 1, extent) == DimEquality::kEqual) return true;
  return range.greatest.is_const() && extent.is_const() && range.greatest.constant() < extent.constant();
}

// Whether all values of `from` are values of `to`.
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

class PaddingHoister {
 public:
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
    for (const ExprNode* node : te::Postorder({body->operands[0]})) {
      if (node->kind != ExprKind::kSelect) continue;
      if (Expr read = PaddedRead(*node)) padded.done.emplace(node, read);
    }
    if (padded.done.empty()) return tensor;
    changed_ = true;
    TensorNode node = *tensor;
    node.body = pool_.Copy(body, padded);
    return Tensor(std::make_shared<const TensorNode>(std::move(node)));
  }

  // Returns the read of `select` from a padded tensor; null if it is no window over the edge of one.
  Expr PaddedRead(const ExprNode& select) {
    Expr otherwise = select.operands[2];
    bool is_constant = otherwise->kind == ExprKind::kIntConst || otherwise->kind == ExprKind::kFloatConst;
    // Integers are padded as they are stored, and widened where they are read.
    Expr stored = select.operands[1];
    while (stored->kind == ExprKind::kCast && otherwise->kind == ExprKind::kIntConst &&
           Widens(stored->operands[0].dtype(), stored->dtype) &&
           Holds(stored->operands[0].dtype(), otherwise->int_value)) {
      stored = stored->operands[0];
    }
    if (stored->dtype != select.dtype) otherwise = te::IntConst(stored->dtype, otherwise->int_value);
    Expr read = stored;
    while (read->kind == ExprKind::kCast) read = read->operands[0];
    if (read->kind != ExprKind::kRead || !is_constant) return Expr();
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
    Tensor padded = te::ComputeTensor("padded", stored->dtype, dims, [&](std::span<const Expr> i) {
      te::Rewrite place;
      for (size_t axis = 0; axis < first.size(); ++axis) {
        Expr here = pool_.Intern(*i[axis]);
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
      return te::Select(inside, value, otherwise);
    });
    return closed ? pool_.Intern(*te::Cast(select.dtype, pool_.Intern(*padded(at)))) : Expr();
  }

  te::ExprPool pool_;
  bool changed_ = false;
};

}  // namespace

te::Computation HoistPadding(const te::Computation& computation) { return PaddingHoister().Run(computation); }

}  // namespace rvm::schedule
