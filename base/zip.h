// Reads zip archives in memory: what an .npz is. Entries are stored or deflated; no encryption, one disk.
#ifndef RVM_BASE_ZIP_H_
#define RVM_BASE_ZIP_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rvm {

struct ZipEntry {
  std::string name;
  uint16_t method;  // 0 stored, 8 deflated
  uint32_t crc32;   // of the content
  uint64_t content_bytes;
  std::span<const uint8_t> stored;  // the bytes in the archive
};

// Returns the entries of `archive` in the order of its directory, with zip64 sizes. kInvalidArgument
// where it is malformed; no bytes read outside of it.
absl::StatusOr<std::vector<ZipEntry>> ListZip(std::span<const uint8_t> archive);

// Returns the content of an entry, its checksum compared. A stored entry is a view into the archive,
// a deflated one is unpacked into `storage`, whose size never exceeds what its bytes can unpack to.
absl::StatusOr<std::span<const uint8_t>> ReadZipEntry(const ZipEntry& entry, std::vector<uint8_t>& storage);

}  // namespace rvm

#endif  // RVM_BASE_ZIP_H_
