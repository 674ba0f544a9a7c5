// Register tiles: how a nest computes a sum of products.
//
// One factor varies along the `row` axis and is broadcast; the other varies along the `column` axis and is read as
// vectors. In a depthwise convolution the factor read as vectors, the image, varies along both. A tile is `rows`
// positions of the row axis by `vectors` vectors of columns; its sums stay in registers over the whole depth, the axes
// of the reduction. All other axes of the nest are loops around the tile.
#ifndef RVM_KERNELS_SCHEDULE_TILE_H_
#define RVM_KERNELS_SCHEDULE_TILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/schedule/layout.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

struct Tile {
  te::Expr broadcast;  // does not depend on the column axis, unless shared_by_column
  // The factor loaded as vectors. A read, except with panels of computed values. May depend on the row axis only if
  // access is kInPlace; the broadcast factor then does not. May be narrower than the sums: converted when it is loaded.
  // With sources: an expression of elements of constants, computed for each vector.
  te::Expr vector;

  // A constant that the vector factor or its scale is computed from, in panels of its own.
  struct Source {
    const te::ExprNode* read;   // where the expression reads it
    te::Tensor tensor;          // the constant input
    PackedLayout layout;        // by the axes that the read depends on
    std::vector<size_t> outer;  // numbers of those around the tile, in the nest
    std::vector<size_t> depth;  // numbers of those of the reduction
  };
  std::vector<Source> sources;
  // With sources: a factor of the vectors that depends on none but the first `scaled_axes` axes of the reduction, and
  // on columns. The sums of the inner axes are multiplied by it once; null: 1.
  te::Expr scale;
  size_t scaled_axes = 0;

  // A product of bytes in blocks (MultiplyBlocks): the broadcast factor is an element of int8, the vector factor is
  // made of bits of a byte, which sources[0] holds. The products of the axes behind the first `scaled_axes` are summed
  // up as integers. Less the row's sum times the zero point, and times both scales, they are added to the tile's sums;
  // with a minimum, times the scale, less the row's sum times the minimum, and times the row's scale.
  struct Blocks {
    te::Expr row_scale;
    te::Expr row_sum, zero, minimum;  // zero, minimum: null for 0
    // Pairs are added up in lanes of int16 first, for so many steps that these hold the sums. Else in lanes of int32.
    bool sums_narrow = false;
    int64_t steps_at_once = 1;  // emitted one behind the other
  };
  std::optional<Blocks> blocks;

  // How the vectors are read: from the tensor as it is, with columns contiguous, or from panels.
  enum class Access : uint8_t { kInPlace, kPanels };
  Access access = Access::kInPlace;
  std::optional<PackedLayout> packed;  // kPanels: the layout of a constant input
  te::Tensor panels;                   // kPanels: the tensor that holds them
  bool masked = false;                 // kInPlace: the last vectors may reach beyond the columns
  // The last panel ends with the last column, so that no load and no store needs a mask. Columns that the panel before
  // has, too, are computed and stored twice, with equal results.
  bool overlaps = false;
  int64_t column_stride = 1;  // kInPlace: between neighbouring columns, in elements, or in groups of depth_step

  // In calls with few rows the vectors run along the depth instead: both factors are then read in place, an element of
  // the result is a dot product, and nothing is copied for the tile.
  struct FewRows {
    Dim rows;                    // extent of the row axis
    int64_t most = 0;            // the number of rows up to which it is done
    te::Expr broadcast, vector;  // the factors as reads, whose neighbours along the depth are neighbours in memory
    te::IndexVar depth;

    // Returns whether all calls have few rows.
    bool always() const { return rows.is_const() && rows.constant() <= most; }
  };
  std::optional<FewRows> few;

  // Axes, by their number in the nest.
  size_t column = 0;          // vectorised
  std::optional<size_t> row;  // none: the tile has one row
  // Loops around the tile, outermost first: those both factors depend on, the panels, then those of the broadcast
  // factor alone. All of them together, with parts of the rows, are the units of work that threads share.
  std::vector<size_t> outer, inner;

  // The layout of the constant input that the broadcast factor is a read of: by rows, each with the positions of its
  // depth in the order of the steps.
  std::optional<PackedLayout> packed_rows;

  // The broadcast factor is read from a copy by tiles, in which the rows of a tile are side by side: it is then a read
  // at these variables in place of the row axis.
  struct RowPanels {
    te::IndexVar tile, row;
  };
  std::optional<RowPanels> row_panels;

  // An axis of the depth along which the windows of neighbouring rows overlap, as in a depthwise convolution: rows read
  // the vectors `step` of its positions apart. A vector is loaded once for all rows of the tile that read it, and all
  // `extent` positions are emitted one behind the other; the other axes of the depth are loops around them.
  struct Window {
    size_t axis;
    int64_t step, extent;

    // Returns how many vectors so many rows read.
    int64_t Reads(int64_t height) const { return (height - 1) * step + extent; }
  };
  std::optional<Window> window;
  // With a window: the factor that the rows share is a read that varies along the columns, too, and is loaded as
  // vectors in place of being broadcast: in a depthwise convolution of images with their channels last.
  bool shared_by_column = false;

  // Products of bytes, or of bfloat16, of at least `least` rows are computed by an instruction that multiplies
  // matrices, in blocks of up to `rows` rows by a vector. Fewer are tiles as described by the rest. The last block of
  // rows begins where it ends with the last row, and computes rows again.
  struct Matrices {
    // Blocks of rows, and vectors, whose matrices of sums are computed together.
    static constexpr int64_t kBlocks = 2, kVectors = 2;

    int64_t least;
    int64_t rows;
    int64_t steps;  // along the innermost depth axis
    int64_t step;   // positions of that axis, a multiple of depth_step, in one instruction
    int64_t rest;   // likewise, in the one behind the steps; 0: none
  };
  std::optional<Matrices> matrices;

  int64_t lanes = 1;
  int64_t vectors = 1;
  int64_t rows = 1;
  // Panels of a unit of work, which are computed side by side for one tile of rows after the other: few columns of many
  // rows would be stored in short pieces that lie far apart.
  int64_t panels_at_once = 1;
  // The loops over the outer axes run inside of the loop over the panels: at one column, the vector factor has
  // neighbours along these axes in memory.
  bool panels_first = false;
  // Positions of the outermost depth axis that are summed up before any tile goes on to the next ones; the sums stay on
  // the stack meanwhile. With vectors in place: by all units of a thread, because the vector factor has all of them
  // side by side at each position. With panels: by kTilesOfDepthBlock tiles of rows, because a panel of the whole depth
  // would leave the cache from one tile to the next. 0: a tile sums up all positions.
  int64_t depth_block = 0;
  static constexpr int64_t kTilesOfDepthBlock = 8;
  // In a group of nests, which run blocks of rows that end at multiples of the span (NestGroup::matmuls).
  struct BlocksOfRows {
    int64_t rows = 0;
    Dim span;
  };
  BlocksOfRows blocks_of_rows;
  // Parts that the tiles of rows are divided into, each a unit of work, where there are too few others for threads.
  int64_t row_parts = 1;
  int64_t inner_depth = 0;  // steps of the innermost depth axis; 0: not known before the kernel runs
  // True for sliding windows: a row reads at one step what another row reads at a later one. Do not unroll: LLVM would
  // keep the shared load in a register and spill accumulators.
  bool slides = false;
  // Positions of the innermost depth axis, of known extent, that one step sums up. Two: the factors, of 8 or 16 bits,
  // are widened to 16, and their products are added up in pairs in lanes of int32; or both factors are bfloat16. Four:
  // both factors are bytes. Else 1.
  int64_t depth_step = 1;
  // The last step may read the broadcast factor behind the innermost depth axis: there are elements, and the vectors
  // have zeros there.
  bool whole_steps = false;
  // Equal parts of the innermost depth axis whose sums are added up one after the other, in every tile, so that the
  // bits of a sum do not depend on the height of its tile. The last has what is left over. They are strands in lower
  // tiles, and run one after the other in higher ones. 0: strands take turns, and heights have different numbers of
  // them.
  int64_t segments = 0;
  // The sums are passed to the epilogue in a buffer on the stack. If the row axis is inside the column axis, the buffer
  // is transposed first, so that the epilogue runs along rows and its stores are contiguous.
  bool transposed_store = false;

  int64_t panel() const { return lanes * vectors; }
  // Returns whether products of bfloat16 are added up in pairs in lanes of float32.
  bool has_bfloat_pairs() const { return depth_step == 2 && vector.dtype() == kBFloat16; }
  // Returns whether the vectors are read from constants that are packed when the kernel is compiled.
  bool is_packed() const { return packed.has_value() || !sources.empty(); }
  // Products of four bytes are of an unsigned and a signed factor. If both are of one kind, the broadcast factor has
  // its upper bit flipped, which adds 128 to it or takes 128 away; the sums of the vectors times as much are
  // subtracted.
  bool flips_sign() const { return depth_step == 4 && broadcast.dtype() == vector.dtype(); }
  // How `count` rows are divided: into tiles of nearly equal heights, the first `higher` of them with one row more.
  struct Heights {
    int64_t tiles, low, higher;
  };
  Heights HeightsOf(int64_t count) const;
  // Independent sums of an element in a tile of this height, which hide the latency of an addition. They divide the
  // segments, if there are some.
  int64_t Strands(int64_t height) const;
  // Returns the unroll factor of the loop over the innermost depth axis.
  int64_t Unroll(int64_t height) const;
};

// Returns the input that the vectors of the tile are read from; nullopt if they are computed or copied.
std::optional<int64_t> VectorInput(const Tile& tile);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_TILE_H_
