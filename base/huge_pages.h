// Huge pages for large blocks of memory. The first touch of a block and its release cost time per page, so that fewer
// and larger pages make both cheaper.
#ifndef RVM_BASE_HUGE_PAGES_H_
#define RVM_BASE_HUGE_PAGES_H_

#include <sys/mman.h>

#include <cstddef>

namespace rvm {

inline constexpr size_t kHugePageBytes = 2 << 20;

// Asks the system to put `memory` on huge pages. Of no effect where it has none.
inline void AskForHugePages(void* memory, size_t bytes) { madvise(memory, bytes, MADV_HUGEPAGE); }

}  // namespace rvm

#endif  // RVM_BASE_HUGE_PAGES_H_
