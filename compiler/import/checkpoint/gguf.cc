#include "compiler/import/checkpoint/gguf.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/git_lfs.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/little_endian_reader.h"

namespace rvm::checkpoint {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kMinVersion = 2, kMaxVersion = 3;
constexpr uint32_t kMaxAxes = 4;
constexpr uint64_t kDefaultAlignment = 32, kMaxAlignment = 1 << 20;

// Types of elements, by their number in files: `elements` of them take `bytes`.
struct TensorType {
  uint32_t number;
  std::string_view name;
  int64_t elements, bytes;
};
constexpr TensorType kTensorTypes[] = {
    {0, "F32", 1, 4},       {1, "F16", 1, 2},       {2, "Q4_0", 32, 18},    {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},    {7, "Q5_1", 32, 24},    {8, "Q8_0", 32, 34},    {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},  {11, "Q3_K", 256, 110}, {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210}, {15, "Q8_K", 256, 292}, {24, "I8", 1, 1},       {25, "I16", 1, 2},
    {26, "I32", 1, 4},      {27, "I64", 1, 8},      {28, "F64", 1, 8},      {30, "BF16", 1, 2},
};

const TensorType* FindTensorType(uint32_t number) {
  for (const TensorType& type : kTensorTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

// Numbers of the types of metadata.
enum ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBoolean, kString, kArray, kU64, kI64, kF64 };

class Reader : public importing::LittleEndianReader {
 public:
  using LittleEndianReader::LittleEndianReader;

  std::string String() { return std::string(Text(Number<uint64_t>())); }

  int64_t Integer(uint32_t type) {
    if (type == kU8) return Number<uint8_t>();
    if (type == kI8) return Number<int8_t>();
    if (type == kU16) return Number<uint16_t>();
    if (type == kI16) return Number<int16_t>();
    if (type == kU32) return Number<uint32_t>();
    if (type == kI32) return Number<int32_t>();
    if (type == kU64 || type == kI64) return Number<int64_t>();
    Fail();
    return 0;
  }

  // Reads a value of metadata. Skips an array, which no setting of a decoder is.
  Setting Value(uint32_t type) {
    if (type != kArray) return Scalar(type);
    uint32_t element = Number<uint32_t>();
    uint64_t count = Number<uint64_t>();
    // Each element takes a byte or more, so the file bounds the loop. Arrays of arrays are not read.
    for (uint64_t i = 0; i < count && ok(); ++i) Scalar(element);
    return {};
  }

 private:
  Setting Scalar(uint32_t type) {
    if (type == kString) return String();
    if (type == kF32) return static_cast<double>(Number<float>());
    if (type == kF64) return Number<double>();
    if (type == kBoolean) return Number<uint8_t>() != 0;
    return Integer(type);
  }
};

absl::Status Malformed(std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("malformed GGUF: ", Abseil(why)));
}

// Returns the number of which the places of the data, and of each tensor in it, are multiples.
absl::StatusOr<uint64_t> AlignmentOf(const Gguf& file) {
  auto it = file.metadata.find("general.alignment");
  if (it == file.metadata.end()) return kDefaultAlignment;
  const auto* alignment = std::get_if<int64_t>(&it->second);
  if (alignment != nullptr && *alignment > 0 && *alignment <= static_cast<int64_t>(kMaxAlignment)) return *alignment;
  return Malformed(absl::StrCat("`general.alignment` is no number from 1 to ", kMaxAlignment));
}

struct TensorEntry {
  std::string name;
  Shape shape;
  uint32_t type = 0;
  uint64_t offset = 0;
};

TensorEntry ReadEntry(Reader& reader) {
  TensorEntry entry{.name = reader.String()};
  uint32_t axes = reader.Number<uint32_t>();
  if (axes > kMaxAxes) return entry;  // no axes are read, so the sizes differ from those of the file
  // The innermost axis comes first.
  for (uint32_t i = 0; i < axes; ++i) entry.shape.insert(entry.shape.begin(), reader.Number<int64_t>());
  entry.type = reader.Number<uint32_t>();
  entry.offset = reader.Number<uint64_t>();
  return entry;
}

absl::StatusOr<StoredTensor> Locate(const TensorEntry& entry, importing::Bytes data,
                                    std::shared_ptr<const void> owner) {
  StoredTensor tensor{.type = absl::StrCat("type ", entry.type), .shape = entry.shape, .data = {}};
  const TensorType* type = FindTensorType(entry.type);
  if (type == nullptr) return tensor;
  tensor.type = std::string(type->name);
  for (int64_t extent : entry.shape) {
    if (extent < 0) return absl::InvalidArgumentError("an extent of its shape is too large");
  }
  std::optional<int64_t> count = NumElements(entry.shape);
  if (!count) return absl::InvalidArgumentError("its shape is too large");
  int64_t innermost = entry.shape.empty() ? 1 : entry.shape.back();
  if (innermost % type->elements != 0) {
    return absl::InvalidArgumentError(absl::StrCat("rows of ", innermost, " elements are no blocks of ", type->elements,
                                                   ", which ", tensor.type, " has"));
  }
  const auto blocks = static_cast<uint64_t>(*count / type->elements), bytes = static_cast<uint64_t>(type->bytes);
  if (entry.offset > data.size() || blocks > (data.size() - entry.offset) / bytes) {
    return absl::InvalidArgumentError(absl::StrCat("its bytes are not among the ", data.size(), " of the file's data"));
  }
  tensor.data = {data.subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(blocks * bytes)),
                 std::move(owner)};
  return tensor;
}

absl::Status CheckStart(importing::Bytes bytes) {
  if (IsGitLfsPointer(bytes)) return absl::InvalidArgumentError(kGitLfsPointerMessage);
  std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kMagic.size()));
  if (start == kMagic) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("saw a file that begins with `", Abseil(ReadableText(start)), "`; expected GGUF"));
}

}  // namespace

Setting Gguf::Find(std::string_view key) const {
  auto it = metadata.find(key);
  return it == metadata.end() ? Setting() : it->second;
}

absl::StatusOr<Gguf> ReadGguf(const importing::FileBytes& file) {
  RVM_RETURN_IF_ERROR(CheckStart(file.bytes));
  Reader reader(file.bytes.subspan(kMagic.size()));
  uint32_t version = reader.Number<uint32_t>();
  if (version < kMinVersion || version > kMaxVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("saw GGUF of version ", version, "; expected ", kMinVersion, " or ", kMaxVersion));
  }
  uint64_t tensors = reader.Number<uint64_t>(), values = reader.Number<uint64_t>();
  Gguf result;
  for (uint64_t i = 0; i < values && reader.ok(); ++i) {
    std::string key = reader.String();
    result.metadata.insert_or_assign(std::move(key), reader.Value(reader.Number<uint32_t>()));
  }
  std::vector<TensorEntry> entries;
  for (uint64_t i = 0; i < tensors && reader.ok(); ++i) entries.push_back(ReadEntry(reader));
  if (!reader.ok()) return Malformed("it ends in the header, or has metadata of an unknown type");
  RVM_ASSIGN_OR_RETURN(uint64_t alignment, AlignmentOf(result));
  uint64_t start = (reader.position() + kMagic.size() + alignment - 1) / alignment * alignment;
  importing::Bytes data = file.bytes.subspan(static_cast<size_t>(std::min<uint64_t>(start, file.bytes.size())));
  for (const TensorEntry& entry : entries) {
    absl::StatusOr<StoredTensor> tensor = Locate(entry, data, file.owner);
    if (!tensor.ok()) return Malformed(absl::StrCat("tensor `", entry.name, "`: ", tensor.status().message()));
    if (!result.tensors.emplace(entry.name, *std::move(tensor)).second)
      return Malformed(absl::StrCat("tensor `", entry.name, "` is there twice"));
  }
  return result;
}

}  // namespace rvm::checkpoint
