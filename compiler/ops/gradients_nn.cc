// Gradients of contractions, normalisations, losses, convolution and pooling.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/gradient_rules.h"
#include "compiler/ops/gradient_terms.h"
#include "compiler/ops/pullback.h"
#include "compiler/ops/window.h"

namespace rvm::ops {
namespace {

using Ints = std::vector<int64_t>;

// A vector along `axis` of a tensor of rank `rank`.
Term Along(Term vector, int64_t axis, int64_t rank) {
  if (axis + 1 == rank) return vector;
  return vector.code().Call("expand_dims", {vector}, ir::Attrs{{"axis", 1}, {"num_newaxis", rank - 1 - axis}});
}
// Summed over all axes but `axis`.
Term SumBut(Term x, int64_t axis) {
  return x.code().Call("sum", {x}, ir::Attrs{{"axis", ir::IntList({{axis}})}, {"exclude", true}});
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
// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta over `axes`, gamma and beta along `axis`.
void NormGradient(Pullback& p, const Ints& axes, int64_t axis) {
  Term centred = p.x() - MeanOver(p.x(), axes);
  Term r = p.Call("rsqrt", {MeanOver(centred * centred, axes) + p.attrs().GetDouble("epsilon")});
  Term h = centred * r, g = p.d();
  if (p.attrs().GetBool("scale")) {
    p.Give(1, SumBut(p.d() * h, axis));
    g = g * Along(p.x(1), axis, p.d().rank());
  }
  if (p.attrs().GetBool("center")) p.Give(2, SumBut(p.d(), axis));
  p.Give(0, r * (g - MeanOver(g, axes) - h * MeanOver(g * h, axes)));
}
}  // namespace

void LayerNormGradient(Pullback& p) { NormGradient(p, {AxisOf(p)}, AxisOf(p)); }
void InstanceNormGradient(Pullback& p) {
  Ints axes;
  for (int64_t i = 1; i < p.d().rank(); ++i) {
    if (i != AxisOf(p)) axes.push_back(i);
  }
  NormGradient(p, axes, AxisOf(p));
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

// ---- convolution and pooling

namespace {

Term InLayout(Term x, const std::string& from, const std::string& to) {
  if (from == to) return x;
  return x.code().Call("layout_transform", {x}, ir::Attrs{{"src_layout", from}, {"dst_layout", to}});
}

// The three operators that are linear in the data x (NCHW), the filters w (OIHW) and the result y = conv2d(x, w) each.
class Convolution {
 public:
  // `taps`: the extents of the filters.
  Convolution(const ir::Attrs& attrs, const Ints& taps)
      : taps_(taps), windows_(*MakeWindows(attrs, taps, nullptr)), groups_(attrs.GetInt("groups")) {}

  // Whether ByData exists; else the rule is refused.
  bool KnowsGaps(Pullback& p, Term x) const {
    for (size_t i = 0; i < 2; ++i) {
      if (windows_[i].stride == 1 || x.type().shape.dims[2 + i].is_const()) continue;
      p.Refuse("strides need known extents of the image");
      return false;
    }
    return true;
  }
  Term Of(Term x, Term w) const { return x.code().Call("nn.conv2d", {x, w}, Attrs()); }
  // The adjoint of x. REQUIRES: KnowsGaps(x).
  Term ByData(Term d, Term w, Term x) const {
    Ints rest;
    for (size_t i = 0; i < 2; ++i) {
      const Window& window = windows_[i];
      int64_t padding = window.pad_before + window.pad_after;
      bool is_exact = window.stride == 1;
      int64_t room = is_exact ? 0 : x.type().shape.dims[2 + i].constant() + padding - window.span();
      rest.push_back(room % window.stride);
    }
    ir::Attrs attrs = Attrs();
    attrs.Set("output_padding", ir::IntList(rest));
    return d.code().Call("nn.conv2d_transpose", {d, w}, attrs);
  }
  // The adjoint of w.
  Term ByFilters(Term d, Term x) const {
    ir::Attrs attrs = Attrs();
    attrs.Set("kernel_size", ir::IntList(taps_));
    return d.code().Call("nn.conv2d_backward_weight", {d, x}, attrs);
  }

 private:
  ir::Attrs Attrs() const {
    const Window &h = windows_[0], &w = windows_[1];
    return ir::Attrs{{"strides", ir::IntList({{h.stride, w.stride}})},
                     {"padding", ir::IntList({{h.pad_before, w.pad_before, h.pad_after, w.pad_after}})},
                     {"dilation", ir::IntList({{h.dilation, w.dilation}})},
                     {"groups", groups_}};
  }

  Ints taps_;
  std::vector<Window> windows_;
  int64_t groups_;
};

// The extents of the filters, OIHW; refuses unknown ones.
std::optional<Ints> TapsOf(Pullback& p, Term w) {
  Ints taps;
  for (size_t i = 2; i < 4; ++i) {
    const Dim& extent = w.type().shape.dims[i];
    if (!extent.is_const()) {
      p.Refuse("the extents of the filters are not known");
      return std::nullopt;
    }
    taps.push_back(extent.constant());
  }
  return taps;
}

std::string OutLayout(const ir::Attrs& attrs) {
  return attrs.GetString("out_layout").empty() ? attrs.GetString("data_layout") : attrs.GetString("out_layout");
}

}  // namespace

void Conv2dGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  std::string data = attrs.GetString("data_layout"), kernel = attrs.GetString("kernel_layout");
  std::string out = OutLayout(attrs);
  if (data.size() != 4 || kernel.size() != 4 || out.size() != 4)
    return p.Refuse("there is no rule for blocked layouts");
  Term x = InLayout(p.x(0), data, "NCHW"), d = Cast(InLayout(p.d(), out, "NCHW"), p.type(0).dtype);
  Term w = InLayout(p.x(1), kernel, "OIHW");
  if (CompareDims(w.type().shape.dims[0], d.type().shape.dims[1]) == DimEquality::kDifferent) {
    return p.Refuse("there is a rule for filters whose first axis has the output channels");
  }
  std::optional<Ints> taps = TapsOf(p, w);
  if (!taps) return;
  Convolution convolution(attrs, *taps);
  if (!convolution.KnowsGaps(p, x)) return;
  p.Give(0, InLayout(convolution.ByData(d, w, x), "NCHW", data));
  p.Give(1, InLayout(convolution.ByFilters(d, x), "OIHW", kernel));
}
void Conv2dTransposeGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  std::string data = attrs.GetString("data_layout"), kernel = attrs.GetString("kernel_layout");
  // Its data are the result of a convolution with the same filters, whose data are its result.
  Term y = InLayout(p.x(0), data, "NCHW"), d = Cast(InLayout(p.d(), OutLayout(attrs), "NCHW"), p.type(0).dtype);
  Term w = InLayout(p.x(1), kernel, "IOHW");
  std::optional<Ints> taps = TapsOf(p, w);
  if (!taps) return;
  Convolution convolution(attrs, *taps);
  p.Give(0, InLayout(convolution.Of(d, w), "NCHW", data));
  p.Give(1, InLayout(convolution.ByFilters(y, d), "IOHW", kernel));
}
void Conv2dBackwardWeightGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  std::string data = attrs.GetString("data_layout"), kernel = attrs.GetString("kernel_layout");
  if (kernel.find('N') != std::string::npos) return p.Refuse("there is no rule for a `kernel_layout` with an N");
  Term y = InLayout(p.x(0), data, "NCHW"), x = InLayout(p.x(1), data, "NCHW");
  Term w = Cast(InLayout(p.d(), kernel, "OIHW"), p.type(0).dtype);
  Convolution convolution(attrs, attrs.GetInts("kernel_size"));
  if (!convolution.KnowsGaps(p, x)) return;
  p.Give(0, InLayout(convolution.Of(x, w), "NCHW", data));
  p.Give(1, InLayout(convolution.ByData(y, w, x), "NCHW", data));
}
void MaxPool2dGradient(Pullback& p) { p.Give(0, p.Call("nn.max_pool2d_grad", {p.d(), p.x()}, p.attrs())); }
void AvgPool2dGradient(Pullback& p) { p.Give(0, p.Call("nn.avg_pool2d_grad", {p.d(), p.x()}, p.attrs())); }
void AvgPool2dGradGradient(Pullback& p) { p.Give(0, p.Call("nn.avg_pool2d", {p.d()}, p.attrs())); }
// Each window reads its element of d where it found the first of its greatest elements.
void MaxPool2dGradGradient(Pullback& p) {
  const std::string& layout = p.attrs().GetString("layout");
  std::vector<Window> windows = *MakeWindows(p.attrs(), PerAxis(p.attrs().GetInts("pool_size"), 2), nullptr);
  constexpr int64_t kMostTaps = 400;
  if (windows[0].extent * windows[1].extent > kMostTaps) {
    return p.Refuse("there is a rule for windows of up to 400 elements");
  }
  const Ints axes = {static_cast<int64_t>(layout.find('H')), static_cast<int64_t>(layout.find('W'))};
  // Windows may end behind the padding: `ceil_mode`.
  ir::AttrValue::List widths(4, ir::IntList({{0, 0}}));
  for (size_t i = 0; i < 2; ++i) {
    widths[static_cast<size_t>(axes[i])] =
        ir::IntList({{windows[i].pad_before, windows[i].pad_after + windows[i].stride - 1}});
  }
  auto padded = [&](Term x, double border) {
    return p.Call("nn.pad", {x, p.Scalar(border, x)}, ir::Attrs{{"pad_width", widths}});
  };
  Term x = padded(p.x(1), -std::numeric_limits<double>::infinity()), d = padded(p.d(), 0);
  auto tap = [&](Term from, int64_t row, int64_t column) {
    ir::Attrs attrs{{"begin", ir::IntList({{row * windows[0].dilation, column * windows[1].dilation}})},
                    {"end", ir::IntList({{kWholeAxis, kWholeAxis}})},
                    {"strides", ir::IntList({{windows[0].stride, windows[1].stride}})},
                    {"axes", ir::IntList(axes)}};
    return p.Call("slice_like", {p.Call("strided_slice", {from}, attrs), p.x(0)},
                  ir::Attrs{{"axes", ir::IntList(axes)}});
  };
  Term greatest = tap(x, 0, 0), share = tap(d, 0, 0);
  for (int64_t i = 1; i < windows[0].extent * windows[1].extent; ++i) {
    int64_t row = i / windows[1].extent, column = i % windows[1].extent;
    Term next = tap(x, row, column);
    Term is_greater = p.Call("greater", {next, greatest});
    share = Where(is_greater, tap(d, row, column), share);
    greatest = Where(is_greater, next, greatest);
  }
  p.Give(0, share);
}

namespace {
Ints SpatialAxes(Pullback& p) {
  const std::string& layout = p.attrs().GetString("layout");
  return {static_cast<int64_t>(layout.find('H')), static_cast<int64_t>(layout.find('W'))};
}
}  // namespace
void GlobalAvgPool2dGradient(Pullback& p) {
  p.Give(0, p.Call("broadcast_to_like", {p.d() / CountOver(p, SpatialAxes(p)), p.x()}));
}
void GlobalMaxPool2dGradient(Pullback& p) {
  Term mask = Cast(p.Call("equal", {p.x(), p.y()}), p.type(0).dtype);
  p.Give(0, mask * (p.d() / SumOver(mask, SpatialAxes(p))));
}

}  // namespace rvm::ops
