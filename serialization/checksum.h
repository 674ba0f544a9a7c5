// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78): finds every error burst
// of up to 32 bits, so in particular every changed byte.
#ifndef RVM_SERIALIZATION_CHECKSUM_H_
#define RVM_SERIALIZATION_CHECKSUM_H_

#include <cstdint>
#include <span>

namespace rvm {

// Returns the checksum of what `crc` covers followed by `bytes`.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const uint8_t> bytes);
inline uint32_t Crc32c(std::span<const uint8_t> bytes) { return ExtendCrc32c(0, bytes); }

}  // namespace rvm

#endif  // RVM_SERIALIZATION_CHECKSUM_H_
