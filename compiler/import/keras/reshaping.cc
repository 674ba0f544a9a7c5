// Layers that change shapes, cut or repeat.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/keras/images.h"
#include "compiler/import/shapes.h"

namespace rvm::keras {
namespace {

// Returns x with its channels last.
Operand ChannelsLast(LayerContext& c, Operand x) {
  if (c.failed() || c.has_channels_last() || c.RankOf(x) < 3) return x;
  std::vector<int64_t> axes = {0};
  for (int64_t i = 2; i < c.RankOf(x); ++i) axes.push_back(i);
  axes.push_back(1);
  return c.Transpose(x, axes);
}

Values Flatten(LayerContext& c) {
  Operand x = ChannelsLast(c, c.In());
  if (c.failed()) return {};
  const Dims dims = c.DimsOf(x);
  if (dims.empty()) return {{c.Fail("its input is a scalar")}};
  return {{c.Reshape(x, {dims[0], importing::Product(std::span(dims).subspan(1))})}};
}

Values Reshape(LayerContext& c) {
  Operand x = c.In();
  const std::vector<int64_t> target = c.Ints("target_shape");
  if (c.failed()) return {};
  const Dims from = c.DimsOf(x);
  if (from.empty()) return {{c.Fail("its input is a scalar")}};
  // An extent of -1 is what the others leave of one element of the batch.
  Dims to(target.begin(), target.end());
  const Dims own(from.begin() + 1, from.end());
  const std::optional<Dims> dims = importing::TargetShape(c, own, std::move(to));
  if (!dims) return {};
  Dims whole = {from[0]};
  whole.insert(whole.end(), dims->begin(), dims->end());
  return {{c.Reshape(x, whole)}};
}

Values Permute(LayerContext& c) {
  Operand x = c.In();
  std::vector<int64_t> axes = c.Ints("dims");
  if (c.failed()) return {};
  axes.insert(axes.begin(), 0);
  return {{c.Transpose(x, axes)}};
}

Values RepeatVector(LayerContext& c) {
  Operand x = c.In();
  if (c.failed()) return {};
  if (c.RankOf(x) != 2) return {{c.Fail("its input has not rank 2")}};
  const Dims dims = c.DimsOf(x);
  return {{c.BroadcastTo(c.Unsqueeze(x, {1}), {dims[0], Dim(c.Int("n", 1)), dims[1]})}};
}

// Reads, for each axis of space, a number before and one behind: [[1, 2], [0, 3]], or [1, 2] for one axis.
std::vector<std::array<int64_t, 2>> PairsOf(LayerContext& c, std::string_view name, size_t axes) {
  std::vector<std::array<int64_t, 2>> pairs;
  const JsonValue* member = c.Member(name);
  const JsonValue::Array* items = member == nullptr ? nullptr : member->AsArray();
  auto number = [](const JsonValue& json) { return json.AsInt() == nullptr ? -1 : *json.AsInt(); };
  auto add = [&](const JsonValue& before, const JsonValue& after) { pairs.push_back({number(before), number(after)}); };
  if (items == nullptr) {
    for (size_t i = 0; member != nullptr && i < axes; ++i) add(*member, *member);
  } else if (axes == 1 && items->size() == 2) {
    add((*items)[0], (*items)[1]);
  } else {
    for (const JsonValue& item : *items) {
      const JsonValue::Array* pair = item.AsArray();
      if (pair == nullptr) add(item, item);
      if (pair != nullptr && pair->size() == 2) add((*pair)[0], (*pair)[1]);
    }
  }
  bool fits = pairs.size() == axes;
  for (const auto& [before, after] : pairs) {
    fits = fits && before >= 0 && after >= 0 && before < importing::kBeyond && after < importing::kBeyond;
  }
  if (!fits) c.Fail(absl::StrCat("its `", std::string(name), "` is not a pair of numbers for each axis"));
  return pairs;
}

Values Cropping(LayerContext& c) {
  Operand x = c.In();
  const auto pairs = PairsOf(c, "cropping", c.space_axes());
  for (size_t i = 0; i < pairs.size() && !c.failed(); ++i) {
    const int64_t axis = c.first_space_axis() + static_cast<int64_t>(i);
    const auto [before, after] = pairs[i];
    if (before != 0 || after != 0) x = c.SliceAxis(x, axis, before, c.ExtentOf(x, axis) - after);
  }
  return {{x}};
}

Values ZeroPadding(LayerContext& c) {
  Operand x = c.In();
  const auto pairs = PairsOf(c, "padding", c.space_axes());
  if (c.failed()) return {};
  if (c.RankOf(x) != static_cast<int64_t>(pairs.size()) + 2) return {{c.Fail("its input has another rank")}};
  Dims widths(2 * c.DimsOf(x).size(), Dim(0));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const size_t axis = static_cast<size_t>(c.first_space_axis()) + i;
    widths[2 * axis] = pairs[i][0];
    widths[2 * axis + 1] = pairs[i][1];
  }
  return {{importing::PadBy(c, x, 0, widths)}};
}

Values UpSampling(LayerContext& c) {
  Operand x = c.In();
  const size_t axes = c.space_axes();
  const std::vector<int64_t> size = c.Extents("size", axes);
  const std::string method = c.Text("interpolation", "nearest");
  if (c.failed()) return {};
  const int64_t first = c.first_space_axis();
  if (method == "nearest") {
    for (size_t i = 0; i < axes; ++i) {
      if (size[i] == 1) continue;
      x = c.Op("repeat", {x}, {{"repeats", size[i]}, {"axis", first + static_cast<int64_t>(i)}});
    }
    return {{x}};
  }
  std::vector<int64_t> extents;
  for (size_t i = 0; i < axes; ++i) {
    const std::optional<int64_t> extent = importing::KnownExtent(c, x, first + static_cast<int64_t>(i), "input");
    int64_t resized = 0;
    if (!extent || __builtin_mul_overflow(*extent, size[i], &resized)) return {{c.failed() ? x : c.Fail("too large")}};
    extents.push_back(resized);
  }
  return {{Resized(c, x, extents, method)}};
}

constexpr LayerRow kRows[] = {
    {"Cropping1D", Cropping, "1"},
    {"Cropping2D", Cropping, "2"},
    {"Cropping3D", Cropping, "3"},
    {"Flatten", Flatten},
    {"Permute", Permute},
    {"RepeatVector", RepeatVector},
    {"Reshape", Reshape},
    {"UpSampling1D", UpSampling, "1"},
    {"UpSampling2D", UpSampling, "2"},
    {"UpSampling3D", UpSampling, "3"},
    {"ZeroPadding1D", ZeroPadding, "1"},
    {"ZeroPadding2D", ZeroPadding, "2"},
    {"ZeroPadding3D", ZeroPadding, "3"},
};

}  // namespace

std::span<const LayerRow> ReshapingLayers() { return kRows; }

}  // namespace rvm::keras
