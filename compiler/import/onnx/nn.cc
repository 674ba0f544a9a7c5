// Matmul, convolution, pooling.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/matrix_functions.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/integer_product.h"
#include "compiler/import/onnx/windows.h"

namespace rvm::onnx {

Windows ReadWindows(NodeContext& c, Operand x, std::vector<int64_t> kernel) {
  Windows windows;
  windows.axes = static_cast<size_t>(std::max<int64_t>(c.RankOf(x) - 2, 0));
  size_t n = windows.axes;
  if (n < 1 || n > 3) {
    c.Unsupported(absl::StrCat("windows along ", n, " axes"));
    return windows;
  }
  auto read = [&](std::string_view name, size_t size, int64_t otherwise) {
    std::vector<int64_t> values = c.Ints(name);
    if (values.empty()) values.assign(size, otherwise);
    if (values.size() != size) c.Fail(absl::StrCat("`", std::string(name), "` has ", values.size(), " elements"));
    values.resize(size, otherwise);
    return values;
  };
  windows.kernel = std::move(kernel);
  if (windows.kernel.size() != n) c.Fail("its kernel has another rank than its input");
  windows.kernel.resize(n, 1);
  windows.strides = read("strides", n, 1);
  windows.dilations = read("dilations", n, 1);
  windows.pads = read("pads", 2 * n, 0);
  for (size_t i = 0; i < n; ++i) {
    if (windows.strides[i] < 1 || windows.dilations[i] < 1) c.Fail("a stride or dilation is below 1");
  }
  std::string auto_pad = c.Text("auto_pad", "NOTSET");
  if (auto_pad == "VALID") windows.pads.assign(2 * n, 0);
  windows.is_same = auto_pad.starts_with("SAME");
  windows.is_lower = auto_pad == "SAME_LOWER";
  return windows;
}

Operand PadSame(NodeContext& c, Operand x, double value, Windows& windows) {
  return PadSame(c, x, c.Number(value, x), Dims(windows.kernel.begin(), windows.kernel.end()), windows);
}

Operand PadSame(NodeContext& c, Operand x, Operand value, const Dims& kernel, Windows& windows) {
  if (!windows.is_same || c.failed()) return x;
  Dims widths = {0, 0, 0, 0};
  bool is_known = true;
  for (size_t i = 0; i < windows.axes; ++i) {
    Dim extent = c.ExtentOf(x, static_cast<int64_t>(i) + 2);
    int64_t stride = windows.strides[i];
    Dim reach = (kernel[i] - 1) * windows.dilations[i] + 1;
    Dim count = FloorDiv(extent + (stride - 1), stride);
    // With a stride of 1 the border does not depend on the extent.
    Dim total = stride == 1 ? reach - 1 : Max((count - 1) * stride + reach - extent, 0);
    Dim less = FloorDiv(total, 2);
    widths.push_back(windows.is_lower ? total - less : less);
    widths.push_back(windows.is_lower ? less : total - less);
    is_known = is_known && total.is_const();
    if (total.is_const()) {
      windows.pads[i] = widths[widths.size() - 2].constant();
      windows.pads[i + windows.axes] = widths.back().constant();
    }
  }
  if (is_known) return x;
  windows.pads.assign(2 * windows.axes, 0);
  return importing::PadWith(c, x, value, widths);
}

Dims KernelExtents(NodeContext& c, Operand& weight) {
  std::vector<int64_t> known = c.Ints("kernel_shape");
  Dims dims = c.DimsOf(weight);
  if (dims.size() < 3) {
    c.Fail("its kernel has fewer than 3 axes");
    return {};
  }
  for (size_t i = 2; i < dims.size() && known.size() + 2 == dims.size(); ++i) {
    if (dims[i].is_const()) continue;
    weight = c.Op("check_extent", {weight, c.Integer(known[i - 2])},
                  {{"axis", static_cast<int64_t>(i)}, {"what", "the kernel, whose extents `kernel_shape` says"}});
  }
  dims = c.DimsOf(weight);
  dims.erase(dims.begin(), dims.begin() + 2);
  return dims;
}

Operand PlainConv(NodeContext& c, Operand x, Operand weight, std::string_view out_dtype, Operand border) {
  Dims kernel = KernelExtents(c, weight);
  if (c.failed()) return nullptr;
  std::optional<Shape> known = StaticShape(kernel);
  Windows windows = ReadWindows(
      c, x, known ? std::vector<int64_t>(known->begin(), known->end()) : std::vector<int64_t>(kernel.size(), 1));
  if (c.failed()) return nullptr;
  x = PadSame(c, x, border == nullptr ? c.Number(0, x) : border, kernel, windows);
  if (border != nullptr) {
    Dims widths = {0, 0, 0, 0};
    for (size_t i = 0; i < windows.axes; ++i) {
      widths.push_back(windows.pads[i]);
      widths.push_back(windows.pads[i + windows.axes]);
    }
    x = importing::PadWith(c, x, border, widths);
    windows.pads.assign(2 * windows.axes, 0);
  }
  int64_t groups = c.Int("group", 1);
  return known ? Convolve(c, x, weight, windows, groups, out_dtype)
               : importing::ConvolveGathered(c, x, weight, windows, groups, false, out_dtype);
}

Operand AveragePooled(NodeContext& c, Operand x) {
  Windows windows = ReadWindows(c, x, c.Ints("kernel_shape"));
  bool counts_pads = c.Int("count_include_pad", 0) != 0;
  if (c.failed()) return nullptr;
  Operand padded = PadSame(c, x, 0, windows);
  if (padded != x && !counts_pads)
    return c.Unsupported("SAME padding of an extent that is known only when the model runs");
  ir::Attrs attrs = PoolAttrs(windows, c.Int("ceil_mode", 0) != 0);
  attrs.Set("count_include_pad", counts_pads);
  return c.Op(PoolName("avg", windows), {padded}, attrs);
}

namespace convert {
namespace {

Operand WithBias(NodeContext& c, Operand y, size_t input) {
  return c.Has(input) ? c.Op("nn.bias_add", {y, c.In(input)}, {{"axis", 1}}) : y;
}

Operands MatMul(NodeContext& c) {
  Operand a = c.In(0), b = c.In(1), y = QuantisedProduct(c, a, b);
  return {y == nullptr ? MatrixProduct(c, a, b) : y};
}

Operands Gemm(NodeContext& c) {
  Operand a = c.In(0), b = c.In(1);
  bool transposes_a = c.Int("transA", 0) != 0, transposes_b = c.Int("transB", 0) != 0;
  Operand y = transposes_a ? nullptr : QuantisedProduct(c, a, b, transposes_b);
  if (y == nullptr) y = c.Op("nn.matmul", {a, b}, {{"transpose_a", transposes_a}, {"transpose_b", transposes_b}});
  double alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  if (alpha != 1) y = c.Mul(y, c.Number(alpha, y));
  if (!c.Has(2) || beta == 0) return {y};
  Operand bias = c.In(2);
  return {c.Add(y, beta == 1 ? bias : c.Mul(bias, c.Number(beta, bias)))};
}

Operands FusedMatMul(NodeContext& c) {
  Operand a = c.In(0), b = c.In(1);
  auto transposed = [&](Operand x, std::string_view attribute) {
    int64_t rank = c.RankOf(x);
    if (c.Int(attribute, 0) == 0 || rank < 2) return x;
    return importing::SwapAxes(c, x, -2, -1);
  };
  if (c.Int("transBatchA", 0) != 0 || c.Int("transBatchB", 0) != 0) return {c.Unsupported("transposed batches")};
  Operand y = MatrixProduct(c, transposed(a, "transA"), transposed(b, "transB"));
  double alpha = c.Float("alpha", 1);
  return {alpha == 1 ? y : c.Mul(y, c.Number(alpha, y))};
}

constexpr int64_t kMaxByMinors = 4;

// Expands along the first row. `minors` are determinants of the last rows, by set of columns. This is one kernel, where
// the loop of LuFactor launches many.
Operand DeterminantByMinors(NodeContext& c, Operand x, int64_t size) {
  int64_t rank = c.RankOf(x);
  auto element = [&](int64_t row, int64_t column) {
    Operand part = c.SliceAxis(c.SliceAxis(x, rank - 2, row, row + 1), rank - 1, column, column + 1);
    return c.Squeeze(part, {rank - 2, rank - 1});
  };
  std::vector<Operand> minors(size_t{1} << size, nullptr);
  for (size_t columns = 1; columns < minors.size(); ++columns) {
    int64_t row = size - std::popcount(columns);
    bool is_negative = false;
    for (int64_t column = 0; column < size; ++column) {
      size_t bit = size_t{1} << column;
      if ((columns & bit) == 0) continue;
      Operand term = element(row, column), rest = minors[columns & ~bit];
      if (rest != nullptr) term = c.Mul(term, rest);
      Operand& sum = minors[columns];
      sum = sum == nullptr ? term : is_negative ? c.Sub(sum, term) : c.Add(sum, term);
      is_negative = !is_negative;
    }
  }
  return minors.back();
}

// Returns the first input; fails if it is known not to be square matrices.
Operand SquareMatrices(NodeContext& c) {
  Operand x = c.In(0);
  int64_t rank = c.RankOf(x);
  if (c.failed()) return x;
  bool is_square = rank >= 2 && CompareDims(c.ExtentOf(x, -2), c.ExtentOf(x, -1)) != DimEquality::kDifferent;
  return is_square ? x : c.Fail("its input is no square matrix");
}

Operands Det(NodeContext& c) {
  Operand x = SquareMatrices(c);
  if (c.failed()) return {};
  std::optional<int64_t> size = c.ExtentOf(x, -1).AsConst();
  if (size && *size >= 1 && *size <= kMaxByMinors) return {DeterminantByMinors(c, x, *size)};
  return {importing::matrix::Determinant(importing::matrix::LuFactor({c, x}))};
}

Operands Inverse(NodeContext& c) {
  Operand x = SquareMatrices(c);
  if (c.failed()) return {};
  return {importing::matrix::Inverse({c, x})};
}

Operands Einsum(NodeContext& c) {
  std::string equation = c.Text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  if (equation.find("->") == std::string::npos) {
    // The letters that stand once, in the order of the alphabet, behind the axes that broadcast.
    std::string letters = equation;
    std::sort(letters.begin(), letters.end());
    std::string result = equation.find("...") == std::string::npos ? "->" : "->...";
    for (char letter : letters) {
      if (std::isalpha(static_cast<unsigned char>(letter)) && std::count(letters.begin(), letters.end(), letter) == 1)
        result.push_back(letter);
    }
    equation += result;
  }
  return {c.Op("einsum", {c.emit().Tuple(c.All())}, {{"equation", equation}})};
}

Operands Conv(NodeContext& c) {
  Operand y = QuantisedConv(c);
  return {WithBias(c, y == nullptr ? PlainConv(c, c.In(0), c.In(1)) : y, 2)};
}

// A transposed convolution with a kernel whose extents only the running program knows.
Operand TransposeGathered(NodeContext& c, Operand x, Operand weight, const Dims& kernel) {
  Windows windows = ReadWindows(c, x, std::vector<int64_t>(kernel.size(), 1));
  if (c.failed()) return nullptr;
  if (windows.is_same || !c.Ints("output_shape").empty()) {
    return c.Unsupported(
        "`output_shape` or SAME padding with a kernel whose extents are known only when the model runs");
  }
  size_t n = windows.axes;
  std::vector<int64_t> more = c.Ints("output_padding"), strides = {1, 1};
  more.resize(n, 0);
  strides.insert(strides.end(), windows.strides.begin(), windows.strides.end());
  Dims widths = {0, 0, 0, 0};
  for (size_t i = 0; i < n; ++i) {
    Dim reach = (kernel[i] - 1) * windows.dilations[i];
    widths.push_back(reach - windows.pads[i]);
    widths.push_back(reach - windows.pads[i + n] + more[i]);
  }
  x = importing::PadBy(c, c.Op("nn.dilate", {x}, {{"strides", ir::IntList(strides)}}), 0, widths);
  windows.strides.assign(n, 1);
  windows.pads.assign(2 * n, 0);
  return importing::ConvolveGathered(c, x, weight, windows, c.Int("group", 1), true);
}

Operands ConvTranspose(NodeContext& c) {
  Operand x = c.In(0), weight = c.In(1);
  Dims kernel = KernelExtents(c, weight);
  if (c.failed()) return {};
  std::optional<rvm::Shape> known = StaticShape(kernel);
  if (!known) return {WithBias(c, TransposeGathered(c, x, weight, kernel), 2)};
  Windows windows = ReadWindows(c, x, {known->begin(), known->end()});
  if (c.failed()) return {};
  size_t n = windows.axes;
  std::vector<int64_t> more = c.Ints("output_padding"), wanted = c.Ints("output_shape");
  more.resize(n, 0);
  if (wanted.size() > n) wanted.erase(wanted.begin(), wanted.end() - static_cast<ptrdiff_t>(n));
  for (size_t i = 0; i < n && (windows.is_same || !wanted.empty()); ++i) {
    // How much is cut off so that the result has the extent that is wanted.
    int64_t reach = (windows.kernel[i] - 1) * windows.dilations[i] + 1;
    int64_t total = more[i] + reach - windows.strides[i];
    if (i < wanted.size()) {
      std::optional<int64_t> extent = c.ExtentOf(x, static_cast<int64_t>(i) + 2).AsConst();
      if (!extent) return {c.Unsupported("`output_shape` of an extent that is known only when the model runs")};
      total = windows.strides[i] * (*extent - 1) + more[i] + reach - wanted[i];
    }
    if (total < 0) more[i] -= std::exchange(total, 0);
    windows.pads[i] = windows.is_lower ? total - total / 2 : total / 2;
    windows.pads[i + n] = total - windows.pads[i];
  }
  Operand y = c.Op(absl::StrCat("nn.conv", n, "d_transpose"), {x, weight},
                   {{"strides", ir::IntList(windows.strides)},
                    {"padding", ir::IntList(windows.pads)},
                    {"dilation", ir::IntList(windows.dilations)},
                    {"groups", c.Int("group", 1)},
                    {"output_padding", ir::IntList(more)}});
  return {WithBias(c, y, 2)};
}

Operands MaxPool(NodeContext& c) {
  Operand x = c.In(0);
  Windows windows = ReadWindows(c, x, c.Ints("kernel_shape"));
  x = PadSame(c, x, importing::LeastOf(c.DTypeOf(x)), windows);
  if (c.failed()) return {};
  Operand y = c.Op(PoolName("max", windows), {x}, PoolAttrs(windows, c.Int("ceil_mode", 0) != 0));
  if (!c.WantsOutput(1)) return {y};
  if (c.Int("ceil_mode", 0) != 0) return {y, c.Unsupported("indices of windows that hang over")};
  return {y, MaxIndices(c, c.In(0), windows, c.Int("storage_order", 0) == 1)};
}

Operands AveragePool(NodeContext& c) { return {AveragePooled(c, c.In(0))}; }

Operands LpPool(NodeContext& c) {
  Operand x = c.In(0);
  Windows windows = ReadWindows(c, x, c.Ints("kernel_shape"));
  if (c.failed()) return {};
  double p = static_cast<double>(c.Int("p", 2));
  x = PadSame(c, x, 0, windows);
  if (c.Int("ceil_mode", 0) != 0) return {c.Unsupported("windows that hang over")};
  Operand powers = p == 2 ? c.Mul(x, x) : c.Op("power", {c.Op("abs", {x}), c.Number(p, x)});
  Operand elements = WindowElements(c, PadSpace(c, powers, 0, windows), windows);
  Operand sum = c.Op("sum", {elements}, {{"axis", ir::AttrValue::List{c.RankOf(elements) - 1}}});
  return {p == 2 ? c.Op("sqrt", {sum}) : c.Op("power", {sum, c.Number(1 / p, x)})};
}

ir::AttrValue::List SpaceAxes(NodeContext& c, Operand x) {
  ir::AttrValue::List axes;
  for (int64_t i = 2; i < c.RankOf(x); ++i) axes.emplace_back(i);
  return axes;
}

Operands GlobalPool(NodeContext& c) {
  return {c.Op(c.row().variant, {c.In(0)}, {{"axis", SpaceAxes(c, c.In(0))}, {"keepdims", true}})};
}

Operands GlobalLpPool(NodeContext& c) {
  Operand x = c.In(0);
  Operand p = c.Number(static_cast<double>(c.Int("p", 2)), x);
  Operand sum = c.Op("sum", {c.Op("power", {c.Op("abs", {x}), p})}, {{"axis", SpaceAxes(c, x)}, {"keepdims", true}});
  return {c.Op("power", {sum, c.Div(c.Number(1, x), p)})};
}

Operands MaxUnpool(NodeContext& c) {
  Operand x = c.In(0);
  Windows windows = ReadWindows(c, x, c.Ints("kernel_shape"));
  if (c.failed()) return {};
  // The shape that its indices count in.
  Dims inner = c.DimsOf(x);
  for (size_t i = 0; i < windows.axes; ++i) {
    inner[i + 2] =
        (inner[i + 2] - 1) * windows.strides[i] + windows.kernel[i] - windows.pads[i] - windows.pads[i + windows.axes];
  }
  Dims outer = inner;
  if (c.Has(2)) {
    std::optional<std::vector<int64_t>> shape = c.Constants(c.In(2), "shape of the result");
    if (!shape) return {};
    outer = Dims(shape->begin(), shape->end());
  }
  std::optional<rvm::Shape> from = StaticShape(inner), to = StaticShape(outer);
  if (!from || !to) return {c.Unsupported("a result whose extents are known only when the model runs")};
  int64_t count = NumElements(*from).value_or(-1);
  if (count < 0) return {c.Fail("its result is too large")};
  Operand zeros = c.Op("zeros", {}, {{"shape", ir::AttrValue::List{count}}, {"dtype", c.DTypeOf(x).ToString()}});
  Operand indices = importing::Flat(c, c.In(1)), elements = importing::Flat(c, x);
  Operand y = c.Reshape(c.Op("scatter_elements", {zeros, indices, elements}, {{"axis", 0}}), inner);
  if (inner == outer) return {y};
  // Pads the larger axes at their ends.
  Dims widths;
  for (size_t i = 0; i < inner.size() && i < outer.size(); ++i) {
    widths.insert(widths.end(), {Dim(0), Dim((*to)[i] - (*from)[i])});
  }
  return {importing::PadBy(c, y, 0, widths)};
}

constexpr OperatorRow kRows[] = {
    {"AveragePool", AveragePool},
    {"Conv", Conv},
    {"ConvTranspose", ConvTranspose},
    {"Det", Det},
    {"Einsum", Einsum},
    {"Gemm", Gemm},
    {"GlobalAveragePool", GlobalPool, "mean"},
    {"GlobalLpPool", GlobalLpPool},
    {"GlobalMaxPool", GlobalPool, "max"},
    {"LpPool", LpPool},
    {"MatMul", MatMul},
    {"MaxPool", MaxPool},
    {"MaxUnpool", MaxUnpool},
    {"com.microsoft.FusedMatMul", FusedMatMul},
    {"com.microsoft.Inverse", Inverse},
};

}  // namespace

std::span<const OperatorRow> NnOperators() { return kRows; }

}  // namespace convert
}  // namespace rvm::onnx
