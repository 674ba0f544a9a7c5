// Relocations of ELF objects, as their architectures define them: the ABI supplements of x86-64 (System V) and of
// AArch64 (ELF for the Arm 64-bit architecture).
#ifndef RVM_KERNELS_RUNTIME_RELOCATION_H_
#define RVM_KERNELS_RUNTIME_RELOCATION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "kernels/runtime/cpu_features.h"

namespace rvm::runtime {

// Object that a relocation refers to.
enum class Referent : uint8_t {
  kSymbol,
  kFunction,  // a symbol, or the stub of one that may be too far away
  kGotEntry,  // the address word in the symbol's stub
};
// Number that is stored, and its form: the place is P, the referent's address plus the addend X.
enum class Value : uint8_t {
  kNothing,
  kAbsolute,      // X
  kRelative,      // X - P
  kPageRelative,  // the 4 KiB page of X less that of P
};
enum class Field : uint8_t {
  kWord64,
  kInt32,     // sign-extended
  kUint32,    // zero-extended
  kBranch26,  // AArch64: b, bl
  kPage21,    // AArch64: adrp
  kAdd12,     // AArch64: add, the low 12 bits
  kAccess12,  // AArch64: load or store of 2^scale bytes, the low 12 bits over these
};

struct RelocationType {
  uint32_t number;
  Value value;
  Referent referent = Referent::kSymbol;
  Field field = Field::kWord64;
  uint8_t scale = 0;
};

// nullptr if the loader applies no such relocation.
const RelocationType* FindRelocationType(Architecture architecture, uint32_t number);
// Returns the bytes that a relocation changes.
uint64_t FieldBytes(Field field);
// Writes the value for X = `target` into the field at `place`, which has FieldBytes and whose address in the running
// program is `address`. kInvalidArgument if the value does not fit or the place holds no instruction of the field.
absl::Status ApplyRelocation(const RelocationType& type, uint8_t* place, uint64_t address, uint64_t target);

// A stub: a jump to the address in its last 8 bytes.
constexpr uint64_t kStubBytes = 16;
constexpr uint64_t kStubAddress = 8;
std::array<uint8_t, kStubAddress> StubJump(Architecture architecture);

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_RELOCATION_H_
