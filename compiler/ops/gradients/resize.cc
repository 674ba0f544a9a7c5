// Gradients of operators that are linear along each axis of space by itself: resizing, and pooling to bins.
//
// Such an operator multiplies each axis by a matrix, which is what it makes of the unit vectors. The adjoint multiplies
// by the transposed matrices. Its cost is that of products: an axis of n elements of which m are made takes n * m
// multiplications for each of its lines.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/families/resample.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/samples.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

// `matrix` (n, m) times the lines of d, of m elements, along `axis` of two or more, of which the first is no axis of
// space.
Term AlongAxis(Term matrix, Term d, int64_t axis) {
  Pullback& p = d.code();
  int64_t rank = d.rank();
  if (axis == rank - 1) {
    return p.Call("nn.matmul", {d, matrix}, ir::Attrs{{"transpose_a", false}, {"transpose_b", true}});
  }
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i == axis ? rank - 2 : i == rank - 2 ? axis : i);
  auto exchanged = [&](Term x) {
    return axis == rank - 2 ? x : p.Call("transpose", {x}, ir::Attrs{{"axes", ir::IntList(axes)}});
  };
  return exchanged(p.Call("nn.matmul", {matrix, exchanged(d)}));
}

// `apply` is the operator along axis s of space, on images NCW: `units` is (1, n, n), its result (1, n, m).
void GiveByMatrices(Pullback& p, const std::function<Term(Term units, size_t s)>& apply) {
  const std::string& letters = p.attrs().GetString("layout");
  Layout layout(letters);
  size_t axes = layout.spatial.size();
  std::string images = ImageLayout(axes);
  Term d = Cast(InLayout(p.d(), letters, images), p.type(0).dtype);
  for (size_t s = 0; s < axes; ++s) {
    // The channels of one image.
    Term units =
        p.Call("expand_dims", {UnitMatrix(p.x(), static_cast<int64_t>(layout.spatial[s]))}, ir::Attrs{{"axis", 0}});
    Term matrix = p.Call("squeeze", {apply(units, s)}, ir::Attrs{{"axis", ir::IntList({{0}})}});
    d = AlongAxis(matrix, d, static_cast<int64_t>(2 + s));
  }
  p.Give(0, InLayout(d, images, letters));
}

}  // namespace

// Elements read outside of the image are constant.
void ResizeGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  Layout layout(attrs.GetString("layout"));
  std::vector<int64_t> size = PerAxis(attrs.GetInts("size"), layout.spatial.size());
  GiveByMatrices(p, [&](Term units, size_t s) {
    ir::Attrs one{{"size", ir::IntList({{size[s]}})}};
    for (const char* name : {"method", "coordinate_transformation_mode", "rounding_method"})
      one.Set(name, attrs.GetString(name));
    one.Set("cubic_alpha", attrs.GetDouble("cubic_alpha"));
    one.Set("cubic_exclude", attrs.GetInt("cubic_exclude"));
    if (!attrs.IsNone("scales")) one.Set("scales", ir::AttrValue::List{(*attrs.Find("scales")->AsList())[s]});
    if (attrs.GetString("coordinate_transformation_mode") == "tf_crop_and_resize") {
      const ir::AttrValue::List& roi = *attrs.Find("roi")->AsList();
      auto [begin, end] = *PlacesInRoi(layout, roi.size(), s);
      one.Set("roi", ir::AttrValue::List{roi[begin], roi[end]});
    }
    return p.Call("image.resize1d", {units}, one);
  });
}

// Handles an image whose other axes of space have one element and are not scaled.
void UpsamplingGradient(Pullback& p) {
  std::vector<std::string> scales = {"scale_h", "scale_w"};
  if (p.rank(0) == 5) scales.insert(scales.begin(), "scale_d");
  auto ones = static_cast<int64_t>(scales.size()) - 1;
  GiveByMatrices(p, [&](Term units, size_t s) {
    ir::Attrs one = p.attrs();
    for (const std::string& scale : scales) one.Set(scale, 1.0);
    one.Set(scales.back(), p.attrs().GetDouble(scales[s]));
    one.Set("layout", ones == 1 ? "NCHW" : "NCDHW");
    Term images = p.Call("expand_dims", {units}, ir::Attrs{{"axis", 2}, {"num_newaxis", ones}});
    Term made = p.Call(ones == 1 ? "nn.upsampling" : "nn.upsampling3d", {images}, one);
    return p.Call("squeeze", {made}, ir::Attrs{{"axis", ones == 1 ? ir::IntList({{2}}) : ir::IntList({{2, 3}})}});
  });
}

namespace {

// A vector of `count`, a scalar, for axis s of `axes`, and 1 for the others.
Term SizeAlong(Term count, size_t s, size_t axes) {
  std::vector<Term> size(axes, count.code().Int(1));
  size[s] = count;
  return Stacked(size, 0);
}
// Channels (1, n, n) as those of images whose other axes of space have one element, and back.
Term AsColumns(Term units, size_t s, size_t axes) {
  for (size_t i = 0; i < axes; ++i) {
    if (i != s) units = Expanded(units, static_cast<int64_t>(2 + i));
  }
  return units;
}
Term FromColumns(Term made, size_t s, size_t axes) {
  std::vector<int64_t> others;
  for (size_t i = 0; i < axes; ++i) {
    if (i != s) others.push_back(static_cast<int64_t>(2 + i));
  }
  return made.code().Call("squeeze", {made}, ir::Attrs{{"axis", ir::IntList(others)}});
}

// Returns the number of elements of the argument `roi`; that for all axes where the type does not say.
size_t NumbersInRoi(Pullback& p) { return static_cast<size_t>(p.type(2).shape.dims[0].AsConst().value_or(8)); }

// `dyn.image.resize2d` of a part of the image, which depends on the bounds `roi`, too: a product with what each place
// reads along each axis.
void GiveResizedPart(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  const std::string& letters = attrs.GetString("layout");
  bool is_cubic = MethodOf(attrs.GetString("method")) == Method::kCubic;
  Layout layout(letters);
  Term d = InLayout(p.d(), letters, "NCHW");
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term made = InLayout(WideFloat(x[0]), letters, "NCHW");
    Term roi = Cast(x[2], ir::DTypeTerm::Of(kFloat64));
    std::optional<Term> inside;
    for (int64_t s = 0; s < 2; ++s) {
      auto [first, last_place] = *PlacesInRoi(layout, NumbersInRoi(p), static_cast<size_t>(s));
      Term begin = Picked(roi, static_cast<int64_t>(first), 0), end = Picked(roi, static_cast<int64_t>(last_place), 0);
      Term extent = Extent(made, 2 + s), last = Cast(extent - 1, roi.type().dtype);
      Term count = Cast(Extent(d, 2 + s), roi.type().dtype), step = Cast(Places(d, 2 + s), roi.type().dtype);
      Term is_one = p.Call("equal", {count, p.Scalar(1, count)});
      Term steps = Where(is_one, p.Scalar(1, count), count - 1);
      Term at = Where(is_one, (begin + end) * 0.5 * last, begin * last + step * ((end - begin) * last / steps));
      Term here = p.Call("logical_and", {p.Call("greater_equal", {at, Zero(at)}), p.Call("less_equal", {at, last})});
      Term along = s == 0 ? Expanded(here, 1) : here;
      inside = inside ? p.Call("logical_and", {*inside, along}) : along;
      Taps taps = is_cubic ? CubicTaps(at, attrs.GetDouble("cubic_alpha")) : LinearTaps(at);
      if (is_cubic && attrs.GetInt("cubic_exclude") != 0) {
        Term kept = *InsideOnly(taps, extent).weights;
        taps.weights = kept / SumOver(kept, {0});
      }
      Term places = Expanded(Clamped(taps.places, p.Int(0), extent), 2);
      Term is_read = Cast(p.Call("equal", {places, Places(made, 2 + s)}), made.type().dtype);
      Term weights = Expanded(Cast(*taps.weights, made.type().dtype), 2);
      Term matrix = p.Call("sum", {weights * is_read}, ir::Attrs{{"axis", ir::IntList({{0}})}});
      made = AlongAxis(matrix, made, 2 + s);
    }
    Term outside = p.Scalar(attrs.GetDouble("extrapolation_value"), made);
    return Cast(InLayout(Where(*inside, made, outside), "NCHW", letters), d.type().dtype);
  });
}

}  // namespace

void DynResizeGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  bool is_part = attrs.GetString("coordinate_transformation_mode") == "tf_crop_and_resize";
  if (is_part && MethodOf(attrs.GetString("method")) != Method::kNearest) return GiveResizedPart(p);
  Layout layout(attrs.GetString("layout"));
  ir::Attrs columns = attrs;
  columns.Set("layout", "NCHW");
  columns.Set("out_dtype", "");
  columns.Set("extrapolation_value", 0.0);
  Term roi = p.x(2);
  if (is_part && NumbersInRoi(p) == 8) {
    std::vector<int64_t> order;
    for (int64_t first : {0, 4}) {
      for (char letter : std::string("NCHW")) order.push_back(first + static_cast<int64_t>(layout.axis(letter)));
    }
    roi = p.Call("take", {roi, p.Ints(order)});
  }
  GiveByMatrices(p, [&](Term units, size_t s) {
    Term size = SizeAlong(Picked(Wide(p.x(1)), static_cast<int64_t>(s), 0), s, 2);
    ir::Attrs along = columns;
    if (!attrs.IsNone("scales")) {
      const ir::AttrValue& scale = (*attrs.Find("scales")->AsList())[s];
      along.Set("scales", s == 0 ? ir::AttrValue::List{scale, 1} : ir::AttrValue::List{1, scale});
    }
    return FromColumns(p.Call(p.op(), {AsColumns(units, s, 2), size, roi}, along), s, 2);
  });
}

// The scales decide only how many elements there are.
void DynUpsamplingGradient(Pullback& p) {
  Layout layout(p.attrs().GetString("layout"));
  ir::Attrs columns = p.attrs();
  size_t axes = layout.spatial.size();
  columns.Set("layout", axes == 2 ? "NCHW" : "NCDHW");
  GiveByMatrices(p, [&](Term units, size_t s) {
    std::vector<Term> args = {AsColumns(units, s, axes)};
    args.insert(args.end(), axes, p.Scalar(1, p.x(1)));
    args.push_back(SizeAlong(Extent(p.d(), static_cast<int64_t>(layout.spatial[s])), s, axes));
    return FromColumns(p.Call(axes == 2 ? "dyn.nn.upsampling_fill" : "dyn.nn.upsampling3d_fill", args, columns), s,
                       axes);
  });
}

void AdaptiveAvgPoolGradient(Pullback& p) {
  std::vector<int64_t> bins =
      PerAxis(p.attrs().GetInts("output_size"), Layout(p.attrs().GetString("layout")).spatial.size());
  if (bins.empty()) return p.Give(0, p.d());
  GiveByMatrices(p, [&](Term units, size_t s) {
    return p.Call("nn.adaptive_avg_pool1d", {units}, ir::Attrs{{"output_size", ir::IntList({{bins[s]}})}});
  });
}

}  // namespace rvm::ops
