// ai.onnx.preview.training: one step of an optimiser over several tensors.
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

// Inputs: rate, count of updates, then `groups` groups of as many tensors. Outputs: `groups` - 1 groups, without that
// of the gradients. `update` gets one tensor of each group and gives the new ones.
Operands ForEachTensor(NodeContext& c, size_t groups,
                       absl::FunctionRef<Operands(Operand rate, Operand count, const Operands& own)> update) {
  size_t n = c.num_inputs() < 2 ? 0 : (c.num_inputs() - 2) / groups;
  if (n == 0 || n * groups + 2 != c.num_inputs()) return {c.Fail("its inputs are not groups of equally many tensors")};
  Operands results((groups - 1) * n);
  for (size_t i = 0; i < n; ++i) {
    Operands own;
    for (size_t group = 0; group < groups; ++group) own.push_back(c.In(2 + group * n + i));
    Operand rate = c.Cast(c.Scalar(c.In(0)), c.DTypeOf(own[0]));
    Operands updated = update(rate, c.Cast(c.Scalar(c.In(1)), c.DTypeOf(own[0])), own);
    for (size_t group = 0; group + 1 < groups; ++group) results[group * n + i] = updated[group];
  }
  return results;
}

// Returns the gradient with that of a square of the weights.
Operand Regularized(NodeContext& c, Operand x, Operand gradient) {
  double norm = c.Float("norm_coefficient", 0);
  return norm == 0 ? gradient : c.Add(gradient, c.Mul(x, c.Number(norm, x)));
}

Operands Adagrad(NodeContext& c) {
  return ForEachTensor(c, 3, [&](Operand rate, Operand count, const Operands& own) -> Operands {
    Operand x = own[0], one = c.Number(1, x);
    Operand decayed = c.Div(rate, c.Add(one, c.Mul(count, c.Number(c.Float("decay_factor", 0), x))));
    Operand gradient = Regularized(c, x, own[1]);
    Operand squares = c.Add(own[2], c.Mul(gradient, gradient));
    Operand scale = c.Add(c.Op("sqrt", {squares}), c.Number(c.Float("epsilon", 1e-6), x));
    return {c.Sub(x, c.Div(c.Mul(decayed, gradient), scale)), squares};
  });
}

Operands Adam(NodeContext& c) {
  return ForEachTensor(c, 4, [&](Operand rate, Operand count, const Operands& own) -> Operands {
    Operand x = own[0], one = c.Number(1, x), zero = c.Number(0, x);
    Operand alpha = c.Number(c.Float("alpha", 0.9), x), beta = c.Number(c.Float("beta", 0.999), x);
    Operand gradient = Regularized(c, x, own[1]);
    Operand first = c.Add(c.Mul(alpha, own[2]), c.Mul(c.Sub(one, alpha), gradient));
    Operand second = c.Add(c.Mul(beta, own[3]), c.Mul(c.Sub(one, beta), c.Mul(gradient, gradient)));
    auto rest = [&](Operand factor) { return c.Sub(one, c.Op("power", {factor, count})); };
    Operand adjusted = c.Div(c.Mul(rate, c.Op("sqrt", {rest(beta)})), rest(alpha));
    adjusted = c.Where(c.Op("greater", {count, zero}), adjusted, rate);
    Operand scale = c.Add(c.Op("sqrt", {second}), c.Number(c.Float("epsilon", 1e-6), x));
    Operand next = c.Sub(x, c.Div(c.Mul(adjusted, first), scale));
    double post = c.Float("norm_coefficient_post", 0);
    if (post != 0) next = c.Mul(next, c.Number(1 - post, x));
    return {next, first, second};
  });
}

Operands Momentum(NodeContext& c) {
  return ForEachTensor(c, 3, [&](Operand rate, Operand count, const Operands& own) -> Operands {
    Operand x = own[0];
    Operand alpha = c.Number(c.Float("alpha", 0), x), beta = c.Number(c.Float("beta", 1), x), one = c.Number(1, x);
    Operand gradient = Regularized(c, x, own[1]);
    beta = c.Where(c.Op("greater", {count, c.Number(0, x)}), beta, one);
    Operand next = c.Add(c.Mul(alpha, own[2]), c.Mul(beta, gradient));
    Operand direction = c.Text("mode", "standard") == "nesterov" ? c.Add(gradient, c.Mul(alpha, next)) : next;
    return {c.Sub(x, c.Mul(rate, direction)), next};
  });
}

constexpr OperatorRow kRows[] = {
    {"ai.onnx.preview.training.Adagrad", Adagrad},
    {"ai.onnx.preview.training.Adam", Adam},
    {"ai.onnx.preview.training.Momentum", Momentum},
};

}  // namespace

std::span<const OperatorRow> TrainingOperators() { return kRows; }

}  // namespace rvm::onnx::convert
