// Pooling: in windows, over all of space, and into a number of bins.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/keras/windows.h"
#include "compiler/import/term.h"

namespace rvm::keras {
namespace {

using importing::Term;

// Returns the kind of a variant such as "avg2".
std::string_view KindOf(const LayerContext& c) { return c.row().variant.substr(0, 3); }

Values Pool(LayerContext& c) {
  Operand x = c.In();
  if (c.failed()) return {};
  const Windows windows = ReadWindows(c, x, c.space_axes(), "pool_size", true);
  if (c.failed()) return {};
  ir::Attrs attrs = {{"pool_size", ir::IntList(windows.kernel)},
                     {"strides", ir::IntList(windows.strides)},
                     {"padding", ir::IntList(windows.pads)},
                     {"layout", windows.data_layout}};
  if (KindOf(c) == "avg") attrs.Set("count_include_pad", false);
  return {{c.Op(absl::StrCat("nn.", Abseil(KindOf(c)), "_pool", windows.axes(), "d"), {x}, std::move(attrs))}};
}

Values GlobalPool(LayerContext& c) {
  Operand x = c.In();
  if (c.failed()) return {};
  const int64_t first = c.first_space_axis(), axes = static_cast<int64_t>(c.space_axes());
  if (c.RankOf(x) != axes + 2) return {{c.Fail(absl::StrCat("its input has rank ", c.RankOf(x)))}};
  ir::AttrValue::List space;
  for (int64_t i = 0; i < axes; ++i) space.emplace_back(first + i);
  const bool keeps = c.Bool("keepdims", false);
  const ir::Attrs over = {{"axis", space}, {"keepdims", keeps}};
  if (KindOf(c) == "max") return {{c.Op("max", {x}, over)}};
  Operand mask = c.Mask();
  if (axes != 1 || mask == nullptr) return {{c.Op("mean", {x}, over)}};
  // The mean of the steps that count.
  Operand counts = c.Unsqueeze(c.Cast(mask, c.DTypeOf(x)), {c.has_channels_last() ? 2 : 1});
  return {{c.Div(c.Op("sum", {c.Mul(x, counts)}, over), c.Op("sum", {counts}, over))}};
}

Values AdaptivePool(LayerContext& c) {
  Operand x = c.In();
  const size_t axes = c.space_axes();
  const std::vector<int64_t> size = c.Extents("output_size", axes);
  if (c.failed()) return {};
  return {{c.Op(absl::StrCat("nn.adaptive_", Abseil(KindOf(c)), "_pool", axes, "d"), {x},
                {{"output_size", ir::IntList(size)}, {"layout", DataLayout(c, axes)}})}};
}

constexpr LayerRow kRows[] = {
    {"AdaptiveAveragePooling1D", AdaptivePool, "avg1"},
    {"AdaptiveAveragePooling2D", AdaptivePool, "avg2"},
    {"AdaptiveAveragePooling3D", AdaptivePool, "avg3"},
    {"AdaptiveMaxPooling1D", AdaptivePool, "max1"},
    {"AdaptiveMaxPooling2D", AdaptivePool, "max2"},
    {"AdaptiveMaxPooling3D", AdaptivePool, "max3"},
    {"AveragePooling1D", Pool, "avg1"},
    {"AveragePooling2D", Pool, "avg2"},
    {"AveragePooling3D", Pool, "avg3"},
    {"GlobalAveragePooling1D", GlobalPool, "avg1"},
    {"GlobalAveragePooling2D", GlobalPool, "avg2"},
    {"GlobalAveragePooling3D", GlobalPool, "avg3"},
    {"GlobalMaxPooling1D", GlobalPool, "max1"},
    {"GlobalMaxPooling2D", GlobalPool, "max2"},
    {"GlobalMaxPooling3D", GlobalPool, "max3"},
    {"MaxPooling1D", Pool, "max1"},
    {"MaxPooling2D", Pool, "max2"},
    {"MaxPooling3D", Pool, "max3"},
};

}  // namespace

std::span<const LayerRow> PoolingLayers() { return kRows; }

}  // namespace rvm::keras
