// Products of tensors, and convolutions.
#include <algorithm>
#include <cstdint>
#include <numeric>
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
#include "compiler/import/shapes.h"
#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {
namespace {

using importing::KnownExtent;
using importing::Windows;

using Axes = std::vector<int64_t>;

bool Contains(const Axes& axes, int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); }

// Returns whether `axes` are different axes of a tensor of that rank.
bool AreAxes(const Axes& axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool is_known = std::find(axes.begin(), axes.begin() + static_cast<ptrdiff_t>(i), axes[i]) !=
                          axes.begin() + static_cast<ptrdiff_t>(i);
    if (axes[i] < 0 || axes[i] >= rank || is_known) return false;
  }
  return true;
}

Axes Joined(Axes a, const Axes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Returns the axes of a tensor that are neither of the batch nor summed over.
Axes FreeAxes(int64_t rank, const Axes& batch, const Axes& summed) {
  Axes axes;
  for (int64_t i = 0; i < rank; ++i) {
    if (!Contains(batch, i) && !Contains(summed, i)) axes.push_back(i);
  }
  return axes;
}

Dims ExtentsOf(NodeContext& c, Operand x, const Axes& axes) {
  Dims dims;
  for (int64_t axis : axes) dims.push_back(c.ExtentOf(x, axis));
  return dims;
}

// Returns the axes of x in three groups, each joined to one axis: those of the batch to none if there are none.
Operand Grouped(NodeContext& c, Operand x, const Axes& batch, const Axes& rows, const Axes& columns) {
  Dims dims;
  if (!batch.empty()) dims.push_back(importing::Product(ExtentsOf(c, x, batch)));
  dims.push_back(importing::Product(ExtentsOf(c, x, rows)));
  dims.push_back(importing::Product(ExtentsOf(c, x, columns)));
  return c.Reshape(c.Transpose(x, Joined(Joined(batch, rows), columns)), dims);
}

Operands DotGeneral(NodeContext& c) {
  const DataType dtype = c.ResultDType();
  const Axes batch_a = c.Ints("lhs_batching_dimensions"), batch_b = c.Ints("rhs_batching_dimensions"),
             summed_a = c.Ints("lhs_contracting_dimensions"), summed_b = c.Ints("rhs_contracting_dimensions");
  Operand a = c.In(0), b = c.In(1);
  if (c.failed()) return {};
  // Sums of narrow numbers that the result is wider than are exact.
  a = c.Cast(a, dtype);
  b = c.Cast(b, dtype);
  const int64_t rank_a = c.RankOf(a), rank_b = c.RankOf(b);
  if (batch_a.size() != batch_b.size() || summed_a.size() != summed_b.size() ||
      !AreAxes(Joined(batch_a, summed_a), rank_a) || !AreAxes(Joined(batch_b, summed_b), rank_b)) {
    return {c.Fail("its axes are not those of its operands")};
  }
  const Axes rows = FreeAxes(rank_a, batch_a, summed_a), columns = FreeAxes(rank_b, batch_b, summed_b);
  Dims dims = ExtentsOf(c, a, batch_a);
  for (const Dim& dim : ExtentsOf(c, a, rows)) dims.push_back(dim);
  for (const Dim& dim : ExtentsOf(c, b, columns)) dims.push_back(dim);
  // Without batches the rows keep their axes, and a matrix is taken as it lies.
  if (batch_a.empty() && summed_a.size() == 1 && rank_b == 2 && rank_a >= 2) {
    Operand left = c.Transpose(a, Joined(rows, summed_a));
    return {c.Op("nn.matmul", {left, b}, {{"transpose_b", summed_b[0] == 1}})};
  }
  Operand left = Grouped(c, a, batch_a, rows, summed_a), right = Grouped(c, b, batch_b, summed_b, columns);
  return {c.failed() ? nullptr : c.Reshape(c.Op("nn.matmul", {left, right}), dims)};
}

// ---- convolutions

struct Convolution {
  int64_t batch, feature, kernel_in, kernel_out, out_batch, out_feature, groups, batch_groups;
  Axes space, kernel_space, out_space, strides, dilations, gaps, reversed;
  std::vector<int64_t> pads;  // before and after each axis of space in turn
};

// One number for each axis of space; `otherwise` for all where the attribute is missing.
Axes OfSpace(NodeContext& c, std::string_view name, size_t count, int64_t otherwise) {
  Axes values = c.Ints(name);
  if (values.empty()) values.assign(count, otherwise);
  if (values.size() != count && !c.failed())
    c.Fail(absl::StrCat("its `", std::string(name), "` does not fit its axes"));
  values.resize(count, otherwise);
  return values;
}

std::optional<Convolution> ReadConvolution(NodeContext& c) {
  Convolution v;
  v.batch = c.Int("input_batch_dimension", 0);
  v.feature = c.Int("input_feature_dimension", 1);
  v.kernel_in = c.Int("kernel_input_feature_dimension", 1);
  v.kernel_out = c.Int("kernel_output_feature_dimension", 0);
  v.out_batch = c.Int("output_batch_dimension", 0);
  v.out_feature = c.Int("output_feature_dimension", 1);
  v.groups = c.Int("feature_group_count", 1);
  v.batch_groups = c.Int("batch_group_count", 1);
  v.space = c.Ints("input_spatial_dimensions");
  v.kernel_space = c.Ints("kernel_spatial_dimensions");
  v.out_space = c.Ints("output_spatial_dimensions");
  const size_t count = v.space.size();
  v.strides = OfSpace(c, "window_strides", count, 1);
  v.dilations = OfSpace(c, "rhs_dilation", count, 1);
  v.gaps = OfSpace(c, "lhs_dilation", count, 1);
  v.reversed = OfSpace(c, "window_reversal", count, 0);
  v.pads = OfSpace(c, "padding", 2 * count, 0);
  if (c.failed()) return std::nullopt;
  const auto rank = static_cast<int64_t>(count) + 2;
  const auto are_positive = [](const Axes& values) {
    return std::ranges::all_of(values, [](int64_t x) { return x > 0; });
  };
  if (c.RankOf(c.In(0)) != rank || c.RankOf(c.In(1)) != rank || !AreAxes(Joined({v.batch, v.feature}, v.space), rank) ||
      !AreAxes(Joined({v.kernel_in, v.kernel_out}, v.kernel_space), rank) ||
      !AreAxes(Joined({v.out_batch, v.out_feature}, v.out_space), rank) || v.kernel_space.size() != count ||
      v.out_space.size() != count || v.groups < 1 || v.batch_groups < 1 || !are_positive(v.strides) ||
      !are_positive(v.dilations) || !are_positive(v.gaps)) {
    c.Fail("its attributes do not fit its operands");
    return std::nullopt;
  }
  return v;
}

// Groups of the batch become groups of the channels: a group of the result sees one of both.
Operand WithGroupsOfBatch(NodeContext& c, Operand x, const Convolution& v) {
  const std::optional<int64_t> batch = KnownExtent(c, x, 0, "input"), channels = KnownExtent(c, x, 1, "input");
  if (!batch || !channels) return x;
  if (*batch % v.batch_groups != 0) return c.Fail("its batch is no multiple of its groups");
  Dims dims = c.DimsOf(x);
  dims[0] = *batch / v.batch_groups;
  dims.insert(dims.begin(), Dim(v.batch_groups));
  Axes order(dims.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::swap(order[0], order[1]);
  x = c.Transpose(c.Reshape(x, dims), order);
  Dims joined = c.DimsOf(x);
  joined.erase(joined.begin() + 1);
  joined[1] = v.batch_groups * *channels;
  return c.Reshape(x, joined);
}

Operand Reversed(NodeContext& c, Operand kernel, const Convolution& v) {
  for (size_t i = 0; i < v.reversed.size(); ++i) {
    if (v.reversed[i] != 0) kernel = c.Op("reverse", {kernel}, {{"axis", static_cast<int64_t>(i) + 2}});
  }
  return kernel;
}

// Gaps between the elements, and borders that crop, which windows of Relay do not have.
Operand WithGapsAndCrops(NodeContext& c, Operand x, const Convolution& v, Windows& windows) {
  Axes strides = {1, 1};
  Dims widths(4, Dim(0));
  bool crops = false;
  const size_t count = v.space.size();
  for (size_t i = 0; i < count; ++i) {
    strides.push_back(v.gaps[i]);
    for (size_t side = 0; side < 2; ++side) {
      const int64_t pad = v.pads[2 * i + side];
      crops = crops || pad < 0;
      widths.emplace_back(pad);
      windows.pads[i + side * count] = pad;
    }
  }
  if (std::ranges::any_of(strides, [](int64_t stride) { return stride != 1; })) {
    x = c.Op("nn.dilate", {x}, {{"strides", ir::IntList(strides)}});
  }
  if (!crops) return x;
  std::ranges::fill(windows.pads, int64_t{0});
  return importing::PadBy(c, x, 0, widths);
}

// Returns whether images and results are (batch, space..., channels), and windows of Relay will do.
bool HasChannelsLast(const Convolution& v) {
  const auto rank = static_cast<int64_t>(v.space.size()) + 2;
  if (rank < 3 || rank > 5 || v.batch_groups > 1) return false;
  Axes last(static_cast<size_t>(rank - 2));
  std::iota(last.begin(), last.end(), int64_t{1});
  const auto is_one = [](int64_t gap) { return gap == 1; };
  const auto is_border = [](int64_t pad) { return pad >= 0; };
  return v.batch == 0 && v.out_batch == 0 && v.feature == rank - 1 && v.out_feature == rank - 1 && v.space == last &&
         v.out_space == last && std::ranges::all_of(v.gaps, is_one) && std::ranges::all_of(v.pads, is_border);
}

Operands Convolve(NodeContext& c) {
  const std::optional<Convolution> read = ReadConvolution(c);
  const DataType dtype = c.ResultDType();
  if (!read || c.failed()) return {};
  Convolution v = *read;
  Operand x = c.Cast(c.In(0), dtype), kernel = c.Cast(c.In(1), dtype);
  kernel = Reversed(c, c.Transpose(kernel, Joined({v.kernel_out, v.kernel_in}, v.kernel_space)), v);
  Windows windows{.axes = v.space.size(), .strides = v.strides, .dilations = v.dilations};
  windows.pads.assign(2 * v.space.size(), 0);
  if (HasChannelsLast(v)) {
    x = WithGapsAndCrops(c, x, v, windows);
    return {c.failed() ? nullptr : importing::Convolve(c, x, kernel, windows, v.groups, "", true)};
  }
  x = c.Transpose(x, Joined({v.batch, v.feature}, v.space));
  if (v.batch_groups > 1) {
    x = WithGroupsOfBatch(c, x, v);
    v.groups = v.batch_groups;
  }
  x = WithGapsAndCrops(c, x, v, windows);
  const bool has_space = !v.space.empty();
  if (!has_space) {  // as along an axis of extent 1
    x = c.Unsqueeze(x, {2});
    kernel = c.Unsqueeze(kernel, {2});
    windows = {.axes = 1, .strides = {1}, .dilations = {1}, .pads = {0, 0}};
  }
  if (windows.axes > 3) return {c.Unsupported(absl::StrCat("a convolution along ", windows.axes, " axes"))};
  Operand y = importing::Convolve(c, x, kernel, windows, v.groups);
  if (!has_space) y = c.Squeeze(y, {2});
  Axes order(v.space.size() + 2);
  order[static_cast<size_t>(v.out_batch)] = 0;
  order[static_cast<size_t>(v.out_feature)] = 1;
  for (size_t i = 0; i < v.out_space.size(); ++i)
    order[static_cast<size_t>(v.out_space[i])] = static_cast<int64_t>(i) + 2;
  return {c.failed() ? nullptr : c.Transpose(y, order)};
}

constexpr OperatorRow kRows[] = {
    {"convolution", Convolve},
    {"dot_general", DotGeneral},
};

}  // namespace

std::span<const OperatorRow> ProductOperators() { return kRows; }

}  // namespace rvm::stablehlo
