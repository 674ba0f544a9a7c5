#include "compiler/import/tensorflow/table.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace rvm::tensorflow {
namespace {

constexpr size_t kFooter = 48, kTrailer = 5;  // of a file, and of a block: its kind of compression and a checksum
constexpr uint64_t kMagic = 0xdb4775248b80fb57;
// Maximum size of all keys together: a file may share the beginning of a long key between many entries.
constexpr size_t kMaxKeys = size_t{1} << 28;

uint64_t Fixed(Bytes bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

absl::Status Malformed(const char* what) { return absl::InvalidArgumentError(what); }

// Returns the block that a handle, an offset and a size, refers to.
absl::StatusOr<Bytes> BlockAt(Bytes file, Bytes& handle) {
  const std::optional<uint64_t> offset = TakeVarint(handle), size = TakeVarint(handle);
  if (!offset || !size) return Malformed("the place of a block is cut off");
  if (*offset > file.size() || *size > file.size() - *offset || file.size() - *offset - *size < kTrailer) {
    return Malformed("a block lies outside of the file");
  }
  const uint8_t compression = file[*offset + *size];
  if (compression == 1) return absl::UnimplementedError("its blocks are compressed by Snappy");
  if (compression != 0) return Malformed("its blocks are compressed by an unknown method");
  return file.subspan(*offset, *size);
}

// Adds the entries of a block, whose keys leave out what they share with the key before.
absl::Status ReadBlock(Bytes block, Table& table, size_t& keys) {
  if (block.size() < 4) return Malformed("a block is cut off");
  const uint64_t restarts = Fixed(block.last(4), 4);
  if (restarts > (block.size() - 4) / 4) return Malformed("a block has more restarts than bytes");
  Bytes rest = block.first(block.size() - 4 - 4 * restarts);
  std::string key;
  while (!rest.empty()) {
    const std::optional<uint64_t> shared = TakeVarint(rest), own = TakeVarint(rest), size = TakeVarint(rest);
    if (!shared || !own || !size || *shared > key.size() || *own > rest.size() || *size > rest.size() - *own) {
      return Malformed("an entry of a block is cut off");
    }
    key.resize(*shared);
    key.append(reinterpret_cast<const char*>(rest.data()), *own);
    if (kMaxKeys - keys < key.size()) return Malformed("its keys are too long");
    keys += key.size();
    table.emplace_back(key, rest.subspan(*own, *size));
    rest = rest.subspan(*own + *size);
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<uint64_t> TakeVarint(Bytes& rest) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const uint8_t byte = rest[0];
    rest = rest.subspan(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

absl::StatusOr<Table> ReadTable(Bytes file) {
  if (file.size() < kFooter || Fixed(file.last(8), 8) != kMagic) return Malformed("it does not end as a table does");
  Bytes handles = file.last(kFooter);
  // The first block has names of filters.
  if (!TakeVarint(handles) || !TakeVarint(handles)) return Malformed("its footer is malformed");
  RVM_ASSIGN_OR_RETURN(Bytes index, BlockAt(file, handles));
  Table blocks, table;
  size_t keys = 0;
  RVM_RETURN_IF_ERROR(ReadBlock(index, blocks, keys));
  for (auto& [last_key, handle] : blocks) {
    RVM_ASSIGN_OR_RETURN(Bytes block, BlockAt(file, handle));
    RVM_RETURN_IF_ERROR(ReadBlock(block, table, keys));
  }
  return table;
}

}  // namespace rvm::tensorflow
