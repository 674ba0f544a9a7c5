#include "compiler/import/stablehlo/attributes.h"

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/literal.h"

namespace rvm::stablehlo {
namespace {

constexpr int kMaxDepth = 64;  // of attributes in attributes, and of types
// How VHLO writes an unknown extent.
constexpr int64_t kUnknownExtent = INT64_MIN;

struct ElementRow {
  std::string_view name;  // empty: no element
  int bits;
  std::optional<DataType> dtype;
};
// The types of elements, by the codes that VHLO gives them.
const ElementRow kElements[] = {{"bool", 1, kBool},
                                {},  // 1: complex
                                {"bfloat16", 16, kBFloat16},
                                {"float16", 16, kFloat16},
                                {"float32", 32, kFloat32},
                                {"float64", 64, kFloat64},
                                {"float8_e4m3fn", 8, kFloat8E4M3FN},
                                {"float8_e5m2", 8, {}},
                                {},  // 8: function
                                {"index", 64, {}},
                                {"int4", 4, {}},
                                {"int8", 8, kInt8},
                                {"int16", 16, kInt16},
                                {"int32", 32, kInt32},
                                {"int64", 64, kInt64},
                                {"uint4", 4, {}},
                                {"uint8", 8, kUInt8},
                                {"uint16", 16, kUInt16},
                                {"uint32", 32, kUInt32},
                                {"uint64", 64, kUInt64}};

// Codes of other types in VHLO.
constexpr uint64_t kComplexType = 1, kFunctionType = 8, kTensorType = 20, kEncodedTensorType = 21, kTokenType = 22,
                   kInt2Type = 31, kUInt2Type = 32;

// Codes of attributes in VHLO.
constexpr uint64_t kArray = 1, kBoolean = 2, kDictionary = 6, kFloatNumber = 8, kInteger = 9, kString = 14,
                   kTensor = 15, kTypeAttribute = 17;
// The enumerations are single numbers.
constexpr bool IsEnumeration(uint64_t code) {
  return code == 3 || code == 4 || code == 5 || code == 7 || code == 11 || code == 12 || code == 13 || code == 16;
}

// Codes of attributes in the dialect `builtin`, whose locations have names.
constexpr uint64_t kBuiltinArray = 0, kBuiltinDictionary = 1, kBuiltinString = 2, kCallSite = 10, kFused = 12,
                   kNamed = 14;

}  // namespace

template <typename T>
void AttributeReader::ReadList(Cursor& offsets, uint64_t count, const std::vector<std::string_view>& dialects,
                               uint64_t end, uint64_t& at, std::vector<Entry<T>>& entries) {
  while (entries.size() < count && !offsets.failed()) {
    const uint64_t dialect = offsets.Index(dialects.size(), "dialect"), group = offsets.Count();
    if (group > count - entries.size()) offsets.Fail(absl::StrCat("saw more entries than the ", count, " that it has"));
    for (uint64_t i = 0; i < group && !offsets.failed(); ++i) {
      const auto [size, is_encoded] = offsets.WithFlag();
      if (size > end - at) offsets.Fail("saw an entry beyond the end of its section");
      if (offsets.failed()) return;
      entries.push_back({dialects[dialect], is_encoded, at, at + size});
      at += size;
    }
  }
}

void AttributeReader::ReadEntries(Cursor offsets, Cursor data, const std::vector<std::string_view>& dialects) {
  const uint64_t attributes = offsets.Count(), types = offsets.Count();
  uint64_t at = data.offset();
  const uint64_t end = at + data.rest();
  ReadList(offsets, attributes, dialects, end, at, attribute_entries_);
  ReadList(offsets, types, dialects, end, at, type_entries_);
}

template <typename T>
const T* AttributeReader::Get(Cursor& cursor, uint64_t index, std::vector<Entry<T>>& entries, std::deque<T>& storage,
                              std::string_view what) {
  static const T* const kNothing = new T();
  if (index >= entries.size()) {
    cursor.Fail(absl::StrCat("saw ", Abseil(what), " number ", index, " of a list of ", entries.size()));
  }
  if (cursor.failed()) return kNothing;
  Entry<T>& entry = entries[index];
  if (entry.state == State::kReading || depth_ >= kMaxDepth) {
    cursor.Fail(absl::StrCat(Abseil(what), " number ", index, " has itself in it, or is too deep"));
    return kNothing;
  }
  if (entry.state == State::kRead) return entry.value;
  entry.state = State::kReading;
  entry.value = &storage.emplace_back();
  Cursor inner(file_, entry.begin, entry.end, mistake_);
  ++depth_;
  if (entry.is_encoded) Decode(inner, entry.dialect, *entry.value);
  --depth_;
  entry.state = State::kRead;
  return entry.value;
}

const Type* AttributeReader::ReadType(Cursor& cursor) {
  return Get(cursor, cursor.Number(), type_entries_, types_, "type");
}

const Type* AttributeReader::ReadTypeWithFlag(Cursor& cursor, bool& flag) {
  const auto [index, is_set] = cursor.WithFlag();
  flag = is_set;
  return Get(cursor, index, type_entries_, types_, "type");
}

const Attribute* AttributeReader::ReadAttribute(Cursor& cursor) {
  return Get(cursor, cursor.Number(), attribute_entries_, attributes_, "attribute");
}

// ---- types

void AttributeReader::Decode(Cursor& cursor, std::string_view dialect, Type& type) {
  if (dialect != "vhlo") return;
  const uint64_t code = cursor.Number();
  if (code < std::size(kElements) && !kElements[code].name.empty()) {
    const ElementRow& row = kElements[code];
    type = {.kind = Type::Kind::kElement, .name = std::string(row.name), .dtype = row.dtype, .bits = row.bits};
  } else if (code == kInt2Type || code == kUInt2Type) {
    type = {.kind = Type::Kind::kElement, .name = code == kInt2Type ? "int2" : "uint2", .bits = 2};
  } else if (code == kComplexType) {
    const Type* part = ReadType(cursor);
    type = {.kind = Type::Kind::kElement,
            .name = part->bits == 64 ? "complex128" : "complex64",
            .dtype = part->dtype,
            .is_complex = true};
  } else if (code == kTensorType || code == kEncodedTensorType) {
    if (code == kEncodedTensorType) ReadAttribute(cursor);  // bounds of extents
    std::vector<int64_t> shape;
    for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) {
      const int64_t extent = cursor.Signed();
      if (extent < 0 && extent != kUnknownExtent) cursor.Fail(absl::StrCat("saw an extent of ", extent));
      shape.push_back(extent < 0 ? -1 : extent);
    }
    const Type* element = ReadType(cursor);
    const bool is_element = element->kind == Type::Kind::kElement;
    type = *element;
    type.kind = is_element ? Type::Kind::kTensor : Type::Kind::kOther;
    type.shape = std::move(shape);
  } else if (code == kTokenType) {
    type = {.kind = Type::Kind::kToken, .name = "token"};
  } else {
    const bool is_function = code == kFunctionType;
    type = {.kind = is_function ? Type::Kind::kFunction : Type::Kind::kOther, .name = absl::StrCat("type ", code)};
  }
}

// ---- attributes

std::string_view AttributeReader::ReadString(Cursor& cursor) {
  const uint64_t index = cursor.Index(strings_.size(), "string");
  return cursor.failed() ? std::string_view() : strings_[index];
}

void AttributeReader::ReadElements(Cursor& cursor, Attribute& attribute, bool in_pairs) {
  for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) {
    attribute.elements.push_back(ReadAttribute(cursor));
    if (in_pairs) attribute.elements.push_back(ReadAttribute(cursor));
  }
}

int64_t AttributeReader::ReadInteger(Cursor& cursor, const Type& type) {
  return type.bits <= 8 ? static_cast<int8_t>(cursor.Byte()) : cursor.Signed();
}

double AttributeReader::ReadFloat(Cursor& cursor, const Type& type) {
  const int64_t bits = ReadInteger(cursor, type);
  return type.dtype && type.dtype->is_float() ? LoadDouble(*type.dtype, &bits) : 0;
}

void AttributeReader::Decode(Cursor& cursor, std::string_view dialect, Attribute& attribute) {
  if (dialect == "vhlo") DecodeVhlo(cursor, attribute);
  if (dialect == "builtin") DecodeBuiltin(cursor, attribute);
}

void AttributeReader::DecodeVhlo(Cursor& cursor, Attribute& attribute) {
  using Kind = Attribute::Kind;
  const uint64_t code = cursor.Number();
  if (code == kArray || code == kDictionary) {
    attribute.kind = code == kArray ? Kind::kArray : Kind::kDictionary;
    ReadElements(cursor, attribute, code == kDictionary);
  } else if (code == kBoolean || IsEnumeration(code)) {
    attribute.kind = Kind::kInteger;
    attribute.integer = static_cast<int64_t>(cursor.Number());
  } else if (code == kFloatNumber) {
    attribute.kind = Kind::kFloat;
    attribute.number = ReadFloat(cursor, *ReadType(cursor));
  } else if (code == kInteger) {
    attribute.kind = Kind::kInteger;
    attribute.integer = ReadInteger(cursor, *ReadType(cursor));
  } else if (code == kString) {
    attribute.kind = Kind::kText;
    attribute.text = ReadString(cursor);
  } else if (code == kTensor) {
    attribute.kind = Kind::kTensor;
    attribute.type = ReadType(cursor);
    attribute.data = cursor.Take(cursor.Number());
  } else if (code == kTypeAttribute) {
    attribute.kind = Kind::kType;
    attribute.type = ReadType(cursor);
  }
}

void AttributeReader::DecodeBuiltin(Cursor& cursor, Attribute& attribute) {
  using Kind = Attribute::Kind;
  const uint64_t code = cursor.Number();
  if (code == kBuiltinArray || code == kBuiltinDictionary) {
    attribute.kind = code == kBuiltinArray ? Kind::kArray : Kind::kDictionary;
    ReadElements(cursor, attribute, code == kBuiltinDictionary);
  } else if (code == kBuiltinString) {
    attribute.kind = Kind::kText;
    attribute.text = ReadString(cursor);
  } else if (code == kNamed) {
    attribute.kind = Kind::kLocation;
    attribute.text = ReadAttribute(cursor)->text;
  } else if (code == kCallSite) {  // the callee, and then the caller
    attribute.kind = Kind::kLocation;
    attribute.text = ReadAttribute(cursor)->text;
  } else if (code == kFused) {
    ReadElements(cursor, attribute, false);
    attribute.kind = Kind::kLocation;
    if (!attribute.elements.empty()) attribute.text = attribute.elements[0]->text;
  }
}

}  // namespace rvm::stablehlo
