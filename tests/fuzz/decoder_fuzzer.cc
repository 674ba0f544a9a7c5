// Any bytes as a `.rvm` file: an executable or an error, and an executable that verifies has those
// bytes as its only encoding. Mutations get right checksums, or none would come past them.
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

uint64_t ReadU64(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void RepairChecksums(std::span<uint8_t> bytes) {
  constexpr size_t kTable = format::kHeaderBytes;
  constexpr size_t kTableEnd = kTable + size_t{format::kNumSections} * format::kSectionEntryBytes;
  if (bytes.size() < kTableEnd) return;
  std::memcpy(&bytes[format::kFileSizeOffset], std::to_array<uint64_t>({bytes.size()}).data(), 8);
  for (uint32_t i = 0; i < format::kNumSections; ++i) {
    uint8_t* entry = &bytes[kTable + i * format::kSectionEntryBytes];
    uint64_t offset = ReadU64(entry + 8), size = ReadU64(entry + 16);
    if (offset > bytes.size() || size > bytes.size() - offset) continue;
    uint32_t checksum = Crc32c(bytes.subspan(offset, size));
    std::memcpy(entry + 4, &checksum, sizeof checksum);
  }
  uint32_t header =
      ExtendCrc32c(Crc32c(bytes.first(format::kHeaderChecksumOffset)), bytes.subspan(kTable, kTableEnd - kTable));
  std::memcpy(&bytes[format::kHeaderChecksumOffset], &header, sizeof header);
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

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned) {
  size = rvm::fuzz::MutateBytes(data, size, max_size);
  rvm::RepairChecksums({data, size});
  return size;
}
