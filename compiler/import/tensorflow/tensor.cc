// Shapes and elements of tensors in protobuf.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/tensorflow/model.h"
#include "compiler/import/wire_reader.h"

namespace rvm::tensorflow {
namespace {

using importing::Field;
using importing::WireReader;
using importing::WireType;
using enum WireType;

// Types by their number in TensorFlow's DataType. `field` of a TensorProto has the elements where they are not raw, as
// numbers of `width` bytes (0: varints). Complex numbers have the dtype of their parts.
struct TypeRow {
  std::string_view name;
  std::optional<DataType> dtype;
  uint32_t field = 0;
  size_t width = 0;
  bool is_complex = false;

  int64_t bytes() const { return dtype->bytes() * (is_complex ? 2 : 1); }
};
const std::array<TypeRow, 24> kTypes = {{
    {"no type", std::nullopt},
    {"float", kFloat32, 5, 4},
    {"double", kFloat64, 6, 8},
    {"int32", kInt32, 7, 0},
    {"uint8", kUInt8, 7, 0},
    {"int16", kInt16, 7, 0},
    {"int8", kInt8, 7, 0},
    {"string", std::nullopt},
    {"complex64", kFloat32, 9, 4, true},
    {"int64", kInt64, 10, 0},
    {"bool", kBool, 11, 0},
    {"qint8", std::nullopt},
    {"quint8", std::nullopt},
    {"qint32", std::nullopt},
    {"bfloat16", kBFloat16, 13, 0},
    {"qint16", std::nullopt},
    {"quint16", std::nullopt},
    {"uint16", kUInt16, 7, 0},
    {"complex128", kFloat64, 12, 8, true},
    {"half", kFloat16, 13, 0},
    {"resource", std::nullopt},
    {"variant", std::nullopt},
    {"uint32", kUInt32, 16, 0},
    {"uint64", kUInt64, 17, 0},
}};
constexpr uint64_t kString = 7, kReference = 100;

// Maximum number of elements of a constant that repeats its last one: a few bytes may stand for any number of them.
constexpr int64_t kMaxRepeated = int64_t{1} << 26;

const TypeRow* RowOf(uint64_t type) {
  if (type > kReference) type -= kReference;
  return type < kTypes.size() ? &kTypes[type] : nullptr;
}

// Fields of a TensorProto.
struct TensorFields {
  uint64_t type = 0;
  Bytes shape;
  std::optional<Bytes> content;
};
std::optional<TensorFields> ReadFields(Bytes message) {
  TensorFields fields;
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(1, kVarint)) fields.type = field.value;
    if (field.Is(2, kBytes)) fields.shape = field.bytes;
    if (field.Is(4, kBytes) && !field.bytes.empty()) fields.content = field.bytes;
  }
  return reader.ok() ? std::optional(fields) : std::nullopt;
}

// Reads the elements that stand one by one. The last one stands for those that are left out.
absl::StatusOr<Literal> ReadElements(Bytes message, const TypeRow& row, Shape shape, int64_t count) {
  const auto size = static_cast<size_t>(row.bytes()), part = static_cast<size_t>(row.dtype->bytes());
  std::vector<std::byte> elements;
  bool ok = true;
  WireReader reader(message);
  Field field;
  while (ok && reader.Next(field)) {
    if (field.number != row.field) continue;
    ok = ForEachNumber(field, row.width, [&](uint64_t value) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      elements.insert(elements.end(), bytes, bytes + part);
    });
  }
  const auto given = static_cast<int64_t>(elements.size() / size);
  if (!ok || !reader.ok() || given > count) {
    return absl::InvalidArgumentError(
        absl::StrCat("a constant of shape ", ShapeToString(shape), " has ", given, " elements, or is cut off"));
  }
  if (given < count) {
    if (count > kMaxRepeated) return absl::InvalidArgumentError("a constant repeats an element too often");
    const std::vector<std::byte> last =
        given > 0 ? std::vector<std::byte>(elements.end() - row.bytes(), elements.end()) : std::vector<std::byte>(size);
    elements.reserve(static_cast<size_t>(count) * size);
    for (int64_t i = given; i < count; ++i) elements.insert(elements.end(), last.begin(), last.end());
  }
  return Literal::FromBytes(*row.dtype, std::move(shape), elements);
}

}  // namespace

std::optional<DataType> ToDataType(uint64_t type) {
  const TypeRow* row = RowOf(type);
  return row == nullptr || row->is_complex ? std::nullopt : row->dtype;
}

std::string TypeName(uint64_t type) {
  const TypeRow* row = RowOf(type);
  return row == nullptr ? absl::StrCat("type ", type) : std::string(row->name);
}

std::optional<std::vector<int64_t>> ReadShape(Bytes message) {
  std::vector<int64_t> shape;
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(3, kVarint) && field.value != 0) return std::nullopt;
    if (!field.Is(2, kBytes)) continue;
    int64_t extent = 0;
    WireReader dim(field.bytes);
    Field part;
    while (dim.Next(part)) {
      if (part.Is(1, kVarint)) extent = part.AsInt();
    }
    shape.push_back(extent);
  }
  return shape;
}

absl::StatusOr<Literal> ReadTensor(Bytes message) {
  const std::optional<TensorFields> fields = ReadFields(message);
  const TypeRow* row = fields ? RowOf(fields->type) : nullptr;
  if (row == nullptr) return absl::InvalidArgumentError("a constant is malformed, or of an unknown type");
  if (!row->dtype) return absl::UnimplementedError(absl::StrCat("a constant of ", std::string(row->name)));
  std::optional<std::vector<int64_t>> extents = ReadShape(fields->shape);
  int64_t size = row->bytes();
  for (int64_t extent : extents.value_or(std::vector<int64_t>{-1})) {
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) {
      return absl::InvalidArgumentError("a constant has an extent that is not a number");
    }
  }
  const int64_t count = size / row->bytes();
  Shape shape(extents->begin(), extents->end());
  if (row->is_complex) shape.push_back(2);
  if (fields->content) {
    if (size == static_cast<int64_t>(fields->content->size())) {
      return Literal::FromBytes(*row->dtype, std::move(shape), std::as_bytes(*fields->content));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("a constant has ", fields->content->size(), " bytes; its shape has ", size));
  }
  return ReadElements(message, *row, std::move(shape), count);
}

bool HasComplexElements(Bytes tensor) {
  const std::optional<TensorFields> fields = ReadFields(tensor);
  const TypeRow* row = fields ? RowOf(fields->type) : nullptr;
  return row != nullptr && row->is_complex;
}

absl::StatusOr<std::vector<std::string_view>> ReadTexts(Bytes message) {
  std::vector<std::string_view> texts;
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(1, kVarint) && field.value != kString) return absl::InvalidArgumentError("a constant is no text");
    if (field.Is(8, kBytes)) texts.push_back(field.AsText());
  }
  if (!reader.ok()) return absl::InvalidArgumentError("a constant is malformed");
  return texts;
}

}  // namespace rvm::tensorflow
