// The tensors of a .safetensors file, in place.
#ifndef RVM_COMPILER_IMPORT_SAFETENSORS_H_
#define RVM_COMPILER_IMPORT_SAFETENSORS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/dim.h"
#include "compiler/import/file_bytes.h"

namespace rvm::importing {

struct SafetensorsEntry {
  std::string name;
  std::string type;  // as the file names it: "F32"
  Shape shape;
  Bytes elements;  // as many as `shape` has, if `type` is one of ours
};

// Returns the data type; nullopt if Relay does not have it.
std::optional<DataType> SafetensorsDType(std::string_view type);

// Returns kInvalidArgument for a malformed file; the message names the first malformed entry.
absl::StatusOr<std::vector<SafetensorsEntry>> ListSafetensors(Bytes file);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_SAFETENSORS_H_
