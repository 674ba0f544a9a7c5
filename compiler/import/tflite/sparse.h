// Sparse constants of TensorFlow Lite: which elements a buffer holds, level by level.
#ifndef RVM_COMPILER_IMPORT_TFLITE_SPARSE_H_
#define RVM_COMPILER_IMPORT_TFLITE_SPARSE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace rvm::tflite {

// The elements are the leaves of a tree, in order. Its levels are the axes of the tensor, each of blocks of elements,
// and then the axes inside of a block.
struct Sparsity {
  struct Level {
    bool is_sparse = false;
    int64_t extent = 0;  // of a dense level, which has all positions
    // Positions of a sparse level: below node i of the level before stand indices[segments[i]] to
    // indices[segments[i + 1] - 1].
    std::vector<int64_t> segments, indices;
  };
  std::vector<int64_t> order;      // the axis of each level; from the rank on: of a block
  std::vector<int64_t> block_map;  // the axis of the tensor that each axis of a block divides
  std::vector<Level> levels;
};

// Returns the elements of a dense tensor, of `size` bytes each, zero where `stored` has none. kInvalidArgument if the
// levels do not fit the shape or the elements.
absl::StatusOr<std::vector<uint8_t>> Densified(const Sparsity& sparsity, std::span<const int64_t> shape, int64_t size,
                                               std::span<const uint8_t> stored);

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_SPARSE_H_
