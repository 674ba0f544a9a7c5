// How the threads of a GPU's block share the work of a nest. A block has kBlockThreads threads, 32 of which are a warp;
// they exchange values within a warp, and through memory that the block shares.
#ifndef RVM_KERNELS_SCHEDULE_BLOCK_H_
#define RVM_KERNELS_SCHEDULE_BLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/data_type.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

inline constexpr int64_t kWarpThreads = 32;
inline constexpr int64_t kBlockThreads = 128;
inline constexpr int64_t kBlockWarps = kBlockThreads / kWarpThreads;
// Positions along both sides of the square that a block transposes.
inline constexpr int64_t kTransposeTile = 32;

// The threads that reduce each position. Thread s of them folds elements s, s + threads, and so on, in the order of the
// reduced axes; then their results are merged, always in the same order.
struct Team {
  int64_t threads = 1;  // kWarpThreads or kBlockThreads if they are neighbours, else the number of warps
  // True if the threads of a position are neighbours, for reads that are contiguous along the reduced axes. Else
  // neighbouring threads have neighbouring positions, and each warp has one thread of each of 32 positions.
  bool are_neighbours = true;

  int64_t positions() const { return kBlockThreads / threads; }  // of a block
};

// Rows whose elements are divided among the threads of a warp or a block, for the nests of a launch that reduce rows
// and compute what follows. A thread has the same elements of a row in each nest, so that what one nest leaves for the
// next stays in registers. Thread t has elements (s * threads + t) * vector + [0, vector) for each step s.
struct RowTeam {
  std::vector<te::IndexVar> rows;  // axes of all nests
  te::IndexVar element;            // the further axis of the others, and the reduced axis
  int64_t threads = kWarpThreads;  // of a row; or kBlockThreads
  int64_t vector = 1;              // neighbouring elements, loaded and stored together; divides their number
  int64_t steps = 1;
  // Steps in straight-line code, whose loads are underway together: all of them, or a reduction loops.
  int64_t steps_at_once = 1;

  int64_t elements() const { return element.extent.constant(); }
  int64_t rows_of_block() const { return kBlockThreads / threads; }
  bool is_whole() const { return elements() % (threads * vector) == 0; }  // no thread lacks an element
};

// How a block copies one factor of a product to shared memory: for a step of the depth, an array of words. A word is an
// element in the type of the sums or, for tensor cores, `pack` elements that follow each other along the depth. A line
// is a position of the axes that this factor has and the other one has not: a row or a column of the product.
//
// A thread copies units of unit_depth() x unit_lines() elements. Thread t begins with the one at the depth
// t % depth_threads and the line t / depth_threads % line_threads, and then takes further depths; each thread repeats
// this until all is copied. A load takes `vector` elements in the direction that `along_depth` says.
struct Staging {
  te::Expr factor;
  std::vector<size_t> axes;  // of the nest: the positions of a line, the last one fastest
  int64_t lines = 0;         // of a tile
  bool is_whole = false;     // tiles divide the lines; else those beyond the last line repeat it, and are dropped

  bool along_depth = false;              // neighbouring threads copy what follows along the depth, else along the lines
  int64_t vector = 1;                    // elements of a load
  const te::ExprNode* read = nullptr;    // vector > 1: what is loaded; the factor is a function of it alone
  bool is_verbatim = false;              // loads along the depth are words of the array as they are
  int64_t depth_threads = 1;             // counted in units
  int64_t line_threads = kBlockThreads;  // likewise

  int64_t pack = 1;
  int64_t depth_words = 0;  // of a line, in a step
  bool is_by_line = false;  // the array is [lines][depth_words + pad], else [depth_words][lines + pad]
  int64_t pad = 0;          // words, so that threads that access the array at once use different banks

  int64_t unit_depth() const { return std::max(pack, along_depth ? vector : 1); }
  int64_t unit_lines() const { return along_depth ? 1 : vector; }
  int64_t line_stride() const { return is_by_line ? depth_words + pad : 1; }
  int64_t depth_stride() const { return is_by_line ? 1 : lines + pad; }
  int64_t words() const { return is_by_line ? lines * line_stride() : depth_words * depth_stride(); }
};

// An instruction of tensor cores, mma.sync: a warp adds the product of `rows` x `depth` and `depth` x 8 elements to
// sums of 32 bits. Lane i holds words, of 4 bytes along the depth, of the rows and the column i / 4, in steps of 8, at
// the words i % 4, in steps of 4; and the sums of the same rows at the columns i % 4 * 2 and one more.
struct Mma {
  DataType row_dtype, column_dtype;  // of the factors; float32 is rounded to TF32
  int64_t rows = 16;                 // or 8
  int64_t depth = 16;
  int64_t capability = 80;  // the first compute capability that has it

  int64_t words() const { return depth * row_dtype.bytes() / 4; }  // of a line: 4 or 8
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
  std::optional<Mma> mma;                       // null: each thread multiplies for itself

  // The threads of a warp have positions side by side: 4 x 8, or those of Mma, 8 x 4.
  int64_t lane_columns() const { return mma ? 4 : 8; }
  // The positions of a thread are groups of neighbouring columns, and of rows that are row_step() apart; groups are as
  // far apart as all threads together have positions in one.
  int64_t row_group(int64_t bytes) const { return mma ? 2 : Group(thread_rows, bytes); }
  int64_t column_group(int64_t bytes) const { return mma ? 2 : Group(thread_columns, bytes); }
  int64_t row_step() const { return mma ? 8 : 1; }
  int64_t row_groups(int64_t bytes) const { return thread_rows / row_group(bytes); }
  // Words from one row to the next, of the sums in shared memory; the 4 x 4 lanes that store pairs at once use all
  // banks.
  int64_t finished_stride() const { return columns.lines + (mma ? 8 : 0); }

 private:
  // Returns as many positions as one load from shared memory takes.
  static int64_t Group(int64_t positions, int64_t bytes) { return positions * bytes < 16 ? positions : 16 / bytes; }
};

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BLOCK_H_
