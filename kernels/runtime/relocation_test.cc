// Values and fields of relocations, at their limits. The instructions are those that LLVM's assembler makes of the
// comments.
#include "kernels/runtime/relocation.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>

#include "absl/status/status.h"

namespace rvm::runtime {
namespace {

constexpr uint64_t kHere = 0x5555'0000'1000;

struct Applied {
  absl::Status status;
  uint64_t bytes = 0;  // of the field
};

Applied Apply(Architecture architecture, uint32_t number, uint64_t before, uint64_t address, uint64_t target) {
  const RelocationType* type = FindRelocationType(architecture, number);
  if (type == nullptr) return {absl::NotFoundError("no such type")};
  uint8_t place[8];
  std::memcpy(place, &before, sizeof(before));
  Applied result{ApplyRelocation(*type, place, address, target)};
  std::memcpy(&result.bytes, place, FieldBytes(type->field));
  return result;
}

struct Case {
  uint32_t number;
  uint32_t before;
  int64_t distance;  // of the target from kHere
  uint32_t after;    // 0: it does not fit
};

void Check(Architecture architecture, const Case& c) {
  Applied applied = Apply(architecture, c.number, c.before, kHere, kHere + static_cast<uint64_t>(c.distance));
  std::string what = std::to_string(c.number) + " over " + std::to_string(c.distance);
  if (c.after == 0) {
    EXPECT_EQ(applied.status.message(), "malformed kernel object: a relocation does not fit its field") << what;
  } else {
    EXPECT_TRUE(applied.status.ok()) << what << ": " << applied.status;
    EXPECT_EQ(applied.bytes, c.after) << what;
  }
}

constexpr uint32_t kBl = 0x94000000, kB = 0x14000000;
constexpr uint32_t kAdrpX3 = 0x90000003;
constexpr uint32_t kAddX3 = 0x91000063;                                            // add x3, x3, #0
constexpr uint32_t kLdrbW1 = 0x39400061, kLdrhW1 = 0x79400061;                     // ldrb w1, [x3]; ldrh w1, [x3]
constexpr uint32_t kLdrS1 = 0xbd400061, kLdrX1 = 0xf9400061, kStrX1 = 0xf9000061;  // ldr s1, [x3]; ldr, str x1, [x3]
constexpr uint32_t kLdrQ1 = 0x3dc00061, kStrQ1 = 0x3d800061;                       // ldr, str q1, [x3]
constexpr uint32_t kLdrB1 = 0x3d400061;                                            // ldr b1, [x3]

TEST(RelocationTest, FieldsOfAArch64) {
  constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;
  constexpr Case kCases[] = {
      {R_AARCH64_CALL26, kBl, 4, 0x94000001},
      {R_AARCH64_CALL26, kBl, -4, 0x97ffffff},
      {R_AARCH64_CALL26, kBl, 128 * kMiB - 4, 0x95ffffff},
      {R_AARCH64_CALL26, kBl, -128 * kMiB, 0x96000000},
      {R_AARCH64_CALL26, kBl, 128 * kMiB, 0},
      {R_AARCH64_CALL26, kBl, -128 * kMiB - 4, 0},
      {R_AARCH64_CALL26, kBl, 2, 0},
      {R_AARCH64_JUMP26, kB, 256, 0x14000040},
      {R_AARCH64_ADR_PREL_PG_HI21, kAdrpX3, 0, 0x90000003},
      {R_AARCH64_ADR_PREL_PG_HI21, kAdrpX3, 0xfff, 0x90000003},
      {R_AARCH64_ADR_PREL_PG_HI21, kAdrpX3, 0x1000, 0xb0000003},
      {R_AARCH64_ADR_PREL_PG_HI21, kAdrpX3, 0x4000, 0x90000023},
      {R_AARCH64_ADR_PREL_PG_HI21, kAdrpX3, -1, 0xf0ffffe3},
      {R_AARCH64_ADR_PREL_PG_HI21, kAdrpX3, 4 * kGiB - 1, 0xf07fffe3},
      {R_AARCH64_ADR_PREL_PG_HI21, kAdrpX3, 4 * kGiB, 0},
      {R_AARCH64_ADR_PREL_PG_HI21, kAdrpX3, -4 * kGiB - 1, 0},
      {R_AARCH64_ADR_GOT_PAGE, kAdrpX3, 0x5000, 0xb0000023},
      {R_AARCH64_ADD_ABS_LO12_NC, kAddX3, 0x12345, 0x910d1463},
      {R_AARCH64_LDST8_ABS_LO12_NC, kLdrbW1, 0x345, 0x394d1461},
      {R_AARCH64_LDST8_ABS_LO12_NC, kLdrB1, 0x345, 0x3d4d1461},
      {R_AARCH64_LDST16_ABS_LO12_NC, kLdrhW1, 0x346, 0x79468c61},
      {R_AARCH64_LDST16_ABS_LO12_NC, kLdrhW1, 0x345, 0},
      {R_AARCH64_LDST32_ABS_LO12_NC, kLdrS1, 0x344, 0xbd434461},
      {R_AARCH64_LDST32_ABS_LO12_NC, kLdrS1, 0x346, 0},
      {R_AARCH64_LDST64_ABS_LO12_NC, kStrX1, 0x348, 0xf901a461},
      {R_AARCH64_LDST64_ABS_LO12_NC, kLdrX1, 0x344, 0},
      {R_AARCH64_LDST128_ABS_LO12_NC, kLdrQ1, 0x340, 0x3dc0d061},
      {R_AARCH64_LDST128_ABS_LO12_NC, kStrQ1, 0xff0, 0x3d83fc61},
      {R_AARCH64_LDST128_ABS_LO12_NC, kLdrQ1, 0x348, 0},
      {R_AARCH64_LD64_GOT_LO12_NC, kLdrX1, 0x8, 0xf9400461},
      {R_AARCH64_PREL32, 0, -1, 0xffffffff},
      {R_AARCH64_PREL32, 0, 2 * kGiB, 0},
  };
  for (const Case& c : kCases) Check(Architecture::kAArch64, c);
}

TEST(RelocationTest, OtherInstructionsThanTheTypesAreRefused) {
  constexpr Case kCases[] = {
      {R_AARCH64_CALL26, 0x34000000, 0, 0},              // cbz w0
      {R_AARCH64_ADR_PREL_PG_HI21, 0x10000003, 0, 0},    // adr x3
      {R_AARCH64_ADD_ABS_LO12_NC, 0xd1000063, 0, 0},     // sub x3, x3, #0
      {R_AARCH64_ADD_ABS_LO12_NC, 0x91400063, 0, 0},     // add x3, x3, #0, lsl #12
      {R_AARCH64_LDST64_ABS_LO12_NC, kLdrS1, 0, 0},      // of 4 bytes
      {R_AARCH64_LDST8_ABS_LO12_NC, kLdrQ1, 0, 0},       // of 16 bytes
      {R_AARCH64_LDST128_ABS_LO12_NC, kLdrB1, 0, 0},     // of 1 byte
      {R_AARCH64_LDST64_ABS_LO12_NC, 0xf8400061, 0, 0},  // ldur x1, [x3]
      {R_AARCH64_LDST32_ABS_LO12_NC, 0, 0, 0},           // udf
  };
  for (const Case& c : kCases) {
    Applied applied = Apply(Architecture::kAArch64, c.number, c.before, kHere, kHere);
    EXPECT_EQ(applied.status.message(), "malformed kernel object: a relocation of another instruction than its type's")
        << c.number;
    EXPECT_EQ(applied.bytes, c.before) << c.number;
  }
  EXPECT_FALSE(Apply(Architecture::kAArch64, R_AARCH64_CALL26, kBl, kHere + 2, kHere).status.ok());
}

TEST(RelocationTest, FieldsOfX86) {
  constexpr int64_t kGiB = 1 << 30;
  constexpr Case kCases[] = {
      {R_X86_64_PC32, 0, -4, 0xfffffffc},
      {R_X86_64_PLT32, 0, 2 * kGiB - 1, 0x7fffffff},
      {R_X86_64_PLT32, 0, 2 * kGiB, 0},
      {R_X86_64_PC32, 0, -2 * kGiB - 1, 0},
      {R_X86_64_GOTPCREL, 0, 16, 16},
      {R_X86_64_32, 0, 0, 0},
      {R_X86_64_32S, 0, 0, 0},
  };
  for (const Case& c : kCases) Check(Architecture::kX86_64, c);
  EXPECT_EQ(Apply(Architecture::kX86_64, R_X86_64_32, 0, kHere, 0xffffffff).bytes, 0xffffffff);
  EXPECT_FALSE(Apply(Architecture::kX86_64, R_X86_64_32S, 0, kHere, 0xffffffff).status.ok());
}

TEST(RelocationTest, WordsOf64Bits) {
  for (auto [architecture, absolute, relative] :
       {std::tuple(Architecture::kX86_64, R_X86_64_64, R_X86_64_PC64),
        std::tuple(Architecture::kAArch64, R_AARCH64_ABS64, R_AARCH64_PREL64)}) {
    EXPECT_EQ(Apply(architecture, absolute, 0, kHere, 0xfedcba9876543210).bytes, 0xfedcba9876543210);
    EXPECT_EQ(Apply(architecture, relative, 0, kHere, kHere - 1).bytes, ~uint64_t{0});
  }
}

TEST(RelocationTest, OtherTypesAreUnknown) {
  // Relocations of the large code model and of thread-local variables, and a number that no standard defines.
  for (uint32_t number : {R_AARCH64_MOVW_UABS_G0, R_AARCH64_TLSLE_ADD_TPREL_HI12, 4000}) {
    EXPECT_EQ(FindRelocationType(Architecture::kAArch64, number), nullptr) << number;
  }
  for (uint32_t number : {R_X86_64_TPOFF32, R_X86_64_COPY, 4000}) {
    EXPECT_EQ(FindRelocationType(Architecture::kX86_64, number), nullptr) << number;
  }
}

}  // namespace
}  // namespace rvm::runtime
