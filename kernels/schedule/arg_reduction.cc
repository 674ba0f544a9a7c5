#include "kernels/schedule/arg_reduction.h"

#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "kernels/schedule/rewrite_tensors.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::ReduceOp;
using te::Tensor;

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

// The expression at other positions: of the tensor's axes, and of the reduction's.
Expr At(te::ExprPool& pool, const Tensor& tensor, const Expr& e, std::span<const Expr> i, std::span<const Expr> r) {
  te::Rewrite rewrite;
  for (size_t k = 0; k < i.size(); ++k) rewrite.variables[tensor->axes[k].id] = pool.Intern(*i[k]);
  for (size_t k = 0; k < r.size(); ++k) rewrite.variables[tensor->body->axes[k].id] = pool.Intern(*r[k]);
  return pool.Copy(e, rewrite);
}

int64_t Roundings(const ExprNode& e) {
  if (!e.dtype.is_float()) return 0;
  if (e.kind == ExprKind::kUnary) {
    if (e.unary == te::UnaryOp::kSqrt) return 1;
    return IsRoot(e.unary) || IsTranscendental(e.unary) ? 2 : 0;
  }
  return e.kind == ExprKind::kBinary && IsRounded(e.binary) ? 1 : 0;
}

// Returns whether two loops surely give the value the same bits. With more than one rounding they may not: code for one
// of them may fuse a product with a sum. What the value reads may be computed again in each loop.
bool IsReproducible(const Expr& value) {
  int64_t roundings = 0;
  std::set<const te::TensorNode*> seen;
  std::vector<Expr> bodies = {value};
  while (!bodies.empty() && roundings <= 1) {
    Expr body = bodies.back();
    bodies.pop_back();
    for (const ExprNode* node : te::Postorder({body})) {
      roundings += Roundings(*node);
      if (node->kind != ExprKind::kRead) continue;
      const te::TensorNode& read = *node->tensor;
      bool is_stored =
          read.kind != te::TensorKind::kCompute || read.body->kind == ExprKind::kReduce || read.self || read.is_ordered;
      if (!is_stored && seen.insert(&read).second) bodies.push_back(read.body);
    }
  }
  return roundings <= 1;
}

Tensor Split(te::ExprPool& pool, const Tensor& tensor) {
  const ExprNode& body = *tensor->body;
  if (body.kind != ExprKind::kReduce || !IsArg(body.reduce) || body.axes.size() != 1) return tensor;
  const Expr& value = body.operands[0];
  if (value->dtype.is_bool() || !IsReproducible(value)) return tensor;
  bool greatest = body.reduce == ReduceOp::kArgMax || body.reduce == ReduceOp::kArgMaxLast;
  bool last = body.reduce == ReduceOp::kArgMaxLast || body.reduce == ReduceOp::kArgMinLast;
  const Dim& extent = body.axes[0].extent;
  DataType index = extent.is_const() && extent.constant() < kMaxInt32 ? kInt32 : kInt64;
  // Stands for no position: it loses against each of them.
  int64_t none = last ? -1 : index == kInt32 ? kMaxInt32 : std::numeric_limits<int64_t>::max();
  Tensor best = te::ComputeTensor("extreme", value->dtype, tensor.dims(), [&](std::span<const Expr> i) {
    return te::Reduce(greatest ? ReduceOp::kMaximum : ReduceOp::kMinimum, {&extent, 1},
                      [&](std::span<const Expr> r) { return At(pool, tensor, value, i, r); });
  });
  Tensor place = te::ComputeTensor("place", index, tensor.dims(), [&](std::span<const Expr> i) {
    return te::Reduce(last ? ReduceOp::kMaximum : ReduceOp::kMinimum, {&extent, 1}, [&](std::span<const Expr> r) {
      Expr here = At(pool, tensor, value, i, r), extreme = best(i);
      Expr holds = te::Binary(BinaryOp::kEqual, here, extreme);
      if (value->dtype.is_float()) {
        // The extreme is a NaN if there is one. All elements of a row agree on that, so that there is a loop for each.
        auto is_nan = [](const Expr& e) { return te::Binary(BinaryOp::kNotEqual, e, e); };
        holds = te::Select(is_nan(extreme), is_nan(here), holds);
      }
      return te::Select(holds, te::Cast(index, r[0]), te::IntConst(index, none));
    });
  });
  // Among no elements it is 0.
  return te::ComputeTensor(tensor->name, tensor.dtype(), tensor.dims(), [&](std::span<const Expr> i) {
    Expr empty = last ? te::Binary(BinaryOp::kLess, place(i), te::IntConst(index, 0))
                      : te::Binary(BinaryOp::kEqual, place(i), te::IntConst(index, none));
    return te::Cast(tensor.dtype(), te::Select(empty, te::IntConst(index, 0), place(i)));
  });
}

}  // namespace

te::Computation SplitArgReductions(const te::Computation& computation) {
  te::ExprPool pool;
  return RewriteTensors(computation, pool, [&](const Tensor& tensor) { return Split(pool, tensor); });
}

}  // namespace rvm::schedule
