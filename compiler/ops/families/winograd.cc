#include "compiler/ops/families/winograd.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a batch of images"},
                             {"weight", "transformed filters (tile_size + 2, tile_size + 2, o, i)"}};
constexpr AttrSpec kAttrs[] = {
    {"tile_size", AttrType::kInt, "4", "results along each axis of a tile: 2 or 4"},
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows: 1"},
    {"padding", AttrType::kInts, "[0, 0]", "zeros around each axis: one number, one per axis, or befores then afters"},
    {"dilation", AttrType::kInts, "[1, 1]", "distance of the taps: 1"},
    {"groups", AttrType::kInt, "1", "1"},
    {"channels", AttrType::kInt, "None", "output channels, checked", true},
    {"kernel_size", AttrType::kInts, "[3, 3]", "extents of the filters: 3"},
    {"data_layout", AttrType::kString, "\"NCHW\"", "axes of data: \"NCHW\" or \"NHWC\""},
    {"kernel_layout", AttrType::kString, "\"OIHW\"", "of the filters before they were transformed; not used"},
    {"out_layout", AttrType::kString, "\"\"", "that of data"},
    {"out_dtype", AttrType::kDType, "\"\"", "that of data"}};
constexpr Input kFilterInputs[] = {{"weight", "filters (o, i, 3, 3)"}};
constexpr AttrSpec kFilterAttrs[] = {{"tile_size", AttrType::kInt, "4", "results along each axis of a tile: 2 or 4"}};

using Row = std::vector<double>;
using Terms = std::vector<size_t>;

// The matrices B^T, A^T and G of tiles of one size. Terms of a sum that other rows add up too, but for their sign,
// stand in one group, so that they are added up once.
struct Transforms {
  std::vector<Row> input, output, filter;
  std::vector<Terms> input_groups, output_groups;
};

const Transforms& TransformsOf(int64_t tile) {
  static const auto& two = *new Transforms{{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
                                           {{1, 1, 1, 0}, {0, 1, -1, -1}},
                                           {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
                                           {{0, 1, 2, 3}},
                                           {{0, 1, 2, 3}}};
  static const auto& four =
      *new Transforms{{{4, 0, -5, 0, 1, 0},
                       {0, -4, -4, 1, 1, 0},
                       {0, 4, -4, -1, 1, 0},
                       {0, -2, -1, 2, 1, 0},
                       {0, 2, -1, -2, 1, 0},
                       {0, 4, 0, -5, 0, 1}},
                      {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}},
                      {{1.0 / 4, 0, 0},
                       {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                       {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                       {1.0 / 24, 1.0 / 12, 1.0 / 6},
                       {1.0 / 24, -1.0 / 12, 1.0 / 6},
                       {0, 0, 1}},
                      {{0, 2, 4}, {1, 3, 5}},
                      {{0}, {1, 2}, {3, 4}, {5}}};
  return tile == 2 ? two : four;
}

// a + x * factor.
Expr AddScaled(const Expr& a, const Expr& x, double factor) {
  if (!a) return factor == 1 ? x : x * te::Const(x.dtype(), factor);
  if (factor == 1) return a + x;
  return factor == -1 ? a - x : a + x * te::Const(x.dtype(), factor);
}

// Returns the product of a row and a vector. A group that is not the whole sum is scaled so that its first factor is 1:
// it is then the same expression in all rows that have it.
Expr Dot(const Row& row, const std::vector<Terms>& groups, const std::vector<Expr>& vector) {
  std::vector<Terms> present;
  for (const Terms& group : groups) {
    Terms terms;
    for (size_t term : group) {
      if (row[term] != 0) terms.push_back(term);
    }
    if (!terms.empty()) present.push_back(std::move(terms));
  }
  Expr sum;
  for (const Terms& terms : present) {
    double scale = present.size() == 1 ? 1 : row[terms[0]];
    Expr part;
    for (size_t term : terms) part = AddScaled(part, vector[term], row[term] / scale);
    sum = AddScaled(sum, part, scale);
  }
  return sum;
}

Expr Choose(const Expr& index, const std::vector<Expr>& values) {
  Expr chosen = values.back();
  for (size_t i = values.size() - 1; i-- > 0;) {
    chosen = te::Select(Equal(index, te::Index(static_cast<int64_t>(i))), values[i], chosen);
  }
  return chosen;
}

// Element (i, j) of matrix X matrix^T, where `x` gives the elements of X.
template <typename F>  // F: Expr(int64_t row, int64_t column)
Expr TransformedElement(const std::vector<Row>& matrix, const std::vector<Terms>& groups, const Expr& i, const Expr& j,
                        const F& x) {
  size_t extent = matrix[0].size();
  std::vector<Expr> rows, results;
  for (size_t r = 0; r < extent; ++r) {
    std::vector<Expr> elements, columns;
    for (size_t c = 0; c < extent; ++c) elements.push_back(x(static_cast<int64_t>(r), static_cast<int64_t>(c)));
    for (const Row& row : matrix) columns.push_back(Dot(row, groups, elements));
    rows.push_back(Choose(j, columns));
  }
  for (const Row& row : matrix) results.push_back(Dot(row, groups, rows));
  return Choose(i, results);
}

bool CheckTile(TypeContext& context) {
  int64_t tile = context.attrs().GetInt("tile_size");
  if (tile == 2 || tile == 4) return true;
  context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`tile_size` is ", tile, "; expected 2 or 4"));
  return false;
}

Solve FilterRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& weight = args[0]->shape.dims;
  if (!CheckTile(context)) return Solve::kFailed;
  if (weight.size() != 4) return FailRank(context, 0, weight.size(), "rank 4");
  if (args[0]->dtype.dtype != kFloat32 && args[0]->dtype.dtype != kFloat64)
    return FailOtherDType(context, 0, args[0]->dtype.dtype, "float32 or float64");
  for (size_t axis = 2; axis < 4; ++axis) {
    if (!context.RequireEqual(weight[axis], kWinogradTaps, "an extent of the filters and 3")) return Solve::kFailed;
  }
  Dim points = context.attrs().GetInt("tile_size") + kWinogradTaps - 1;
  return ResultTensor(context, {points, points, weight[0], weight[1]}, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeFilters(const ComputeContext& context) {
  const Tensor& weight = context.input(0);
  const Transforms& transforms = TransformsOf(context.attrs().GetInt("tile_size"));
  return {te::ComputeTensor("filters", weight.dtype(), context.output().dims, [&](std::span<const Expr> o) {
    return TransformedElement(transforms.filter, {{0, 1, 2}}, o[0], o[1], [&](int64_t row, int64_t column) {
      return weight({o[2], o[3], te::Index(row), te::Index(column)});
    });
  })};
}

bool CheckForm(TypeContext& context) {
  const ir::Attrs& attrs = context.attrs();
  const std::string layout = attrs.GetString("data_layout"), out_layout = attrs.GetString("out_layout");
  for (const char* name : {"strides", "dilation"}) {
    if (PerAxis(attrs.GetInts(name), 2) == std::vector<int64_t>{1, 1}) continue;
    context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`", name, "` is not 1; expected 1, or nn.conv2d"));
    return false;
  }
  bool fits = attrs.GetInt("groups") == 1 && PerAxis(attrs.GetInts("kernel_size"), 2) == std::vector<int64_t>{3, 3} &&
              (layout == "NCHW" || layout == "NHWC") && (out_layout.empty() || out_layout == layout);
  if (!fits) {
    context.Fail(
        DiagnosticKind::kBadAttribute,
        "filters of 3x3 in 1 group, and images in the layout \"NCHW\" or \"NHWC\", are expected; use nn.conv2d");
  }
  return fits;
}

Solve Relation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &weight = args[1]->shape.dims;
  DataType dtype = args[0]->dtype.dtype;
  if (!CheckTile(context) || !CheckForm(context)) return Solve::kFailed;
  if (dtype != kFloat32 && dtype != kFloat64) return FailOtherDType(context, 0, dtype, "float32 or float64");
  if (args[1]->dtype.dtype != dtype) return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `data`");
  if (DTypeAttr(context.attrs(), "out_dtype", dtype) != dtype)
    return context.Fail(DiagnosticKind::kBadAttribute, "`out_dtype` is not the dtype of `data`");
  if (data.size() != 4) return FailRank(context, 0, data.size(), "rank 4");
  if (weight.size() != 4) return FailRank(context, 1, weight.size(), "rank 4");
  std::optional<std::vector<Window>> windows = MakeWindows(context.attrs(), {kWinogradTaps, kWinogradTaps}, &context);
  if (!windows) return Solve::kFailed;
  const Layout layout(context.attrs().GetString("data_layout"));
  Dim points = context.attrs().GetInt("tile_size") + kWinogradTaps - 1;
  if (!context.RequireEqual(weight[0], points, "an extent of the filters and `tile_size` + 2") ||
      !context.RequireEqual(weight[1], points, "an extent of the filters and `tile_size` + 2") ||
      !context.RequireEqual(data[layout.axis('C')], weight[3], "channels of data and filters"))
    return Solve::kFailed;
  if (!context.attrs().IsNone("channels") &&
      !context.RequireEqual(weight[2], context.attrs().GetInt("channels"), "`channels` and the filters"))
    return Solve::kFailed;
  Dims out = data;
  out[layout.axis('C')] = weight[2];
  for (size_t i = 0; i < 2; ++i) out[layout.spatial[i]] = WindowCount(data[layout.spatial[i]], (*windows)[i]);
  return ResultTensor(context, out, dtype);
}

// The image (n, h, w, c) with zeros around it: rows and columns of whole tiles.
Tensor PaddedImage(const Tensor& image, const std::vector<Window>& windows, const Dim& rows, const Dim& columns) {
  const Dims& dims = image.dims();
  bool whole = windows[0].pad_before == 0 && windows[1].pad_before == 0 &&
               CompareDims(rows, dims[1]) == DimEquality::kEqual &&
               CompareDims(columns, dims[2]) == DimEquality::kEqual;
  if (whole) return image;
  return te::Stored(
      te::ComputeTensor("padded", image.dtype(), {dims[0], rows, columns, dims[3]}, [&](std::span<const Expr> i) {
        Expr y = i[1] - te::Index(windows[0].pad_before), x = i[2] - te::Index(windows[1].pad_before);
        return te::Select(And(InRange(y, dims[1]), InRange(x, dims[2])), image({i[0], y, x, i[3]}),
                          te::Const(image.dtype(), 0));
      }));
}

// Returns whether the points of a tile are stored side by side, not as planes of all tiles. A tile has an element in
// each plane: they compete for few sets of the caches where planes are of a multiple of a large power of two. What is
// too large for the caches is read faster plane by plane, one address after the other.
bool PointsLieTogether(const Dim& tiles, const Dim& channels) {
  constexpr int64_t kMaxElements = 1 << 15;  // of a plane
  return tiles.is_const() && channels.is_const() && tiles.constant() * channels.constant() <= kMaxElements;
}

std::vector<Tensor> ComputeWinograd(const ComputeContext& context) {
  const Tensor &data = context.input(0), &weight = context.input(1);
  const bool channels_last = context.attrs().GetString("data_layout") == "NHWC";
  const Dims &in = data.dims(), &out = context.output().dims;
  int64_t tile = context.attrs().GetInt("tile_size"), points = tile + kWinogradTaps - 1;
  const Transforms& transforms = TransformsOf(tile);
  DataType dtype = data.dtype();
  const size_t height = channels_last ? 1 : 2;
  Dim channels = in[channels_last ? 3 : 1], batch = out[0], results = out[channels_last ? 3 : 1];
  Dim rows = FloorDiv(out[height] + (tile - 1), tile), columns = FloorDiv(out[height + 1] + (tile - 1), tile);  // tiles
  Tensor moved =
      channels_last
          ? data
          : te::Stored(te::ComputeTensor("channels_last", dtype, {in[0], in[2], in[3], in[1]},
                                         [&](std::span<const Expr> i) { return data({i[0], i[3], i[1], i[2]}); }));
  Tensor image = PaddedImage(moved, *MakeWindows(context.attrs(), {kWinogradTaps, kWinogradTaps}, nullptr),
                             rows * tile + (kWinogradTaps - 1), columns * tile + (kWinogradTaps - 1));
  Dims tiles = {batch, rows, columns};
  Dim count = batch * rows * columns;
  bool by_tile = PointsLieTogether(count, channels);
  size_t number = by_tile ? 0 : 2, point = by_tile ? 1 : 0;  // the axes of the tiles, and of their points
  auto extents = [&](const Dim& last) {
    return by_tile ? Dims{count, points, points, last} : Dims{points, points, count, last};
  };
  Tensor input = te::Stored(te::ComputeTensor("input_tiles", dtype, extents(channels), [&](std::span<const Expr> o) {
    std::vector<Expr> at = Unflatten(o[number], tiles);
    return TransformedElement(
        transforms.input, transforms.input_groups, o[point], o[point + 1], [&](int64_t row, int64_t column) {
          return image(
              {at[0], at[1] * te::Index(tile) + te::Index(row), at[2] * te::Index(tile) + te::Index(column), o[3]});
        });
  }));
  Tensor product = ReduceOver(te::ReduceOp::kSum, dtype, extents(results), {channels},
                              [&](std::span<const Expr> o, std::span<const Expr> r) {
                                return input({o[0], o[1], o[2], r[0]}) * weight({o[point], o[point + 1], o[3], r[0]});
                              });
  Tensor result = te::Stored(te::ComputeTensor(
      "output_tiles", dtype, {batch, rows * tile, columns * tile, results}, [&](std::span<const Expr> o) {
        auto part = [&](BinaryOp op, size_t axis) { return te::Binary(op, o[axis], te::Index(tile)); };
        Expr row = o[0] * te::DimValue(rows) + part(BinaryOp::kFloorDivide, 1);
        Expr at = row * te::DimValue(columns) + part(BinaryOp::kFloorDivide, 2);
        return TransformedElement(transforms.output, transforms.output_groups, part(BinaryOp::kFloorMod, 1),
                                  part(BinaryOp::kFloorMod, 2), [&](int64_t i, int64_t j) {
                                    Expr y = te::Index(i), x = te::Index(j);
                                    return by_tile ? product({at, y, x, o[3]}) : product({y, x, at, o[3]});
                                  });
      }));
  return {te::ComputeTensor("conv2d", dtype, out, [&](std::span<const Expr> o) {
    return channels_last ? result({o[0], o[1], o[2], o[3]}) : result({o[0], o[2], o[3], o[1]});
  })};
}

constexpr OpDef kOps[] = {
    {.name = "nn.contrib_conv2d_winograd_weight_transform",
     .summary = "filters as `nn.contrib_conv2d_winograd_without_weight_transform` takes them",
     .inputs = kFilterInputs,
     .attrs = kFilterAttrs,
     .type_relation = FilterRelation,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeFilters},
    {.name = "nn.contrib_conv2d_winograd_without_weight_transform",
     .summary = "convolution along two axes by tiles of results, with filters transformed ahead",
     .inputs = kInputs,
     .attrs = kAttrs,
     .type_relation = Relation,
     .fusion = FusionClass::kContraction,
     .compute = ComputeWinograd},
};

}  // namespace

Literal TransformedFilters(const Literal& filters, int64_t tile) {
  const std::vector<Row>& matrix = TransformsOf(tile).filter;
  int64_t points = tile + kWinogradTaps - 1, pairs = filters.shape()[0] * filters.shape()[1];
  Shape shape = {points, points, filters.shape()[0], filters.shape()[1]};
  int64_t size = filters.dtype().bytes();
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(points * points * pairs * size);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    double taps[kWinogradTaps][kWinogradTaps];
    for (int64_t i = 0; i < kWinogradTaps * kWinogradTaps; ++i) {
      taps[i / kWinogradTaps][i % kWinogradTaps] = filters.DoubleAt(pair * kWinogradTaps * kWinogradTaps + i);
    }
    for (int64_t point = 0; point < points * points; ++point) {
      const Row &left = matrix[static_cast<size_t>(point / points)],
                &right = matrix[static_cast<size_t>(point % points)];
      double sum = 0;
      for (size_t y = 0; y < left.size(); ++y) {
        for (size_t x = 0; x < right.size(); ++x) sum += left[y] * taps[y][x] * right[x];
      }
      StoreDouble(filters.dtype(), buffer->data() + (point * pairs + pair) * size, sum);
    }
  }
  return Literal(filters.dtype(), std::move(shape), buffer);
}

std::span<const OpDef> WinogradOps() { return kOps; }

}  // namespace rvm::ops
