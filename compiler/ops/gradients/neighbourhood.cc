// Gradients of operators on windows other than convolution and pooling: dilation, correlation.
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

using Ints = std::vector<int64_t>;

// Images NCHW with zeros around them; `padding` is top, left, bottom, right.
Term Padded(Term x, const Ints& padding) {
  ir::AttrValue::List widths(4, ir::IntList({{0, 0}}));
  for (size_t s = 0; s < 2; ++s) widths[2 + s] = ir::IntList({{padding[s], padding[2 + s]}});
  return x.code().Call("nn.pad", {x, Zero(x)}, ir::Attrs{{"pad_width", widths}});
}

// Along `axes` the elements from `begin` on, without the last `left_out`, in steps of `strides`.
Term Inner(Term x, const Ints& axes, const Ints& begin, const Ints& left_out, const Ints& strides) {
  Ints end;
  for (int64_t count : left_out) end.push_back(count == 0 ? kWholeAxis : -count);
  return x.code().Call("strided_slice", {x},
                       ir::Attrs{{"begin", ir::IntList(begin)},
                                 {"end", ir::IntList(end)},
                                 {"strides", ir::IntList(strides)},
                                 {"axes", ir::IntList(axes)}});
}

}  // namespace

// The greatest of the sums of each tap.
void Dilation2dGradient(Pullback& p) {
  const std::string &layout = p.attrs().GetString("data_layout"), &kernel = p.attrs().GetString("kernel_layout");
  ir::Attrs spelt = p.attrs();
  spelt.Set("dilation", *p.attrs().Find("dilations"));
  Ints taps;
  for (size_t axis : Layout(kernel).spatial) taps.push_back(p.type(1).shape.dims[axis].constant());
  std::vector<Window> w = *MakeWindows(spelt, taps, nullptr);
  p.GiveThrough([&](const std::vector<Term>& x) {
    ir::DTypeTerm dtype = p.d().type().dtype;
    Term images = Padded(InLayout(Cast(x[0], dtype), layout, "NCHW"),
                         {w[0].pad_before, w[1].pad_before, w[0].pad_after, w[1].pad_after});
    Term weights = InLayout(Cast(x[1], dtype), kernel, "IHW");
    std::vector<Term> sums;
    for (int64_t i = 0; i < taps[0] * taps[1]; ++i) {
      int64_t row = i / taps[1], column = i % taps[1];
      Ints begin = {row * w[0].dilation, column * w[1].dilation};
      Term read = Inner(images, {2, 3}, begin, {w[0].span() - 1 - begin[0], w[1].span() - 1 - begin[1]},
                        {w[0].stride, w[1].stride});
      sums.push_back(read + Expanded(Picked(Picked(weights, row, 1), column, 1), 1, 2));
    }
    Term greatest = p.Call("max", {Stacked(sums, 0)}, ir::Attrs{{"axis", ir::IntList({{0}})}});
    return InLayout(greatest, "NCHW", layout);
  });
}

// Row by row of the displacements the products of all of them, pooled over the patches.
void CorrelationGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  int64_t kernel = attrs.GetInt("kernel_size"), displacement = attrs.GetInt("max_displacement");
  int64_t stride1 = attrs.GetInt("stride1"), stride2 = attrs.GetInt("stride2"), radius = displacement / stride2;
  Ints padding = PerAxis(attrs.GetInts("padding"), 2);
  if (padding.size() == 2) padding.insert(padding.end(), {padding[0], padding[1]});
  p.GiveThrough([&](const std::vector<Term>& x) {
    const Ints all = {1, 1}, around = {displacement, displacement};
    Term first = Inner(Padded(WideFloat(x[0]), padding), {2, 3}, around, around, all);
    Term second = Padded(WideFloat(x[1]), padding);
    Ints moves;
    for (int64_t i = -radius; i <= radius; ++i) moves.push_back(i * stride2);
    // (displacements, width)
    Term columns = Expanded(p.Ints(moves) + static_cast<double>(displacement), 1) + Places(first, 3);
    std::vector<Term> rows;
    for (int64_t move : moves) {
      Term read = Inner(second, {2}, {displacement + move}, {displacement - move}, {1});
      // (N, C, height, displacements, width)
      Term moved = p.Call("take", {read, columns}, ir::Attrs{{"axis", 3}});
      Term compared =
          attrs.GetBool("is_multiply") ? Expanded(first, 3) * moved : p.Call("abs", {Expanded(first, 3) - moved});
      rows.push_back(p.Call("mean", {compared}, ir::Attrs{{"axis", ir::IntList({{1}})}}));
    }
    // (N, rows, height, displacements, width)
    Term means = Reshaped(Transposed(Stacked(rows, 1), {0, 1, 3, 2, 4}), {0, -3, -2});
    ir::Attrs patches{{"pool_size", ir::IntList({{kernel, kernel}})}, {"strides", ir::IntList({{stride1, stride1}})}};
    return Cast(p.Call("nn.avg_pool2d", {means}, patches), p.type(0).dtype);
  });
}

}  // namespace rvm::ops
