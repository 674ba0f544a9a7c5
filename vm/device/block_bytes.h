// The sizes of the blocks of device memory that a machine takes.
#ifndef RVM_VM_DEVICE_BLOCK_BYTES_H_
#define RVM_VM_DEVICE_BLOCK_BYTES_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace rvm::device {

// Returns the size of the block for `bytes` bytes. There are eight sizes per power of two, so a block is at most an
// eighth too large, and one that is freed fits many tensors. REQUIRES: bytes <= 2^62.
inline int64_t BlockBytes(int64_t bytes) {
  auto wanted = static_cast<uint64_t>(std::max<int64_t>(bytes, 256));
  int shift = std::bit_width(wanted - 1) - 4;
  uint64_t steps = (wanted + (uint64_t{1} << shift) - 1) >> shift;
  return static_cast<int64_t>(steps << shift);
}

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_BLOCK_BYTES_H_
