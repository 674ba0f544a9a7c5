// The bytes of a `.rvm` file (file_format.md) -> Executable.
//
// Decode proves the form of the file only: sizes, counts, checksums, canonical
// encoding (Encode gives the same bytes back). What the numbers mean is for Verify;
// nothing may run before it. No bytes, however made, crash Decode or
// make it allocate more than a small multiple of their size.
#ifndef RVM_SERIALIZATION_DECODER_H_
#define RVM_SERIALIZATION_DECODER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/executable.h"

namespace rvm {

struct DecodeOptions {
  // Keeps `bytes` alive and unchanged. If set, and `bytes` is aligned to 64, constants point into
  // them; otherwise they are copied.
  std::shared_ptr<const void> owner;
  // Read all constants to compare their checksum: right for checking a file, too slow for
  // starting a program with gigabytes of weights. A wrong weight changes results, never safety.
  bool check_constants = false;
};

// kInvalidArgument: "at offset 0x1c (header): saw checksum 0x1234, expected 0x5678".
// kUnimplemented: the file is of a newer format than this program, and uses something that the program does not know.
absl::StatusOr<Executable> Decode(std::span<const uint8_t> bytes, const DecodeOptions& options = {});

// A file's bytes in memory, read when they are touched. The file must not be changed in place meanwhile
// (replacing it by a rename is fine).
struct MappedFile {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;  // of the mapping
};
absl::StatusOr<MappedFile> MapFile(const std::string& path);

// Maps the file and decodes it; constants stay in the mapping, which lives as long as they.
absl::StatusOr<Executable> DecodeFile(const std::string& path, bool check_constants = false);

struct SectionInfo {
  std::string name;
  uint64_t bytes;
  bool is_known;  // to this version; others are skipped
};
// In the order of the file. REQUIRES: Decode accepts `bytes`.
std::vector<SectionInfo> ListSections(std::span<const uint8_t> bytes);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_DECODER_H_
