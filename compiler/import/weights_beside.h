// Weights of a model as a file of their own, beside it.
#ifndef RVM_COMPILER_IMPORT_WEIGHTS_BESIDE_H_
#define RVM_COMPILER_IMPORT_WEIGHTS_BESIDE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/import/file_bytes.h"
#include "compiler/import/import_options.h"

namespace rvm::importing {

// Reads the file that has the model's name with `weights_ending` in place of `ending`. No bytes: there is none.
absl::StatusOr<FileBytes> WeightsBeside(const ImportOptions& options, std::string_view ending,
                                        std::string_view weights_ending);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_WEIGHTS_BESIDE_H_
