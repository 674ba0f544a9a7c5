#include "kernels/schedule/stored_factors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "kernels/schedule/rewrite_tensors.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::Tensor;
using te::TensorKind;

// Bits of a number of the dtype before it is rounded, without its sign; 0: not known.
int DigitsOf(DataType dtype) {
  if (dtype == kFloat64) return 53;
  if (dtype == kFloat32) return 24;
  if (dtype == kFloat16) return 11;
  if (dtype == kBFloat16) return 8;
  return dtype.is_int() ? dtype.bits - 1 : dtype.is_uint() ? dtype.bits : 0;
}

// Every value of `from` is one of `to`.
bool Holds(DataType to, DataType from) {
  if (from == to) return true;
  bool from_float = from.is_float(), to_float = to.is_float();
  if (from.is_bool() || to.is_bool() || DigitsOf(from) == 0 || DigitsOf(to) < DigitsOf(from)) return false;
  if (from_float) return to_float && to.bits > from.bits;
  // The greatest of float16 has 16 bits, and no integer that fits its digits has more.
  return to_float || to.is_int() || from.is_uint();
}

// Returns a conversion of `e`, without one that it undoes or goes on with.
Expr Converted(te::ExprPool& pool, DataType to, Expr e) {
  while (e->kind == ExprKind::kCast && Holds(e->dtype, e->operands[0].dtype())) e = e->operands[0];
  return pool.Intern(*te::Cast(to, e));
}

class FactorReader {
 public:
  FactorReader(te::ExprPool& pool, const std::vector<bool>& may_read)
      : pool_(pool), may_read_(may_read), read_(may_read.size(), false) {}

  Tensor Run(const Tensor& tensor) {
    const ExprNode& sum = *tensor->body;
    if (sum.kind != ExprKind::kReduce || sum.reduce != te::ReduceOp::kSum) return tensor;
    const Expr& product = sum.operands[0];
    if (product->kind != ExprKind::kBinary || product->binary != te::BinaryOp::kMultiply) return tensor;
    ExprNode changed = *product;
    bool changes = false;
    Expr expansion;
    for (Expr& factor : changed.operands) {
      // Constants stay as they are.
      if (!ReadsComputed(factor)) continue;
      if (std::optional<Expr> stored = StoredRead(factor)) {
        factor = *stored;
      } else if (Expr expanded = Expanded(factor)) {
        factor = expansion = expanded;
      } else {
        continue;
      }
      NoteReads(factor);
      changes = true;
    }
    if (!changes) return tensor;
    ExprNode body = sum;
    body.operands = {pool_.Intern(std::move(changed))};
    te::TensorNode node = *tensor;
    node.body = expansion ? WithSplitAxes(body, expansion) : pool_.Intern(std::move(body));
    return Tensor(std::make_shared<const te::TensorNode>(std::move(node)));
  }

  const std::vector<bool>& read() const { return read_; }

 private:
  static bool ReadsComputed(const Expr& e) {
    for (const ExprNode* node : te::Postorder({e})) {
      if (node->kind == ExprKind::kRead && node->tensor->kind == TensorKind::kCompute) return true;
    }
    return false;
  }

  // Returns the factor as a read of a constant input, or as a conversion of one that tiles do; nullopt if it is
  // something else.
  std::optional<Expr> StoredRead(const Expr& factor) {
    std::optional<Expr> stored = Stored(factor);
    if (!stored || stored->dtype() != factor.dtype()) return std::nullopt;
    const Expr read = (*stored)->kind == ExprKind::kCast ? StoredFactor(*stored) : *stored;
    return read && read->kind == ExprKind::kRead ? stored : std::nullopt;
  }

  void NoteReads(const Expr& factor) {
    for (const ExprNode* node : te::Postorder({factor})) {
      if (node->kind == ExprKind::kRead) read_[static_cast<size_t>(node->tensor->input_index)] = true;
    }
  }

  // Returns the factor as arithmetic on elements of constant inputs, each of which is read at one place; null if it is
  // something else, or the largest of them are as wide as the factor.
  Expr Expanded(const Expr& factor) {
    if (factor.dtype() != kFloat32) return Expr();
    int budget = kMaxExpanded;
    Expr expanded = Inlined(factor, budget);
    if (!expanded || !IsExpansion(expanded)) return Expr();
    absl::flat_hash_set<const te::TensorNode*> tensors;
    int64_t narrow = 0, wide = 0;
    for (const ExprNode* node : te::Postorder({expanded})) {
      if (node->kind != ExprKind::kRead) continue;
      std::optional<Shape> shape = StaticShape(node->tensor.dims());
      if (!shape || !tensors.insert(node->tensor.get()).second) return Expr();
      int64_t& largest = node->dtype.bits < factor.dtype().bits ? narrow : wide;
      largest = std::max(largest, NumElements(*shape).value_or(0));
    }
    return narrow > wide ? expanded : Expr();
  }

  // The expression with the definitions of computed tensors in place of reads of them; null if they are no arithmetic
  // on elements of constant inputs. `budget`: how many may be inlined.
  Expr Inlined(const Expr& e, int& budget) {
    bool fails = false;
    te::Rewrite rewrite;
    rewrite.read = [&](const Tensor& tensor, std::vector<Expr> at) {
      if (tensor->kind == TensorKind::kInput) {
        fails |= !MayRead(static_cast<size_t>(tensor->input_index));
        return pool_.Intern(*tensor(at));
      }
      fails |= !IsInlinable(tensor) || --budget < 0;
      if (fails) return pool_.Intern(*te::Const(tensor.dtype(), 0));
      te::Rewrite inner;
      for (size_t i = 0; i < tensor->axes.size(); ++i) inner.variables[tensor->axes[i].id] = at[i];
      inner.read = rewrite.read;
      return pool_.Copy(tensor->body, inner);
    };
    Expr inlined = pool_.Copy(e, rewrite);
    return fails ? Expr() : inlined;
  }

  static bool IsInlinable(const Tensor& tensor) {
    return tensor->kind == TensorKind::kCompute && !tensor->is_stored && !tensor->self && !tensor->is_ordered &&
           tensor->body->kind != ExprKind::kReduce;
  }

  // Returns the sum over axes that are split where `factor` divides them by constants.
  Expr WithSplitAxes(const ExprNode& sum, const Expr& factor) {
    // Extents of the axes that stand for each axis of the sum, outermost first.
    std::vector<std::vector<Dim>> parts;
    std::vector<Dim> extents;
    for (const te::IndexVar& axis : sum.axes) {
      parts.push_back({});
      Dim rest = axis.extent;
      for (int64_t divisor : DivisorsOf(factor, axis)) {
        if (!rest.is_const() || rest.constant() % divisor != 0 || rest.constant() == divisor) continue;
        parts.back().push_back(FloorDiv(rest, divisor));
        rest = divisor;
      }
      parts.back().push_back(rest);
      extents.insert(extents.end(), parts.back().begin(), parts.back().end());
    }
    Expr split = te::Reduce(te::ReduceOp::kSum, extents, [&](std::span<const Expr> at) {
      te::Rewrite rewrite;
      size_t next = 0;
      for (size_t i = 0; i < parts.size(); ++i) {
        Expr position;
        int64_t below = 1;  // positions of the axes inside of the next one
        for (size_t j = 1; j < parts[i].size(); ++j) below *= parts[i][j].constant();
        for (size_t j = 0; j < parts[i].size(); ++j) {
          if (j > 0) below /= parts[i][j].constant();
          Expr term = pool_.Binary(te::BinaryOp::kMultiply, pool_.Intern(*at[next++]), pool_.Extent(below));
          position = position ? pool_.Binary(te::BinaryOp::kAdd, position, term) : term;
        }
        rewrite.variables[sum.axes[i].id] = position;
      }
      return pool_.Copy(sum.operands[0], rewrite);
    });
    return pool_.Intern(*split);
  }

  // Returns the constants that `e` divides the axis by, each a multiple of the next one, largest first.
  static std::vector<int64_t> DivisorsOf(const Expr& e, const te::IndexVar& axis) {
    std::set<int64_t, std::greater<>> divisors;
    for (const ExprNode* node : te::Postorder({e})) {
      bool divides = node->kind == ExprKind::kBinary && node->operands[1]->kind == ExprKind::kIntConst &&
                     (node->binary == te::BinaryOp::kFloorDivide || node->binary == te::BinaryOp::kFloorMod);
      if (divides && node->operands[0]->kind == ExprKind::kIndex && node->operands[0]->index.id == axis.id) {
        if (node->operands[1]->int_value > 1) divisors.insert(node->operands[1]->int_value);
      }
    }
    return {divisors.begin(), divisors.end()};
  }

  // Returns the expression as a read of a constant input, or as conversions of one; nullopt if it is something else.
  std::optional<Expr> Stored(Expr e) {
    std::vector<DataType> casts;
    while (e->kind == ExprKind::kCast) {
      casts.push_back(e->dtype);
      e = e->operands[0];
    }
    if (e->kind != ExprKind::kRead) return std::nullopt;
    const Tensor& tensor = e->tensor;
    Expr stored = e;
    if (tensor->kind == TensorKind::kCompute) {
      if (tensor->is_stored || tensor->self || tensor->is_ordered || tensor->body->kind == ExprKind::kReduce) {
        return std::nullopt;
      }
      te::Rewrite at;
      for (size_t i = 0; i < tensor->axes.size(); ++i) at.variables[tensor->axes[i].id] = pool_.Intern(*e->operands[i]);
      std::optional<Expr> inner = Stored(pool_.Copy(tensor->body, at));
      if (!inner) return std::nullopt;
      stored = *inner;
    } else if (tensor->kind != TensorKind::kInput || !MayRead(static_cast<size_t>(tensor->input_index))) {
      return std::nullopt;
    }
    for (size_t i = casts.size(); i-- > 0;) stored = Converted(pool_, casts[i], stored);
    return stored;
  }

  // Tensors that a factor may be computed by.
  static constexpr int kMaxExpanded = 16;

  bool MayRead(size_t input) const { return input < may_read_.size() && may_read_[input]; }

  te::ExprPool& pool_;
  const std::vector<bool>& may_read_;
  std::vector<bool> read_;
};

}  // namespace

Expr StoredFactor(const Expr& factor) {
  if (factor->kind != ExprKind::kCast) return Expr();
  const DataType from = factor->operands[0].dtype();
  const bool widens = factor->dtype.is_float() && !from.is_bool() && from.bytes() <= factor->dtype.bytes();
  return widens || (factor->dtype == kInt32 && from.is_integral() && !from.is_bool() && from.bits < 32)
             ? factor->operands[0]
             : Expr();
}

bool IsConstantInput(const Tensor& tensor, const std::vector<bool>& constant_inputs) {
  if (tensor->kind != TensorKind::kInput) return false;
  const auto input = static_cast<size_t>(tensor->input_index);
  return input < constant_inputs.size() && constant_inputs[input];
}

Expr ElementOf(const Expr& factor, const Target& target) {
  const Expr element = factor->kind == ExprKind::kCast ? factor->operands[0] : Expr();
  if (!element || factor.dtype() != kFloat32) return factor;
  const bool is_cheap = element.dtype() == kBFloat16 || (element.dtype() == kFloat16 && target.has_half_conversions);
  return is_cheap && target.has_vectors ? element : factor;
}

namespace {

bool HasRead(const Expr& e) {
  std::vector<const ExprNode*> nodes = te::Postorder({e});
  return std::any_of(nodes.begin(), nodes.end(), [](const ExprNode* node) { return node->kind == ExprKind::kRead; });
}

bool IsNarrowInteger(DataType dtype) { return dtype.is_integral() && !dtype.is_bool() && dtype.bits <= 16; }

// Returns whether a tile evaluates the cast of a vector: of integers that it holds in 32 bits, or to float32.
bool IsVectorCast(DataType from, DataType to) {
  if (to == kFloat32) return from.is_small_float() || IsNarrowInteger(from) || from == kInt32;
  bool holds = from.is_uint() ? to.bits > from.bits : to.is_int() && to.bits >= from.bits;
  return IsNarrowInteger(from) && to.is_integral() && !to.is_bool() && to.bits <= 32 && to != kUInt32 && holds;
}

// Returns whether the amount of a shift is an index that is below `bits` at each position.
bool IsShiftBelow(const Expr& amount, int bits) {
  const Expr& index = amount->kind == ExprKind::kCast ? amount->operands[0] : amount;
  te::ExprPool pool;
  te::Rewrite rewrite;
  return !HasRead(amount) && index.dtype() == kInt64 && pool.IsBelow(pool.Copy(index, rewrite), pool.Extent(bits));
}

bool IsVectorBinary(const ExprNode& e) {
  using te::BinaryOp;
  const bool is_integer = IsNarrowInteger(e.dtype) || e.dtype == kInt32;
  if (e.binary == BinaryOp::kAdd || e.binary == BinaryOp::kSubtract || e.binary == BinaryOp::kMultiply) {
    return e.dtype == kFloat32 || e.dtype == kInt32;
  }
  if (e.binary == BinaryOp::kAnd || e.binary == BinaryOp::kOr || e.binary == BinaryOp::kXor) return is_integer;
  return e.binary == BinaryOp::kShiftRight && is_integer && IsShiftBelow(e.operands[1], e.dtype.bits);
}

}  // namespace

bool IsExpansion(const Expr& factor) {
  if (factor.dtype() != kFloat32 || factor->kind == ExprKind::kRead) return false;
  std::vector<const ExprNode*> rest = {factor.get()};
  while (!rest.empty()) {
    const ExprNode* e = rest.back();
    rest.pop_back();
    if (e->kind == ExprKind::kRead) {
      bool fits = e->dtype == kFloat32 || e->dtype.is_small_float() || IsNarrowInteger(e->dtype);
      if (!fits || std::any_of(e->operands.begin(), e->operands.end(), HasRead)) return false;
      continue;
    }
    bool fits = (e->kind == ExprKind::kCast && IsVectorCast(e->operands[0].dtype(), e->dtype)) ||
                (e->kind == ExprKind::kBinary && IsVectorBinary(*e));
    if (!fits) return false;
    for (const Expr& operand : e->operands) {
      if (HasRead(operand)) rest.push_back(operand.get());
    }
  }
  return true;
}

te::Computation ReadStoredFactors(const te::Computation& computation, std::vector<bool>& may_read) {
  te::ExprPool pool;
  FactorReader reader(pool, may_read);
  te::Computation result = RewriteTensors(computation, pool, [&](const Tensor& tensor) { return reader.Run(tensor); });
  may_read = reader.read();
  return result;
}

}  // namespace rvm::schedule
