#include "capi/tensor.h"

#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/executable.h"

namespace rvm::capi {
namespace {

// DLDataTypeCode of each TypeCode.
constexpr uint8_t kCodes[] = {6, 0, 1, 2, 4, 10};  // bool, int, uint, float, bfloat, float8_e4m3fn
#define RVM_TYPE_CODE(Name, value) static_assert(value < std::size(kCodes));
#include "base/data_type.def"

bool IsRowMajor(const ForeignTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (size_t i = tensor.rank; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Copies element by element, in row-major order.
void Gather(const ForeignTensor& tensor, int64_t element_bytes, int64_t count, std::byte* to) {
  std::vector<int64_t> index(tensor.rank, 0);
  int64_t offset = 0;
  for (int64_t n = 0; n < count; ++n) {
    std::memcpy(to + n * element_bytes, static_cast<const std::byte*>(tensor.data) + offset * element_bytes,
                static_cast<size_t>(element_bytes));
    for (size_t i = tensor.rank; i-- > 0;) {
      offset += tensor.strides[i];
      if (++index[i] < tensor.shape[i]) break;
      offset -= tensor.strides[i] * tensor.shape[i];
      index[i] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<DataType> ToDataType(rvm_dtype dtype) {
  for (size_t code = 0; code < std::size(kCodes); ++code) {
    if (kCodes[code] != dtype.code) continue;
    DataType result{static_cast<TypeCode>(code), dtype.bits, dtype.lanes};
    if (result.is_bool() && dtype.bits == 8) result.bits = 1;
    if (IsStorable(result)) return result;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("saw a dtype of code ", static_cast<int>(dtype.code), ", ", static_cast<int>(dtype.bits), " bits, ",
                   static_cast<int>(dtype.lanes),
                   " lanes; expected int or uint of 8 to 64 bits, float of 16 to 64, bfloat of 16, "
                   "float8_e4m3fn or bool of 8, with 1 lane"));
}

rvm_dtype FromDataType(DataType dtype) {
  return {kCodes[static_cast<size_t>(dtype.code)], dtype.is_bool() ? uint8_t{8} : dtype.bits, dtype.lanes};
}

absl::StatusOr<Shape> CheckShape(const ForeignTensor& tensor) {
  RVM_ASSIGN_OR_RETURN(DataType dtype, ToDataType(tensor.dtype));
  if (tensor.rank > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("saw rank ", tensor.rank, "; expected ", kMaxRank, " at most"));
  }
  if (tensor.rank > 0 && tensor.shape == nullptr) return absl::InvalidArgumentError("saw NULL; expected a shape");
  Shape shape(tensor.shape, tensor.shape + tensor.rank);
  for (int64_t extent : shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("saw extent ", extent, " in shape ", ShapeToString(shape), "; expected 0 or more"));
    }
  }
  if (IsTooLarge(dtype, {shape.data(), shape.size()}) || !NumElements(shape)) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor of shape ", ShapeToString(shape), " is too large"));
  }
  if (tensor.data == nullptr && *NumElements(shape) > 0) {
    return absl::InvalidArgumentError("saw NULL; expected the elements of the tensor");
  }
  return shape;
}

absl::StatusOr<Literal> CopyTensor(const ForeignTensor& tensor) {
  RVM_ASSIGN_OR_RETURN(Shape shape, CheckShape(tensor));
  DataType dtype = *ToDataType(tensor.dtype);
  int64_t count = *NumElements(shape);
  if (IsRowMajor(tensor)) {
    return Literal::FromBytes(dtype, std::move(shape),
                              {static_cast<const std::byte*>(tensor.data), static_cast<size_t>(count * dtype.bytes())});
  }
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(count * dtype.bytes());
  Gather(tensor, dtype.bytes(), count, buffer->data());
  return Literal(dtype, std::move(shape), std::move(buffer));
}

absl::StatusOr<Literal> ShareTensor(const ForeignTensor& tensor, std::shared_ptr<const void> owner) {
  RVM_ASSIGN_OR_RETURN(Shape shape, CheckShape(tensor));
  DataType dtype = *ToDataType(tensor.dtype);
  bool is_aligned = reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(dtype.bytes()) == 0;
  if (!is_aligned || !IsRowMajor(tensor) || tensor.data == nullptr) return CopyTensor(tensor);
  int64_t bytes = *NumElements(shape) * dtype.bytes();
  return Literal(dtype, std::move(shape), Buffer::Borrow(tensor.data, bytes, std::move(owner)));
}

}  // namespace rvm::capi
