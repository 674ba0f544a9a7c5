#include "compiler/import/onnx/integer_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/literal.h"
#include "compiler/import/onnx/windows.h"

namespace rvm::onnx::convert {
namespace {

// The sums of so many products of differences of bytes fit int32.
constexpr int64_t kMaxDepth = 32768;

bool IsByte(DataType dtype) { return dtype == kInt8 || dtype == kUInt8; }

// Returns whether a zero point is left out, or a constant 0.
bool IsZero(Operand zero_point) {
  if (zero_point == nullptr) return true;
  if (!zero_point->constant) return false;
  for (int64_t i = 0; i < zero_point->constant->num_elements(); ++i) {
    if (zero_point->constant->IntAt(i) != 0) return false;
  }
  return true;
}

// Returns the sums as a constant of int32; nullopt if that does not hold them.
std::optional<Literal> AsInt32(const std::vector<int64_t>& sums, Shape shape) {
  std::vector<int32_t> values;
  for (int64_t sum : sums) {
    if (sum != static_cast<int32_t>(sum)) return std::nullopt;
    values.push_back(static_cast<int32_t>(sum));
  }
  return Literal::FromValues<int32_t>(kInt32, std::move(shape), values);
}

template <typename T>
void AddRows(const Literal& matrix, std::vector<int64_t>& sums) {
  std::span<const T> values = matrix.values<T>();
  for (size_t at = 0; at < values.size(); at += sums.size()) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[at + i];
  }
}

// Returns the zero point of kernel or column `i`: one is for all, and none are 0.
int64_t ZeroOf(const Literal* zero_points, int64_t i) {
  return zero_points == nullptr ? 0 : zero_points->IntAt(zero_points->num_elements() == 1 ? 0 : i);
}

// Returns the sums of the columns of a matrix of bytes, less `zero_point` in each row, which is one or has one for each
// column; nullopt if int32 does not hold them.
std::optional<Literal> ColumnSums(const Literal& matrix, const Literal* zero_point) {
  std::vector<int64_t> sums(static_cast<size_t>(matrix.shape()[1]), 0);
  if (!sums.empty()) matrix.dtype() == kInt8 ? AddRows<int8_t>(matrix, sums) : AddRows<uint8_t>(matrix, sums);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] -= ZeroOf(zero_point, static_cast<int64_t>(i)) * matrix.shape()[0];
  }
  return AsInt32(sums, {matrix.shape()[1]});
}

// Returns the sums of the kernels of a convolution, less their zero points, as they broadcast with its channels;
// nullopt if int32 does not hold them.
std::optional<Literal> KernelSums(const Literal& kernels, const Literal* zero_points) {
  const int64_t count = kernels.shape()[0], size = count == 0 ? 0 : kernels.num_elements() / count;
  Shape shape(static_cast<size_t>(kernels.rank() - 1), 1);
  shape[0] = count;
  std::vector<int64_t> sums(static_cast<size_t>(count), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t& sum = sums[static_cast<size_t>(i)] = -size * ZeroOf(zero_points, i);
    for (int64_t j = 0; j < size; ++j) sum += kernels.IntAt(i * size + j);
  }
  return AsInt32(sums, std::move(shape));
}

// Returns a constant matrix of bytes, transposed; null if it is something else.
Operand Transposed(NodeContext& c, Operand x) {
  if (!x->constant || x->constant->rank() != 2 || !IsByte(x->constant->dtype())) return nullptr;
  const Literal& matrix = *x->constant;
  auto rows = static_cast<size_t>(matrix.shape()[0]), columns = static_cast<size_t>(matrix.shape()[1]);
  std::vector<std::byte> bytes(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) bytes[j * rows + i] = matrix.data()[i * columns + j];
  }
  std::string name = x->name.empty() ? "" : absl::StrCat(x->name, "_transposed");
  return c.emit().Constant(Literal::FromBytes(matrix.dtype(), {matrix.shape()[1], matrix.shape()[0]}, bytes), name);
}

bool IsOne(NodeContext& c, Operand parameter) { return c.RankOf(parameter) == 0 || c.ExtentOf(parameter, 0) == Dim(1); }

// Returns whether the tensor was dequantised from bytes by one scale, or by one for each position along `axis`.
bool IsQuantised(NodeContext& c, Operand x, std::optional<int64_t> axis) {
  if (!x->quantised || c.DTypeOf(x) != kFloat32 || c.DTypeOf(x->quantised->scale) != kFloat32) return false;
  const QuantisedForm& form = *x->quantised;
  bool is_one = IsOne(c, form.scale) && (form.zero_point == nullptr || IsOne(c, form.zero_point));
  return IsByte(c.DTypeOf(form.values)) && (is_one || (axis && *axis == form.axis && c.RankOf(form.scale) == 1));
}

Operand ZeroPointOf(NodeContext& c, const QuantisedForm& form) {
  return form.zero_point == nullptr ? nullptr : Spread(c, form.zero_point, form.values, form.axis, 0);
}

// Sums in int32 times both scales; that of b along `axis` of the sums.
Operand Scaled(NodeContext& c, Operand sums, Operand a, Operand b, int64_t axis) {
  Operand scale = c.Mul(c.Scalar(a->quantised->scale), Spread(c, b->quantised->scale, sums, axis, 0));
  return c.Mul(c.Cast(sums, kFloat32), scale);
}

}  // namespace

Operand Spread(NodeContext& c, Operand parameter, Operand x, int64_t axis, int64_t block) {
  int64_t rank = c.RankOf(x);
  int64_t own = c.RankOf(parameter);
  if (own == 0) return parameter;
  if (own == 1 && c.ExtentOf(parameter, 0) == Dim(1)) return c.Scalar(parameter);
  axis = c.Axis(axis, rank);
  if (block > 0) {
    parameter = c.Op("repeat", {parameter}, {{"repeats", block}, {"axis", axis}});
    return c.SliceAxis(parameter, axis, 0, c.ExtentOf(x, axis));
  }
  if (own == rank) return parameter;
  if (own != 1) return c.Fail(absl::StrCat("a scale or zero point has ", own, " axes; expected 0, 1 or ", rank));
  std::vector<int64_t> axes;
  for (int64_t i = 1; i < rank - axis; ++i) axes.push_back(i);
  return c.Unsqueeze(parameter, axes);
}

Operand Centred(NodeContext& c, Operand x, Operand zero_point) {
  if (IsZero(zero_point)) return x;
  DataType wide = c.DTypeOf(x).bits == 8 ? kInt16 : kInt32;
  return c.Sub(c.Cast(x, wide), c.Cast(zero_point, wide));
}

namespace {

// Returns the sums of the windows of x, over the channels of each group of kernels, in int32.
Operand WindowSums(NodeContext& c, Operand x, Operand border, const Literal& kernels) {
  const int64_t groups = c.Int("group", 1), channels = kernels.shape()[1];
  Dims dims = c.DimsOf(x);
  dims[1] = channels;
  dims.insert(dims.begin() + 1, Dim(groups));
  Operand sums = c.Op("sum", {c.Reshape(c.Cast(x, kInt32), dims)}, {{"axis", ir::AttrValue::List{2}}});
  if (border != nullptr) border = c.Mul(c.Cast(border, kInt32), c.emit().Integer(channels, kInt32));
  Shape ones = kernels.shape();
  ones[0] = groups;
  ones[1] = 1;
  sums = PlainConv(c, sums, c.emit().Constant(Literal::Full(kInt32, std::move(ones), 1)), "int32", border);
  if (groups == 1 || c.failed()) return sums;
  return c.Op("repeat", {sums}, {{"repeats", kernels.shape()[0] / groups}, {"axis", int64_t{1}}});
}

}  // namespace

Operand IntegerConv(NodeContext& c, Operand x, Operand zero_x, Operand weight, Operand zero_weight) {
  const Literal* kernels = weight->constant && weight->constant->rank() > 2 ? &*weight->constant : nullptr;
  const Literal* zeros = IsZero(zero_weight) || !zero_weight->constant ? nullptr : &*zero_weight->constant;
  // Sums of windows of one channel cost as much as the products.
  bool takes_out = IsZero(zero_weight) || (zeros != nullptr && kernels != nullptr && kernels->shape()[1] > 1);
  bool is_stored = kernels != nullptr && IsByte(kernels->dtype()) && IsByte(c.DTypeOf(x)) && takes_out &&
                   (zero_x == nullptr || c.RankOf(zero_x) == 0);
  if (zeros != nullptr && is_stored)
    is_stored = zeros->num_elements() == 1 || zeros->num_elements() == kernels->shape()[0];
  std::optional<Literal> sums = is_stored ? KernelSums(*kernels, zeros) : std::nullopt;
  if (!sums) return PlainConv(c, Centred(c, x, zero_x), Centred(c, weight, zero_weight), "int32");
  Operand border = IsZero(zero_x) ? nullptr : zero_x;
  Operand y = PlainConv(c, x, weight, "int32", border);
  if (border != nullptr) y = c.Sub(y, c.Mul(c.Cast(border, kInt32), c.emit().Constant(*sums)));
  if (zeros == nullptr || c.failed()) return y;
  Operand factors = c.Cast(zero_weight, kInt32);
  if (c.RankOf(factors) > 0) factors = c.Squeeze(factors, {c.RankOf(factors) - 1});  // as they broadcast with y
  return c.Sub(y, c.Mul(WindowSums(c, x, border, *kernels), factors));
}

Operand QuantisedProduct(NodeContext& c, Operand a, Operand b, bool transposes_b) {
  if (c.failed()) return nullptr;
  int64_t rank_b = c.RankOf(b), columns = rank_b - (transposes_b ? 2 : 1), rows = rank_b - (transposes_b ? 1 : 2);
  if (c.RankOf(a) < 2 || rank_b < 2 || !IsQuantised(c, a, std::nullopt) || !IsQuantised(c, b, columns)) return nullptr;
  std::optional<int64_t> depth = c.ExtentOf(b, rows).AsConst();
  if (!depth || *depth > kMaxDepth) return nullptr;
  const QuantisedForm& left = *a->quantised;
  QuantisedForm right = *b->quantised;
  if (transposes_b) {
    right.values = Transposed(c, right.values);
    if (right.values == nullptr) return nullptr;
    right.axis = rank_b - 1;
  }
  Operand sums = IntegerProduct(c, left.values, ZeroPointOf(c, left), right.values, ZeroPointOf(c, right));
  return c.failed() ? nullptr : Scaled(c, sums, a, b, c.RankOf(sums) - 1);
}

Operand QuantisedConv(NodeContext& c) {
  Operand x = c.In(0), weight = c.In(1);
  if (c.failed() || !IsQuantised(c, x, std::nullopt) || !IsQuantised(c, weight, 0)) return nullptr;
  std::optional<Shape> shape = StaticShape(c.DimsOf(weight));
  if (!shape || shape->empty() || NumElements(*shape).value_or(0) > kMaxDepth * std::max<int64_t>((*shape)[0], 1)) {
    return nullptr;
  }
  const QuantisedForm &image = *x->quantised, &kernel = *weight->quantised;
  Operand sums = IntegerConv(c, image.values, ZeroPointOf(c, image), kernel.values, ZeroPointOf(c, kernel));
  return c.failed() ? nullptr : Scaled(c, sums, x, weight, 1);
}

Operand IntegerProduct(NodeContext& c, Operand a, Operand zero_a, Operand b, Operand zero_b) {
  const Literal* zero = zero_b != nullptr && zero_b->constant ? &*zero_b->constant : nullptr;
  bool is_stored =
      IsByte(c.DTypeOf(a)) && b->constant && IsByte(b->constant->dtype()) && b->constant->rank() == 2 &&
      (zero_b == nullptr ||
       (zero != nullptr && (zero->num_elements() == 1 || zero->num_elements() == b->constant->shape()[1])));
  std::optional<Literal> columns = is_stored ? ColumnSums(*b->constant, zero) : std::nullopt;
  if (!columns) return MatrixProduct(c, Centred(c, a, zero_a), Centred(c, b, zero_b), "int32");
  Operand sums = MatrixProduct(c, a, b, "int32");
  if (!IsZero(zero_b)) {
    Operand rows = c.Op("sum", {c.Cast(a, kInt32)}, {{"axis", ir::AttrValue::List{-1}}, {"keepdims", true}});
    sums = c.Sub(sums, c.Mul(rows, c.Cast(zero_b, kInt32)));
  }
  if (zero_a == nullptr) return sums;
  return c.Sub(sums, c.Mul(c.Cast(zero_a, kInt32), c.emit().Constant(*std::move(columns))));
}

}  // namespace rvm::onnx::convert
