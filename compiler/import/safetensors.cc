#include "compiler/import/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/element.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace rvm::importing {
namespace {

// `"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}`
absl::StatusOr<SafetensorsEntry> ReadEntry(const std::string& name, const JsonValue& entry, Bytes data) {
  auto malformed = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor `", name, "`: ", Abseil(what)));
  };
  const JsonValue* type = entry.Find("dtype");
  const JsonValue* extents = entry.Find("shape");
  const JsonValue* offsets = entry.Find("data_offsets");
  if (type == nullptr || type->AsString() == nullptr || extents == nullptr || extents->AsArray() == nullptr ||
      offsets == nullptr || offsets->AsArray() == nullptr || offsets->AsArray()->size() != 2) {
    return malformed("its entry needs `dtype`, `shape` and two `data_offsets`");
  }
  SafetensorsEntry result{.name = name, .type = *type->AsString(), .shape = {}, .elements = {}};
  for (const JsonValue& extent : *extents->AsArray()) {
    if (extent.AsInt() == nullptr || *extent.AsInt() < 0)
      return malformed("an extent of its shape is no natural number");
    result.shape.push_back(*extent.AsInt());
  }
  const int64_t* begin = (*offsets->AsArray())[0].AsInt();
  const int64_t* end = (*offsets->AsArray())[1].AsInt();
  if (begin == nullptr || end == nullptr || *begin < 0 || *begin > *end || static_cast<uint64_t>(*end) > data.size()) {
    return malformed(absl::StrCat("its bytes are not among the ", data.size(), " of the file"));
  }
  int64_t available = *end - *begin;
  result.elements = data.subspan(static_cast<size_t>(*begin), static_cast<size_t>(available));
  std::optional<DataType> dtype = SafetensorsDType(result.type);
  if (!dtype) return result;
  std::optional<int64_t> count = NumElements(result.shape);
  if (!count || *count > available / dtype->bytes() || *count * dtype->bytes() != available) {
    return malformed(absl::StrCat("it holds ", available, " bytes, which is not ", ShapeToString(result.shape), " of ",
                                  dtype->ToString()));
  }
  return result;
}

}  // namespace

std::optional<DataType> SafetensorsDType(std::string_view type) {
  for (const DataTypeInfo& info : DataTypeTable()) {
    if (info.safetensors == type) return info.dtype;
  }
  return std::nullopt;
}

// 8 bytes length, that many bytes of JSON, the elements.
absl::StatusOr<std::vector<SafetensorsEntry>> ListSafetensors(Bytes file) {
  constexpr size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes) return absl::InvalidArgumentError("no .safetensors file");
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | file[i];
  Bytes rest = file.subspan(kLengthBytes);
  if (length > rest.size()) return absl::InvalidArgumentError("malformed .safetensors: it ends in the header");
  RVM_ASSIGN_OR_RETURN(JsonValue header,
                       ParseJson({reinterpret_cast<const char*>(rest.data()), static_cast<size_t>(length)}));
  const JsonValue::Object* object = header.AsObject();
  if (object == nullptr) return absl::InvalidArgumentError("malformed .safetensors: the header is no object");
  std::vector<SafetensorsEntry> entries;
  for (size_t i = 0; i < object->keys.size(); ++i) {
    if (object->keys[i] == "__metadata__") continue;
    RVM_ASSIGN_OR_RETURN(SafetensorsEntry entry,
                         ReadEntry(object->keys[i], object->values[i], rest.subspan(static_cast<size_t>(length))));
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace rvm::importing
