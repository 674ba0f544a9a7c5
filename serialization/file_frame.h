// The frame of a `.rvm` file: its header and its section table. Whatever holds for all sections is checked here;
// decoder.cc reads what they hold.
#ifndef RVM_SERIALIZATION_FILE_FRAME_H_
#define RVM_SERIALIZATION_FILE_FRAME_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialization/byte_reader.h"
#include "serialization/executable.h"
#include "serialization/format.h"

namespace rvm {

struct SectionEntry {
  uint16_t id = 0;
  uint64_t offset = 0, size = 0;
};

struct FileFrame {
  uint16_t minor = 0;
  ExecutableClass executable_class = ExecutableClass::kNative;
  std::vector<SectionEntry> sections;  // by ascending id; only code objects share one

  // Returns the first section with this id; null if there is none.
  const SectionEntry* Find(format::Section section) const;
};

// Checks version, sizes, offsets, padding, flags, checksums (of the constant data only if `check_constants`), that
// required sections are there, and that unknown ones may be skipped.
absl::StatusOr<FileFrame> ReadFrame(std::span<const uint8_t> bytes, bool check_constants);

// Returns whether a file has no such section where its contents would be zeros: a table all of whose counts are zero.
bool IsLeftOutIfZero(const format::SectionSpec& spec);

// OK if `bytes` from `begin` to `end` are zero.
absl::Status CheckZeros(std::span<const uint8_t> bytes, uint64_t begin, uint64_t end, std::string_view part);

ByteReader ReaderOf(std::span<const uint8_t> bytes, const SectionEntry& entry);

// Reads the name with which a section begins that this version does not know.
std::string ReadExtraName(ByteReader& in);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_FILE_FRAME_H_
