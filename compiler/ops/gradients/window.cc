// Gradients of convolution and pooling.
#include "compiler/ops/families/window.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/samples.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

using Ints = std::vector<int64_t>;

// ---- convolution

// `x` of layout `from` with its axes in the order of `to`. Images of one axis get a height of 1.
Term ToImages(Term x, const std::string& from, const std::string& to) {
  x = InLayout(x, from, to);
  return to.size() == 3 ? x.code().Call("expand_dims", {x}, ir::Attrs{{"axis", 2}}) : x;
}
Term FromImages(Term x, const std::string& from, const std::string& to) {
  if (from.size() == 3) x = x.code().Call("squeeze", {x}, ir::Attrs{{"axis", ir::IntList({{2}})}});
  return InLayout(x, from, to);
}

// The three operators that are linear in the data x (NC...), the filters w (OI...) and the result y = conv(x, w) each.
class Convolution {
 public:
  // `taps`: the extents of the filters, one for each axis of `attrs`.
  Convolution(const ir::Attrs& attrs, const Ints& taps)
      : windows_(*MakeWindows(attrs, taps, nullptr)), groups_(attrs.GetInt("groups")) {
    if (windows_.size() == 1) windows_.insert(windows_.begin(), Window{});
  }

  Term Of(Term x, Term w) const {
    return x.code().Call(windows_.size() == 2 ? "nn.conv2d" : "nn.conv3d", {x, w}, Attrs());
  }
  // Returns the adjoint of x. Of what a stride leaves over at the end, an extent that is not known takes the most and
  // is cut.
  Term ByData(Term d, Term w, Term x) const {
    Ints rest, longer;
    for (size_t i = 0; i < windows_.size(); ++i) {
      const Window& window = windows_[i];
      const Dim& extent = x.type().shape.dims[2 + i];
      int64_t padding = window.pad_before + window.pad_after;
      if (window.stride > 1 && !extent.is_const()) longer.push_back(static_cast<int64_t>(2 + i));
      bool is_known = window.stride > 1 && extent.is_const();
      rest.push_back(is_known ? (extent.constant() + padding - window.span()) % window.stride : window.stride - 1);
    }
    ir::Attrs attrs = Attrs();
    attrs.Set("output_padding", ir::IntList(rest));
    Pullback& p = d.code();
    Term made = p.Call(windows_.size() == 2 ? "nn.conv2d_transpose" : "nn.conv3d_transpose", {d, w}, attrs);
    return longer.empty() ? made : p.Call("slice_like", {made, x}, ir::Attrs{{"axes", ir::IntList(longer)}});
  }
  // Returns the adjoint of w.
  Term ByFilters(Term d, Term x) const {
    if (windows_.size() == 2) return ByPlanes(d, x);
    // For each tap along the depth the planes that it reads, as a batch.
    const Window& depth = windows_[0];
    ir::AttrValue::List widths(5, ir::IntList({{0, 0}}));
    widths[2] = ir::IntList({{depth.pad_before, depth.pad_after}});
    x = x.code().Call("nn.pad", {x, Zero(x)}, ir::Attrs{{"pad_width", widths}});
    std::vector<Term> planes;
    for (int64_t k = 0; k < depth.extent; ++k) {
      ir::Attrs taken{{"begin", ir::IntList({{k * depth.dilation}})},
                      {"end", ir::IntList({{kWholeAxis}})},
                      {"strides", ir::IntList({{depth.stride}})},
                      {"axes", ir::IntList({{2}})}};
      Term read = x.code().Call("slice_like", {x.code().Call("strided_slice", {x}, taken), d},
                                ir::Attrs{{"axes", ir::IntList({{2}})}});
      planes.push_back(ByPlanes(AsBatch(d), AsBatch(read)));
    }
    return d.code().CallOnTuple("stack", planes, ir::Attrs{{"axis", 2}});
  }

 private:
  // NCDHW to (N * D)CHW.
  static Term AsBatch(Term x) { return Reshaped(InLayout(x, "NCDHW", "NDCHW"), {-3, -2}); }
  Term ByPlanes(Term d, Term x) const {
    std::vector<Window> two(windows_.end() - 2, windows_.end());
    ir::Attrs attrs = AttrsOf(two);
    attrs.Set("kernel_size", ir::IntList({{two[0].extent, two[1].extent}}));
    return d.code().Call("nn.conv2d_backward_weight", {d, x}, attrs);
  }
  ir::Attrs Attrs() const { return AttrsOf(windows_); }
  ir::Attrs AttrsOf(const std::vector<Window>& windows) const {
    Ints strides, padding, behind, dilation;
    for (const Window& window : windows) {
      strides.push_back(window.stride);
      padding.push_back(window.pad_before);
      behind.push_back(window.pad_after);
      dilation.push_back(window.dilation);
    }
    padding.insert(padding.end(), behind.begin(), behind.end());
    return ir::Attrs{{"strides", ir::IntList(strides)},
                     {"padding", ir::IntList(padding)},
                     {"dilation", ir::IntList(dilation)},
                     {"groups", groups_}};
  }

  std::vector<Window> windows_;
  int64_t groups_;
};

// Returns the extents of the filters along the `axes` axes of images; refuses unknown ones.
std::optional<Ints> TapsOf(Pullback& p, Term w, size_t axes) {
  Ints taps;
  for (size_t i = w.type().shape.dims.size() - axes; i < w.type().shape.dims.size(); ++i) {
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

void ConvolutionGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  std::string data = attrs.GetString("data_layout"), kernel = attrs.GetString("kernel_layout");
  std::string out = OutLayout(attrs);
  auto rank = static_cast<size_t>(p.rank(0));
  if (data.size() != rank || kernel.size() != rank || out.size() != rank)
    return p.Refuse("there is no rule for blocked layouts");
  size_t axes = rank - 2;
  std::string images = ImageLayout(axes), filters = "OI" + images.substr(2);
  Term x = ToImages(p.x(0), data, images), d = Cast(ToImages(p.d(), out, images), p.type(0).dtype);
  Term given = ToImages(p.x(1), kernel, filters), w = given;
  // Filters (C, M, ...) of C groups of one channel: those of an ordinary convolution are (C * M, 1, ...).
  bool are_by_channel = CompareDims(w.type().shape.dims[0], d.type().shape.dims[1]) == DimEquality::kDifferent;
  if (are_by_channel) w = p.Call("expand_dims", {Reshaped(w, {-3, -2})}, ir::Attrs{{"axis", 1}});
  std::optional<Ints> taps = TapsOf(p, w, axes);
  if (!taps) return;
  Convolution convolution(attrs, *taps);
  p.Give(0, FromImages(convolution.ByData(d, w, x), images, data));
  Term share = convolution.ByFilters(d, x);
  if (are_by_channel) share = p.Call("reshape_like", {share, given});
  p.Give(1, FromImages(share, filters, kernel));
}
// `nn.conv2d` with blocks of channels. A result without a layout has the blocks of the filters.
void BlockedConvolutionGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  const std::string &data = attrs.GetString("data_layout"), &kernel = attrs.GetString("kernel_layout");
  std::string block = kernel.substr(kernel.find('i') + 1), out = attrs.GetString("out_layout");
  if (out.empty()) out = "NCHW" + block.substr(0, block.size() - 1) + "c";
  ir::Attrs plain{{"groups", attrs.GetInt("groups")}};
  for (const char* name : {"strides", "padding", "dilation"}) plain.Set(name, *attrs.Find(name));
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term y = p.Call("nn.conv2d", {InLayout(x[0], data, "NCHW"), InLayout(x[1], kernel, "OIHW")}, plain);
    return Cast(InLayout(y, "NCHW", out), p.d().type().dtype);
  });
}
namespace {

// Cuts from d, whose last `axes` are those of space, what padding below 0 added to the result, and sets `padding` to
// what is left of it.
Term WithoutAdded(Term d, size_t axes, ir::Attrs& attrs) {
  Ints padding = PerAxis(attrs.GetInts("padding"), axes), begin, end, cut;
  if (padding.size() == axes) padding.insert(padding.end(), padding.begin(), padding.end());
  for (size_t s = 0; s < axes; ++s) {
    if (padding[s] >= 0 && padding[axes + s] >= 0) continue;
    cut.push_back(d.rank() - static_cast<int64_t>(axes - s));
    begin.push_back(std::max<int64_t>(-padding[s], 0));
    end.push_back(padding[axes + s] < 0 ? padding[axes + s] : kWholeAxis);
  }
  if (cut.empty()) return d;
  for (int64_t& width : padding) width = std::max<int64_t>(width, 0);
  attrs.Set("padding", ir::IntList(padding));
  return d.code().Call("strided_slice", {d},
                       ir::Attrs{{"begin", ir::IntList(begin)},
                                 {"end", ir::IntList(end)},
                                 {"strides", ir::IntList(Ints(cut.size(), 1))},
                                 {"axes", ir::IntList(cut)}});
}

}  // namespace

void ConvolutionTransposeGradient(Pullback& p) {
  ir::Attrs attrs = p.attrs();
  std::string data = attrs.GetString("data_layout"), kernel = attrs.GetString("kernel_layout");
  auto axes = static_cast<size_t>(p.rank(0) - 2);
  std::string images = ImageLayout(axes), filters = "IO" + images.substr(2);
  // Its data are the result of a convolution with the same filters, whose data are its result.
  Term y = ToImages(p.x(0), data, images), d = Cast(ToImages(p.d(), OutLayout(attrs), images), p.type(0).dtype);
  Term w = ToImages(p.x(1), kernel, filters);
  std::optional<Ints> taps = TapsOf(p, w, axes);
  if (!taps) return;
  d = WithoutAdded(d, images.size() - 2, attrs);
  Convolution convolution(attrs, *taps);
  p.Give(0, FromImages(convolution.Of(d, w), images, data));
  p.Give(1, FromImages(convolution.ByFilters(y, d), filters, kernel));
}
void Conv2dBackwardWeightGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  std::string data = attrs.GetString("data_layout"), kernel = attrs.GetString("kernel_layout");
  if (kernel.find('N') != std::string::npos) return p.Refuse("there is no rule for a `kernel_layout` with an N");
  Term y = InLayout(p.x(0), data, "NCHW"), x = InLayout(p.x(1), data, "NCHW");
  Term w = Cast(InLayout(p.d(), kernel, "OIHW"), p.type(0).dtype);
  Convolution convolution(attrs, attrs.GetInts("kernel_size"));
  p.Give(0, InLayout(convolution.Of(x, w), "NCHW", data));
  p.Give(1, InLayout(convolution.ByData(y, w, x), "NCHW", data));
}

// ---- pooling

namespace {

// Returns the attributes of pooling with the windows of some axes, in images NCHW.
ir::Attrs PoolingAttrs(const ir::Attrs& attrs, const Window& h, const Window& w, bool is_mean) {
  ir::Attrs two{{"pool_size", ir::IntList({{h.extent, w.extent}})},
                {"strides", ir::IntList({{h.stride, w.stride}})},
                {"dilation", ir::IntList({{h.dilation, w.dilation}})},
                {"padding", ir::IntList({{h.pad_before, w.pad_before, h.pad_after, w.pad_after}})},
                {"ceil_mode", attrs.GetBool("ceil_mode")}};
  if (is_mean) two.Set("count_include_pad", attrs.GetBool("count_include_pad"));
  return two;
}

// Pooling over one axis is that of images of height 1; over three it is that over two of them, then over the depth.
// `op` is "nn.max_pool2d" or "nn.avg_pool2d".
void GivePooling(Pullback& p, const std::string& op, bool is_mean, const ir::Attrs& attrs) {
  const std::string gradient = op + "_grad", &layout = attrs.GetString("layout");
  size_t axes = layout.size() - 2;
  if (axes == 2) return p.Give(0, p.Call(gradient, {p.d(), p.x()}, attrs));
  std::vector<Window> windows = *MakeWindows(attrs, PerAxis(attrs.GetInts("pool_size"), axes), nullptr);
  std::string images = ImageLayout(axes);
  Term x = ToImages(p.x(), layout, images), d = ToImages(p.d(), layout, images);
  if (axes == 1) {
    Term share = p.Call(gradient, {d, x}, PoolingAttrs(attrs, Window{}, windows[0], is_mean));
    return p.Give(0, FromImages(share, images, layout));
  }
  ir::Attrs over_planes = PoolingAttrs(attrs, windows[1], windows[2], is_mean);
  ir::Attrs over_depth = PoolingAttrs(attrs, windows[0], Window{}, is_mean);
  // (N * C)DHW, and (N * C)1D(H * W).
  Term planes = Reshaped(x, {-3, -2});
  Term pooled = p.Call(op, {planes}, over_planes);
  auto columns = [&](Term from, const Ints& shape) {
    return p.Call("expand_dims", {Reshaped(from, shape)}, ir::Attrs{{"axis", 1}});
  };
  Term by_depth = p.Call(gradient, {columns(d, {-3, 0, -3}), columns(pooled, {0, 0, -3})}, over_depth);
  Term share = p.Call(gradient, {p.Call("reshape_like", {by_depth, pooled}), planes}, over_planes);
  p.Give(0, FromImages(p.Call("reshape_like", {share, x}), images, layout));
}

}  // namespace

// Bins of one extent are windows.
void AdaptiveMaxPoolGradient(Pullback& p) {
  Layout layout(p.attrs().GetString("layout"));
  Ints windows, bins = PerAxis(p.attrs().GetInts("output_size"), layout.spatial.size());
  if (bins.empty()) return p.Give(0, p.d());
  for (size_t s = 0; s < bins.size(); ++s) {
    const Dim& extent = p.type(0).shape.dims[layout.spatial[s]];
    if (extent.is_const() && extent.constant() % bins[s] == 0) windows.push_back(extent.constant() / bins[s]);
  }
  if (windows.size() < bins.size()) {
    std::string images = ImageLayout(bins.size());
    return p.GiveThrough([&](const std::vector<Term>& x) {
      return InLayout(GreatestOfBins(InLayout(x[0], layout.letters, images), bins), images, layout.letters);
    });
  }
  ir::Attrs pooling{{"pool_size", ir::IntList(windows)},
                    {"strides", ir::IntList(windows)},
                    {"dilation", ir::IntList(Ints(windows.size(), 1))},
                    {"padding", ir::IntList(Ints(windows.size(), 0))},
                    {"layout", layout.letters},
                    {"ceil_mode", false}};
  GivePooling(p, "nn.max_pool2d", false, pooling);
}
void MaxPoolGradient(Pullback& p) { GivePooling(p, "nn.max_pool2d", false, p.attrs()); }
void AvgPoolGradient(Pullback& p) { GivePooling(p, "nn.avg_pool2d", true, p.attrs()); }
void AvgPool2dGradGradient(Pullback& p) { p.Give(0, p.Call("nn.avg_pool2d", {p.d()}, p.attrs())); }
namespace {
// The rule for many taps: axis by axis each window reads where it found its first greatest element. An axis of n
// elements and m windows takes n * m comparisons for each of its lines.
void ReadAtGreatest(Pullback& p, const std::vector<Window>& windows, const Ints& axes) {
  Term x = p.x(1), read = p.d();
  for (size_t i : {1, 0}) {
    const Window& window = windows[i];
    int64_t axis = axes[i];
    Term begin = Places(p.x(0), axis) * static_cast<double>(window.stride) - static_cast<double>(window.pad_before);
    Term from_begin = Places(x, axis) - Expanded(begin, 1);
    auto is = [&](std::string_view compare, Term a, int64_t b) { return p.Call(compare, {a, p.Int(b)}); };
    Term inside = p.Call("logical_and", {is("greater_equal", from_begin, 0), is("less", from_begin, window.span())});
    Term is_tap = is("equal", p.Call("floor_mod", {from_begin, p.Int(window.dilation)}), 0);
    Term ranges = p.Call("logical_and", {inside, is_tap});
    Term places = FirstGreatest(x, axis, ranges);
    ir::Attrs along{{"axis", axis}};
    x = p.Call("gather", {x, places}, along);
    // A window in the padding reads nothing.
    Term has_any = p.Call("any", {ranges}, ir::Attrs{{"axis", ir::IntList({{1}})}});
    read = p.Call("gather", {read, places}, along);
    read = Where(Expanded(has_any, 1, x.rank() - 1 - axis), read, Zero(read));
  }
  p.Give(0, read);
}
}  // namespace
// Each window reads its element of d where it found the first of its greatest elements.
void MaxPool2dGradGradient(Pullback& p) {
  const std::string& layout = p.attrs().GetString("layout");
  std::vector<Window> windows = *MakeWindows(p.attrs(), PerAxis(p.attrs().GetInts("pool_size"), 2), nullptr);
  const Ints axes = {static_cast<int64_t>(layout.find('H')), static_cast<int64_t>(layout.find('W'))};
  constexpr int64_t kMaxTaps = 100;
  if (windows[0].extent * windows[1].extent > kMaxTaps) return ReadAtGreatest(p, windows, axes);
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
