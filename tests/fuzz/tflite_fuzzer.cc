// Any bytes as a TensorFlow Lite model: a message, or a program that prints, and types or says why not.
#include <cstdint>

#include "compiler/import/tflite/import.h"
#include "tests/fuzz/check_imported.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  CheckImported(tflite::Import({data, size}, tflite::ImportOptions()));
  return 0;
}
