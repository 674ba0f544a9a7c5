// Any bytes as a GGUF file, or as a config.json where they begin with `{`: a message, or a program that prints, and
// types or says why not.
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/import/checkpoint/import.h"
#include "tests/fuzz/check_imported.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  diagnostics::SourceMap sources;
  importing::ImportOptions options{.sources = &sources};
  if (size == 0 || data[0] != '{') {
    CheckImported(checkpoint::ImportGguf({{data, size}, nullptr}, options), &sources);
    return 0;
  }
  absl::StatusOr<JsonValue> config = ParseJson({reinterpret_cast<const char*>(data), size});
  if (config.ok()) CheckImported(checkpoint::ImportTensors(*config, JsonValue(), {}, options), &sources);
  return 0;
}
