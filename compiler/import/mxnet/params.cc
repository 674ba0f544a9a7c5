#include "compiler/import/mxnet/params.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/tensor_blob.h"
#include "compiler/import/little_endian_reader.h"

namespace rvm::mxnet {
namespace {

using importing::FileBytes;
using importing::LittleEndianReader;

constexpr uint64_t kListMagic = 0x112;
// Forms of an array, oldest first. The first has no magic: it begins with its rank.
constexpr uint32_t kMagic1 = 0xF993FAC8, kMagic2 = 0xF993FAC9, kMagic3 = 0xF993FACA;
constexpr uint32_t kMaxRank = 32;

// By the numbers that MXNet gives to types.
constexpr std::string_view kTypes[] = {"float32", "float64", "float16", "uint8",  "int32",  "int8",    "int64",
                                       "bool",    "int16",   "uint16",  "uint32", "uint64", "bfloat16"};

// nullopt: an array that has no value.
absl::StatusOr<std::optional<Literal>> ReadArray(LittleEndianReader& reader, const FileBytes& file) {
  uint32_t rank = reader.Number<uint32_t>();
  bool has_long_extents = false, is_numpy = false;
  if (rank == kMagic1 || rank == kMagic2 || rank == kMagic3) {
    has_long_extents = true;
    is_numpy = rank == kMagic3;
    if (rank != kMagic1 && reader.Number<int32_t>() > 0) return absl::UnimplementedError("it is sparse");
    rank = reader.Number<uint32_t>();
  }
  // An unknown rank of numpy's shapes is -1.
  if (reader.ok() && (is_numpy ? rank == UINT32_MAX : rank == 0)) return std::nullopt;
  if (rank > kMaxRank) return absl::InvalidArgumentError(absl::StrCat("its rank is ", rank));
  Shape shape;
  for (uint32_t i = 0; i < rank; ++i) {
    shape.push_back(has_long_extents ? reader.Number<int64_t>() : reader.Number<uint32_t>());
  }
  reader.Number<int64_t>();  // the device
  const auto type = reader.Number<uint32_t>();
  if (type >= std::size(kTypes)) return absl::InvalidArgumentError(absl::StrCat("its type is number ", type));
  const DataType dtype = *ParseDataType(kTypes[type]);
  int64_t size = dtype.bytes();
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) {
      return absl::InvalidArgumentError(absl::StrCat("its shape is ", ShapeToString(shape)));
    }
  }
  FileBytes elements = {reader.Part(static_cast<uint64_t>(size)), file.owner};
  if (!reader.ok()) return absl::InvalidArgumentError("the file ends in it");
  return importing::WrapElements(dtype, std::move(shape), std::move(elements));
}

absl::StatusOr<Params> ReadList(LittleEndianReader& reader, const FileBytes& file) {
  reader.Number<uint64_t>();  // reserved
  const auto count = reader.Number<uint64_t>();
  std::vector<std::optional<Literal>> arrays;
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    absl::StatusOr<std::optional<Literal>> array = ReadArray(reader, file);
    if (!array.ok()) {
      return absl::Status(array.status().code(),
                          absl::StrCat("array ", i, " of the file of weights: ", array.status().message()));
    }
    arrays.push_back(*std::move(array));
  }
  const auto named = reader.Number<uint64_t>();
  if (!reader.ok() || named != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file of weights has ", arrays.size(), " arrays; expected as many names behind them"));
  }
  Params params;
  for (std::optional<Literal>& array : arrays) {
    std::string_view name = reader.Text(reader.Number<uint64_t>());
    if (!reader.ok()) return absl::InvalidArgumentError("the file of weights ends in a name");
    for (std::string_view prefix : {"arg:", "aux:"}) {
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    }
    if (array) params.insert_or_assign(std::string(name), *std::move(array));
  }
  return params;
}

}  // namespace

absl::StatusOr<Params> ReadParams(const FileBytes& file) {
  const std::span<const std::byte> bytes = std::as_bytes(file.bytes);
  if (StartsTensorList(bytes)) {
    RVM_ASSIGN_OR_RETURN(TensorList list, DecodeTensorList(bytes));
    return std::move(list.tensors);
  }
  LittleEndianReader reader(file.bytes);
  if (reader.Number<uint64_t>() != kListMagic) {
    return absl::InvalidArgumentError(
        "the file of weights is no list of arrays; expected a .params file of MXNet or NNVM");
  }
  return ReadList(reader, file);
}

}  // namespace rvm::mxnet
