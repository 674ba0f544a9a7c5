#include "serialization/file_frame.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "serialization/checksum.h"

namespace rvm {
namespace {

using format::Section;
using format::SectionSpec;

std::string HexText(uint64_t value) { return absl::StrCat("0x", absl::Hex(value)); }

std::string Version(uint16_t major, uint16_t minor) { return absl::StrCat("format version ", major, ".", minor); }

absl::Status CheckVersion(uint16_t major, uint16_t minor) {
  if (major == format::kMajor) return absl::OkStatus();
  if (major > format::kMajor) {
    return absl::UnimplementedError(absl::StrCat("at offset ", HexText(format::kVersionOffset), " (header): saw ",
                                                 Version(major, minor), ", expected ", format::kMajor,
                                                 ".x: the file is newer than this program; use a newer one"));
  }
  return FormatError(format::kVersionOffset, "header", Version(major, minor),
                     absl::StrCat(format::kMajor, ".x: the file is older; compile the program again"));
}

class FrameReader {
 public:
  FrameReader(std::span<const uint8_t> bytes, bool check_constants)
      : bytes_(bytes), check_constants_(check_constants) {}

  absl::StatusOr<FileFrame> Run() {
    RVM_RETURN_IF_ERROR(ReadHeader());
    ByteReader table(bytes_.subspan(format::kHeaderBytes, end_ - format::kHeaderBytes), format::kHeaderBytes,
                     "section table");
    for (uint32_t i = 0; i < num_sections_; ++i) RVM_RETURN_IF_ERROR(ReadEntry(table));
    for (const SectionSpec& spec : format::kSections) {
      if (!spec.is_required || frame_.Find(spec.id) != nullptr) continue;
      return FormatError(format::kHeaderBytes, "section table", absl::StrCat("no section ", Name(spec)),
                         "one in every file");
    }
    if (end_ == bytes_.size()) return std::move(frame_);
    return FormatError(end_, "file", absl::StrCat(bytes_.size() - end_, " more bytes"), "the end of the file");
  }

 private:
  static std::string Name(const SectionSpec& spec) {
    return absl::StrCat(static_cast<int>(spec.id), " (", Abseil(spec.name), ")");
  }

  absl::Status ReadHeader() {
    if (bytes_.size() < format::kHeaderBytes) {
      return FormatError(bytes_.size(), "header", "the end of the file",
                         absl::StrCat("a header of ", format::kHeaderBytes, " bytes"));
    }
    if (!std::equal(format::kMagic.begin(), format::kMagic.end(), bytes_.begin())) {
      return FormatError(0, "header", "other bytes", "the signature of a .rvm file, 89 52 56 4d 0d 0a 1a 0a");
    }
    ByteReader header(bytes_.first(format::kHeaderBytes), 0, "header");
    header.Bytes(format::kMagic.size());
    uint16_t major = header.U16();
    frame_.minor = header.U16();
    RVM_RETURN_IF_ERROR(CheckVersion(major, frame_.minor));
    uint32_t file_class = header.U32();
    if (file_class > static_cast<uint32_t>(ExecutableClass::kNative)) {
      return FormatError(format::kClassOffset, "header", absl::StrCat("class ", file_class),
                         "0 (portable) or 1 (native)");
    }
    frame_.executable_class = static_cast<ExecutableClass>(file_class);
    if (uint64_t size = header.U64(); size != bytes_.size()) {
      return FormatError(format::kFileSizeOffset, "header", absl::StrCat("a file size of ", size),
                         absl::StrCat(bytes_.size(), ", the bytes there are"));
    }
    num_sections_ = header.U32();
    end_ = format::kHeaderBytes + uint64_t{num_sections_} * format::kSectionEntryBytes;
    if (end_ > bytes_.size()) {
      return FormatError(format::kSectionCountOffset, "header", absl::StrCat(num_sections_, " sections"),
                         absl::StrCat("at most as many as have entries in a file of ", bytes_.size(), " bytes"));
    }
    uint32_t stated = header.U32();
    uint32_t computed = ExtendCrc32c(Crc32c(bytes_.first(format::kHeaderChecksumOffset)),
                                     bytes_.subspan(format::kHeaderBytes, end_ - format::kHeaderBytes));
    if (stated == computed) return absl::OkStatus();
    return FormatError(format::kHeaderChecksumOffset, "header", absl::StrCat("checksum ", HexText(computed)),
                       HexText(stated));
  }

  // Moves end_ behind the section.
  absl::Status ReadEntry(ByteReader& table) {
    uint64_t at = table.offset();
    SectionEntry entry;
    entry.id = table.U16();
    uint16_t flags = table.U16();
    uint32_t checksum = table.U32();
    entry.offset = table.U64();
    entry.size = table.U64();
    auto error = [](uint64_t where, const std::string& saw, const std::string& expected) {
      return FormatError(where, "section table", saw, expected);
    };
    bool may_repeat = entry.id == static_cast<uint16_t>(Section::kCodeObject) ||
                      entry.id == static_cast<uint16_t>(Section::kDeviceCode);
    uint32_t least = frame_.sections.empty() ? 1 : frame_.sections.back().id + (may_repeat ? 0 : 1);
    if (entry.id < least) return error(at, absl::StrCat("section ", entry.id), absl::StrCat(least, " or higher"));
    uint64_t expected = format::AlignUp(end_, format::SectionAlignment(entry.id));
    if (entry.offset != expected)
      return error(at + 8, absl::StrCat("offset ", HexText(entry.offset)), HexText(expected));
    uint64_t left = bytes_.size() - std::min<uint64_t>(entry.offset, bytes_.size());
    if (entry.offset > bytes_.size() || entry.size > left) {
      return error(at + 16, absl::StrCat("a size of ", entry.size), absl::StrCat("at most ", left));
    }
    RVM_RETURN_IF_ERROR(CheckZeros(bytes_, end_, entry.offset, "padding"));
    const SectionSpec* spec = format::FindSection(entry.id);
    if (entry.id != static_cast<uint16_t>(Section::kConstantData) || check_constants_) {
      uint32_t computed = Crc32c(bytes_.subspan(entry.offset, entry.size));
      if (computed != checksum) {
        return FormatError(entry.offset, spec == nullptr ? "an unknown section" : spec->name,
                           absl::StrCat("checksum ", HexText(computed)), HexText(checksum));
      }
    }
    RVM_RETURN_IF_ERROR(spec == nullptr ? CheckUnknown(at, flags, entry) : CheckKnown(at, flags, *spec, entry));
    frame_.sections.push_back(entry);
    end_ = entry.offset + entry.size;
    return absl::OkStatus();
  }

  absl::Status CheckKnown(uint64_t at, uint16_t flags, const SectionSpec& spec, const SectionEntry& entry) {
    uint16_t expected = spec.is_needed ? format::kNeededFlag : 0;
    if (flags != expected) {
      return FormatError(at + 2, "section table", absl::StrCat("flags ", flags, " of section ", Name(spec)),
                         absl::StrCat(expected));
    }
    if (spec.id == Section::kSignature && entry.size != 0 && entry.size != format::kSignatureBytes) {
      return FormatError(at + 16, "section table", absl::StrCat("a signature of ", entry.size, " bytes"),
                         absl::StrCat("0 or ", format::kSignatureBytes));
    }
    std::span<const uint8_t> contents = bytes_.subspan(entry.offset, entry.size);
    auto is_zero = [](uint8_t b) { return b == 0; };
    if (!IsLeftOutIfZero(spec) || !std::all_of(contents.begin(), contents.end(), is_zero)) return absl::OkStatus();
    return FormatError(at, "section table", absl::StrCat("section ", Name(spec), ", which holds nothing"),
                       "no such section then");
  }

  absl::Status CheckUnknown(uint64_t at, uint16_t flags, const SectionEntry& entry) {
    ByteReader in = ReaderOf(bytes_, entry);
    std::string name = ReadExtraName(in);
    if (!in.ok()) return in.Finish();
    if (flags == 0) return absl::OkStatus();
    if (flags != format::kNeededFlag) {
      return FormatError(at + 2, "section table", absl::StrCat("flags ", flags, " of section `", name, "`"), "0 or 1");
    }
    return absl::UnimplementedError(absl::StrCat(
        "at offset ", HexText(at), " (section table): saw section ", entry.id, " `", name,
        "`, which is needed to run the file and which this program does not know, expected sections of format ",
        format::kMajor, ".", format::kMinor, "; the file is of format ", format::kMajor, ".", frame_.minor,
        ": use a newer program"));
  }

  std::span<const uint8_t> bytes_;
  bool check_constants_;
  uint32_t num_sections_ = 0;
  uint64_t end_ = 0;  // of the table and the sections read so far
  FileFrame frame_;
};

}  // namespace

const SectionEntry* FileFrame::Find(Section section) const {
  for (const SectionEntry& entry : sections) {
    if (entry.id == static_cast<uint16_t>(section)) return &entry;
  }
  return nullptr;
}

bool IsLeftOutIfZero(const SectionSpec& spec) {
  return !spec.is_required && spec.id != Section::kCodeObject && spec.id != Section::kDeviceCode;
}

absl::StatusOr<FileFrame> ReadFrame(std::span<const uint8_t> bytes, bool check_constants) {
  return FrameReader(bytes, check_constants).Run();
}

absl::Status CheckZeros(std::span<const uint8_t> bytes, uint64_t begin, uint64_t end, std::string_view part) {
  for (uint64_t at = begin; at < end; ++at) {
    if (bytes[at] != 0) return FormatError(at, part, HexText(bytes[at]), "zero");
  }
  return absl::OkStatus();
}

ByteReader ReaderOf(std::span<const uint8_t> bytes, const SectionEntry& entry) {
  const format::SectionSpec* spec = format::FindSection(entry.id);
  return ByteReader(bytes.subspan(entry.offset, entry.size), entry.offset,
                    spec == nullptr ? "an unknown section" : spec->name);
}

std::string ReadExtraName(ByteReader& in) {
  uint64_t at = in.offset();
  std::span<const uint8_t> text = in.Bytes(in.U8());
  std::string name(text.begin(), text.end());
  bool prints = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (in.ok() && (name.empty() || !prints)) in.Fail(at, "no name of a section", "1 to 255 printable characters");
  return name;
}

}  // namespace rvm
