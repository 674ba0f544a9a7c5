#include "kernels/runtime/relocation.h"

#include <elf.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "absl/status/status.h"

namespace rvm::runtime {
namespace {

using enum Field;
using enum Referent;
using enum Value;

constexpr RelocationType kX86Types[] = {
    {R_X86_64_NONE, kNothing},
    {R_X86_64_64, kAbsolute},
    {R_X86_64_PC64, kRelative},
    // Imports may be further away than 2 GiB.
    {R_X86_64_PC32, kRelative, kFunction, kInt32},
    {R_X86_64_PLT32, kRelative, kFunction, kInt32},
    {R_X86_64_GOTPCREL, kRelative, kGotEntry, kInt32},
    {R_X86_64_GOTPCRELX, kRelative, kGotEntry, kInt32},
    {R_X86_64_REX_GOTPCRELX, kRelative, kGotEntry, kInt32},
    {R_X86_64_32, kAbsolute, kSymbol, kUint32},
    {R_X86_64_32S, kAbsolute, kSymbol, kInt32},
};

constexpr RelocationType kArmTypes[] = {
    {R_AARCH64_NONE, kNothing},
    {R_AARCH64_ABS64, kAbsolute},
    {R_AARCH64_PREL64, kRelative},
    {R_AARCH64_PREL32, kRelative, kFunction, kInt32},
    // Imports may be further away than 128 MiB.
    {R_AARCH64_CALL26, kRelative, kFunction, kBranch26},
    {R_AARCH64_JUMP26, kRelative, kFunction, kBranch26},
    {R_AARCH64_ADR_PREL_PG_HI21, kPageRelative, kSymbol, kPage21},
    {R_AARCH64_ADD_ABS_LO12_NC, kAbsolute, kSymbol, kAdd12},
    {R_AARCH64_LDST8_ABS_LO12_NC, kAbsolute, kSymbol, kAccess12, 0},
    {R_AARCH64_LDST16_ABS_LO12_NC, kAbsolute, kSymbol, kAccess12, 1},
    {R_AARCH64_LDST32_ABS_LO12_NC, kAbsolute, kSymbol, kAccess12, 2},
    {R_AARCH64_LDST64_ABS_LO12_NC, kAbsolute, kSymbol, kAccess12, 3},
    {R_AARCH64_LDST128_ABS_LO12_NC, kAbsolute, kSymbol, kAccess12, 4},
    {R_AARCH64_ADR_GOT_PAGE, kPageRelative, kGotEntry, kPage21},
    {R_AARCH64_LD64_GOT_LO12_NC, kAbsolute, kGotEntry, kAccess12, 3},
};

absl::Status DoesNotFit() {
  return absl::InvalidArgumentError("malformed kernel object: a relocation does not fit its field");
}

absl::Status NoSuchInstruction() {
  return absl::InvalidArgumentError("malformed kernel object: a relocation of another instruction than its type's");
}

template <typename T>
absl::Status Write(uint8_t* place, T value) {
  std::memcpy(place, &value, sizeof(value));
  return absl::OkStatus();
}

bool FitsSigned(int64_t value, int bits) {
  int64_t limit = int64_t{1} << (bits - 1);
  return value >= -limit && value < limit;
}

// Returns the logarithm of the bytes that an AArch64 load or store with an unsigned offset moves; -1 for another
// instruction.
int AccessScale(uint32_t instruction) {
  if ((instruction & 0x3b000000) != 0x39000000) return -1;
  int size = static_cast<int>(instruction >> 30);
  bool is_vector = (instruction >> 26 & 1) != 0;
  // The upper bit of opc tells vector registers of 16 bytes from those of 1.
  if (!is_vector || (instruction >> 23 & 1) == 0) return size;
  return size == 0 ? 4 : -1;
}

// `value`: as `field` states it.
absl::Status PatchInstruction(const RelocationType& type, uint8_t* place, uint64_t address, uint64_t value) {
  uint32_t instruction = 0;
  std::memcpy(&instruction, place, sizeof(instruction));
  auto number = static_cast<int64_t>(value);
  auto low12 = static_cast<uint32_t>(value & 0xfff);
  if (address % 4 != 0) return NoSuchInstruction();
  switch (type.field) {
    case kBranch26:
      if ((instruction & 0x7c000000) != 0x14000000) return NoSuchInstruction();
      if (number % 4 != 0 || !FitsSigned(number, 28)) return DoesNotFit();
      return Write(place, (instruction & 0xfc000000) | (static_cast<uint32_t>(value >> 2) & 0x03ffffff));
    case kPage21: {
      if ((instruction & 0x9f000000) != 0x90000000) return NoSuchInstruction();
      if (!FitsSigned(number, 33)) return DoesNotFit();
      auto pages = static_cast<uint32_t>(value >> 12);
      return Write(place, (instruction & 0x9f00001f) | (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5);
    }
    case kAdd12:
      if ((instruction & 0xffc00000) != 0x91000000) return NoSuchInstruction();
      return Write(place, (instruction & 0xffc003ff) | low12 << 10);
    case kAccess12:
      if (AccessScale(instruction) != type.scale) return NoSuchInstruction();
      if ((low12 & ((1u << type.scale) - 1)) != 0) return DoesNotFit();
      return Write(place, (instruction & 0xffc003ff) | low12 >> type.scale << 10);
    case kWord64:
    case kInt32:
    case kUint32: break;
  }
  return NoSuchInstruction();
}

std::span<const RelocationType> Types(Architecture architecture) {
  switch (architecture) {
    case Architecture::kX86_64: return kX86Types;
    case Architecture::kAArch64: return kArmTypes;
  }
}

}  // namespace

const RelocationType* FindRelocationType(Architecture architecture, uint32_t number) {
  for (const RelocationType& type : Types(architecture)) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

uint64_t FieldBytes(Field field) { return field == kWord64 ? 8 : 4; }

absl::Status ApplyRelocation(const RelocationType& type, uint8_t* place, uint64_t address, uint64_t target) {
  constexpr uint64_t kPage = ~uint64_t{0xfff};
  uint64_t value = target;
  switch (type.value) {
    case kNothing: return absl::OkStatus();
    case kAbsolute: break;
    case kRelative: value = target - address; break;
    case kPageRelative: value = (target & kPage) - (address & kPage); break;
  }
  switch (type.field) {
    case kWord64: return Write(place, value);
    case kInt32:
      if (!FitsSigned(static_cast<int64_t>(value), 32)) return DoesNotFit();
      return Write(place, static_cast<uint32_t>(value));
    case kUint32:
      if (value > std::numeric_limits<uint32_t>::max()) return DoesNotFit();
      return Write(place, static_cast<uint32_t>(value));
    case kBranch26:
    case kPage21:
    case kAdd12:
    case kAccess12: return PatchInstruction(type, place, address, value);
  }
}

std::array<uint8_t, kStubAddress> StubJump(Architecture architecture) {
  switch (architecture) {
    case Architecture::kX86_64: return {0xff, 0x25, 0x02, 0x00, 0x00, 0x00, 0x0f, 0x0b};   // jmp *2(%rip); ud2
    case Architecture::kAArch64: return {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6};  // ldr x16, .+8; br x16
  }
}

}  // namespace rvm::runtime
