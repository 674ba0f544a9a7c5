// How the threads of a GPU's block share the work of a nest. A block has kBlockThreads threads, 32 of which are a warp;
// they exchange values within a warp, and through memory that the block shares.
#ifndef RVM_KERNELS_SCHEDULE_BLOCK_H_
#define RVM_KERNELS_SCHEDULE_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/te/tensor.h"

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

// How a block copies one factor of a product to shared memory: for a step of the depth, an array [depth][lines + pad].
// A line is a position of the axes that this factor has and the other one has not: a row or a column of the product.
//
// Thread t copies from the depth t % depth_threads, the line t / depth_threads % line_threads, and then further depths;
// each thread repeats this until all is copied. A load takes `vector` elements in the direction that `along_depth`
// says.
struct Staging {
  te::Expr factor;
  std::vector<size_t> axes;  // of the nest: the positions of a line, the last one fastest
  int64_t lines = 0;         // of a tile
  bool is_whole = false;     // tiles divide the lines; else those beyond the last line repeat it, and are dropped

  bool along_depth = false;              // neighbouring threads copy what follows along the depth, else along the lines
  int64_t vector = 1;                    // elements of a load
  const te::ExprNode* read = nullptr;    // vector > 1: what is loaded; the factor is a function of it alone
  int64_t depth_threads = 1;             // counted in loads
  int64_t line_threads = kBlockThreads;  // likewise
  int64_t pad = 0;                       // elements, so that threads that store at once use different banks

  int64_t stride() const { return lines + pad; }
};

// A sum of products: a block computes `rows.lines` x `columns.lines` positions. Step by step of the depth, its threads
// copy both factors to shared memory, while they sum up the products of the step before in registers. Sums then go
// through shared memory to the threads that finish them, which are neighbours along the columns.
struct BlockTile {
  Staging rows, columns;        // the factors; the last axis of the nest is one of the columns, if it is of either
  std::vector<size_t> outer;    // axes that both factors have, or neither: one position for a block
  int64_t depth = 8;            // positions of the reduced axes in a step
  bool is_whole_depth = false;  // steps divide the depth; else zeros are copied beyond its end
  bool is_one_step = false;
  int64_t thread_rows = 1, thread_columns = 1;  // positions of a thread

  // A thread has groups of neighbouring rows, as many as one load from shared memory takes.
  int64_t row_groups(int64_t bytes) const { return thread_rows / group(thread_rows, bytes); }
  static int64_t group(int64_t positions, int64_t bytes) { return positions * bytes < 16 ? positions : 16 / bytes; }
};

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BLOCK_H_
