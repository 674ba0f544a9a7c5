#include "tests/fuzz/sections.h"

#include <algorithm>
#include <cstring>

#include "serialization/checksum.h"
#include "serialization/format.h"

namespace rvm::fuzz {
namespace {

uint64_t Load(std::span<const uint8_t> file, size_t at, size_t size) {
  uint64_t value = 0;
  std::memcpy(&value, &file[at], size);
  return value;
}
void Store16(uint8_t* at, uint16_t value) { std::memcpy(at, &value, sizeof value); }
void Store32(uint8_t* at, uint32_t value) { std::memcpy(at, &value, sizeof value); }
void Store64(uint8_t* at, uint64_t value) { std::memcpy(at, &value, sizeof value); }

}  // namespace

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

}  // namespace rvm::fuzz
