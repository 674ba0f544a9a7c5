// Exported: what `jax.export` serializes, a FlatBuffers table with a portable artifact in it.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_EXPORTED_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_EXPORTED_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/file_bytes.h"

namespace rvm::stablehlo {

using importing::Bytes;

struct Exported {
  Bytes artifact;
  // The extents of the arguments of `main` as JAX writes them, numbers and expressions of names. Empty: not known.
  std::vector<std::vector<std::string_view>> shapes;
  std::vector<std::string_view> platforms;  // "cpu"
};

// kInvalidArgument where the bytes are neither an artifact nor such a table. `bytes` must outlive the result.
absl::StatusOr<Exported> ReadExported(Bytes bytes);

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_EXPORTED_H_
