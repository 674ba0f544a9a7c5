// Gradients of operators that are linear along each axis of space by itself: resizing, and pooling to bins.
//
// Such an operator multiplies each axis by a matrix, which is what it makes of the unit vectors. The adjoint multiplies
// by the transposed matrices. Its cost is that of products: an axis of n elements of which m are made takes n * m
// multiplications for each of its lines.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/gradient_rules.h"
#include "compiler/ops/gradient_terms.h"
#include "compiler/ops/pullback.h"
#include "compiler/ops/window.h"

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

// What is read outside of the image is constant.
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
    if (attrs.GetString("coordinate_transformation_mode") == "tf_crop_and_resize") {
      const ir::AttrValue::List& roi = *attrs.Find("roi")->AsList();
      size_t axis = layout.spatial[s], rank = layout.letters.size();
      one.Set("roi", ir::AttrValue::List{0.0, 0.0, roi[axis], 1.0, 1.0, roi[rank + axis]});
    }
    return p.Call("image.resize1d", {units}, one);
  });
}

// Of an image whose other axes of space have one element and are not scaled.
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

void AdaptiveAvgPoolGradient(Pullback& p) {
  std::vector<int64_t> bins =
      PerAxis(p.attrs().GetInts("output_size"), Layout(p.attrs().GetString("layout")).spatial.size());
  if (bins.empty()) return p.Give(0, p.d());
  GiveByMatrices(p, [&](Term units, size_t s) {
    return p.Call("nn.adaptive_avg_pool1d", {units}, ir::Attrs{{"output_size", ir::IntList({{bins[s]}})}});
  });
}

}  // namespace rvm::ops
