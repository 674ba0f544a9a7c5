// Any bytes as a `.rvm` file: an executable or an error, and an executable that verifies has those
// bytes as its only encoding. A mutation changes the bytes of one section and lays the file out
// around it with right offsets and checksums, or hardly any would come past them.
#include <algorithm>
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

struct Section {
  uint16_t id;
  uint16_t flags;
  std::vector<uint8_t> contents;
};

uint64_t Load(std::span<const uint8_t> file, size_t at, size_t size) {
  uint64_t value = 0;
  std::memcpy(&value, &file[at], size);
  return value;
}
void Store16(uint8_t* at, uint16_t value) { std::memcpy(at, &value, sizeof value); }
void Store32(uint8_t* at, uint32_t value) { std::memcpy(at, &value, sizeof value); }
void Store64(uint8_t* at, uint64_t value) { std::memcpy(at, &value, sizeof value); }

// What the table says lies where; sections that lie outside the file are empty.
std::vector<Section> Split(std::span<const uint8_t> file) {
  std::vector<Section> sections;
  if (file.size() < format::kHeaderBytes) return sections;
  uint64_t count = Load(file, format::kSectionCountOffset, 4);
  count = std::min<uint64_t>(count, (file.size() - format::kHeaderBytes) / format::kSectionEntryBytes);
  for (uint64_t i = 0; i < count; ++i) {
    size_t entry = format::kHeaderBytes + i * format::kSectionEntryBytes;
    Section& section = sections.emplace_back();
    section.id = static_cast<uint16_t>(Load(file, entry, 2));
    section.flags = static_cast<uint16_t>(Load(file, entry + 2, 2));
    uint64_t offset = Load(file, entry + 8, 8), size = Load(file, entry + 16, 8);
    if (offset > file.size() || size > file.size() - offset) continue;
    std::span<const uint8_t> bytes = file.subspan(offset, size);
    section.contents.assign(bytes.begin(), bytes.end());
  }
  return sections;
}

std::vector<uint8_t> Join(const std::vector<Section>& sections, uint32_t file_class, uint16_t minor) {
  size_t table_end = format::kHeaderBytes + sections.size() * format::kSectionEntryBytes;
  std::vector<uint8_t> file(table_end);
  size_t at = format::kHeaderBytes;
  for (const Section& section : sections) {
    uint64_t offset = format::AlignUp(file.size(), format::SectionAlignment(section.id));
    file.resize(offset);
    file.insert(file.end(), section.contents.begin(), section.contents.end());
    uint8_t* entry = &file[at];
    Store16(entry, section.id);
    Store16(entry + 2, section.flags);
    Store32(entry + 4, Crc32c(section.contents));
    Store64(entry + 8, offset);
    Store64(entry + 16, section.contents.size());
    at += format::kSectionEntryBytes;
  }
  std::copy(format::kMagic.begin(), format::kMagic.end(), file.begin());
  Store32(&file[format::kVersionOffset], format::kMajor | uint32_t{minor} << 16);
  Store32(&file[format::kClassOffset], file_class);
  Store64(&file[format::kFileSizeOffset], file.size());
  Store32(&file[format::kSectionCountOffset], static_cast<uint32_t>(sections.size()));
  std::span<const uint8_t> bytes = file;
  uint32_t header = ExtendCrc32c(Crc32c(bytes.first(format::kHeaderChecksumOffset)),
                                 bytes.subspan(format::kHeaderBytes, table_end - format::kHeaderBytes));
  Store32(&file[format::kHeaderChecksumOffset], header);
  return file;
}

// A section added, taken out, or changed in its entry or its contents.
void Mutate(std::vector<Section>& sections, unsigned seed) {
  unsigned choice = seed / 16 % 32, index = seed / 512;
  if (choice == 0 || sections.empty()) {
    Section added = {static_cast<uint16_t>(seed / 64), static_cast<uint16_t>(seed % 32 == 0), {3, 'n', 'e', 'w'}};
    auto after = std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.id > added.id; });
    sections.insert(after, std::move(added));
    return;
  }
  Section& section = sections[index % sections.size()];
  if (choice == 1) {
    sections.erase(sections.begin() + index % sections.size());
  } else if (choice == 2) {
    section.flags ^= 1;
  } else if (choice == 3) {
    ++section.id;
  } else {
    size_t old_size = section.contents.size();
    section.contents.resize(old_size + 64);
    section.contents.resize(fuzz::MutateBytes(section.contents.data(), old_size, section.contents.size()));
  }
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
  std::vector<rvm::Section> sections = rvm::Split({data, size});
  rvm::Mutate(sections, seed);
  uint32_t file_class = size > rvm::format::kClassOffset ? data[rvm::format::kClassOffset] : 0;
  std::vector<uint8_t> file = rvm::Join(sections, file_class ^ (seed % 7 == 0), seed % 5 == 0);
  if (file.size() > max_size) return size;
  std::copy(file.begin(), file.end(), data);
  return file.size();
}
