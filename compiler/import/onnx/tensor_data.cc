#include "compiler/import/onnx/tensor_data.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/status_macros.h"

namespace rvm::onnx {
namespace {

using importing::Field;
using importing::WireReader;
using importing::WireType;

struct DataTypeRow {
  int32_t number;
  std::string_view name;
  std::optional<DataType> dtype;
};

constexpr DataTypeRow kDataTypes[] = {
    {1, "float32", kFloat32},
    {2, "uint8", kUInt8},
    {3, "int8", kInt8},
    {4, "uint16", kUInt16},
    {5, "int16", kInt16},
    {6, "int32", kInt32},
    {7, "int64", kInt64},
    {8, "string", std::nullopt},
    {9, "bool", kBool},
    {10, "float16", kFloat16},
    {11, "float64", kFloat64},
    {12, "uint32", kUInt32},
    {13, "uint64", kUInt64},
    {14, "complex64", std::nullopt},
    {15, "complex128", std::nullopt},
    {16, "bfloat16", kBFloat16},
    {17, "float8e4m3fn", kFloat8E4M3FN},
    {18, "float8e4m3fnuz", std::nullopt},
    {19, "float8e5m2", std::nullopt},
    {20, "float8e5m2fnuz", std::nullopt},
    {21, "uint4", std::nullopt},
    {22, "int4", std::nullopt},
    {23, "float4e2m1", std::nullopt},
    {24, "float8e8m0", std::nullopt},
    {25, "uint2", std::nullopt},
    {26, "int2", std::nullopt},
};

const DataTypeRow* FindRow(int32_t number) {
  for (const DataTypeRow& row : kDataTypes) {
    if (row.number == number) return &row;
  }
  return nullptr;
}

// The field that has the elements of `dtype` where they are not raw, and the width of its numbers (0: varints).
struct DataField {
  uint32_t number;
  size_t width;
};
DataField FieldOf(DataType dtype) {
  if (dtype == kFloat32) return {4, 4};
  if (dtype == kFloat64) return {10, 8};
  if (dtype == kInt64) return {7, 0};
  if (dtype == kUInt32 || dtype == kUInt64) return {11, 0};
  return {5, 0};
}

absl::Status Misfit(const Tensor& tensor, int64_t saw, std::string_view unit) {
  return absl::InvalidArgumentError(absl::StrCat("tensor `", Abseil(tensor.name), "` of shape ",
                                                 ShapeToString(Shape(tensor.dims.begin(), tensor.dims.end())), " has ",
                                                 saw, " ", Abseil(unit)));
}

std::string_view EntryOf(Bytes message, std::string_view key) {
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (!field.Is(13, WireType::kBytes)) continue;
    WireReader entry(field.bytes);
    Field part;
    std::string_view name, value;
    while (entry.Next(part)) {
      if (part.Is(1, WireType::kBytes)) name = part.AsText();
      if (part.Is(2, WireType::kBytes)) value = part.AsText();
    }
    if (name == key) return value;
  }
  return {};
}

absl::StatusOr<uint64_t> NumberEntry(const Tensor& tensor, std::string_view key, uint64_t otherwise) {
  std::string_view text = EntryOf(tensor.message, key);
  if (text.empty()) return otherwise;
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("tensor `", Abseil(tensor.name), "`: `", Abseil(key), "` of its external data is no number"));
}

absl::StatusOr<Literal> ReadExternal(const Tensor& tensor, DataType dtype, Shape shape, uint64_t wanted,
                                     const ExternalFiles& files) {
  if (files == nullptr) return absl::UnimplementedError("its elements are external data, in a file that is not given");
  RVM_ASSIGN_OR_RETURN(FileBytes file, files(EntryOf(tensor.message, "location")));
  RVM_ASSIGN_OR_RETURN(uint64_t offset, NumberEntry(tensor, "offset", 0));
  RVM_ASSIGN_OR_RETURN(uint64_t length, NumberEntry(tensor, "length", wanted));
  if (length != wanted) return Misfit(tensor, static_cast<int64_t>(length), "bytes of external data");
  if (offset > file.bytes.size() || length > file.bytes.size() - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor `", Abseil(tensor.name), "`: its external data is behind the end of its file"));
  }
  return importing::WrapElements(dtype, std::move(shape), {file.bytes.subspan(offset, length), std::move(file.owner)});
}

}  // namespace

std::optional<DataType> ToDataType(int32_t data_type) {
  const DataTypeRow* row = FindRow(data_type);
  return row == nullptr ? std::nullopt : row->dtype;
}

std::optional<PackedDataType> ToPackedDataType(int32_t data_type) {
  switch (data_type) {
    case 21: return PackedDataType{kUInt8, 4};
    case 22: return PackedDataType{kInt8, 4};
    case 25: return PackedDataType{kUInt8, 2};
    case 26: return PackedDataType{kInt8, 2};
    default: return std::nullopt;
  }
}

std::string DataTypeName(int32_t data_type) {
  const DataTypeRow* row = FindRow(data_type);
  return row == nullptr ? absl::StrCat("data type ", data_type) : std::string(row->name);
}

std::string UnsupportedDataType(int32_t data_type) {
  if (data_type == 0) return "a tensor of no data type";
  if (data_type == 8) return "strings, which Relay has not";
  return absl::StrCat("dtype ", DataTypeName(data_type), ", which Relay has not");
}

namespace {

// Returns the elements that the tensor stores, as they are in a tensor of `dtype` and `shape`.
absl::StatusOr<Literal> ReadStored(const Tensor& tensor, DataType dtype, Shape shape, const ExternalFiles& files) {
  bool is_negative = std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; });
  std::optional<int64_t> count = NumElements(shape);
  int64_t bytes = 0;
  if (shape.size() > 64) return absl::InvalidArgumentError(absl::StrCat("a tensor of ", shape.size(), " axes"));
  if (is_negative || !count || __builtin_mul_overflow(*count, dtype.bytes(), &bytes)) {
    return Misfit(tensor, 0, "elements");
  }
  uint64_t wanted = static_cast<uint64_t>(bytes);
  if (tensor.is_external) return ReadExternal(tensor, dtype, std::move(shape), wanted, files);

  DataField data = FieldOf(dtype);
  WireReader reader(tensor.message);
  Field field;
  std::optional<Bytes> raw;
  std::vector<std::byte> elements;
  bool ok = true;
  while (ok && reader.Next(field)) {
    if (field.Is(9, WireType::kBytes)) raw = field.bytes;
    if (field.number != data.number) continue;
    ok = ForEachNumber(field, data.width, [&](uint64_t number) {
      // Half types are in the low bits of an int32; every field is little-endian, like we.
      size_t size = static_cast<size_t>(dtype.bytes()), at = elements.size();
      elements.resize(at + size);
      std::memcpy(&elements[at], &number, size);
    });
  }
  if (!ok || !reader.ok()) return absl::InvalidArgumentError("a tensor's elements are malformed");
  if (!raw) raw = Bytes(reinterpret_cast<const uint8_t*>(elements.data()), elements.size());
  if (raw->size() != wanted) return Misfit(tensor, static_cast<int64_t>(raw->size()), "bytes of elements");
  Literal literal = importing::WrapElements(dtype, std::move(shape), {*raw, nullptr});
  if (dtype.is_bool()) {
    // Any byte but 0 is true to others; to kernels only 1 is.
    for (uint8_t byte : literal.values<uint8_t>()) {
      if (byte > 1) return absl::InvalidArgumentError("a tensor of bools has an element that is neither 0 nor 1");
    }
  }
  return literal;
}

}  // namespace

absl::StatusOr<Literal> ReadElements(const Tensor& tensor, const ExternalFiles& files) {
  std::optional<DataType> dtype = ToDataType(tensor.data_type);
  if (!dtype) return absl::UnimplementedError(UnsupportedDataType(tensor.data_type));
  return ReadStored(tensor, *dtype, Shape(tensor.dims.begin(), tensor.dims.end()), files);
}

absl::StatusOr<Literal> ReadPackedBytes(const Tensor& tensor, int64_t bits, const ExternalFiles& files) {
  Shape shape(tensor.dims.begin(), tensor.dims.end());
  const int64_t in_byte = 8 / bits;
  std::optional<int64_t> count = NumElements(shape);
  bool is_negative = std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; });
  if (!count || is_negative) return Misfit(tensor, 0, "elements");
  if (!shape.empty() && shape.back() % in_byte == 0) {
    shape.back() /= in_byte;
  } else {
    shape = {*count / in_byte + (*count % in_byte != 0)};
  }
  return ReadStored(tensor, kUInt8, std::move(shape), files);
}

std::vector<uint8_t> UnpackBits(const Literal& bytes, int64_t bits, int64_t count) {
  std::span<const uint8_t> packed = bytes.values<uint8_t>();
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  const auto in_byte = static_cast<size_t>(8 / bits);
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] =
        static_cast<uint8_t>(packed[i / in_byte] >> (i % in_byte * static_cast<size_t>(bits)) & ((1 << bits) - 1));
  }
  return codes;
}

absl::StatusOr<Literal> ReadElements(const SparseTensor& tensor, const ExternalFiles& files) {
  // The dense tensor may be far larger than the file.
  constexpr int64_t kMaxElements = int64_t{1} << 20;
  RVM_ASSIGN_OR_RETURN(Literal values, ReadElements(tensor.values, files));
  RVM_ASSIGN_OR_RETURN(Literal indices, ReadElements(tensor.indices, files));
  Shape shape(tensor.dims.begin(), tensor.dims.end());
  std::optional<int64_t> count = NumElements(shape);
  bool is_flat = indices.rank() == 1;
  int64_t width = is_flat ? 1 : static_cast<int64_t>(shape.size());
  bool is_negative = std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; });
  if (is_negative || !count || *count > kMaxElements || indices.dtype() != kInt64 ||
      indices.num_elements() != values.num_elements() * width) {
    return absl::InvalidArgumentError("a sparse tensor is malformed, or too large to be written out");
  }
  size_t size = static_cast<size_t>(values.dtype().bytes());
  std::vector<std::byte> dense(static_cast<size_t>(*count) * size);
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    int64_t place = 0;
    for (int64_t axis = 0; axis < width; ++axis) {
      int64_t at = indices.IntAt(i * width + axis);
      int64_t extent = is_flat ? *count : shape[static_cast<size_t>(axis)];
      if (at < 0 || at >= extent) return absl::InvalidArgumentError("a sparse tensor has an index outside of it");
      place = place * extent + at;
    }
    std::memcpy(&dense[static_cast<size_t>(place) * size], values.data() + static_cast<size_t>(i) * size, size);
  }
  return Literal::FromBytes(values.dtype(), std::move(shape), dense);
}

}  // namespace rvm::onnx
