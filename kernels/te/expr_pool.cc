#include "kernels/te/expr_pool.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"

namespace rvm::te {
namespace {

bool IsConst(const Expr& e) { return e->kind == ExprKind::kIntConst; }
bool IsBinary(const Expr& e, BinaryOp op) { return e->kind == ExprKind::kBinary && e->binary == op; }

bool IsZero(const Expr& e) { return IsConst(e) && e->int_value == 0; }

Expr Bool(bool value) { return IntConst(kBool, value); }

constexpr int kNestedBounds = 8;
constexpr int kNestedTerms = 8;

// Returns an upper bound of index arithmetic whose terms are all non-negative, looking `depth` operators deep; nullopt
// if none is known.
std::optional<int64_t> UpperBound(const Expr& e, int depth) {
  if (e->kind == ExprKind::kIndex && e->index.extent.is_const()) return e->index.extent.constant() - 1;
  if (IsConst(e) && e->int_value >= 0) return e->int_value;
  bool is_sum = IsBinary(e, BinaryOp::kAdd), is_product = IsBinary(e, BinaryOp::kMultiply);
  bool is_minimum = IsBinary(e, BinaryOp::kMinimum);
  if (depth > 0 && IsBinary(e, BinaryOp::kFloorDivide) && IsConst(e->operands[1]) && e->operands[1]->int_value > 0) {
    std::optional<int64_t> dividend = UpperBound(e->operands[0], depth - 1);
    return dividend && *dividend >= 0 ? std::optional(*dividend / e->operands[1]->int_value) : std::nullopt;
  }
  if (IsBinary(e, BinaryOp::kFloorMod) && IsConst(e->operands[1]) && e->operands[1]->int_value > 0) {
    return e->operands[1]->int_value - 1;
  }
  if ((!is_sum && !is_product && !is_minimum) || depth == 0) return std::nullopt;
  std::optional<int64_t> a = UpperBound(e->operands[0], depth - 1), b = UpperBound(e->operands[1], depth - 1);
  if (!a || !b || *a < 0 || *b < 0) return std::nullopt;
  if (is_minimum) return std::min(*a, *b);
  int64_t bound = 0;
  bool overflows = is_sum ? __builtin_add_overflow(*a, *b, &bound) : __builtin_mul_overflow(*a, *b, &bound);
  return overflows ? std::nullopt : std::optional(bound);
}

}  // namespace

int64_t ExprPool::DimNumber(const Dim& dim) {
  std::string text = CanonicalText(dim);
  if (text.empty()) return num_dims_++;
  auto [found, is_new] = dims_.try_emplace(std::move(text), num_dims_);
  if (is_new) ++num_dims_;
  return found->second;
}

bool ExprPool::IsExtent(const Expr& e, const Dim& dim) {
  if (IsConst(e)) return dim.is_const() && dim.constant() == e->int_value;
  return e->kind == ExprKind::kDim && CompareDims(e->dim, dim) == DimEquality::kEqual;
}

bool ExprPool::IsBelow(const Expr& e, const Expr& bound) {
  if (e->kind == ExprKind::kIndex && IsExtent(bound, e->index.extent)) return true;
  if (IsConst(bound)) {
    std::optional<int64_t> most = UpperBound(e, kNestedBounds);
    if (most) return *most < bound->int_value;
  }
  return IsBinary(e, BinaryOp::kFloorMod) && e->operands[1].get() == bound.get() && IsNonNegative(bound);
}

Expr ExprPool::Variable(const IndexVar& variable) {
  ExprNode node{.kind = ExprKind::kIndex, .dtype = kInt64};
  node.index = variable;
  return Intern(std::move(node));
}

Expr ExprPool::Extent(const Dim& dim) { return Intern(*DimValue(dim)); }

Expr ExprPool::Binary(BinaryOp op, const Expr& a, const Expr& b) { return Intern(*te::Binary(op, a, b)); }

Expr ExprPool::Offset(const Dims& dims, const std::vector<Expr>& indices) {
  Expr offset = Intern(*Index(0));
  for (size_t i = 0; i < indices.size(); ++i) {
    offset = Binary(BinaryOp::kMultiply, offset, Extent(dims[i]));
    offset = Binary(BinaryOp::kAdd, offset, indices[i]);
  }
  return offset;
}

Expr ExprPool::SafeRead(const Tensor& tensor, const std::vector<Expr>& indices) {
  ExprNode read{.kind = ExprKind::kRead, .dtype = tensor.dtype()};
  read.tensor = tensor;
  read.operands = {Offset(tensor.dims(), indices)};
  read.int_value = kReadIsSafe;
  return Intern(std::move(read));
}

// Splits the terms of a sum, looking `depth` additions deep, into those that `divisor` divides and the others.
ExprPool::Division ExprPool::Divide(const Expr& e, int64_t divisor, int depth) {
  if (IsConst(e) && e->int_value % divisor == 0) return {Intern(*Index(e->int_value / divisor)), Expr()};
  bool is_multiple =
      IsBinary(e, BinaryOp::kMultiply) && IsConst(e->operands[1]) && e->operands[1]->int_value % divisor == 0;
  if (is_multiple) {
    int64_t factor = e->operands[1]->int_value / divisor;
    return {factor == 1 ? e->operands[0] : Binary(BinaryOp::kMultiply, e->operands[0], Intern(*Index(factor))), Expr()};
  }
  if (depth > 0 && IsBinary(e, BinaryOp::kMultiply) && IsConst(e->operands[1]) && e->operands[1]->int_value > 1 &&
      divisor % e->operands[1]->int_value == 0) {
    // (q * (d / c) + r) * c = q * d + r * c
    Division scaled = Divide(e->operands[0], divisor / e->operands[1]->int_value, depth - 1);
    if (scaled.rest) scaled.rest = Binary(BinaryOp::kMultiply, scaled.rest, e->operands[1]);
    return scaled;
  }
  if (!IsBinary(e, BinaryOp::kAdd) || depth == 0) return {Expr(), e};
  Division a = Divide(e->operands[0], divisor, depth - 1), b = Divide(e->operands[1], divisor, depth - 1);
  auto sum = [&](const Expr& x, const Expr& y) { return !x ? y : !y ? x : Binary(BinaryOp::kAdd, x, y); };
  return {sum(a.quotient, b.quotient), sum(a.rest, b.rest)};
}

// Returns a simpler expression, or null if there is none.
Expr ExprPool::Simplify(const ExprNode& node) {
  if (node.kind == ExprKind::kSelect && IsConst(node.operands[0])) {
    return node.operands[node.operands[0]->int_value != 0 ? 1 : 2];
  }
  if (node.kind == ExprKind::kSelect && node.operands[1].get() == node.operands[2].get()) return node.operands[1];
  if (node.kind != ExprKind::kBinary || node.operands[0].dtype() != kInt64) return Expr();
  const Expr &a = node.operands[0], &b = node.operands[1];
  bool constants = IsConst(a) && IsConst(b);
  switch (node.binary) {
    case BinaryOp::kEqual: return constants ? Intern(*Bool(a->int_value == b->int_value)) : Expr();
    case BinaryOp::kLess: return constants ? Intern(*Bool(a->int_value < b->int_value)) : Expr();
    case BinaryOp::kMultiply:
      if (IsConst(a) || (a->kind == ExprKind::kDim && b->kind == ExprKind::kIndex)) {
        if (!IsConst(b)) return Binary(BinaryOp::kMultiply, b, a);
      }
      return Expr();
    case BinaryOp::kAdd: {
      // (L / E) * E + L % E = L, and (P + L / E) * E + L % E = P * E + L
      if (!IsBinary(a, BinaryOp::kMultiply) || !IsBinary(b, BinaryOp::kFloorMod)) return Expr();
      const Expr &factor = a->operands[0], &divisor = b->operands[1];
      const bool is_sum = IsBinary(factor, BinaryOp::kAdd);
      const Expr& quotient = is_sum ? factor->operands[1] : factor;
      bool same = IsBinary(quotient, BinaryOp::kFloorDivide) && a->operands[1].get() == divisor.get() &&
                  quotient->operands[1].get() == divisor.get() && quotient->operands[0].get() == b->operands[0].get();
      if (!same || (IsConst(divisor) && divisor->int_value == 0) || !IsNonNegative(divisor)) return Expr();
      if (!is_sum) return b->operands[0];
      return Binary(BinaryOp::kAdd, Binary(BinaryOp::kMultiply, factor->operands[0], divisor), b->operands[0]);
    }
    case BinaryOp::kFloorDivide:
    case BinaryOp::kFloorMod: {
      bool divide = node.binary == BinaryOp::kFloorDivide;
      if (IsConst(b) && b->int_value == 1) return divide ? a : Intern(*Index(0));
      if (IsBelow(a, b)) return divide ? Intern(*Index(0)) : a;
      bool divides_again = divide && IsConst(b) && b->int_value > 0 && IsBinary(a, BinaryOp::kFloorDivide) &&
                           IsConst(a->operands[1]) && a->operands[1]->int_value > 0;
      int64_t both = 0;
      if (divides_again && !__builtin_mul_overflow(a->operands[1]->int_value, b->int_value, &both)) {
        return Binary(BinaryOp::kFloorDivide, a->operands[0], Intern(*Index(both)));
      }
      if (IsConst(b) && b->int_value > 0 && IsBinary(a, BinaryOp::kAdd)) {
        Division parts = Divide(a, b->int_value, kNestedTerms);
        if (!parts.quotient) return Expr();
        Expr rest = parts.rest ? Binary(node.binary, parts.rest, b) : Intern(*Index(0));
        if (!divide) return rest;
        return IsZero(rest) ? parts.quotient : Binary(BinaryOp::kAdd, parts.quotient, rest);
      }
      if (!IsBinary(a, BinaryOp::kAdd) || !IsBinary(a->operands[0], BinaryOp::kMultiply)) return Expr();
      bool split = a->operands[0]->operands[1].get() == b.get() && IsBelow(a->operands[1], b);
      if (!split) return Expr();
      return divide ? a->operands[0]->operands[0] : a->operands[1];
    }
    case BinaryOp::kSubtract: {
      // Indices that are shifted into a padded tensor have this form: x - 1 - -1.
      if (!IsConst(b)) return Expr();
      if (b->int_value == 0) return a;
      int64_t shift = 0;
      bool combines = IsBinary(a, BinaryOp::kSubtract) && IsConst(a->operands[1]) &&
                      !__builtin_add_overflow(a->operands[1]->int_value, b->int_value, &shift);
      return combines ? Binary(BinaryOp::kSubtract, a->operands[0], Intern(*Index(shift))) : Expr();
    }
    case BinaryOp::kDivide:
    case BinaryOp::kTruncDivide:
    case BinaryOp::kTruncMod:
    case BinaryOp::kPower:
    case BinaryOp::kMaximum:
    case BinaryOp::kMinimum:
    case BinaryOp::kNotEqual:
    case BinaryOp::kLessEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterEqual:
#define RVM_CASE(Name, text) case BinaryOp::k##Name:
      RVM_BINARY_BIT_OPS(RVM_CASE)
#undef RVM_CASE
      return Expr();
  }
}

Expr ExprPool::Intern(ExprNode node) {
  if (Expr simpler = Simplify(node)) return simpler;
  Key key = {static_cast<uint64_t>(node.kind), static_cast<uint64_t>(node.dtype.code), node.dtype.bits};
  switch (node.kind) {
    case ExprKind::kIntConst: key.push_back(static_cast<uint64_t>(node.int_value)); break;
    case ExprKind::kFloatConst: key.push_back(std::bit_cast<uint64_t>(node.float_value)); break;
    case ExprKind::kIndex: key.push_back(static_cast<uint64_t>(node.index.id)); break;
    case ExprKind::kDim: key.push_back(static_cast<uint64_t>(DimNumber(node.dim))); break;
    case ExprKind::kRead:
      key.push_back(reinterpret_cast<uintptr_t>(node.tensor.get()));
      key.push_back(static_cast<uint64_t>(node.int_value));
      break;
    case ExprKind::kUnary: key.push_back(static_cast<uint64_t>(node.unary)); break;
    case ExprKind::kBinary: key.push_back(static_cast<uint64_t>(node.binary)); break;
    case ExprKind::kReduce:
      key.push_back(static_cast<uint64_t>(node.reduce));
      for (const IndexVar& axis : node.axes) key.push_back(static_cast<uint64_t>(axis.id));
      break;
    case ExprKind::kSelect:
    case ExprKind::kCast:
    case ExprKind::kBitcast: break;
  }
  for (const Expr& operand : node.operands) key.push_back(reinterpret_cast<uintptr_t>(operand.get()));
  auto [it, added] = nodes_.try_emplace(std::move(key));
  if (added) it->second = Expr(std::make_shared<const ExprNode>(std::move(node)));
  return it->second;
}

Expr ExprPool::Copy(const Expr& e, Rewrite& rewrite) {
  if (auto found = rewrite.done.find(e.get()); found != rewrite.done.end()) return found->second;
  Expr copy = WithStack([&] { return CopyOnThisStack(e, rewrite); });
  keep_.push_back(e);
  rewrite.done.emplace(e.get(), copy);
  return copy;
}

Expr ExprPool::CopyOnThisStack(const Expr& e, Rewrite& rewrite) {
  if (e->kind == ExprKind::kIndex) {
    auto found = rewrite.variables.find(e->index.id);
    return found != rewrite.variables.end() ? found->second : Intern(*e);
  }
  std::vector<Expr> operands;
  for (const Expr& operand : e->operands) operands.push_back(Copy(operand, rewrite));
  if (e->kind == ExprKind::kRead && rewrite.read != nullptr) return rewrite.read(e->tensor, std::move(operands));
  if (e->kind == ExprKind::kBinary && e->operands[0].dtype() == kInt64) {
    return Binary(e->binary, operands[0], operands[1]);
  }
  ExprNode node = *e;
  node.operands = std::move(operands);
  return Intern(std::move(node));
}

bool IsNonNegative(const Expr& e) {
  return WithStack([&] {
    switch (e->kind) {
      case ExprKind::kIntConst: return e->int_value >= 0;
      case ExprKind::kIndex:
      case ExprKind::kDim: return true;
      case ExprKind::kSelect: return IsNonNegative(e->operands[1]) && IsNonNegative(e->operands[2]);
      case ExprKind::kBinary: break;
      case ExprKind::kFloatConst:
      case ExprKind::kRead:
      case ExprKind::kUnary:
      case ExprKind::kCast:
      case ExprKind::kBitcast:
      case ExprKind::kReduce: return false;
    }
    switch (e->binary) {
      case BinaryOp::kAdd:
      case BinaryOp::kMultiply:
      case BinaryOp::kFloorDivide:
      case BinaryOp::kMinimum: return IsNonNegative(e->operands[0]) && IsNonNegative(e->operands[1]);
      case BinaryOp::kFloorMod: return IsNonNegative(e->operands[1]);
      case BinaryOp::kMaximum: return IsNonNegative(e->operands[0]) || IsNonNegative(e->operands[1]);
      case BinaryOp::kSubtract:
      case BinaryOp::kDivide:
      case BinaryOp::kTruncDivide:
      case BinaryOp::kTruncMod:
      case BinaryOp::kPower:
#define RVM_CASE(Name, text) case BinaryOp::k##Name:
        RVM_BINARY_BIT_OPS(RVM_CASE)
        RVM_COMPARISONS(RVM_CASE)
#undef RVM_CASE
        return false;
    }
  });
}

std::vector<const ExprNode*> Postorder(const std::vector<Expr>& roots) {
  std::vector<const ExprNode*> order;
  absl::flat_hash_set<const ExprNode*> seen;
  std::vector<std::pair<const ExprNode*, size_t>> path;
  for (const Expr& root : roots) {
    if (!seen.insert(root.get()).second) continue;
    path.push_back({root.get(), 0});
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next == node->operands.size()) {
        order.push_back(node);
        path.pop_back();
        continue;
      }
      const ExprNode* operand = node->operands[next++].get();
      if (seen.insert(operand).second) path.push_back({operand, 0});
    }
  }
  return order;
}

bool DependsOn(const Expr& e, int64_t variable) {
  for (const ExprNode* node : Postorder({e})) {
    if (node->kind == ExprKind::kIndex && node->index.id == variable) return true;
  }
  return false;
}

bool MustBranch(const Expr& e) {
  for (const ExprNode* node : Postorder({e})) {
    if (node->kind == ExprKind::kRead && node->int_value != kReadIsSafe) return true;
  }
  return false;
}

std::optional<int64_t> Stride(const Expr& e, int64_t variable) {
  if (e->kind == ExprKind::kIndex) return e->index.id == variable;
  if (!DependsOn(e, variable)) return 0;
  if (e->kind != ExprKind::kBinary) return std::nullopt;
  std::optional<int64_t> a = Stride(e->operands[0], variable), b = Stride(e->operands[1], variable);
  if (!a || !b) return std::nullopt;
  if (e->binary == BinaryOp::kAdd) return *a + *b;
  if (e->binary == BinaryOp::kSubtract) return *a - *b;
  bool scales = e->binary == BinaryOp::kMultiply && *b == 0 && IsConst(e->operands[1]);
  return scales ? std::optional(*a * e->operands[1]->int_value) : std::nullopt;
}

}  // namespace rvm::te
