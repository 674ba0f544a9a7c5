// Any bytes as a GraphDef or SavedModel of TensorFlow, and, where they end like a table of LevelDB, as the index of a
// checkpoint: a message, or a program that prints, and types or says why not.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/import/tensorflow/checkpoint.h"
#include "compiler/import/tensorflow/import.h"
#include "compiler/import/tensorflow/table.h"
#include "tests/fuzz/check_imported.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  const importing::Bytes bytes(data, size);
  const absl::StatusOr<tensorflow::Table> table = tensorflow::ReadTable(bytes);
  if (table.ok()) {
    // The data of all variables are the same bytes.
    const importing::ExternalFiles files = [&](std::string_view) -> absl::StatusOr<importing::FileBytes> {
      return importing::FileBytes{bytes, nullptr};
    };
    const absl::StatusOr<tensorflow::Checkpoint> checkpoint = tensorflow::Checkpoint::Open("variables", files);
    if (!checkpoint.ok()) return 0;
    for (const auto& [key, value] : *table) (void)checkpoint->Read(key);
    return 0;
  }
  CheckImported(tensorflow::Import(bytes, tensorflow::ImportOptions()));
  return 0;
}
