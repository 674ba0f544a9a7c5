// Weights of DarkNet: float32 numbers in the order of the layers, without names and extents.
#ifndef RVM_COMPILER_IMPORT_DARKNET_WEIGHTS_H_
#define RVM_COMPILER_IMPORT_DARKNET_WEIGHTS_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/import/file_bytes.h"

namespace rvm::darknet {

class Weights {
 public:
  // Reads the header: the version in three int32, then the number of images that it was trained with.
  static absl::StatusOr<Weights> Open(importing::FileBytes file);

  // Returns the next numbers as a tensor; nullopt if the file has not as many.
  std::optional<Literal> Take(const Shape& shape);
  // Number of floats that are left.
  int64_t rest() const { return static_cast<int64_t>(file_.bytes.size() / sizeof(float)); }
  // Returns whether matrices of connected layers are stored with inputs before outputs.
  bool is_transposed() const { return is_transposed_; }

 private:
  Weights(importing::FileBytes file, bool is_transposed) : file_(std::move(file)), is_transposed_(is_transposed) {}

  importing::FileBytes file_;  // what is left of it
  bool is_transposed_;
};

}  // namespace rvm::darknet

#endif  // RVM_COMPILER_IMPORT_DARKNET_WEIGHTS_H_
