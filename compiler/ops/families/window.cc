#include "compiler/ops/families/window.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dim_bounds.h"

namespace rvm::ops {

Layout::Layout(std::string text) : letters(std::move(text)) {
  for (char letter : {'D', 'H', 'W'}) {
    if (axis(letter) != std::string::npos) spatial.push_back(axis(letter));
  }
}

bool TakesFilters(std::string_view op) {
  constexpr std::string_view kTransposed = "_transpose";
  if (op.starts_with('q')) op.remove_prefix(1);
  if (op.ends_with(kTransposed)) op.remove_suffix(kTransposed.size());
  return op == "nn.conv1d" || op == "nn.conv2d" || op == "nn.conv3d";
}

Dim WindowCount(const Dim& input, const Window& window, bool ceil_mode) {
  Dim room = input + (window.pad_before + window.pad_after - window.span());
  if (ceil_mode) room = room + (window.stride - 1);
  Dim count = FloorDiv(room, window.stride) + 1;
  if (ceil_mode) count = Min(count, FloorDiv(input + (window.pad_before - 1), window.stride) + 1);
  return ClampedToNatural(count);
}

std::vector<int64_t> PerAxis(std::vector<int64_t> values, size_t axes) {
  if (values.size() == 1) values.resize(axes, values[0]);
  return values;
}

std::optional<std::vector<Window>> MakeWindows(const ir::Attrs& attrs, const std::vector<int64_t>& extents,
                                               TypeContext* context, bool may_be_negative) {
  size_t axes = extents.size();
  std::vector<int64_t> strides = PerAxis(attrs.GetInts("strides"), axes);
  std::vector<int64_t> dilation = PerAxis(attrs.GetInts("dilation"), axes);
  std::vector<int64_t> padding = PerAxis(attrs.GetInts("padding"), axes);
  bool symmetric = padding.size() == axes;
  auto all_at_least = [](const std::vector<int64_t>& values, int64_t least) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= least; });
  };
  bool is_padding = (symmetric || padding.size() == 2 * axes) && (may_be_negative || all_at_least(padding, 0));
  const char* wrong = strides.size() != axes || !all_at_least(strides, 1)     ? "`strides`"
                      : dilation.size() != axes || !all_at_least(dilation, 1) ? "`dilation`"
                      : !is_padding                                           ? "`padding`"
                      : !all_at_least(extents, 1)                             ? "the window"
                                                                              : nullptr;
  if (wrong != nullptr) {
    if (context != nullptr) {
      context->Fail(DiagnosticKind::kBadAttribute,
                    absl::StrCat(wrong, " does not fit ", axes,
                                 " spatial axes; expected one number per axis (padding: or two), "
                                 "positive (padding: ",
                                 may_be_negative ? "any" : "not negative", ")"));
    }
    return std::nullopt;
  }
  std::vector<Window> windows;
  for (size_t i = 0; i < axes; ++i) {
    windows.push_back({extents[i], strides[i], dilation[i], padding[i], symmetric ? padding[i] : padding[axes + i]});
  }
  return windows;
}

std::optional<std::vector<std::pair<int64_t, int64_t>>> PadWidths(const ir::Attrs& attrs, std::string_view name,
                                                                  size_t count, bool may_be_negative) {
  std::vector<std::pair<int64_t, int64_t>> widths;
  const ir::AttrValue::List* list = attrs.Find(name)->AsList();
  if (list == nullptr || list->size() != count) return std::nullopt;
  for (const ir::AttrValue& entry : *list) {
    const ir::AttrValue::List* pair = entry.AsList();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].AsInt() || !(*pair)[1].AsInt()) return std::nullopt;
    widths.push_back({*(*pair)[0].AsInt(), *(*pair)[1].AsInt()});
    if (!may_be_negative && (widths.back().first < 0 || widths.back().second < 0)) return std::nullopt;
  }
  return widths;
}

bool CheckLayout(TypeContext& context, const std::string& layout, std::string_view expected, std::string_view attr) {
  if (layout.size() == expected.size() && std::is_permutation(layout.begin(), layout.end(), expected.begin()))
    return true;
  context.Fail(DiagnosticKind::kLayoutMismatch,
               absl::StrCat("`", absl::string_view(attr.data(), attr.size()), "` is \"", layout,
                            "\"; expected an order of the letters \"",
                            absl::string_view(expected.data(), expected.size()), "\""));
  return false;
}

}  // namespace rvm::ops
