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
#include "base/npy.h"
#include "base/status_macros.h"
#include "base/tensor_blob.h"
#include "base/zip.h"
#include "compiler/import/safetensors.h"

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

absl::Status ReadSafetensors(std::span<const uint8_t> bytes, ParamFile& file) {
  RVM_ASSIGN_OR_RETURN(std::vector<importing::SafetensorsEntry> entries, importing::ListSafetensors(bytes));
  for (importing::SafetensorsEntry& entry : entries) {
    std::optional<DataType> dtype = importing::SafetensorsDType(entry.type);
    if (!dtype) {
      file.unreadable.emplace(
          entry.name, absl::StrCat("dtype `", entry.type, "`; expected bool, an integer, or a float of 16 to 64 bits"));
      continue;
    }
    int64_t size = static_cast<int64_t>(entry.elements.size());
    std::shared_ptr<Buffer> buffer = Buffer::Allocate(size);
    if (size > 0) std::memcpy(buffer->data(), entry.elements.data(), entry.elements.size());
    for (int64_t i = 0; dtype->is_bool() && i < size; ++i) {
      buffer->data()[i] = std::byte{buffer->data()[i] != std::byte{0}};
    }
    file.tensors.emplace(std::move(entry.name), Literal(*dtype, std::move(entry.shape), std::move(buffer)));
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
