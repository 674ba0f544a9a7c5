// How the threads of a GPU's block share the work of a nest. A block has kBlockThreads threads, 32 of which are a warp;
// they exchange values within a warp, and through memory that the block shares.
#ifndef RVM_KERNELS_SCHEDULE_BLOCK_H_
#define RVM_KERNELS_SCHEDULE_BLOCK_H_

#include <cstdint>

namespace rvm::schedule {

inline constexpr int64_t kWarpThreads = 32;
inline constexpr int64_t kBlockThreads = 128;

// A reduction: each position has `strands` threads. Thread s of them folds elements s, s + strands, and so on, in the
// order of the reduced axes; then their results are merged, always in the same order.
struct Team {
  int64_t strands = 1;  // kWarpThreads or kBlockThreads if they are neighbours, else the number of warps
  // Whether the strands of a position are neighbouring threads, for reads that are contiguous along the reduced axes.
  // Else neighbouring threads have neighbouring positions, and each warp is a strand of 32 of them.
  bool are_neighbours = true;

  int64_t positions() const { return kBlockThreads / strands; }  // of a block
};

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BLOCK_H_
