// Any bytes as an ONNX model: a message, or a program that prints, and types or says why not.
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "compiler/import/onnx/import.h"
#include "tests/fuzz/check_imported.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  onnx::ImportOptions options;
  options.files = [](std::string_view) { return absl::NotFoundError("no such file"); };
  CheckImported(onnx::Import({data, size}, options));
  return 0;
}
