// Any bytes as a `.rvm` file: an executable or an error, and an executable that verifies has those
// bytes as its only encoding. A mutation changes the bytes of one section and lays the file out
// around it with right offsets and checksums, or hardly any would come past them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "serialization/checksum.h"
#include "serialization/decoder.h"
#include "serialization/encoder.h"
#include "serialization/format.h"
#include "serialization/verifier.h"
#include "tests/fuzz/mutate.h"

namespace rvm {
namespace {

using Sections = std::array<std::vector<uint8_t>, format::kNumSections>;

constexpr size_t kTable = format::kHeaderBytes;
constexpr size_t kTableEnd = kTable + size_t{format::kNumSections} * format::kSectionEntryBytes;

// What the table says lies where; sections that lie outside the file are empty.
Sections Split(std::span<const uint8_t> file) {
  Sections sections;
  if (file.size() < kTableEnd) return sections;
  for (uint32_t i = 0; i < format::kNumSections; ++i) {
    uint64_t extent[2];
    std::memcpy(extent, &file[kTable + i * format::kSectionEntryBytes + 8], sizeof extent);
    auto [offset, size] = extent;
    if (offset > file.size() || size > file.size() - offset) continue;
    std::span<const uint8_t> bytes = file.subspan(offset, size);
    sections[i].assign(bytes.begin(), bytes.end());
  }
  return sections;
}

void Store32(uint8_t* at, uint32_t value) { std::memcpy(at, &value, sizeof value); }
void Store64(uint8_t* at, uint64_t value) { std::memcpy(at, &value, sizeof value); }

std::vector<uint8_t> Join(const Sections& sections, uint32_t file_class) {
  std::vector<uint8_t> file(kTableEnd);
  for (uint32_t i = 0; i < format::kNumSections; ++i) {
    uint64_t offset = format::AlignUp(file.size(), format::SectionAlignment(static_cast<format::Section>(i + 1)));
    file.resize(offset);
    file.insert(file.end(), sections[i].begin(), sections[i].end());
    uint8_t* entry = &file[kTable + i * format::kSectionEntryBytes];
    Store32(entry, i + 1);
    Store32(entry + 4, Crc32c(sections[i]));
    Store64(entry + 8, offset);
    Store64(entry + 16, sections[i].size());
  }
  std::copy(format::kMagic.begin(), format::kMagic.end(), file.begin());
  Store32(&file[format::kMagic.size()], format::kMajor | uint32_t{format::kMinor} << 16);
  Store32(&file[format::kClassOffset], file_class);
  Store64(&file[format::kFileSizeOffset], file.size());
  Store32(&file[format::kSectionCountOffset], format::kNumSections);
  std::span<const uint8_t> bytes = file;
  uint32_t header =
      ExtendCrc32c(Crc32c(bytes.first(format::kHeaderChecksumOffset)), bytes.subspan(kTable, kTableEnd - kTable));
  Store32(&file[format::kHeaderChecksumOffset], header);
  return file;
}

}  // namespace
}  // namespace rvm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::StatusOr<rvm::Executable> executable = rvm::Decode({data, size}, {.check_constants = true});
  if (!executable.ok()) return 0;
  auto verified = rvm::Verify(*std::move(executable));
  if (!verified.ok()) return 0;
  std::vector<uint8_t> again = rvm::Encode(***verified);
  // A signature is not part of the executable.
  uint64_t body = again.size() < size ? again.size() : size;
  bool is_signed = size == body + rvm::format::kSignatureBytes;
  RVM_CHECK(is_signed || (again.size() == size && std::memcmp(again.data(), data, size) == 0),
            "an executable has two encodings");
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  // Now and then the header and the table themselves.
  if (seed % 16 == 0) return rvm::fuzz::MutateBytes(data, size, max_size);
  rvm::Sections sections = rvm::Split({data, size});
  std::vector<uint8_t>& section = sections[seed / 16 % sections.size()];
  size_t old_size = section.size();
  section.resize(old_size + 64);
  section.resize(rvm::fuzz::MutateBytes(section.data(), old_size, section.size()));
  bool native = !sections[static_cast<uint32_t>(rvm::format::Section::kNativeObjects) - 1].empty();
  std::vector<uint8_t> file = rvm::Join(sections, native && seed % 7 != 0 ? 1 : 0);
  if (file.size() > max_size) return size;
  std::copy(file.begin(), file.end(), data);
  return file.size();
}
