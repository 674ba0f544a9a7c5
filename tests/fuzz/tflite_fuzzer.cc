// Any bytes as a TensorFlow Lite model: a message, or a program that prints, and types or says why not. Mutations keep
// the places of tables, whose offsets few changes survive, and change numbers: of tensors, extents, options, scales.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compiler/import/tflite/import.h"
#include "tests/fuzz/check_imported.h"
#include "tests/fuzz/dice.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  tflite::ImportOptions options;
  CheckImported(tflite::Import({data, size}, options));
  options.signatures = {"encode", "decode"};
  CheckImported(tflite::Import({data, size}, options));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t /*max_size*/, unsigned seed) {
  rvm::fuzz::Dice dice(seed);
  for (size_t edits = 1 + dice.Pick(4); edits > 0 && size >= 8; --edits) {
    const size_t at = dice.Pick(size / 4) * 4;
    const int64_t number = dice.Chance(50) ? dice.Number() : static_cast<int64_t>(dice.Pick(8)) - 1;
    switch (dice.Pick(4)) {
      case 0: data[dice.Pick(size)] = static_cast<uint8_t>(dice.Bits()); break;
      case 1: data[at] = static_cast<uint8_t>(data[at] + 1); break;
      case 2: std::memcpy(data + at, &number, std::min<size_t>(size - at, dice.Chance(80) ? 4 : 8)); break;
      case 3: std::memmove(data + at, data + dice.Pick(size / 4) * 4, 4); break;
    }
  }
  return size;
}
