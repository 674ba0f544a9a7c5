#include "compiler/driver/params.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/element.h"
#include "base/file.h"
#include "base/git_lfs.h"
#include "base/json.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "base/tensor_blob.h"
#include "base/zip.h"

namespace rvm::driver {
namespace {

std::string_view TextOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// "a/b.npy" -> "b"
std::string Stem(std::string_view path) {
  if (size_t slash = path.rfind('/'); slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (path.ends_with(".npy")) path.remove_suffix(4);
  return std::string(path);
}

// Files a decoded tensor, or the reason why it has none.
absl::Status AddNpy(std::string name, std::span<const uint8_t> bytes, ParamFile& file) {
  absl::StatusOr<Literal> tensor = DecodeNpy(bytes);
  if (tensor.ok()) {
    if (file.tensors.try_emplace(name, *std::move(tensor)).second) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("tensor `", name, "` is there twice"));
  }
  if (!absl::IsUnimplemented(tensor.status())) {
    return absl::InvalidArgumentError(absl::StrCat("tensor `", name, "`: ", tensor.status().message()));
  }
  file.unreadable.emplace(std::move(name), std::string(tensor.status().message()));
  return absl::OkStatus();
}

absl::Status ReadNpz(std::span<const uint8_t> bytes, ParamFile& file) {
  RVM_ASSIGN_OR_RETURN(std::vector<ZipEntry> entries, ListZip(bytes));
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(".npy")) continue;
    std::vector<uint8_t> storage;
    RVM_ASSIGN_OR_RETURN(std::span<const uint8_t> content, ReadZipEntry(entry, storage));
    RVM_RETURN_IF_ERROR(AddNpy(entry.name.substr(0, entry.name.size() - 4), content, file));
  }
  return absl::OkStatus();
}

std::optional<DataType> SafetensorsDType(std::string_view text) {
  for (const DataTypeInfo& info : DataTypeTable()) {
    if (info.safetensors == text) return info.dtype;
  }
  return std::nullopt;
}

// `"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}`
absl::Status AddSafetensor(const std::string& name, const JsonValue& entry, std::span<const uint8_t> data,
                           ParamFile& file) {
  auto malformed = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor `", name, "`: ", Abseil(what)));
  };
  const JsonValue* dtype_text = entry.Find("dtype");
  const JsonValue* extents = entry.Find("shape");
  const JsonValue* offsets = entry.Find("data_offsets");
  if (dtype_text == nullptr || dtype_text->AsString() == nullptr || extents == nullptr ||
      extents->AsArray() == nullptr || offsets == nullptr || offsets->AsArray() == nullptr ||
      offsets->AsArray()->size() != 2) {
    return malformed("its entry needs `dtype`, `shape` and two `data_offsets`");
  }
  Shape shape;
  for (const JsonValue& extent : *extents->AsArray()) {
    if (extent.AsInt() == nullptr || *extent.AsInt() < 0)
      return malformed("an extent of its shape is no natural number");
    shape.push_back(*extent.AsInt());
  }
  const int64_t* begin = (*offsets->AsArray())[0].AsInt();
  const int64_t* end = (*offsets->AsArray())[1].AsInt();
  if (begin == nullptr || end == nullptr || *begin < 0 || *begin > *end || static_cast<uint64_t>(*end) > data.size()) {
    return malformed(absl::StrCat("its bytes are not among the ", data.size(), " of the file"));
  }
  std::optional<DataType> dtype = SafetensorsDType(*dtype_text->AsString());
  if (!dtype) {
    file.unreadable.emplace(name, absl::StrCat("dtype `", *dtype_text->AsString(),
                                               "`; expected bool, an integer, or a float of 16 to 64 bits"));
    return absl::OkStatus();
  }
  std::optional<int64_t> count = NumElements(shape);
  int64_t available = *end - *begin;
  if (!count || *count > available / dtype->bytes() || *count * dtype->bytes() != available) {
    return malformed(
        absl::StrCat("it holds ", available, " bytes, which is not ", ShapeToString(shape), " of ", dtype->ToString()));
  }
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(available);
  if (available > 0) std::memcpy(buffer->data(), data.data() + *begin, static_cast<size_t>(available));
  for (int64_t i = 0; dtype->is_bool() && i < available; ++i) {
    buffer->data()[i] = std::byte{buffer->data()[i] != std::byte{0}};
  }
  file.tensors.emplace(name, Literal(*dtype, std::move(shape), std::move(buffer)));
  return absl::OkStatus();
}

// 8 bytes length, that many bytes of JSON, the elements.
absl::Status ReadSafetensors(std::span<const uint8_t> bytes, ParamFile& file) {
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | bytes[i];
  bytes = bytes.subspan(8);
  if (length > bytes.size()) return absl::InvalidArgumentError("malformed .safetensors: it ends in the header");
  RVM_ASSIGN_OR_RETURN(JsonValue header, ParseJson(TextOf(bytes.first(length))));
  const JsonValue::Object* object = header.AsObject();
  if (object == nullptr) return absl::InvalidArgumentError("malformed .safetensors: the header is no object");
  for (size_t i = 0; i < object->keys.size(); ++i) {
    if (object->keys[i] == "__metadata__") continue;
    RVM_RETURN_IF_ERROR(AddSafetensor(object->keys[i], object->values[i], bytes.subspan(length), file));
  }
  return absl::OkStatus();
}

absl::Status ReadTensorList(std::span<const std::byte> bytes, ParamFile& file) {
  RVM_ASSIGN_OR_RETURN(TensorList list, DecodeTensorList(bytes));
  file.tensors = std::move(list.tensors);
  file.unreadable = std::move(list.unreadable);
  return absl::OkStatus();
}

absl::Status ReadAny(std::span<const uint8_t> bytes, ParamFile& file) {
  std::string_view text = TextOf(bytes);
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) return ReadNpz(bytes, file);
  if (text.starts_with("\x93NUMPY")) return AddNpy(Stem(file.path), bytes, file);
  if (StartsTensorList(std::as_bytes(bytes))) return ReadTensorList(std::as_bytes(bytes), file);
  if (text.size() > 8 && text[8] == '{') return ReadSafetensors(bytes, file);
  if (IsGitLfsPointer(bytes)) return absl::InvalidArgumentError(kGitLfsPointerMessage);
  return absl::InvalidArgumentError("this is no file of weights; expected .npz, .safetensors, .npy or .params");
}

}  // namespace

absl::StatusOr<ParamFile> DecodeParams(const std::string& path, std::span<const uint8_t> bytes) {
  ParamFile file;
  file.path = path;
  absl::Status status = ReadAny(bytes, file);
  if (status.ok()) return file;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<ParamFile> LoadParams(const std::string& path) {
  RVM_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  return DecodeParams(path, std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace rvm::driver
