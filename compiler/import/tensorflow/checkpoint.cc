#include "compiler/import/tensorflow/checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "compiler/import/tensorflow/model.h"
#include "compiler/import/tensorflow/table.h"
#include "compiler/import/wire_reader.h"

namespace rvm::tensorflow {
namespace {

using importing::Field;
using importing::FileBytes;
using importing::WireReader;
using importing::WireType;
using enum WireType;

// A BundleEntryProto.
struct Entry {
  uint64_t type = 0, shard = 0, offset = 0, size = 0;
  Bytes shape;
  bool is_sliced = false;
};

std::optional<Entry> ReadEntry(Bytes message) {
  Entry entry;
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(1, kVarint)) entry.type = field.value;
    if (field.Is(2, kBytes)) entry.shape = field.bytes;
    if (field.Is(3, kVarint)) entry.shard = field.value;
    if (field.Is(4, kVarint)) entry.offset = field.value;
    if (field.Is(5, kVarint)) entry.size = field.value;
    if (field.Is(7, kBytes)) entry.is_sliced = true;
  }
  return reader.ok() ? std::optional(entry) : std::nullopt;
}

absl::Status Malformed(std::string_view key, std::string why) {
  return absl::InvalidArgumentError(absl::StrCat("`", Abseil(key), "` of the checkpoint: ", why));
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(std::string_view prefix, const ExternalFiles& files) {
  if (files == nullptr) return absl::NotFoundError("its variables are in files beside it, which are not given");
  Checkpoint checkpoint;
  checkpoint.prefix_ = prefix;
  checkpoint.files_ = files;
  RVM_ASSIGN_OR_RETURN(checkpoint.index_, files(absl::StrCat(Abseil(prefix), ".index")));
  absl::StatusOr<Table> table = ReadTable(checkpoint.index_.bytes);
  if (!table.ok()) {
    return absl::Status(table.status().code(), absl::StrCat(Abseil(prefix), ".index: ", table.status().message()));
  }
  for (auto& [key, value] : *table) {
    if (!key.empty()) {
      checkpoint.entries_.emplace(std::move(key), value);
      continue;
    }
    // The header: the number of files, and whether numbers have their high bytes first.
    WireReader reader(value);
    Field field;
    while (reader.Next(field)) {
      if (field.Is(1, kVarint)) checkpoint.shards_ = field.AsInt();
      if (field.Is(2, kVarint) && field.value != 0) {
        return absl::UnimplementedError("its variables are stored with the high byte first");
      }
    }
  }
  return checkpoint;
}

absl::StatusOr<Checkpoint::Value> Checkpoint::Find(std::string_view key) const {
  auto found = entries_.find(key);
  if (found == entries_.end()) return absl::NotFoundError(absl::StrCat("the checkpoint has no `", Abseil(key), "`"));
  const std::optional<Entry> entry = ReadEntry(found->second);
  if (!entry) return Malformed(key, "its entry is malformed");
  if (entry->is_sliced) {
    return absl::UnimplementedError(absl::StrCat("`", Abseil(key), "` of the checkpoint: it is stored in slices"));
  }
  RVM_ASSIGN_OR_RETURN(FileBytes file, files_(absl::StrFormat("%s.data-%05d-of-%05d", prefix_, entry->shard, shards_)));
  if (entry->offset > file.bytes.size() || entry->size > file.bytes.size() - entry->offset) {
    return Malformed(key, "it lies behind the end of its file");
  }
  return Value{entry->type, entry->shape, {file.bytes.subspan(entry->offset, entry->size), file.owner}};
}

absl::StatusOr<Literal> Checkpoint::Read(std::string_view key) const {
  RVM_ASSIGN_OR_RETURN(Value value, Find(key));
  const std::optional<DataType> dtype = ToDataType(value.type);
  if (!dtype) {
    return absl::UnimplementedError(
        absl::StrCat("`", Abseil(key), "` of the checkpoint: it is of ", TypeName(value.type)));
  }
  const std::optional<std::vector<int64_t>> shape = ReadShape(value.shape);
  int64_t size = dtype->bytes();
  for (int64_t extent : shape.value_or(std::vector<int64_t>{-1})) {
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) return Malformed(key, "its shape is malformed");
  }
  if (static_cast<uint64_t>(size) != value.file.bytes.size()) {
    return Malformed(key, absl::StrCat("it has ", value.file.bytes.size(), " bytes; its shape has ", size));
  }
  return importing::WrapElements(*dtype, Shape(shape->begin(), shape->end()), std::move(value.file));
}

absl::StatusOr<FileBytes> Checkpoint::ReadText(std::string_view key) const {
  constexpr uint64_t kText = 7;
  constexpr size_t kChecksum = 4;
  RVM_ASSIGN_OR_RETURN(Value value, Find(key));
  if (value.type != kText) return Malformed(key, absl::StrCat("it is of ", TypeName(value.type), ", not a text"));
  // The length, its checksum, the text.
  Bytes& bytes = value.file.bytes;
  const std::optional<uint64_t> length = TakeVarint(bytes);
  if (!length || bytes.size() < kChecksum || *length != bytes.size() - kChecksum) {
    return Malformed(key, "its length is malformed");
  }
  bytes = bytes.subspan(kChecksum);
  return std::move(value.file);
}

}  // namespace rvm::tensorflow
