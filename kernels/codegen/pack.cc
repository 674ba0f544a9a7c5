// The layout of constant weights that the contraction kernels read.
#include <cstring>

#include "base/check.h"
#include "kernels/codegen/kernel_compiler.h"

namespace rvm::codegen {

Literal Pack(const PackedLayout& layout, const Literal& weight) {
  RVM_CHECK(weight.rank() == 2, "a packed weight is not a matrix");
  int64_t columns = weight.shape()[layout.transposed ? 1 : 0], depth = weight.shape()[layout.transposed ? 0 : 1];
  int64_t panel = layout.panel, panels = (columns + panel - 1) / panel, bytes = weight.dtype().bytes();
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(panels * depth * panel * bytes);
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < depth; ++k) {
      int64_t from = layout.transposed ? k * columns + n : n * depth + k;
      int64_t to = (n / panel * depth + k) * panel + n % panel;
      std::memcpy(buffer->data() + to * bytes, weight.data() + from * bytes, static_cast<size_t>(bytes));
    }
  }
  return Literal(weight.dtype(), {panels, depth, panel}, buffer);
}

}  // namespace rvm::codegen
