// Memory from the operating system.
#ifndef RVM_VM_MEMORY_SYSTEM_MEMORY_H_
#define RVM_VM_MEMORY_SYSTEM_MEMORY_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>

namespace rvm::vm {

// `bytes` (a multiple of 64) for std::free, aligned to 64; null if there are none. What is big lies on huge pages
// where the system has them: the first touch of its pages and giving them back are most of what big memory costs.
inline void* TakeFromSystem(size_t bytes) {
  constexpr size_t kHugePageBytes = 2 << 20;
  if (bytes < kHugePageBytes) return std::aligned_alloc(64, bytes);
  void* memory = nullptr;
  if (posix_memalign(&memory, kHugePageBytes, bytes) != 0) return nullptr;  // takes sizes that are no multiple, too
  madvise(memory, bytes, MADV_HUGEPAGE);                                    // of no effect where there are none
  return memory;
}

}  // namespace rvm::vm

#endif  // RVM_VM_MEMORY_SYSTEM_MEMORY_H_
