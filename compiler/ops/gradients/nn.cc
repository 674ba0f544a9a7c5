// Gradients of contractions, normalisations and losses.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

using Ints = std::vector<int64_t>;

// Returns a vector along `axis` of a tensor of rank `rank`.
Term Along(Term vector, int64_t axis, int64_t rank) {
  if (axis + 1 == rank) return vector;
  return vector.code().Call("expand_dims", {vector}, ir::Attrs{{"axis", 1}, {"num_newaxis", rank - 1 - axis}});
}

Term Product(Term a, Term b, bool transpose_a, bool transpose_b, std::string_view op = "nn.matmul") {
  return a.code().Call(op, {a, b}, ir::Attrs{{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}
// Leading axes merged.
Term AsMatrix(Term x) {
  if (x.rank() == 2) return x;
  const Dim& last = x.type().shape.dims.back();
  if (last.is_const())
    return x.code().Call("reshape", {x}, ir::Attrs{{"newshape", ir::IntList({{-1, last.constant()}})}});
  for (int64_t rank = x.rank(); rank > 2; --rank) {
    x = x.code().Call("reshape", {x}, ir::Attrs{{"newshape", ir::IntList({{-3, -2}})}});
  }
  return x;
}

// The shares of a product's operands: y = op(a) op(b), each transposed or not.
void GiveProduct(Pullback& p, Term d, bool ta, bool tb, std::string_view op) {
  Term a = p.x(0), b = p.x(1);
  p.Give(0, ta ? Product(b, d, tb, true, op) : Product(d, b, false, !tb, op));
  bool merges = op == "nn.matmul" && !ta && b.rank() == 2 && a.rank() > 2;
  if (merges) {
    a = AsMatrix(a);
    d = AsMatrix(d);
  }
  p.Give(1, tb ? Product(d, a, true, ta, op) : Product(a, d, !ta, false, op));
}

}  // namespace

// ---- contractions

void DenseGradient(Pullback& p) {
  Term d = Cast(p.d(), p.type(1).dtype), x = p.x(0);
  if (x.rank() == 1) {
    x = p.Call("expand_dims", {x}, ir::Attrs{{"axis", 0}});
    d = p.Call("expand_dims", {d}, ir::Attrs{{"axis", 0}});
    p.Give(0, p.Call("reshape_like", {Product(d, p.x(1), false, false), p.x(0)}));
  } else {
    p.Give(0, Product(d, p.x(1), false, false));
  }
  p.Give(1, Product(AsMatrix(d), AsMatrix(x), true, false));
}
void MatmulGradient(Pullback& p) {
  GiveProduct(p, Cast(p.d(), p.type(0).dtype), p.attrs().GetBool("transpose_a"), p.attrs().GetBool("transpose_b"),
              "nn.matmul");
}
void BatchMatmulGradient(Pullback& p) {
  GiveProduct(p, Cast(p.d(), p.type(0).dtype), p.attrs().GetBool("transpose_a"), p.attrs().GetBool("transpose_b"),
              "nn.batch_matmul");
}

// ---- softmax and activations with parameters

void SoftmaxGradient(Pullback& p) {
  Term share = p.d() * p.y();
  p.Give(0, share - p.y() * SumOver(share, {AxisOf(p)}));
}
void LogSoftmaxGradient(Pullback& p) { p.Give(0, p.d() - p.Call("exp", {p.y()}) * SumOver(p.d(), {AxisOf(p)})); }
void PreluGradient(Pullback& p) {
  int64_t axis = AxisOf(p);
  Term positive = p.Call("greater", {p.x(), Zero(p.x())});
  Term alpha = Along(p.x(1), axis, p.d().rank());
  p.Give(0, Where(positive, p.d(), p.d() * alpha));
  p.Give(1, SumBut(Where(positive, Zero(p.d()), p.d() * p.x()), axis));
}

// ---- normalisation

namespace {
using View = std::function<Term(Term)>;
// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and the variance over `axes` of grouped(x),
// gamma and beta along `axis` of x.
void NormGradient(Pullback& p, const Ints& axes, int64_t axis, const View& grouped, const View& ungrouped) {
  Term x = grouped(p.x());
  Term centred = x - MeanOver(x, axes);
  Term r = p.Call("rsqrt", {MeanOver(centred * centred, axes) + p.attrs().GetDouble("epsilon")});
  Term h = centred * r, g = p.d();
  if (p.attrs().GetBool("scale")) {
    p.Give(1, SumBut(p.d() * ungrouped(h), axis));
    g = g * Along(p.x(1), axis, p.d().rank());
  }
  if (p.attrs().GetBool("center")) p.Give(2, SumBut(p.d(), axis));
  g = grouped(g);
  p.Give(0, ungrouped(r * (g - MeanOver(g, axes) - h * MeanOver(g * h, axes))));
}
Term Same(Term x) { return x; }
}  // namespace

void LayerNormGradient(Pullback& p) { NormGradient(p, {AxisOf(p)}, AxisOf(p), Same, Same); }
void InstanceNormGradient(Pullback& p) {
  Ints axes;
  for (int64_t i = 1; i < p.d().rank(); ++i) {
    if (i != AxisOf(p)) axes.push_back(i);
  }
  NormGradient(p, axes, AxisOf(p), Same, Same);
}
// The channels of a group become an axis behind that of the groups.
void GroupNormGradient(Pullback& p) {
  int64_t axis = AxisOf(p);
  Ints shape(static_cast<size_t>(axis), 0), axes;
  shape.insert(shape.end(), {-4, p.attrs().GetInt("num_groups"), -1, -2});
  for (int64_t i = 1; i <= p.d().rank(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  auto grouped = [&](Term x) { return p.Call("reshape", {x}, ir::Attrs{{"newshape", ir::IntList(shape)}}); };
  auto ungrouped = [&](Term x) { return p.Call("reshape_like", {x, p.x()}); };
  NormGradient(p, axes, axis, grouped, ungrouped);
}
// y = x * base^-beta, base = bias + alpha * mean of the squares of the neighbours.
void LrnGradient(Pullback& p) {
  int64_t axis = AxisOf(p), size = p.attrs().GetInt("size");
  double alpha = p.attrs().GetDouble("alpha") / static_cast<double>(size), beta = p.attrs().GetDouble("beta");
  auto sum_of_neighbours = [&](Term x) {
    ir::AttrValue::List widths(static_cast<size_t>(x.rank()), ir::IntList({{0, 0}}));
    widths[static_cast<size_t>(axis)] = ir::IntList({{size / 2, size / 2}});
    ir::Attrs along{{"axes", ir::IntList({{axis}})}};
    Term padded = p.Call("nn.pad", {x, Zero(x)}, ir::Attrs{{"pad_width", widths}}), sum = x;
    for (int64_t k = 0; k < size; ++k) {
      if (k == size / 2) continue;
      ir::Attrs from{
          {"begin", ir::IntList({{k}})}, {"end", ir::IntList({{kWholeAxis}})}, {"axes", ir::IntList({{axis}})}};
      sum = sum + p.Call("slice_like", {p.Call("strided_slice", {padded}, from), x}, along);
    }
    return sum;
  };
  Term base = sum_of_neighbours(p.x() * p.x()) * alpha + p.attrs().GetDouble("bias");
  Term share = p.d() * p.Call("power", {base, p.Scalar(-beta, base)});
  p.Give(0, share - p.x() * 2 * alpha * beta * sum_of_neighbours(share * p.x() / base));
}
void BatchNormGradient(Pullback& p) {
  if (p.has_d(1)) p.Give(3, p.d(1));
  if (p.has_d(2)) p.Give(4, p.d(2));
  if (!p.has_d(0)) return;
  int64_t axis = AxisOf(p), rank = p.d().rank();
  Term r = p.Call("rsqrt", {p.x(4) + p.attrs().GetDouble("epsilon")});
  Term h = (p.x(0) - Along(p.x(3), axis, rank)) * Along(r, axis, rank), g = p.d();
  if (p.attrs().GetBool("center")) p.Give(2, SumBut(p.d(), axis));
  if (p.attrs().GetBool("scale")) {
    p.Give(1, SumBut(p.d() * h, axis));
    g = g * Along(p.x(1), axis, rank);
  }
  p.Give(0, g * Along(r, axis, rank));
  p.Give(3, -(SumBut(g, axis) * r));
  p.Give(4, SumBut(g * h, axis) * -0.5 * r * r);
}
void L2NormalizeGradient(Pullback& p) {
  Ints axes = p.attrs().GetInts("axis");
  double eps = p.attrs().GetDouble("eps");
  Term sum = SumOver(p.x() * p.x(), axes), least = p.Scalar(eps, sum);
  Term r = p.Call("rsqrt", {p.Call("maximum", {sum, least})});
  Term along = p.y() * SumOver(p.d() * p.y(), axes);
  Term is_above = p.Call("greater", {sum, least});
  p.Give(0, r * (p.d() - Where(is_above, along, Zero(along))));
}
void DropoutGradient(Pullback& p) {
  if (p.has_d(0)) p.Give(0, p.d());
}

// ---- simulated quantisation: rounding passes the adjoint on (Bengio et al. 2013), clipping cuts it off

namespace {
// A scale that is a scalar, or a vector along `axis`, as it broadcasts with data; its share of an adjoint of data's
// shape.
Term ScaleLike(Pullback& p, Term scale) {
  return scale.rank() == 0 || p.rank(0) == 0 ? scale : Along(scale, AxisOf(p), p.rank(0));
}
Term ShareOfScale(Pullback& p, Term scale, Term share) {
  return scale.rank() == 0 || p.rank(0) == 0 ? p.Call("sum", {share}) : SumBut(share, AxisOf(p));
}
// Returns whether the code of the dtype, a scalar, is one of a dtype; else data stays as it is.
Term IsQuantized(Pullback& p) {
  Term code = p.x(1);
  auto is = [&](std::string_view compare, double value) { return p.Call(compare, {code, p.Scalar(value, code)}); };
  return p.Call("logical_and", {is("greater", 0), is("less", 4)});
}
}  // namespace
void SimulatedQuantizeGradient(Pullback& p) {
  Term scale = ScaleLike(p, p.x(2)), is_quantized = IsQuantized(p);
  Term steps = p.x() / scale;
  Term moved = p.Call("abs", {p.y() - steps - Cast(ScaleLike(p, p.x(3)), p.type(0).dtype)});
  Term is_inside = p.Call("less_equal", {moved, p.Scalar(0.5, moved)});
  Term share = Where(is_inside, p.d() / scale, Zero(p.d()));
  p.Give(0, Where(is_quantized, share, p.d()));
  p.Give(2, ShareOfScale(p, p.x(2), Where(is_quantized, -(share * steps), Zero(p.d()))));
}
void SimulatedDequantizeGradient(Pullback& p) {
  Term scale = ScaleLike(p, p.x(2)), is_quantized = IsQuantized(p);
  Term steps = p.x() - Cast(ScaleLike(p, p.x(3)), p.type(0).dtype);
  p.Give(0, Where(is_quantized, p.d() * scale, p.d()));
  p.Give(2, ShareOfScale(p, p.x(2), Where(is_quantized, p.d() * steps, Zero(p.d()))));
}
// The integers have no adjoint, their scale has.
void DequantizeGradient(Pullback& p) {
  Term steps = Cast(p.x(0), p.d().type().dtype) - Cast(ScaleLike(p, p.x(2)), p.d().type().dtype);
  p.Give(1, ShareOfScale(p, p.x(1), p.d() * steps));
}
// Step and bounds are constants, as in the predecessor.
void SimulatedRoundingGradient(Pullback& p) {
  if (p.attrs().GetInt("kind") == 0) return p.Give(0, p.d());
  Term steps = p.x() / p.x(1);
  Term is_inside =
      p.Call("logical_and", {p.Call("greater_equal", {steps, p.x(2)}), p.Call("less_equal", {steps, p.x(3)})});
  p.Give(0, Where(is_inside, p.d(), Zero(p.d())));
}

// ---- losses

void CrossEntropyGradient(Pullback& p) {
  Term rows = CountOver(p, {0});
  p.Give(0, -(p.d() * p.x(1) / p.x(0)) / rows);
  p.Give(1, -(p.d() * p.Call("log", {p.x(0)})) / rows);
}
void CrossEntropyWithLogitsGradient(Pullback& p) {
  Term rows = CountOver(p, {0});
  p.Give(0, -(p.d() * p.x(1)) / rows);
  p.Give(1, -(p.d() * p.x(0)) / rows);
}

// The loss of a target t is -w[t] * predictions[t]; of a target that is ignored, or no class, 0.
void NllLossGradient(Pullback& p) {
  const std::string& reduction = p.attrs().GetString("reduction");
  Term targets = Cast(p.x(1), ir::DTypeTerm::Of(kInt64));
  auto is = [&](std::string_view compare, double value) {
    return p.Call(compare, {targets, p.Scalar(value, targets)});
  };
  Term classes = p.Call("ndarray_size", {p.x(2)}, ir::Attrs{{"dtype", "int64"}});
  Term is_class = p.Call("logical_and", {is("greater_equal", 0), p.Call("less", {targets, classes})});
  Term ignored = is("equal", static_cast<double>(p.attrs().GetInt("ignore_index")));
  Term counts = p.Call("logical_and", {is_class, p.Call("logical_not", {ignored})});
  targets = Where(counts, targets, Zero(targets));
  Term mask = Cast(counts, p.type(0).dtype);
  Term places = p.Call("expand_dims", {targets}, ir::Attrs{{"axis", 1}}), predictions = p.x(0);
  ir::Attrs axis{{"axis", 1}};
  Term chosen =
      p.Call("squeeze", {p.Call("gather", {predictions, places}, axis)}, ir::Attrs{{"axis", ir::IntList({{1}})}});
  Term weights = p.Call("take", {p.x(2), targets}) * mask;
  // y = -sum(weights * chosen), over sum(weights) for the mean.
  Term d = p.d(), by_weight = -chosen;
  if (reduction == "mean") {
    d = d / p.Call("sum", {weights});
    by_weight = by_weight - p.y();
  }
  ir::Attrs add = axis;
  add.Set("reduction", "add");
  Term by_chosen = p.Call("expand_dims", {-(weights * d)}, ir::Attrs{{"axis", 1}});
  p.Give(0, p.Call("scatter_elements", {p.Call("zeros_like", {predictions}), places, by_chosen}, add));
  Term tuples = p.Call("expand_dims", {targets}, ir::Attrs{{"axis", 0}});
  p.Give(2, p.Call("scatter_nd", {p.Call("zeros_like", {p.x(2)}), tuples, by_weight * mask * d},
                   ir::Attrs{{"mode", "add"}}));
}

}  // namespace rvm::ops
