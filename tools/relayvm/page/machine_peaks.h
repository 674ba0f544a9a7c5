// Measures the limits of this machine that no kernel exceeds.
#ifndef RVM_TOOLS_RELAYVM_PAGE_MACHINE_PEAKS_H_
#define RVM_TOOLS_RELAYVM_PAGE_MACHINE_PEAKS_H_

#include <cstdint>

namespace rvm::tools {

struct MachinePeaks {
  double flops = 0;         // float32 operations a second: fused multiply-adds, two each, in the widest vectors
  double memory_bytes = 0;  // a second, read from memory
  double cache_bytes = 0;   // a second, read from kCacheBytes that are in a cache
  static constexpr int64_t kCacheBytes = int64_t{256} << 10;
  int64_t threads = 1;
};

// Measures with that many threads at once, in about a third of a second. The best of several rounds counts, since other
// processes disturb.
MachinePeaks MeasurePeaks(int64_t threads);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_PAGE_MACHINE_PEAKS_H_
