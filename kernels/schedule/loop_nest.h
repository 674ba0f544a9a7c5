// Loop nests. A kernel runs its nests one after the other.
//
// A nest iterates over its axes and computes, at each position, the values of a few tensors of the same extents.
// Producers are inlined into their expressions, which come from one te::ExprPool.
#ifndef RVM_KERNELS_SCHEDULE_LOOP_NEST_H_
#define RVM_KERNELS_SCHEDULE_LOOP_NEST_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/schedule/block.h"
#include "kernels/schedule/tile.h"
#include "kernels/schedule/windows.h"
#include "kernels/te/expr_pool.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

struct NestTensor {
  te::Tensor tensor;
  te::Expr value;       // a kReduce only at the root; may read earlier tensors of this nest at store_offset
  bool stored = false;  // else it is only used inside the nest
};

// The loop structure of a nest.
enum class NestForm : uint8_t {
  kPositions,   // one position at a time; the innermost axis is vectorised
  kColumns,     // a reduction by vectors of positions of the innermost axis
  kWindows,     // on a CPU: a fold over windows, in two steps; see `windows`
  kTransposed,  // square blocks, computed along another axis than they are stored along
  kTiles,       // a sum of products in register tiles; see `tile`
  kTeams,       // on a GPU: a reduction by several threads for each position; see `team`
  kBlockTiles,  // on a GPU: a sum of products in tiles of blocks of threads; see `block_tile`
};

// Positions [begin, end) of an axis, where comparisons have known values; of a minimum or maximum it is known whether
// it is its first operand.
struct AxisRange {
  int64_t begin, end;
  std::vector<std::pair<const te::ExprNode*, bool>> known;
  // The nest does not store where all axes with ranges are in such a one: another nest has.
  bool is_image = false;
};

// One of several elements of tensors[0] that a position computes.
struct Replica {
  te::Expr store_offset, value;
};

// A nest that writes only some elements of tensors[0], whose memory holds the others when it begins. It has no other
// tensor. Its store offset may contain reads. See te::TensorUpdate.
struct NestUpdate {
  std::vector<te::Expr> counts;  // by axis: only the positions below this number run; null: all
  te::Expr condition;            // whether a position writes; null: always
  std::vector<te::Expr> usual;   // conditions over no axis that usually hold
  bool is_in_order = false;      // positions may write the same element
  Dim estimate = 1;              // the usual number of positions

  // All of its expressions; none is null.
  std::vector<te::Expr> Expressions() const;
};

// Non-temporal stores, which bypass the caches and so need not read the lines that they overwrite. A nest makes them in
// calls in which a row and the result are so large.
struct StreamedStores {
  // Minimum size of a result. Smaller results stay cached for their reader.
  static constexpr int64_t kMinSize = int64_t{8} << 20;
  // Minimum size of a row: each pays a scalar prologue up to the next cache line.
  static constexpr int64_t kMinRow = 1024;

  Dim row, size;  // bytes of a position of the outer axes, and of all
  // Returns true if both are large enough in every call.
  bool is_known() const { return row.is_const() && size.is_const(); }
  // Inputs whose memory the result may have. It is not streamed there: their lines are cached, having just been read.
  std::vector<int64_t> replaced = {};
};

struct LoopNest {
  std::vector<te::IndexVar> axes;  // no axis of constant extent 1
  te::Expr store_offset;           // where each tensor is written at a position
  std::vector<NestTensor> tensors;
  NestForm form = NestForm::kPositions;
  size_t row_axes = 1;  // of a nest that runs with others row by row (row_groups.h): its first axes, which count rows
  int64_t column_block = 0;        // kColumns: positions whose accumulators are in memory; 0: all steps are unrolled
  int64_t rows_at_once = 1;        // kColumns in blocks: rows folded per iteration, with the accumulators in registers
  std::optional<Windows> windows;  // kWindows: how tensors[0] is computed; the others are its epilogue
  std::optional<size_t> transposed;  // kTransposed: the axis that reads run along
  int64_t elements_per_thread = 1;   // kPositions, on a GPU: adjacent positions of the last axis
  std::vector<Replica> replicas;     // kPositions: what a position computes; empty: one element of each tensor
  std::vector<std::vector<AxisRange>> ranges;  // kPositions: by axis, which has a loop for each; empty: one loop
  // kPositions, on a CPU: conditions outside of the innermost loop, of which there is one for each combination of
  // values.
  std::vector<te::Expr> unswitched;
  std::optional<StreamedStores> streamed;  // kPositions, on a CPU: of the last tensor
  // kPositions and unrolled kColumns, on a CPU: the lanes by which rows of known lengths are divided into runs of whole
  // vectors; 0: they are not.
  int64_t run_lanes = 0;
  Dim work;                             // on a CPU: an estimate, in additions
  std::optional<Tile> tile;             // kTiles: likewise
  std::optional<Team> team;             // kTeams: likewise
  std::optional<BlockTile> block_tile;  // kBlockTiles: likewise
  std::optional<NestUpdate> update;     // kPositions: likewise
  // The value of tensors[0], a sum of products on a CPU, with the copies inlined that only this nest reads; null: it
  // reads none.
  te::Expr direct;
  // The nest makes something for a tile that does without it in calls with few rows (Tile::few): it runs only in calls
  // with more.
  struct RowLimit {
    Dim rows;
    int64_t few = 0;
  };
  std::optional<RowLimit> limit;
  // On a GPU, of a nest that finishes the product of the nest before it in place, and runs only where a library
  // computed that: a kSelf tensor, by which the nest reads what the library stored in the memory of tensors[0]. Else
  // null.
  te::Tensor product;

  // Returns the axes that count the rows of the nest.
  std::span<const te::IndexVar> RowAxes() const { return std::span(axes).first(std::min(row_axes, axes.size())); }
  // Returns whether the last of these is the row axis of tiles.
  bool HasTilesOfRows() const { return tile && tile->row && *tile->row + 1 == row_axes; }
  // Returns the reduction at the root of tensors[0]; null if there is none.
  const te::ExprNode* reduction() const {
    const te::Expr& value = tensors[0].value;
    return value->kind == te::ExprKind::kReduce ? value.get() : nullptr;
  }
};

// Returns the values that the nest computes.
std::vector<te::Expr> Values(const LoopNest& nest);
// How many different reads of a tensor they have.
int64_t CountReaders(const std::vector<LoopNest>& nests, const te::Tensor& tensor);
// Returns Values(nest), the offsets to which they are stored, and the expressions of an update.
std::vector<te::Expr> Roots(const LoopNest& nest);
// Returns the expressions that the nest evaluates. They do not include the vector factor of a tile that reads panels.
std::vector<te::Expr> ReadExpressions(const LoopNest& nest);
// Copies all expressions of the nest.
void Apply(te::ExprPool& pool, LoopNest& nest, te::Rewrite rewrite);
// Replaces a variable everywhere in the nest.
void Substitute(te::ExprPool& pool, LoopNest& nest, const te::IndexVar& variable, const te::Expr& by);
// Merges adjacent axes of the nest, and of its reductions, if every expression uses only their linear combination.
void CollapseAxes(te::ExprPool& pool, LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_LOOP_NEST_H_
