#include "kernels/schedule/stored_factors.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

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

// A conversion of `e`, without one that it undoes or goes on with.
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
    for (Expr& factor : changed.operands) {
      // Constants stay as they are.
      std::optional<Expr> stored = ReadsComputed(factor) ? Stored(factor) : std::nullopt;
      if (!stored) continue;
      const Expr read = (*stored)->kind == ExprKind::kCast ? StoredFactor(*stored) : *stored;
      if (!read || read->kind != ExprKind::kRead || stored->dtype() != factor.dtype()) continue;
      factor = *stored;
      changes = true;
      read_[static_cast<size_t>(read->tensor->input_index)] = true;
    }
    if (!changes) return tensor;
    ExprNode body = sum;
    body.operands = {pool_.Intern(std::move(changed))};
    te::TensorNode node = *tensor;
    node.body = pool_.Intern(std::move(body));
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

  // The expression as a read of a constant input, or as conversions of one; nullopt if it is something else.
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

te::Computation ReadStoredFactors(const te::Computation& computation, std::vector<bool>& may_read) {
  te::ExprPool pool;
  FactorReader reader(pool, may_read);
  te::Computation result = RewriteTensors(computation, pool, [&](const Tensor& tensor) { return reader.Run(tensor); });
  may_read = reader.read();
  return result;
}

}  // namespace rvm::schedule
