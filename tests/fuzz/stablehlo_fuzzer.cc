// Any bytes as StableHLO: a message, or a program that prints, and types or says why not. The mutator changes numbers
// of the bytecode, most of which are one byte, so that the files that it makes are mostly read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "compiler/import/stablehlo/import.h"
#include "tests/fuzz/check_imported.h"
#include "tests/fuzz/dice.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  CheckImported(stablehlo::Import({data, size}, stablehlo::ImportOptions()));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  rvm::fuzz::Dice dice(seed);
  std::vector<uint8_t> bytes(data, data + size);
  for (size_t edits = 1 + dice.Pick(4); edits > 0 && !bytes.empty(); --edits) {
    const size_t at = dice.Pick(bytes.size()), length = 1 + dice.Pick(std::min<size_t>(bytes.size() - at, 16));
    const auto place = bytes.begin() + static_cast<ptrdiff_t>(at);
    switch (dice.Pick(6)) {
      case 0: bytes[at] = static_cast<uint8_t>(2 * dice.Pick(64) + 1); break;  // a number of one byte
      case 1: bytes[at] = static_cast<uint8_t>(bytes[at] + 2); break;          // the next number
      case 2: bytes[at] = static_cast<uint8_t>(dice.Bits()); break;
      case 3: bytes[at] = bytes[dice.Pick(bytes.size())]; break;
      case 4: bytes.erase(place, place + static_cast<ptrdiff_t>(length)); break;
      case 5: {
        const std::vector<uint8_t> copy(place, place + static_cast<ptrdiff_t>(length));
        bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(dice.Pick(bytes.size())), copy.begin(), copy.end());
        break;
      }
    }
  }
  bytes.resize(std::min(bytes.size(), max_size));
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
