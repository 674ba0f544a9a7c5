#include "base/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"

namespace rvm {
namespace {

constexpr uint32_t kLocalMagic = 0x04034b50, kDirectoryMagic = 0x02014b50, kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50, kEnd64LocatorMagic = 0x07064b50;
constexpr size_t kEndBytes = 22, kDirectoryBytes = 46, kLocalBytes = 30, kEnd64LocatorBytes = 20, kEnd64Bytes = 56;
// Deflate makes at most 258 bytes of 2 bits.
constexpr uint64_t kMaxInflation = 1032;

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed zip archive: ", Abseil(what)));
}

// REQUIRES: the bytes are there.
template <typename T>
T Little(std::span<const uint8_t> bytes, size_t at) {
  T value = 0;
  for (size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(value << 8 | bytes[at + i]);
  return value;
}

struct Directory {
  uint64_t entries;
  uint64_t offset;
};

absl::StatusOr<Directory> FindDirectory(std::span<const uint8_t> archive) {
  if (archive.size() < kEndBytes) return Malformed("it is too short");
  size_t last = archive.size() - kEndBytes;
  size_t first = last - std::min<size_t>(last, std::numeric_limits<uint16_t>::max());
  size_t end = last + 1;
  // A comment of up to 64 KiB may follow.
  while (end-- > first) {
    if (Little<uint32_t>(archive, end) == kEndMagic && Little<uint16_t>(archive, end + 20) == last - end) break;
    if (end == first) return Malformed("it has no end of directory");
  }
  Directory directory{Little<uint16_t>(archive, end + 10), Little<uint32_t>(archive, end + 16)};
  bool is_zip64 =
      end >= kEnd64LocatorBytes && Little<uint32_t>(archive, end - kEnd64LocatorBytes) == kEnd64LocatorMagic;
  if (!is_zip64) return directory;
  uint64_t at = Little<uint64_t>(archive, end - kEnd64LocatorBytes + 8);
  if (at > archive.size() || archive.size() - at < kEnd64Bytes || Little<uint32_t>(archive, at) != kEnd64Magic) {
    return Malformed("its zip64 end of directory is not where it says");
  }
  return Directory{Little<uint64_t>(archive, at + 32), Little<uint64_t>(archive, at + 48)};
}

// Replaces the fields that are all ones by those of the zip64 extra field.
bool ReadZip64(std::span<const uint8_t> extra, uint64_t& content, uint64_t& stored, uint64_t& offset) {
  constexpr uint64_t kInExtra = std::numeric_limits<uint32_t>::max();
  if (content != kInExtra && stored != kInExtra && offset != kInExtra) return true;
  while (extra.size() >= 4) {
    uint16_t id = Little<uint16_t>(extra, 0), size = Little<uint16_t>(extra, 2);
    extra = extra.subspan(4);
    if (size > extra.size()) return false;
    if (id == 1) {
      std::span<const uint8_t> field = extra.first(size);
      for (uint64_t* value : {&content, &stored, &offset}) {
        if (*value != kInExtra) continue;
        if (field.size() < 8) return false;
        *value = Little<uint64_t>(field, 0);
        field = field.subspan(8);
      }
      return true;
    }
    extra = extra.subspan(size);
  }
  return false;
}

// The bytes of an entry, which lie behind its local header.
absl::Status LocateContent(std::span<const uint8_t> archive, uint64_t offset, uint64_t stored, ZipEntry& entry) {
  if (offset > archive.size() || archive.size() - offset < kLocalBytes ||
      Little<uint32_t>(archive, offset) != kLocalMagic) {
    return Malformed(absl::StrCat("entry `", entry.name, "` is not where the directory says"));
  }
  uint64_t begin =
      offset + kLocalBytes + Little<uint16_t>(archive, offset + 26) + Little<uint16_t>(archive, offset + 28);
  if (begin > archive.size() || stored > archive.size() - begin) {
    return Malformed(absl::StrCat("entry `", entry.name, "` runs over the end"));
  }
  entry.stored = archive.subspan(begin, stored);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ZipEntry>> ListZip(std::span<const uint8_t> archive) {
  RVM_ASSIGN_OR_RETURN(Directory directory, FindDirectory(archive));
  std::vector<ZipEntry> entries;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (at > archive.size() || archive.size() - at < kDirectoryBytes ||
        Little<uint32_t>(archive, at) != kDirectoryMagic) {
      return Malformed("its directory ends early");
    }
    std::span<const uint8_t> record = archive.subspan(at);
    size_t name_bytes = Little<uint16_t>(record, 28), extra_bytes = Little<uint16_t>(record, 30);
    size_t record_bytes = kDirectoryBytes + name_bytes + extra_bytes + Little<uint16_t>(record, 32);
    if (record_bytes > record.size()) return Malformed("its directory ends early");
    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(record.data()) + kDirectoryBytes, name_bytes);
    entry.method = Little<uint16_t>(record, 10);
    entry.crc32 = Little<uint32_t>(record, 16);
    uint64_t stored = Little<uint32_t>(record, 20), offset = Little<uint32_t>(record, 42);
    entry.content_bytes = Little<uint32_t>(record, 24);
    if (!ReadZip64(record.subspan(kDirectoryBytes + name_bytes, extra_bytes), entry.content_bytes, stored, offset)) {
      return Malformed(absl::StrCat("entry `", entry.name, "` lacks its zip64 sizes"));
    }
    if ((Little<uint16_t>(record, 8) & 1) != 0) {
      return absl::UnimplementedError(absl::StrCat("entry `", entry.name, "` of the zip archive is encrypted"));
    }
    RVM_RETURN_IF_ERROR(LocateContent(archive, offset, stored, entry));
    entries.push_back(std::move(entry));
    at += record_bytes;
  }
  return entries;
}

absl::StatusOr<std::span<const uint8_t>> ReadZipEntry(const ZipEntry& entry, std::vector<uint8_t>& storage) {
  std::span<const uint8_t> content = entry.stored;
  if (entry.method == 8) {
    if (entry.content_bytes / kMaxInflation > entry.stored.size()) {
      return Malformed(absl::StrCat("entry `", entry.name, "` claims more bytes than it can unpack to"));
    }
    storage.resize(entry.content_bytes);
    z_stream stream = {};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
      return absl::ResourceExhaustedError("no memory to unpack a zip entry");
    // zlib counts in 32 bits, so both sides are fed in pieces.
    constexpr size_t kPiece = size_t{1} << 30;
    size_t in = 0, out = 0;
    int result = Z_OK;
    uint8_t nothing = 0;
    while (result == Z_OK) {
      size_t take = std::min(kPiece, entry.stored.size() - in), give = std::min(kPiece, storage.size() - out);
      stream.next_in = const_cast<uint8_t*>(entry.stored.data() + in);
      stream.avail_in = static_cast<uInt>(take);
      stream.next_out = storage.empty() ? &nothing : storage.data() + out;
      stream.avail_out = static_cast<uInt>(give);
      result = inflate(&stream, Z_NO_FLUSH);
      in += take - stream.avail_in;
      out += give - stream.avail_out;
    }
    inflateEnd(&stream);
    if (result != Z_STREAM_END || out != storage.size()) {
      return Malformed(
          absl::StrCat("entry `", entry.name, "` does not unpack to the ", entry.content_bytes, " bytes it claims"));
    }
    content = storage;
  } else if (entry.method != 0) {
    return absl::UnimplementedError(
        absl::StrCat("entry `", entry.name, "` is packed by method ", entry.method, "; expected stored or deflated"));
  } else if (entry.content_bytes != entry.stored.size()) {
    return Malformed(absl::StrCat("entry `", entry.name, "` is stored in another number of bytes than it has"));
  }
  uint32_t crc = static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), content.data(), content.size()));
  if (crc != entry.crc32) return Malformed(absl::StrCat("the checksum of entry `", entry.name, "` is wrong"));
  return content;
}

}  // namespace rvm
