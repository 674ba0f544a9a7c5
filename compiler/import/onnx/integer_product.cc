#include "compiler/import/onnx/integer_product.h"

#include <cstddef>
#include <cstdint>
#include <limits>
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

// Differences of bytes fit int16.
Operand Centred(NodeContext& c, Operand x, Operand zero_point) {
  if (zero_point == nullptr) return x;
  DataType wide = c.DTypeOf(x).bits == 8 ? kInt16 : kInt32;
  return c.Sub(c.Cast(x, wide), c.Cast(zero_point, wide));
}

bool IsByte(DataType dtype) { return dtype == kInt8 || dtype == kUInt8; }

bool IsZero(const Literal& literal) {
  for (int64_t i = 0; i < literal.num_elements(); ++i) {
    if (literal.IntAt(i) != 0) return false;
  }
  return true;
}

template <typename T>
void AddRows(const Literal& matrix, std::vector<int64_t>& sums) {
  std::span<const T> values = matrix.values<T>();
  for (size_t at = 0; at < values.size(); at += sums.size()) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[at + i];
  }
}

// The sums of the columns of a matrix of bytes, less `zero_point` in each row, which is one or has one for each column;
// nullopt if int32 does not hold them.
std::optional<Literal> ColumnSums(const Literal& matrix, const Literal* zero_point) {
  std::vector<int64_t> sums(static_cast<size_t>(matrix.shape()[1]), 0);
  if (!sums.empty()) matrix.dtype() == kInt8 ? AddRows<int8_t>(matrix, sums) : AddRows<uint8_t>(matrix, sums);
  std::vector<int32_t> result;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (zero_point != nullptr) {
      int64_t at = zero_point->num_elements() == 1 ? 0 : static_cast<int64_t>(i);
      sums[i] -= zero_point->IntAt(at) * matrix.shape()[0];
    }
    if (sums[i] != static_cast<int32_t>(sums[i])) return std::nullopt;
    result.push_back(static_cast<int32_t>(sums[i]));
  }
  return Literal::FromValues<int32_t>(kInt32, {matrix.shape()[1]}, result);
}

}  // namespace

Operand IntegerProduct(NodeContext& c, Operand a, Operand zero_a, Operand b, Operand zero_b) {
  const Literal* zero = zero_b != nullptr && zero_b->constant ? &*zero_b->constant : nullptr;
  bool is_stored =
      IsByte(c.DTypeOf(a)) && b->constant && IsByte(b->constant->dtype()) && b->constant->rank() == 2 &&
      (zero_b == nullptr ||
       (zero != nullptr && (zero->num_elements() == 1 || zero->num_elements() == b->constant->shape()[1])));
  std::optional<Literal> columns = is_stored ? ColumnSums(*b->constant, zero) : std::nullopt;
  if (!columns) return MatrixProduct(c, Centred(c, a, zero_a), Centred(c, b, zero_b), "int32");
  Operand sums = MatrixProduct(c, a, b, "int32");
  if (zero != nullptr && !IsZero(*zero)) {
    Operand rows = c.Op("sum", {c.Cast(a, kInt32)}, {{"axis", ir::AttrValue::List{-1}}, {"keepdims", true}});
    sums = c.Sub(sums, c.Mul(rows, c.Cast(zero_b, kInt32)));
  }
  if (zero_a == nullptr) return sums;
  return c.Sub(sums, c.Mul(c.Cast(zero_a, kInt32), c.emit().Constant(*std::move(columns))));
}

Operand ElementOfConstant(NodeContext& c, Operand x, int64_t index) {
  if (!x->constant || x->constant->rank() == 0 || index >= x->constant->shape()[0]) {
    return c.Squeeze(c.SliceAxis(x, 0, index, index + 1), {0});
  }
  const Literal& all = *x->constant;
  Shape shape(all.shape().begin() + 1, all.shape().end());
  auto bytes = static_cast<size_t>(all.bytes() / all.shape()[0]);
  std::span<const std::byte> part(all.data() + static_cast<size_t>(index) * bytes, bytes);
  std::string name = x->name.empty() ? "" : absl::StrCat(x->name, "_", index);
  return c.emit().Constant(Literal::FromBytes(all.dtype(), shape, part), name);
}

}  // namespace rvm::onnx::convert
