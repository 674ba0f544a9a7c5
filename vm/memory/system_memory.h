// Memory from the operating system.
#ifndef RVM_VM_MEMORY_SYSTEM_MEMORY_H_
#define RVM_VM_MEMORY_SYSTEM_MEMORY_H_

#include <cstddef>
#include <cstdlib>

#include "base/huge_pages.h"

namespace rvm::vm {

// `bytes` (a multiple of 64) for std::free, aligned to 64; null if there are none. What is big lies on huge pages
// where the system has them.
inline void* TakeFromSystem(size_t bytes) {
  if (bytes < kHugePageBytes) return std::aligned_alloc(64, bytes);
  void* memory = nullptr;
  if (posix_memalign(&memory, kHugePageBytes, bytes) != 0) return nullptr;  // takes sizes that are no multiple, too
  AskForHugePages(memory, bytes);
  return memory;
}

}  // namespace rvm::vm

#endif  // RVM_VM_MEMORY_SYSTEM_MEMORY_H_
