#include "base/tensor_blob.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"

namespace rvm {
namespace {

constexpr uint64_t kTensorMagic = 0xDD5E40F096B4A13F;
constexpr uint64_t kListMagic = 0xF7E58D4F05049CB7;
constexpr int32_t kHostDevice = 1;
constexpr int32_t kMaxRank = 32;

// Removes a number from the front of `bytes`.
template <typename T>
absl::StatusOr<T> Take(std::span<const std::byte>& bytes, std::string_view what) {
  if (bytes.size() < sizeof(T)) {
    return absl::InvalidArgumentError(absl::StrCat("the tensor ends before its ", Abseil(what)));
  }
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

// nullopt where we have no such dtype.
std::optional<DataType> DTypeOf(uint8_t code, uint8_t bits, uint16_t lanes) {
  constexpr std::string_view kCodes[] = {"int", "uint", "float", "", "bfloat"};
  if (code >= std::size(kCodes) || kCodes[code].empty() || lanes != 1) return std::nullopt;
  std::optional<DataType> dtype = ParseDataType(absl::StrCat(Abseil(kCodes[code]), bits));
  return dtype && IsStorable(*dtype) ? dtype : std::nullopt;
}

absl::Status TakeHeader(std::span<const std::byte>& bytes) {
  RVM_ASSIGN_OR_RETURN(uint64_t magic, Take<uint64_t>(bytes, "magic number"));
  if (magic != kTensorMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensor starts with 0x", absl::Hex(magic), "; expected 0x", absl::Hex(kTensorMagic)));
  }
  RVM_ASSIGN_OR_RETURN(uint64_t reserved, Take<uint64_t>(bytes, "reserved word"));
  if (reserved != 0) return absl::InvalidArgumentError("the tensor's reserved word is not 0: a later format");
  RVM_ASSIGN_OR_RETURN(int32_t device, Take<int32_t>(bytes, "device"));
  RVM_RETURN_IF_ERROR(Take<int32_t>(bytes, "device").status());
  if (device == kHostDevice) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the tensor is of device type ", device, "; expected 1, the host"));
}

// A count that the rest of the list can hold.
absl::StatusOr<uint64_t> TakeCount(std::span<const std::byte>& bytes, uint64_t bytes_each, std::string_view what) {
  absl::StatusOr<uint64_t> count = Take<uint64_t>(bytes, what);
  if (count.ok() && *count <= bytes.size() / bytes_each) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("malformed .params: the file ends in its ", Abseil(what), count.ok() ? "" : "'s count"));
}

absl::StatusOr<std::vector<std::string>> TakeNames(std::span<const std::byte>& bytes) {
  RVM_ASSIGN_OR_RETURN(uint64_t count, TakeCount(bytes, sizeof(uint64_t), "names"));
  std::vector<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    RVM_ASSIGN_OR_RETURN(uint64_t length, TakeCount(bytes, 1, "names"));
    names.emplace_back(reinterpret_cast<const char*>(bytes.data()), length);
    bytes = bytes.subspan(length);
  }
  return names;
}

}  // namespace

absl::StatusOr<Literal> TakeTensorBlob(std::span<const std::byte>& bytes) {
  RVM_RETURN_IF_ERROR(TakeHeader(bytes));
  RVM_ASSIGN_OR_RETURN(int32_t rank, Take<int32_t>(bytes, "rank"));
  if (rank < 0 || rank > kMaxRank) return absl::InvalidArgumentError(absl::StrCat("the tensor has rank ", rank));
  RVM_ASSIGN_OR_RETURN(uint8_t code, Take<uint8_t>(bytes, "dtype"));
  RVM_ASSIGN_OR_RETURN(uint8_t bits, Take<uint8_t>(bytes, "dtype"));
  RVM_ASSIGN_OR_RETURN(uint16_t lanes, Take<uint16_t>(bytes, "dtype"));
  Shape shape;
  for (int32_t i = 0; i < rank; ++i) {
    RVM_ASSIGN_OR_RETURN(int64_t extent, Take<int64_t>(bytes, "extents"));
    if (extent < 0) return absl::InvalidArgumentError(absl::StrCat("the tensor has an extent ", extent));
    shape.push_back(extent);
  }
  RVM_ASSIGN_OR_RETURN(int64_t size, Take<int64_t>(bytes, "size"));
  if (size < 0 || static_cast<uint64_t>(size) > bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensor says that it has ", size, " bytes of elements; ", bytes.size(), " follow"));
  }
  std::span<const std::byte> elements = bytes.first(static_cast<size_t>(size));
  std::optional<DataType> dtype = DTypeOf(code, bits, lanes);
  if (!dtype) {
    bytes = bytes.subspan(elements.size());
    return absl::UnimplementedError(absl::StrCat("the tensor's dtype has code ", code, ", ", bits, " bits and ", lanes,
                                                 " lanes, which is none of ours"));
  }
  std::optional<int64_t> count = NumElements(shape);
  if (!count || *count > size || size != *count * dtype->bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("the tensor has ", size, " bytes of elements; its type `Tensor[",
                                                   ShapeToString(shape), ", ", dtype->ToString(), "]` needs others"));
  }
  bytes = bytes.subspan(elements.size());
  if (!dtype->is_bool()) return Literal::FromBytes(*dtype, std::move(shape), elements);
  std::vector<std::byte> bools(elements.begin(), elements.end());
  for (std::byte& element : bools) element = std::byte{element != std::byte{0}};
  return Literal::FromBytes(*dtype, std::move(shape), bools);
}

absl::StatusOr<Literal> DecodeTensorBlob(std::span<const std::byte> bytes) {
  absl::StatusOr<Literal> tensor = TakeTensorBlob(bytes);
  if (!tensor.ok() || bytes.empty()) return tensor;
  return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes follow the tensor; expected none"));
}

bool StartsTensorList(std::span<const std::byte> bytes) {
  absl::StatusOr<uint64_t> magic = Take<uint64_t>(bytes, "magic number");
  return magic.ok() && *magic == kListMagic;
}

absl::StatusOr<TensorList> DecodeTensorList(std::span<const std::byte> bytes) {
  RVM_RETURN_IF_ERROR(Take<uint64_t>(bytes, "magic number").status());
  absl::StatusOr<uint64_t> reserved = Take<uint64_t>(bytes, "reserved word");
  if (!reserved.ok()) return absl::InvalidArgumentError("malformed .params: the file ends in its header");
  if (*reserved != 0)
    return absl::InvalidArgumentError("malformed .params: its reserved word is not 0: a later format");
  RVM_ASSIGN_OR_RETURN(std::vector<std::string> names, TakeNames(bytes));
  RVM_ASSIGN_OR_RETURN(uint64_t count, TakeCount(bytes, 1, "tensors"));
  if (count != names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed .params: it has ", names.size(), " names and ", count, " tensors"));
  }
  TensorList list;
  for (std::string& name : names) {
    absl::StatusOr<Literal> tensor = TakeTensorBlob(bytes);
    if (!tensor.ok() && !absl::IsUnimplemented(tensor.status())) {
      return absl::InvalidArgumentError(absl::StrCat("tensor `", name, "`: ", tensor.status().message()));
    }
    if (list.tensors.contains(name) || list.unreadable.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor `", name, "` is there twice"));
    }
    if (tensor.ok())
      list.tensors.emplace(std::move(name), *std::move(tensor));
    else
      list.unreadable.emplace(std::move(name), std::string(tensor.status().message()));
  }
  if (bytes.empty()) return list;
  return absl::InvalidArgumentError(
      absl::StrCat("malformed .params: ", bytes.size(), " bytes follow its tensors; expected none"));
}

}  // namespace rvm
