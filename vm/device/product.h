// Products of matrices, which a device may compute by a library instead of a function of its code.
#ifndef RVM_VM_DEVICE_PRODUCT_H_
#define RVM_VM_DEVICE_PRODUCT_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "base/data_type.h"

namespace rvm::device {

class Block;

// Matrices in device memory: element [n, i, j] is n * batch_stride + i * row_stride + j * column_stride elements behind
// the first, which is `offset` bytes behind the beginning of the block.
struct Matrix {
  const Block* block;
  DataType dtype;
  int64_t offset, batch_stride, row_stride, column_stride;  // >= 0
};

// d[n, i, j] = scale * sum over k of a[n, i, k] * b[n, k, j] + sum over x in addends of x[n, i, j]; see DeviceProduct
// in serialization/executable.h.
struct Product {
  int64_t batches, rows, columns, depth;  // > 0
  Matrix a, b, d;
  absl::InlinedVector<Matrix, 2> addends;
  double scale;
  bool allows_tf32;
};

// Memory that a library may use while it computes a product: enough to divide the sums of a product among so many
// blocks of threads as fill a GPU.
inline constexpr int64_t kProductWorkspaceBytes = int64_t{4} << 20;

// Products of fewer multiplications than this are left to the code's own functions, which go to the device together
// with others (cuda_graphs.h). RELAYVM_CUBLASLT=always: 1; off: more than there are.
int64_t LeastMultiplications();

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_PRODUCT_H_
