// Reductions of windows, and their gradient.
#include "compiler/import/stablehlo/window.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/checks.h"
#include "compiler/import/shapes.h"
#include "compiler/import/stablehlo/bodies.h"
#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {
namespace {

using Axes = std::vector<int64_t>;

struct Window {
  Axes extents, strides, gaps, dilations;  // `gaps`: distances of the elements of the operand
  Axes pads;                               // before and after each axis in turn

  int64_t reach(size_t i) const { return (extents[i] - 1) * dilations[i] + 1; }
  bool IsWhole(size_t i) const { return extents[i] == 1 && strides[i] == 1; }
};

Axes ForAxes(NodeContext& c, std::string_view name, size_t count, int64_t otherwise) {
  Axes values = c.Ints(name);
  if (values.empty()) values.assign(count, otherwise);
  if (values.size() != count && !c.failed())
    c.Fail(absl::StrCat("its `", std::string(name), "` does not fit its operand"));
  values.resize(count, otherwise);
  return values;
}

constexpr int64_t kMaxReach = int64_t{1} << 31;

std::optional<Window> ReadWindow(NodeContext& c, Operand x) {
  const auto rank = static_cast<size_t>(c.RankOf(x));
  Window window{.extents = ForAxes(c, "window_dimensions", rank, 1),
                .strides = ForAxes(c, "window_strides", rank, 1),
                .gaps = ForAxes(c, "base_dilations", rank, 1),
                .dilations = ForAxes(c, "window_dilations", rank, 1),
                .pads = ForAxes(c, "padding", 2 * rank, 0)};
  for (size_t i = 0; i < rank; ++i) {
    for (int64_t number : {window.extents[i], window.strides[i], window.gaps[i], window.dilations[i]}) {
      if (number >= 1 && number <= kMaxReach) continue;
      c.Fail(absl::StrCat("saw ", number, " as an extent, a stride or a dilation of its windows; expected 1 to ",
                          kMaxReach));
    }
  }
  return c.failed() ? std::nullopt : std::optional(window);
}

// x with gaps and borders of `value`.
Operand Padded(NodeContext& c, Operand x, Operand value, const Window& window) {
  for (size_t i = 0; i < window.gaps.size(); ++i) {
    if (window.gaps[i] != 1) x = WithGaps(c, x, value, static_cast<int64_t>(i), window.gaps[i] - 1);
  }
  if (std::ranges::all_of(window.pads, [](int64_t pad) { return pad == 0; })) return x;
  return c.Op("nn.pad", {x, value}, {{"pad_width", importing::PadWidths(window.pads)}});
}

// Returns the windows of x: the axes of the windows stand behind those of x, those from `first` on.
Operand Windows(NodeContext& c, Operand x, const Window& window, size_t first) {
  const size_t rank = window.extents.size();
  Axes reaches, strides, axes, zeros, ends;
  bool is_dilated = false;
  for (size_t i = first; i < rank; ++i) {
    reaches.push_back(window.reach(i));
    strides.push_back(window.strides[i]);
    axes.push_back(static_cast<int64_t>(rank + i - first));
    is_dilated = is_dilated || window.dilations[i] != 1;
  }
  zeros.assign(axes.size(), 0);
  ends.assign(axes.size(), INT64_MAX);
  x = c.Op("sliding_window", {x},
           {{"axis", static_cast<int64_t>(first)},
            {"window_shape", ir::IntList(reaches)},
            {"strides", ir::IntList(strides)}});
  if (!is_dilated) return x;
  const Axes dilations(window.dilations.begin() + static_cast<ptrdiff_t>(first), window.dilations.end());
  return c.Op("strided_slice", {x},
              {{"begin", ir::IntList(zeros)},
               {"end", ir::IntList(ends)},
               {"strides", ir::IntList(dilations)},
               {"axes", ir::IntList(axes)}});
}

size_t FirstAxis(const Window& window) {
  size_t first = 0;
  while (first + 1 < window.extents.size() && window.IsWhole(first)) ++first;
  return first;
}

// The greatest elements of windows of images are an operator of its own; nullptr for other windows.
Operand MaxPool(NodeContext& c, Operand x, const Window& window) {
  if (c.RankOf(x) != 4 || !c.DTypeOf(x).is_float()) return nullptr;
  const bool has_gaps = std::ranges::any_of(window.gaps, [](int64_t gap) { return gap != 1; });
  const bool crops = std::ranges::any_of(window.pads, [](int64_t pad) { return pad < 0; });
  if (has_gaps || crops) return nullptr;
  for (size_t space : {size_t{1}, size_t{2}}) {
    const size_t other = space == 1 ? 3 : 1;
    const auto is_plain = [&](size_t i) {
      return window.IsWhole(i) && window.pads[2 * i] == 0 && window.pads[2 * i + 1] == 0;
    };
    if (!is_plain(0) || !is_plain(other)) continue;
    const auto of_space = [&](const Axes& values) { return ir::IntList({{values[space], values[space + 1]}}); };
    const Axes pads = {window.pads[2 * space], window.pads[2 * space + 2], window.pads[2 * space + 1],
                       window.pads[2 * space + 3]};
    const bool fits = pads[0] < window.reach(space) && pads[2] < window.reach(space) &&
                      pads[1] < window.reach(space + 1) && pads[3] < window.reach(space + 1);
    if (!fits) return nullptr;
    return c.Op("nn.max_pool2d", {x},
                {{"pool_size", of_space(window.extents)},
                 {"strides", of_space(window.strides)},
                 {"dilation", of_space(window.dilations)},
                 {"padding", ir::IntList(pads)},
                 {"layout", space == 1 ? "NHWC" : "NCHW"}});
  }
  return nullptr;
}

// Windows that reach from the beginning to each element of an axis, for which Relay has running sums.
Operand RunningSum(NodeContext& c, Operand x, const Window& window) {
  for (size_t i = 0; i < window.extents.size(); ++i) {
    const bool is_alone = [&] {
      for (size_t k = 0; k < window.extents.size(); ++k) {
        if (k != i && !(window.IsWhole(k) && window.pads[2 * k] == 0 && window.pads[2 * k + 1] == 0)) return false;
      }
      return true;
    }();
    const bool is_whole = Dim(window.extents[i]) == c.ExtentOf(x, static_cast<int64_t>(i)) && window.strides[i] == 1 &&
                          window.dilations[i] == 1 && window.gaps[i] == 1;
    if (!is_alone || !is_whole || window.extents[i] < 2) continue;
    const auto axis = static_cast<int64_t>(i);
    const bool is_forward = window.pads[2 * i] == window.extents[i] - 1 && window.pads[2 * i + 1] == 0,
               is_backward = window.pads[2 * i + 1] == window.extents[i] - 1 && window.pads[2 * i] == 0;
    if (is_forward) return c.Op("cumsum", {x}, {{"axis", axis}});
    if (!is_backward) return nullptr;
    Operand reversed = c.Op("reverse", {x}, {{"axis", axis}});
    return c.Op("reverse", {c.Op("cumsum", {reversed}, {{"axis", axis}})}, {{"axis", axis}});
  }
  return nullptr;
}

// Returns the elements of windows in front, as one axis.
Operand ElementsInFront(NodeContext& c, Operand windows, size_t rank) {
  Axes order;
  Dims dims = {1};
  const int64_t all = c.RankOf(windows);
  for (int64_t i = static_cast<int64_t>(rank); i < all; ++i) {
    order.push_back(i);
    dims[0] = dims[0] * c.ExtentOf(windows, i);
  }
  for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i) {
    order.push_back(i);
    dims.push_back(c.ExtentOf(windows, i));
  }
  return c.Reshape(c.Transpose(windows, order), dims);
}

Operands ReduceWindow(NodeContext& c) {
  const size_t count = c.num_inputs() / 2;
  if (count == 0 || c.num_inputs() % 2 != 0 || c.num_regions() != 1) return {c.Fail("it has not inputs and a body")};
  Operand x = c.In(0), initial = c.In(count);
  const std::optional<Window> window = ReadWindow(c, x);
  if (!window || c.failed()) return {};
  const size_t rank = window->extents.size(), first = FirstAxis(*window);
  if (rank == 0) return c.OnTensors(0, {initial, x});
  const std::string_view operation = SingleOperation(c.op().regions[0]);
  const std::string_view reduction = ReductionOf(operation, c.DTypeOf(x));
  const bool is_neutral = IsNeutral(operation, initial);
  if (count == 1 && is_neutral && operation == "maximum") {
    if (Operand pooled = MaxPool(c, x, *window)) return {pooled};
  }
  if (count == 1 && is_neutral && reduction == "sum") {
    if (Operand sums = RunningSum(c, x, *window)) return {sums};
  }
  Operands inputs;
  for (size_t i = 0; i < count; ++i) {
    inputs.push_back(Windows(c, Padded(c, c.In(i), c.In(count + i), *window), *window, first));
  }
  if (count == 1 && !reduction.empty()) {
    Axes axes;
    for (size_t i = first; i < rank; ++i) axes.push_back(static_cast<int64_t>(rank + i - first));
    Operand y = c.Op(reduction, {inputs[0]}, {{"axis", ir::IntList(axes)}});
    if (is_neutral || c.failed()) return {y};
    return c.OnTensors(0, {y, initial});
  }
  for (Operand& input : inputs) input = ElementsInFront(c, input, rank);
  return Fold(c, inputs, c.Inputs(count, 2 * count));
}

// Adds each element of a source where its window has the element that a comparison selects: the gradient of pooling.
Operands SelectAndScatter(NodeContext& c) {
  Operand x = c.In(0), source = c.In(1), initial = c.In(2);
  const std::optional<Window> window = ReadWindow(c, x);
  if (!window || c.failed()) return {};
  if (c.num_regions() != 2) return {c.Fail("it has not two bodies")};
  const std::string select = TextOfBody(c.op().regions[0]);
  const bool is_max = select == "compare:2 0 1;return 2;", is_min = select == "compare:4 0 1;return 2;";
  if ((!is_max && !is_min) || SingleOperation(c.op().regions[1]) != "add" || !c.DTypeOf(x).is_float()) {
    return {c.Unsupported("bodies that do not select the greatest or the least element of floats, and add")};
  }
  const size_t rank = window->extents.size();
  Operand border =
      c.Number(is_max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity(), x);
  const Dims dims = c.DimsOf(x);
  const Dim total = importing::Product(dims);
  Operand numbers = c.Reshape(c.Iota(total), dims);
  Operand values = ElementsInFront(c, Windows(c, Padded(c, x, border, *window), *window, 0), rank);
  Operand places = ElementsInFront(c, Windows(c, Padded(c, numbers, c.Integer(-1), *window), *window, 0), rank);
  Operand best =
      c.Op(is_max ? "argmax" : "argmin", {values}, {{"axis", ir::IntList({{int64_t{0}}})}, {"keepdims", true}});
  Operand chosen = c.Reshape(c.Op("gather", {places, best}, {{"axis", 0}}), {1, importing::Product(c.DimsOf(source))});
  Operand flat =
      c.Op("scatter_nd", {c.BroadcastTo(initial, {total}), chosen, importing::Flat(c, source)}, {{"mode", "add"}});
  return {c.failed() ? nullptr : c.Reshape(flat, dims)};
}

constexpr OperatorRow kRows[] = {
    {"reduce_window", ReduceWindow},
    {"select_and_scatter", SelectAndScatter},
};

// Returns the axis along which windows reach from the beginning (or, if `is_backward`, from the end) to each element,
// and what `extents` and `pads` say of the others; nullopt for other windows.
std::optional<int64_t> RunningAxis(NodeContext& c, Operand x, const Dims& extents, const Dims& pads, bool is_backward) {
  const auto same = [](const Dim& a, const Dim& b) { return CompareDims(a, b) == DimEquality::kEqual; };
  std::optional<int64_t> axis;
  for (size_t i = 0; i < extents.size(); ++i) {
    const Dim before = pads[2 * i + (is_backward ? 1 : 0)], behind = pads[2 * i + (is_backward ? 0 : 1)];
    if (!same(behind, 0)) return std::nullopt;
    if (same(extents[i], 1) && same(before, 0)) continue;
    const Dim extent = c.ExtentOf(x, static_cast<int64_t>(i));
    if (axis || !same(extents[i], extent) || !same(before, extent - 1)) return std::nullopt;
    axis = static_cast<int64_t>(i);
  }
  return axis;
}

}  // namespace

Operands DynamicReduceWindow(NodeContext& c) {
  constexpr size_t kExtents = 2, kStrides = 3, kPads = 6;
  if (c.num_inputs() != kPads + 1) return {c.Unsupported("windows of symbolic extents over several operands")};
  Operand x = c.In(0), initial = c.In(1);
  const Attribute* callees = c.op().Find("called_computations");
  const bool has_callee = callees != nullptr && callees->elements.size() == 1;
  const Operation* body = has_callee ? c.module().FindFunction(callees->elements[0]->text) : nullptr;
  const std::string_view operation = body == nullptr ? "" : SingleOperation(body->regions[0]);
  const auto rank = static_cast<size_t>(c.RankOf(x));
  const std::optional<Dims> extents = c.Symbols(c.In(kExtents)), pads = c.Symbols(c.In(kPads));
  bool is_plain = extents && pads && extents->size() == rank && pads->size() == 2 * rank;
  for (size_t i = kStrides; i < kPads && is_plain; ++i) {  // strides, and dilations of both sides
    const std::optional<Dims> steps = c.Symbols(c.In(i));
    is_plain = steps && std::ranges::all_of(*steps, [](const Dim& step) { return step == Dim(1); });
  }
  if (is_plain && operation == "add" && IsNeutral(operation, initial) && !c.DTypeOf(x).is_bool()) {
    for (bool is_backward : {false, true}) {
      const std::optional<int64_t> axis = RunningAxis(c, x, *extents, *pads, is_backward);
      if (!axis) continue;
      const auto reversed = [&](Operand y) { return is_backward ? c.Op("reverse", {y}, {{"axis", *axis}}) : y; };
      return {reversed(c.Op("cumsum", {reversed(x)}, {{"axis", *axis}}))};
    }
  }
  return {c.failed() ? nullptr : c.Unsupported("windows of symbolic extents that are no running sums")};
}

std::span<const OperatorRow> WindowOperators() { return kRows; }

}  // namespace rvm::stablehlo
