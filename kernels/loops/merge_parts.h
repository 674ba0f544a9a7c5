// Merges the partial results of threads that reduce the same position.
#ifndef RVM_KERNELS_LOOPS_MERGE_PARTS_H_
#define RVM_KERNELS_LOOPS_MERGE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "kernels/loops/builder.h"
#include "kernels/loops/reduction.h"

namespace rvm::loops {

// The threads of a position: `threads` of them, a power of 2, whose numbers are `apart` from each other.
struct Parts {
  Value part;  // which of them this thread is
  int64_t threads = 1;
  int64_t apart = 1;
};

// Merges through shared memory, always in the same order. The memory serves each merging of a program again.
class PartMerger {
 public:
  struct Pending {
    Reduction reduction;
    Reduction::Partial partial;
  };

  explicit PartMerger(Builder& builder) : b_(builder) {}

  // Merges the partial results of the threads, of all reductions at once. The partial results of part 0 are then those
  // of all; with `to_all` those of the other parts, too. All threads of the block call this.
  void Merge(std::span<Pending> reductions, const Parts& parts, bool to_all);

 private:
  void MergeSome(std::span<Pending> reductions, const Parts& parts, bool to_all);
  std::vector<Reduction::Memory> TakeMemory(std::span<Pending> reductions);

  Builder& b_;
  absl::flat_hash_map<DataType, std::vector<BufferId>> arrays_;  // an element for each thread
  bool is_in_use_ = false;                                       // no barrier since threads read the memory
};

}  // namespace rvm::loops

#endif  // RVM_KERNELS_LOOPS_MERGE_PARTS_H_
