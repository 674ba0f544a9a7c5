// GEMMs, which a device may compute by a library instead of a function of its code.
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

// The size of a product, by which its way is chosen.
struct ProductSize {
  int64_t multiplications = 0;  // 0: an extent is unknown
  int64_t depth = 0;
  bool is_exact_float32 = false;  // of float32 that is not rounded to TF32
};

// Returns whether the library, rather than the code's own function, computes such products. RELAYVM_CUBLASLT=always:
// all; off: none.
bool PrefersLibrary(const ProductSize& size);

// Memory that a library may use while it computes such a product, to divide the sums among as many blocks of threads as
// fill a GPU; at least kMinWorkspaceBytes, with which it also computes it.
inline constexpr int64_t kMinWorkspaceBytes = int64_t{4} << 20;
int64_t WorkspaceBytes(const ProductSize& size);

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_PRODUCT_H_
