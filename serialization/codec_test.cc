#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "gtest/gtest.h"
#include "serialization/assembler.h"
#include "serialization/checksum.h"
#include "serialization/decoder.h"
#include "serialization/disassembler.h"
#include "serialization/encoder.h"
#include "serialization/format.h"
#include "serialization/isa/isa.h"
#include "serialization/limits.h"
#include "serialization/verifier.h"

namespace rvm {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Executable Program(const std::string& name) {
  absl::StatusOr<Executable> program = Assemble(ReadText("serialization/testdata/" + name));
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Executable();
}

// Decodes like `relayvm verify`.
absl::StatusOr<Executable> DecodeAll(std::span<const uint8_t> bytes) {
  return Decode(bytes, {.owner = nullptr, .check_constants = true});
}

absl::Status DecodeAndVerify(std::span<const uint8_t> bytes) {
  absl::StatusOr<Executable> program = DecodeAll(bytes);
  if (!program.ok()) return program.status();
  return Verify(*std::move(program)).status();
}

void Store32(std::vector<uint8_t>& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}
uint64_t Load(std::span<const uint8_t> bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes[at + i]} << (8 * i);
  return value;
}

size_t TableEnd(std::span<const uint8_t> bytes) {
  return format::kHeaderBytes + Load(bytes, format::kSectionCountOffset, 4) * format::kSectionEntryBytes;
}

// Makes all checksums right again, so that a change reaches the readers of sections.
void Reseal(std::vector<uint8_t>& bytes) {
  size_t table_end = TableEnd(bytes);
  if (table_end > bytes.size()) return;
  for (size_t at = format::kHeaderBytes; at < table_end; at += format::kSectionEntryBytes) {
    uint64_t offset = Load(bytes, at + 8, 8);
    uint64_t size = Load(bytes, at + 16, 8);
    if (offset <= bytes.size() && size <= bytes.size() - offset) {
      Store32(bytes, at + 4, Crc32c(std::span(bytes).subspan(offset, size)));
    }
  }
  uint32_t crc = Crc32c(std::span(bytes).first(format::kHeaderChecksumOffset));
  Store32(bytes, format::kHeaderChecksumOffset,
          ExtendCrc32c(crc, std::span(bytes).subspan(format::kHeaderBytes, table_end - format::kHeaderBytes)));
}

// Returns the offset of the entry of the section with this id; the end of the table if there is none.
size_t EntryOf(std::span<const uint8_t> bytes, uint16_t id) {
  size_t entry = format::kHeaderBytes;
  while (entry < TableEnd(bytes) && Load(bytes, entry, 2) != id) entry += format::kSectionEntryBytes;
  return entry;
}
size_t OffsetOf(std::span<const uint8_t> bytes, format::Section section) {
  return Load(bytes, EntryOf(bytes, static_cast<uint16_t>(section)) + 8, 8);
}

// Makes a file of another minor version.
void SetMinor(std::vector<uint8_t>& bytes, uint8_t minor) {
  bytes[format::kVersionOffset + 2] = minor;
  Reseal(bytes);
}

TEST(ChecksumTest, KnownValues) {
  std::string digits = "123456789";
  std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(digits.data()), digits.size());
  EXPECT_EQ(Crc32c(bytes), 0xe3069283u);
  EXPECT_EQ(ExtendCrc32c(Crc32c(bytes.first(3)), bytes.subspan(3)), 0xe3069283u);
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(CodecTest, RoundTrip) {
  Executable program = Program("all_opcodes.rvmasm");
  std::vector<uint8_t> bytes = Encode(program);
  EXPECT_EQ(Encode(program), bytes);
  absl::StatusOr<Executable> decoded = DecodeAll(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->types, program.types);
  EXPECT_EQ(decoded->adts, program.adts);
  EXPECT_EQ(decoded->layouts, program.layouts);
  EXPECT_EQ(decoded->constants, program.constants);
  EXPECT_EQ(decoded->kernels, program.kernels);
  EXPECT_EQ(decoded->functions, program.functions);
  EXPECT_EQ(decoded->entries, program.entries);
  EXPECT_EQ(decoded->files, program.files);
  EXPECT_EQ(decoded->metadata, program.metadata);
  EXPECT_EQ(decoded->executable_class, ExecutableClass::kNative);
  EXPECT_EQ(decoded->code_objects.size(), 2u);
  EXPECT_EQ(decoded->code_objects, program.code_objects);
  EXPECT_EQ(decoded->extra_sections, program.extra_sections);
  EXPECT_EQ(Encode(*decoded), bytes);
}

TEST(CodecTest, EmptyProgram) {
  absl::StatusOr<Executable> decoded = DecodeAll(Encode(Executable()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(Verify(*std::move(decoded)).ok());
}

TEST(CodecTest, ConstantsStayInTheMapping) {
  Executable program = Program("all_opcodes.rvmasm");
  std::string path = absl::StrCat(::testing::TempDir(), "/program.rvm");
  std::vector<uint8_t> bytes = Encode(program);
  absl::StatusOr<uint64_t> size = EncodeFile(program, path);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, bytes.size());
  EXPECT_EQ(*ReadFile(path), std::string(bytes.begin(), bytes.end()));
  absl::StatusOr<Executable> mapped = DecodeFile(path);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->constants, program.constants);
  ptrdiff_t distance = mapped->constants[2].data() - mapped->constants[0].data();
  EXPECT_EQ(distance, 128);  // float32[4], int32, float16[2], each on its own 64 bytes of one mapping
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped->constants[0].data()) % 64, 0u);
}

TEST(CodecTest, MissingFile) { EXPECT_EQ(DecodeFile("no/such.rvm").status().code(), absl::StatusCode::kNotFound); }

// ---- malformed bytes

class EveryByteTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, EveryByteTest,
                         ::testing::Values("tiny.rvmasm", "all_opcodes.rvmasm", "recipes.rvmasm", "devices.rvmasm",
                                           "batch.rvmasm"));

TEST_P(EveryByteTest, EveryFlippedBitIsFound) {
  std::vector<uint8_t> bytes = Encode(Program(GetParam()));
  ASSERT_TRUE(DecodeAndVerify(bytes).ok());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (uint8_t flip : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
      bytes[at] ^= flip;
      absl::Status status = DecodeAndVerify(bytes);
      bytes[at] ^= flip;
      ASSERT_FALSE(status.ok()) << "byte " << at << " ^ " << int{flip};
      std::string message(status.message());
      EXPECT_EQ(message.rfind("at offset 0x", 0), 0u) << message;
      EXPECT_NE(message.find(": saw "), std::string::npos) << message;
      EXPECT_NE(message.find(", expected "), std::string::npos) << message;
    }
  }
}

TEST_P(EveryByteTest, EveryTruncationIsFound) {
  std::vector<uint8_t> bytes = Encode(Program(GetParam()));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeAll(std::span(bytes).first(size)).ok()) << size;
  }
  bytes.push_back(0);
  EXPECT_FALSE(DecodeAll(bytes).ok());
}

// With right checksums a change may give another program; what decodes must encode to the same bytes, and
// neither decoding nor verification may crash.
TEST_P(EveryByteTest, ChangesBehindRightChecksumsAreCanonicalOrErrors) {
  std::vector<uint8_t> bytes = Encode(Program(GetParam()));
  size_t decoded = 0;
  for (size_t at = format::kHeaderBytes; at < bytes.size(); ++at) {
    for (uint8_t flip : {0x01, 0x02, 0x10, 0x80, 0xff}) {
      std::vector<uint8_t> changed = bytes;
      changed[at] ^= flip;
      Reseal(changed);
      absl::StatusOr<Executable> program = DecodeAll(changed);
      if (!program.ok()) continue;
      ++decoded;
      EXPECT_EQ(Encode(*program), changed) << at;
      Disassemble(*program);
      Verify(*std::move(program)).IgnoreError();
    }
  }
  EXPECT_GT(decoded, 0u);
}

TEST(MalformedTest, RandomChangesNeverCrash) {
  std::vector<uint8_t> bytes = Encode(Program("all_opcodes.rvmasm"));
  uint64_t random = 12345;
  auto next = [&random] { return (random = random * 6364136223846793005u + 1442695040888963407u) >> 33; };
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> changed = bytes;
    for (uint64_t n = next() % 6 + 1; n > 0; --n) {
      changed[32 + next() % (changed.size() - 32)] = static_cast<uint8_t>(next() % 4 == 0 ? next() : next() % 5);
    }
    Reseal(changed);
    absl::StatusOr<Executable> program = DecodeAll(changed);
    if (program.ok()) Verify(*std::move(program)).IgnoreError();
  }
}

// ---- other versions

TEST(VersionTest, OtherMajorVersionsSayWhatToDo) {
  std::vector<uint8_t> bytes = Encode(Executable());
  bytes[format::kVersionOffset] = format::kMajor + 1;
  EXPECT_EQ(Decode(bytes).status(),
            absl::UnimplementedError("at offset 0x8 (header): saw format version 7.4, expected 6.x: the file is newer "
                                     "than this program; use a newer one"));
  bytes[format::kVersionOffset] = 5;
  EXPECT_EQ(Decode(bytes).status(),
            absl::InvalidArgumentError("at offset 0x8 (header): saw format version 5.4, expected 6.x: the file is "
                                       "older; compile the program again"));
}

TEST(VersionTest, NewerMinorVersionLoadsAndStaysAsItIs) {
  std::vector<uint8_t> bytes = Encode(Program("all_opcodes.rvmasm"));
  SetMinor(bytes, format::kMinor + 3);
  absl::StatusOr<Executable> decoded = DecodeAll(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(Encode(*decoded), bytes);
  EXPECT_TRUE(Verify(*std::move(decoded)).ok());
}

TEST(VersionTest, ErrorsInANewerMinorVersionMentionIt) {
  const char* newer = "; the file is of format 6.7, newer than this program's 6.4: use a newer program";
  std::vector<uint8_t> bytes = Encode(Program("tiny.rvmasm"));
  bytes[OffsetOf(bytes, format::Section::kTypes) + 4] = 99;  // a kind of type
  SetMinor(bytes, format::kMinor + 3);
  EXPECT_EQ(Decode(bytes).status(), absl::UnimplementedError(absl::StrCat(
                                        "at offset 0x12c (types): saw kind of type 99, expected 0 to 6", newer)));

  Executable program = Program("tiny.rvmasm");
  program.format_minor = format::kMinor + 3;
  program.functions[0].code[0] = 0xfe;  // an opcode
  absl::Status status = Verify(std::move(program)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find(newer), std::string::npos) << status;
}

TEST(VersionTest, UnknownSectionsAreSkippedUnlessNeeded) {
  Executable program = Program("tiny.rvmasm");
  program.extra_sections = {{77, "streams", {1, 2, 3}}, {78, "notes", {}}};
  std::vector<uint8_t> bytes = Encode(program);
  absl::StatusOr<Executable> decoded = DecodeAll(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->extra_sections, program.extra_sections);
  EXPECT_EQ(Encode(*decoded), bytes);
  EXPECT_TRUE(Verify(*std::move(decoded)).ok());

  bytes[EntryOf(bytes, 77) + 2] = format::kNeededFlag;
  SetMinor(bytes, format::kMinor + 3);
  absl::Status status = Decode(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message())
                .find("saw section 77 `streams`, which is needed to run the file and which this program does not know, "
                      "expected sections of format 6.4; the file is of format 6.7: use a newer program"),
            std::string::npos)
      << status;
}

struct TableCase {
  const char* what;
  uint16_t section;
  size_t field;  // of the entry
  uint8_t value;
  const char* message;
};

TEST(MalformedTest, SectionTable) {
  const TableCase cases[] = {
      {"a required section as an unknown one", 1, 0, 0, "saw section 0, expected 1 or higher"},
      {"an id again", 4, 0, 3, "saw section 3, expected 4 or higher"},
      {"a needed section as optional", 14, 2, 0, "saw flags 0 of section 14 (targets), expected 1"},
      {"an optional section as needed", 12, 2, 1, "saw flags 1 of section 12 (metadata), expected 0"},
      {"an unknown flag", 100, 2, 2, "saw flags 2 of section `example`, expected 0 or 1"},
  };
  const std::vector<uint8_t> good = Encode(Program("all_opcodes.rvmasm"));
  for (const TableCase& c : cases) {
    std::vector<uint8_t> bytes = good;
    bytes[EntryOf(bytes, c.section) + c.field] = c.value;
    Reseal(bytes);
    absl::Status status = Decode(bytes).status();
    EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos) << c.what << ": " << status;
  }
}

TEST(MalformedTest, SectionsThatAreMissingOrEmpty) {
  std::vector<uint8_t> bytes = Encode(Executable());
  Store32(bytes, EntryOf(bytes, 9), 10);  // an optional table without items in place of the entries
  Reseal(bytes);
  EXPECT_NE(std::string(Decode(bytes).status().message()).find("saw section 10 (files), which holds nothing"),
            std::string::npos);
  Store32(bytes, EntryOf(bytes, 10), 20);
  bytes[OffsetOf(bytes, static_cast<format::Section>(20))] = 1;
  bytes[OffsetOf(bytes, static_cast<format::Section>(20)) + 1] = 'x';
  Reseal(bytes);
  EXPECT_NE(
      std::string(Decode(bytes).status().message()).find("saw no section 9 (entries), expected one in every file"),
      std::string::npos);
}

TEST(MalformedTest, EachTargetHasACodeObject) {
  Executable program = Program("all_opcodes.rvmasm");
  program.extra_sections.clear();
  std::vector<uint8_t> bytes = Encode(program);
  Store32(bytes, OffsetOf(bytes, format::Section::kTargets), 1);
  Reseal(bytes);
  EXPECT_NE(std::string(Decode(bytes).status().message()).find("more bytes"), std::string::npos);
  bytes = Encode(program);
  size_t second = EntryOf(bytes, 15) + format::kSectionEntryBytes;
  size_t offset = Load(bytes, second + 8, 8);
  Store32(bytes, second, 77);
  bytes[offset] = 1;
  bytes[offset + 1] = 'x';
  Reseal(bytes);
  EXPECT_NE(
      std::string(Decode(bytes).status().message()).find("saw 1 code objects, expected one for each of 2 targets"),
      std::string::npos)
      << Decode(bytes).status();
}

TEST(MalformedTest, CountsAreBoundedBeforeAllocation) {
  std::vector<uint8_t> bytes = Encode(Executable());
  Store32(bytes, OffsetOf(bytes, format::Section::kFunctions), 0xffffffff);
  Reseal(bytes);
  absl::Status status = Decode(bytes).status();
  EXPECT_NE(std::string(status.message()).find("(functions): saw a count of 4294967295, expected at most 0"),
            std::string::npos)
      << status;
}

TEST(MalformedTest, ConstantDataIsCheckedOnRequestOnly) {
  std::vector<uint8_t> bytes = Encode(Program("all_opcodes.rvmasm"));
  bytes[OffsetOf(bytes, format::Section::kConstantData)] ^= 1;
  EXPECT_TRUE(Decode(bytes).ok());
  EXPECT_FALSE(DecodeAll(bytes).ok());
}

TEST(MalformedTest, UnknownClass) {
  std::vector<uint8_t> bytes = Encode(Executable());
  bytes[format::kClassOffset] = 2;
  Reseal(bytes);
  EXPECT_NE(std::string(Decode(bytes).status().message()).find("saw class 2, expected 0 (portable) or 1 (native)"),
            std::string::npos);
}

// Rules by which dims are simplified change between versions; files do not.
TEST(CodecTest, DimsStayAsTheyAreWritten) {
  Executable program;
  KernelDesc& kernel = program.kernels.emplace_back();
  kernel.num_symbols = 1;
  const Dim twice = BinaryDimAsIs(DimKind::kMul, Dim::Var(0, "n"), Dim(2));
  const Dim three = BinaryDimAsIs(DimKind::kAdd, Dim(1), Dim(2));
  kernel.workspace = BinaryDimAsIs(DimKind::kMax, three, BinaryDimAsIs(DimKind::kFloorDiv, twice, Dim(2)));
  const std::vector<uint8_t> bytes = Encode(program);
  absl::StatusOr<Executable> decoded = Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->kernels[0].workspace, kernel.workspace);
  EXPECT_EQ(Encode(*decoded), bytes);
}

TEST(MalformedTest, DeepDimsAreRefused) {
  Executable program;
  KernelDesc& kernel = program.kernels.emplace_back();
  kernel.num_symbols = 1;
  Dim dim = Dim::Var(0, "n");
  for (int i = 0; i < 2 * limits::kMaxDimDepth; ++i) dim = MakeBinaryDim(DimKind::kMin, dim, Dim(i + 1)) * Dim(3);
  kernel.workspace = dim;
  EXPECT_NE(std::string(Decode(Encode(program)).status().message()).find("saw a larger dim"), std::string::npos);
}

// ---- text

TEST(AssemblyTest, RoundTrip) {
  for (const char* name : {"tiny.rvmasm", "all_opcodes.rvmasm", "recipes.rvmasm", "devices.rvmasm", "batch.rvmasm"}) {
    Executable program = Program(name);
    std::string text = Disassemble(program);
    absl::StatusOr<Executable> again = Assemble(text);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ(Encode(*again), Encode(program));
    EXPECT_EQ(Disassemble(*again), text);
  }
}

TEST(AssemblyTest, ShowsNamesAndSources) {
  Executable program = Program("all_opcodes.rvmasm");
  std::string text = Disassemble(program, {.full = false, .sources = {"def @main(%x) {\n  %x + 1\n}"}});
  EXPECT_NE(text.find("tail_call F3, [r0, r1]  ; sum.loop"), std::string::npos) << text;
  EXPECT_NE(text.find("  at 0:2:5  ;   %x + 1"), std::string::npos) << text;
  EXPECT_NE(text.find("...  ; 5 bytes"), std::string::npos) << text;
}

TEST(AssemblyTest, ErrorsNameTheLine) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"\nfoo", "line 2: saw `foo`, expected a definition"},
      {"type T1 = int32", "line 1: saw `T1`, expected `T0`"},
      {"type T0 = int33", "line 1: saw `int33`, expected a dtype"},
      {"file x", "line 1: saw `x`, expected a string"},
      {"kernel N0 \"k\" \"k\" () {\n workspace foo }", "line 2: saw `foo`, expected `(`"},
      {"kernel N0 \"k\" \"k\" () { workspace (1 & 2) }", "saw `&`, expected one of + - * / %"},
      {"file \"x", "saw `a string without an end`"},
      {"constant K0 = float32 (2) [1]", "expected 2 elements before"},
      {"constant K0 = int32 (1) [99999999999999999999999]", "expected an integer from"},
      {"constant K0 = int32 (1) x\"00\"", "expected 4 bytes"},
      {"function F0 \"f\" params 0 result int32 {\ncode\nmoove r1, r2\n}",
       "line 3: saw `moove`, expected an instruction or a label"},
      {"function F0 \"f\" params 0 result int32 {\ncode\n  jump L7\n}",
       "line 3: saw `L7`, expected a label of this function"},
      {"function F0 \"f\" params 0 result int32 {\ncode\nL1:\nL1:\n}", "line 4: saw `L1`, expected each label once"},
      {"function F0 \"f\" params 0 result int32 {\ncode\n move r1 r2\n}", "line 3: saw `r2`, expected `,`"},
      {"function F0 \"f\" params 0 result int32 {\ncode\n add_imm_i32 r1, r2, 40000\n}",
       "expected an integer from -32768 to 32767"},
  };
  for (const Case& c : cases) {
    absl::Status status = Assemble(c.text).status();
    EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos) << c.text << "\n" << status;
  }
}

TEST(AssemblyTest, NamesMayContainAnything) {
  Executable program = Program("all_opcodes.rvmasm");
  program.adts[0].name = "a\n\"b\" ; \\ \x01 \xc3\xa9";
  program.functions[3].name = "c\nd";
  absl::StatusOr<Executable> again = Assemble(Disassemble(program));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Encode(*again), Encode(program));
}

TEST(AssemblyTest, DeepNestingIsAnError) {
  std::string deep(100000, '(');
  EXPECT_FALSE(Assemble("type T0 = " + deep).ok());
  EXPECT_FALSE(Assemble("kernel N0 \"k\" \"k\" () { workspace " + deep).ok());
}

TEST(AssemblyTest, EveryOpcodeIsExercised) {
  Executable program = Program("all_opcodes.rvmasm");
  std::vector<bool> seen(256);
  for (const FunctionDesc& function : program.functions) {
    for (uint32_t pc = 0; pc < function.code.size();) {
      std::optional<Instruction> instruction = ReadInstruction(function.code, pc);
      ASSERT_TRUE(instruction.has_value());
      seen[static_cast<size_t>(instruction->opcode())] = true;
      pc += instruction->length;
    }
  }
  for (const OpcodeSpec& spec : kIsa) {
    EXPECT_TRUE(seen[static_cast<size_t>(spec.opcode)]) << "all_opcodes.rvmasm has no " << spec.mnemonic;
  }
}

// ---- documents

std::string HexDump(std::span<const uint8_t> bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 16) {
    absl::StrAppendFormat(&out, "%04x ", at);
    for (size_t i = at; i < std::min(at + 16, bytes.size()); ++i) absl::StrAppendFormat(&out, " %02x", bytes[i]);
    out += "\n";
  }
  return out;
}

TEST(DocumentsTest, FormatShowsTheBytesOfTheExample) {
  std::string dump = HexDump(Encode(Program("tiny.rvmasm")));
  // The document annotates the dump; every line of it must be there, in order.
  std::string document = ReadText("serialization/file_format.md");
  size_t from = 0;
  std::istringstream lines(dump);
  for (std::string line; std::getline(lines, line);) {
    size_t found = document.find(line, from);
    ASSERT_NE(found, std::string::npos) << "serialization/file_format.md lacks\n" << line << "\nof\n" << dump;
    from = found;
  }
}

// "1 to 9 and the signature".
std::string RequiredSections() {
  uint16_t next = 1;
  for (const format::SectionSpec& spec : format::kSections) {
    if (!spec.is_required) continue;
    if (spec.id == format::Section::kSignature) return absl::StrCat("1 to ", next - 1, " and the signature");
    EXPECT_EQ(static_cast<uint16_t>(spec.id), next) << "the required sections are not numbered from 1 on";
    ++next;
  }
  return "";
}

// "`files`, `lines` and `metadata`": the sections that a reader may skip.
std::string NeedlessSections() {
  std::vector<std::string> names;
  for (const format::SectionSpec& spec : format::kSections) {
    if (!spec.is_needed) names.push_back(absl::StrCat("`", std::string(spec.name), "`"));
  }
  std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

// Returns the lines of the document that give sections: their numbers and names.
std::vector<std::string> SectionsOf(const std::string& document) {
  std::vector<std::string> sections;
  std::regex row("(^|\n) ?([0-9]+ [a-z ]+): ");
  for (std::sregex_iterator it(document.begin(), document.end(), row), end; it != end; ++it) {
    sections.push_back((*it)[2]);
  }
  return sections;
}

TEST(DocumentsTest, FormatHasTheConstantsOfTheHeader) {
  std::string document = ReadText("serialization/file_format.md");
  std::vector<std::string> sections;
  for (const format::SectionSpec& spec : format::kSections) {
    sections.push_back(absl::StrCat(static_cast<uint16_t>(spec.id), " ", std::string(spec.name)));
  }
  EXPECT_EQ(SectionsOf(document), sections);
  std::string magic;
  for (uint8_t byte : format::kMagic) absl::StrAppendFormat(&magic, " %02x", byte);
  std::string dims = "00 value: i64 | 01 symbol: u32, name: string\n                     |";
  constexpr const char* kDimNames[] = {"+", "-", "*", "floordiv", "floormod", "min", "max", "broadcast"};
  for (size_t i = 0; i < std::size(kDimNames); ++i) {
    int code = static_cast<int>(format::DimCode::kAdd) + static_cast<int>(i);
    absl::StrAppendFormat(&dims, "%s %02x %s", i == 0 ? "" : ",", code, kDimNames[i]);
  }
  EXPECT_EQ(static_cast<size_t>(format::DimCode::kBroadcast), std::size(kDimNames) + 1);
  for (const std::string& text :
       {absl::StrCat("# The `.rvm` file, version ", format::kMajor, ".", format::kMinor, "\n"),
        absl::StrCat("magic; version ", format::kMajor, ".", format::kMinor, ";"),
        absl::StrCat("magic:        ", magic), absl::StrCat("; ", format::kHeaderBytes, " bytes\n"),
        absl::StrCat("; ", format::kSectionEntryBytes, " bytes\n"),
        absl::StrCat("at the next multiple of ", format::kSectionAlignment,
                     " after the one before, constant data at the"),
        absl::StrCat("next multiple of ", format::kTensorAlignment, "; the gap is zeros"),
        absl::StrCat("each at the next multiple of ", format::kTensorAlignment, "\n"), dims,
        absl::StrCat("of the ", format::kHeaderChecksumOffset, " bytes before it"),
        absl::StrCat("Sections ", RequiredSections(), " are required"),
        absl::StrCat("needed but ", NeedlessSections(), ".")}) {
    EXPECT_NE(document.find(text), std::string::npos) << "serialization/file_format.md lacks\n" << text;
  }
}

std::string IsaMarkdown() {
  std::string out =
      "# The instruction set\n\n"
      "Generated from `serialization/isa/isa.def`, which also explains operands and classes; a test compares the "
      "two.\n\n"
      "An instruction means the same however it runs. [Machine code of functions](control.md), where a file has some, "
      "gives "
      "the same\nresults, pays fuel for the same calls and backward jumps, and ends with the same errors. With "
      "[variants for "
      "batches](batching.md)\na kernel call may wait: its results have their shapes at once, and their elements when "
      "`get_element`, `call_host`, a kernel that gives a scalar,\na kernel that updates a result which waits and which "
      "something else holds, too, or the caller of the entry needs "
      "them. "
      "An error of such a call is the run's, with the place of the call.\n\n"
      "| code | instruction | operands | flow | meaning |\n|---|---|---|---|---|\n";
  constexpr const char* kFlows[] = {"next", "jump", "branch", "switch", "call", "return", "stop"};
  auto view = [](std::string_view text) { return absl::string_view(text.data(), text.size()); };
  for (const OpcodeSpec& spec : kIsa) {
    std::string operands;
    for (const OperandSpec& operand : spec.operands()) {
      absl::StrAppend(&operands, operands.empty() ? "" : ", ", view(OperandKindName(operand.kind)), " ",
                      view(operand.name));
      if (operand.register_class != RegisterClass::kNone)
        absl::StrAppend(&operands, ": ", view(RegisterClassName(operand.register_class)));
    }
    absl::StrAppendFormat(&out, "| 0x%02x | `%s` | %s | %s | %s |\n", static_cast<int>(spec.opcode),
                          view(spec.mnemonic), operands, kFlows[static_cast<size_t>(spec.flow)], view(spec.semantics));
  }
  return out;
}

// `UPDATE_DOCS=1 bazel run //serialization:codec_test` from the root rewrites docs/isa.md.
TEST(DocumentsTest, IsaIsUpToDate) {
  if (const char* root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
      root != nullptr && std::getenv("UPDATE_DOCS") != nullptr) {
    std::ofstream(absl::StrCat(root, "/docs/isa.md")) << IsaMarkdown();
    return;
  }
  EXPECT_EQ(ReadText("docs/isa.md"), IsaMarkdown()) << "rewrite it: UPDATE_DOCS=1 bazel run //serialization:codec_test";
}

}  // namespace
}  // namespace rvm
