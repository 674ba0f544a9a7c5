#include "kernels/schedule/tile_planner.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "kernels/schedule/block_products.h"
#include "kernels/schedule/stored_factors.h"
#include "kernels/schedule/vector_runs.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::ReduceOp;

// Rows of a tile whose number of rows is not known before the kernel runs: each height up to it has code of its own.
constexpr int64_t kMaxRowsUnknown = 8;
// The rows of a tile that lie a multiple of this apart fall into one set of the first-level cache.
constexpr int64_t kCacheSetBytes = 4096;
constexpr int64_t kRowsPerCacheSet = 8;
// Columns further apart are not read as vectors in place: most of what is loaded would be dropped.
constexpr int64_t kMaxColumnStride = 4;
// Cost of masking the last vectors, relative to a tile without: few CPUs store with masks as fast as without.
constexpr double kCostOfMasks = 1.1;
// Cycles to transpose the sums of one vector of columns.
constexpr double kTransposition = 27;
// Cycles to finish and to store a run of rows (VectorRuns) of one vector of columns.
constexpr double kRowRun = 32;
// The share of the cycles of loads that multiplications do not hide.
constexpr double kUnhiddenLoads = 0.25;
// A panel of so many bytes stays in the first-level cache from one tile to the next. A load of a larger one costs
// kLoadBeyondCache times as much.
constexpr double kPanelInCache = 24 * 1024;
constexpr double kLoadBeyondCache = 2.5;
// Calls of an unknown number of rows may have few: the fewer tiles these are, the less often a panel is read.
constexpr double kCostOfTile = 0.2;
// Panels that are read again for each tile of rows, all together.
constexpr int64_t kPanelsInCache = 16 * 1024;
constexpr int64_t kMaxPanelsAtOnce = 16;
// Threads share blocks of panels.
constexpr int64_t kMinUnits = 16;
// Fewer rows do not pay for a copy of the other factor into panels.
constexpr int64_t kMinRowsForPanels = 4;
// Likewise, where the other factor could be read as it is.
constexpr int64_t kMinRowsForPanelsOfPairs = 16;
// With so many rows, panels of the image make up for their copy beside a constant that is packed, because the sums are
// then stored as they are, not transposed, and both factors are read side by side.
constexpr int64_t kMinRowsForCopies = 96;
// Sums of fewer products cost less than it takes to transpose them and to store them in many short pieces.
constexpr int64_t kShallowDepth = 64;
// Sums of so many products are multiplied by a scale once.
constexpr int64_t kMinDepthToScale = 8;
// Positions of a window that are emitted one behind the other, each with a register for the factor of its vectors.
constexpr int64_t kMaxWindow = 7;
// With channels last, where filters without a window would go through memory.
constexpr int64_t kMaxWindowByColumn = 11;
// Registers for what vectors are computed with, beside one for each vector.
constexpr int64_t kRegistersToExpand = 2;
// Registers for a step of a product in blocks, beside those for its vectors: a row's bytes, a mask and a product.
constexpr int64_t kRegistersOfBlocks = 3;
// Registers for a step of a product in pairs, beside those for its vectors: a product before it is added.
constexpr int64_t kRegistersOfPairs = 1;
// Registers for a step of a product in fours, beside those for its vectors: LLVM loads several broadcasts ahead.
constexpr int64_t kRegistersOfFours = 2;
// Steps of a product in blocks that are emitted one behind the other: with four bits, a block of 32.
constexpr int64_t kMaxStepsOfBlock = 8;
// Rows of a matrix, and groups of positions of the depth: the most of them, and the least that pay for it.
constexpr int64_t kRowsOfMatrix = 16, kGroupsOfMatrix = 16;
constexpr int64_t kMinRowsOfMatrix = 4, kMinGroupsOfMatrix = 8;
// Fewer products cost less than to configure the registers of matrices.
constexpr int64_t kMinProductsOfMatrices = 64 * 1024;
// Chains of additions that one row of a tile has at least, if their number is fixed: as many as their latency.
constexpr int64_t kChainsOfRow = 4;

// Returns whether evaluating `e` where it is not needed could read out of bounds: code for it has branches.
bool HasBranches(const Expr& e) {
  for (const ExprNode* node : te::Postorder({e})) {
    if (node->kind != ExprKind::kSelect) continue;
    for (const ExprNode* inner : te::Postorder({node->operands[1], node->operands[2]})) {
      if (inner->kind == ExprKind::kRead && inner->int_value != te::kReadIsSafe) return true;
    }
  }
  return false;
}

// Returns whether the axes visit each element of a tensor exactly once.
bool CoversOnce(std::vector<StridedAxis> axes, int64_t elements) {
  std::sort(axes.begin(), axes.end(), [](const auto& a, const auto& b) { return a.stride < b.stride; });
  int64_t next = 1;
  for (const StridedAxis& axis : axes) {
    if (axis.stride != next) return false;
    next *= axis.extent;
  }
  return next == elements && elements > 0;
}

// Returns the height of tiles of nearly equal heights, at most `most`, that cover the rows.
int64_t EvenHeight(int64_t rows, int64_t most) {
  int64_t count = std::max<int64_t>(rows, 1), tiles = (count + most - 1) / most;
  return (count + tiles - 1) / tiles;
}

class TilePlanner {
 public:
  TilePlanner(const Schedule& schedule, const LoopNest& nest)
      : schedule_(schedule), target_(schedule.target), nest_(nest), reduce_(*nest.reduction()) {}

  std::optional<Tile> Run() {
    const Expr& product = reduce_.operands[0];
    bool fits = reduce_.reduce == ReduceOp::kSum && product->kind == ExprKind::kBinary &&
                product->binary == BinaryOp::kMultiply && !reduce_.axes.empty();
    if (!fits) return std::nullopt;
    std::array<Expr, 2> factors = {product->operands[0], product->operands[1]};
    DataType dtype = product.dtype();
    if (dtype != kFloat32 && dtype != kFloat64 && dtype != kInt32) return std::nullopt;
    if (std::optional<BlockProduct> blocks = AsBlockProduct(reduce_, target_)) return InBlocks(*blocks);
    std::array<Expr, 2> narrow = {NarrowFactor(factors[0]), NarrowFactor(factors[1])};
    if (target_.has_pair_products && narrow[0] && narrow[1] && reduce_.axes.back().extent.is_const()) {
      if (std::optional<Tile> tile = Best(narrow, dtype, StepOf(narrow))) return tile;
    }
    if (target_.has_bfloat_matrices && !schedule_.sum_order.is_fixed && HasPairs(factors)) {
      if (std::optional<Tile> tile = Best({factors[0]->operands[0], factors[1]->operands[0]}, dtype, 2)) return tile;
    }
    std::optional<Tile> tile = Best(factors, dtype, 1);
    // Few columns leave most lanes of the widest vectors idle.
    bool has_halves = target_.vector_bits == 512 && dtype.is_float();
    return tile || !has_halves ? tile : Best(factors, dtype, 1, target_.Lanes(dtype) / 2);
  }

 private:
  // A short run of the depth that has no whole groups of four is taken in pairs, unless more can be read behind it.
  int64_t StepOf(const std::array<Expr, 2>& narrow) const {
    int64_t group = DepthStep(target_, narrow[0].dtype(), narrow[1].dtype()),
            extent = reduce_.axes.back().extent.constant();
    bool is_wide = extent >= kMinDepthOfBytes || ReadsBehind(narrow[0], group) || ReadsBehind(narrow[1], group);
    return group == 4 && extent % group != 0 && !is_wide ? 2 : group;
  }

  // Returns whether both factors are elements of bfloat16 in an even number of steps.
  bool HasPairs(const std::array<Expr, 2>& factors) const {
    const bool is_even = reduce_.axes.back().extent.AsConst().value_or(1) % 2 == 0;
    return is_even && std::ranges::all_of(factors, [](const Expr& factor) {
             return factor->kind == ExprKind::kCast && factor->operands[0]->kind == ExprKind::kRead &&
                    factor->operands[0].dtype() == kBFloat16;
           });
  }

  // Returns whether the last step of so many positions may read the factor behind the innermost depth axis.
  bool ReadsBehind(const Expr& factor, int64_t step) const {
    const IndexVar& innermost = reduce_.axes.back();
    if (factor->kind != ExprKind::kRead || factor->tensor->kind != te::TensorKind::kCompute) return false;
    if (te::Stride(factor->operands[0], innermost.id) != int64_t{1} || !innermost.extent.is_const()) return false;
    const int64_t behind = (step - innermost.extent.constant() % step) % step;
    te::ExprPool& pool = *schedule_.pool;
    return pool.IsBelow(pool.Binary(BinaryOp::kAdd, factor->operands[0], pool.Intern(*te::Index(behind))),
                        pool.Extent(NumElements(factor->tensor.dims())));
  }

  // Returns the better of the tiles that read one factor or the other as vectors.
  std::optional<Tile> Best(const std::array<Expr, 2>& factors, DataType dtype, int64_t group, int64_t lanes = 0) {
    std::optional<Tile> best;
    int best_rank = 0;
    for (size_t side : {1, 0}) {
      Tile tile;
      tile.lanes = lanes == 0 ? target_.Lanes(dtype) : lanes;
      tile.depth_step = group;
      int rank = Try(factors[1 - side], factors[side], tile);
      if (rank > best_rank) best = std::move(tile), best_rank = rank;
    }
    return best;
  }

  // How good it is to read `vector` as vectors and to broadcast the other factor; 0 if that is no tile.
  int Try(const Expr& broadcast, Expr vector, Tile& tile) {
    if (HasBranches(broadcast)) return 0;
    const bool has_bfloats = tile.depth_step == 2 && broadcast.dtype() == kBFloat16;
    if (has_bfloats && te::Stride(broadcast->operands[0], reduce_.axes.back().id) != int64_t{1}) return 0;
    // Integers that are stored narrow are widened when they are loaded.
    Expr narrow = NarrowFactor(vector);
    if (narrow && narrow->kind == ExprKind::kRead) vector = narrow;
    tile.broadcast = broadcast;
    tile.vector = vector;
    std::vector<size_t> columns, rows;
    for (size_t i = 0; i < nest_.axes.size(); ++i) {
      bool by_broadcast = te::DependsOn(broadcast, nest_.axes[i].id),
           by_vector = te::DependsOn(vector, nest_.axes[i].id);
      if (by_vector && !by_broadcast) columns.push_back(i);
      if (by_broadcast && !by_vector) rows.push_back(i);
    }
    if (columns.empty()) return 0;
    if (!rows.empty()) tile.row = RowOf(rows);
    tile.column = Widest(columns);
    bool fills = FillsVectors(nest_.axes[tile.column].extent, tile);
    int rank = PackStored(tile) || Pack(tile) || PackSources(tile) ? (fills ? 3 : 1)
               : ReadInPlace(columns, tile)                        ? 2
               : ReadByColumn(columns, tile)                       ? 2
               : CopyToPanels(tile)                                ? 1
                                                                   : 0;
    if (rank == 0) return 0;
    for (size_t i = 0; i < nest_.axes.size(); ++i) {
      if (i == tile.column || i == tile.row) continue;
      (te::DependsOn(vector, nest_.axes[i].id) ? tile.outer : tile.inner).push_back(i);
    }
    tile.transposed_store = tile.row && *tile.row > tile.column;
    if (StoresWholeRows(tile)) {
      bool has_many_rows = tile.column_stride == 1 && nest_.axes[*tile.row].extent.constant() >= kMinRowsForCopies;
      if (IsShallow() || tile.depth_step > 1 || (has_many_rows && CopyToPanels(tile))) rank = 4;
    }
    ChooseSize(tile);
    return rank;
  }

  // Returns the tile of a product in blocks; nullopt if its columns are no constants that can be packed.
  std::optional<Tile> InBlocks(const BlockProduct& product) const {
    Tile tile;
    tile.lanes = target_.Lanes(kFloat32);
    tile.depth_step = product.depth_step;
    tile.broadcast = product.row;
    tile.vector = product.code;
    tile.scale = product.scale;
    tile.scaled_axes = product.outer_axes;
    tile.blocks = {product.row_scale, product.row_sum,     product.zero,
                   product.minimum,   product.sums_narrow, StepsAtOnce(product)};
    std::vector<Expr> by_row = {product.row, product.row_scale}, by_column = {product.code, product.scale};
    if (product.row_sum) by_row.push_back(product.row_sum);
    for (const Expr& e : {product.zero, product.minimum}) {
      if (e) by_column.push_back(e);
    }
    std::vector<size_t> columns, rows;
    for (size_t i = 0; i < nest_.axes.size(); ++i) {
      bool is_column = Depend(by_column, nest_.axes[i]), is_row = Depend(by_row, nest_.axes[i]);
      if (is_column == is_row) return std::nullopt;
      (is_column ? columns : rows).push_back(i);
    }
    if (tile.blocks->steps_at_once == 0 || columns.size() != 1 || !FillsVectors(nest_.axes[columns[0]].extent, tile))
      return std::nullopt;
    tile.column = columns[0];
    if (!rows.empty()) tile.row = RowOf(rows);
    std::erase_if(rows, [&](size_t axis) { return axis == tile.row; });
    tile.inner = std::move(rows);
    tile.transposed_store = tile.row && *tile.row > tile.column;
    if (!PackReads(tile, by_column)) return std::nullopt;
    ChooseSize(tile);
    return tile;
  }

  static bool Depend(const std::vector<Expr>& expressions, const IndexVar& axis) {
    return std::any_of(expressions.begin(), expressions.end(),
                       [&](const Expr& e) { return te::DependsOn(e, axis.id); });
  }

  // Returns the number of steps of the outermost axis of a block that are emitted one behind the other, with those of
  // the others; 0 if a single one has too many.
  int64_t StepsAtOnce(const BlockProduct& product) const {
    std::span<const IndexVar> inner = std::span(reduce_.axes).subspan(product.outer_axes);
    int64_t each = te::NumPositions(inner.subspan(1)).constant(), outermost = inner[0].extent.constant();
    inner.size() == 1 ? outermost /= product.depth_step : each /= product.depth_step;
    int64_t most = std::min(kMaxStepsOfBlock, product.most_steps) / each;
    while (most > 0 && outermost % most != 0) --most;
    return most;
  }

  Dim Depth() const { return te::NumPositions(reduce_.axes); }

  bool IsShallow() const { return Depth().is_const() && Depth().constant() <= kShallowDepth; }

  // Returns whether the columns are read in place, are those that are stored side by side, and leave few lanes idle.
  bool StoresWholeRows(const Tile& tile) const {
    const Dim& columns = nest_.axes[tile.column].extent;
    if (tile.access != Tile::Access::kInPlace || tile.column + 1 != nest_.axes.size()) return false;
    if (!columns.is_const() || !tile.row || !te::DependsOn(tile.broadcast, nest_.axes[*tile.row].id)) return false;
    const Dim& rows = nest_.axes[*tile.row].extent;
    int64_t vectors = (columns.constant() + tile.lanes - 1) / tile.lanes;
    return rows.is_const() && rows.constant() >= kMinRowsForPanels &&
           columns.constant() * 10 >= vectors * tile.lanes * 9;
  }

  // A constant that floats are converted from is packed as it is stored.
  bool PackStored(Tile& tile) const {
    Expr stored = reduce_.dtype.is_float() ? StoredFactor(tile.vector) : Expr();
    if (!stored) return false;
    std::swap(tile.vector, stored);
    if (Pack(tile)) return true;
    tile.vector = stored;
    return false;
  }

  // A constant that nobody else reads, and this nest reads whole, gets another layout.
  bool Pack(Tile& tile) const {
    if (tile.vector->kind != ExprKind::kRead) return false;
    std::optional<Tile::Source> source = SourceOf(*tile.vector, tile);
    if (!source || source->depth.size() != reduce_.axes.size()) return false;
    tile.access = Tile::Access::kPanels;
    tile.panels = source->tensor;
    tile.packed = std::move(source->layout);
    return true;
  }

  // Returns the read of a constant that can be packed for the tile, by the axes that the read depends on; nullopt for
  // others.
  std::optional<Tile::Source> SourceOf(const ExprNode& read, const Tile& tile) const {
    if (!IsConstantInput(read.tensor, schedule_.constant_inputs)) return std::nullopt;
    Tile::Source source{&read, read.tensor, {}, {}, {}};
    std::optional<Shape> shape = StaticShape(read.tensor.dims());
    if (!shape || CountReaders(schedule_.nests, read.tensor) != 1) return std::nullopt;
    std::vector<StridedAxis> axes;
    auto strided = [&](const IndexVar& axis) {
      std::optional<int64_t> stride = te::Stride(read.operands[0], axis.id);
      bool is_known = stride && axis.extent.is_const();
      if (is_known) axes.push_back({axis.extent.constant(), *stride});
      return is_known;
    };
    for (size_t i = 0; i < nest_.axes.size(); ++i) {
      if (!te::DependsOn(read.operands[0], nest_.axes[i].id)) continue;
      if (!strided(nest_.axes[i])) return std::nullopt;
      if (i != tile.column) source.outer.push_back(i);
      i == tile.column ? (void)(source.layout.column = axes.back()) : source.layout.outer.push_back(axes.back());
    }
    for (size_t i = 0; i < reduce_.axes.size(); ++i) {
      if (!te::DependsOn(read.operands[0], reduce_.axes[i].id) && reduce_.axes[i].extent != Dim(1)) continue;
      if (!strided(reduce_.axes[i])) return std::nullopt;
      source.depth.push_back(i);
      source.layout.depth.push_back(axes.back());
    }
    bool has_column = te::DependsOn(read.operands[0], nest_.axes[tile.column].id);
    if (!has_column || !CoversOnce(axes, NumElements(*shape).value_or(0))) return std::nullopt;
    return source;
  }

  // Constants that the vectors are computed from are packed as they are stored.
  bool PackSources(Tile& tile) const {
    if (!IsExpansion(tile.vector) || !PackReads(tile, {tile.vector})) return false;
    SplitScale(tile);
    return true;
  }

  bool PackReads(Tile& tile, const std::vector<Expr>& expressions) const {
    std::vector<Tile::Source> sources;
    for (const ExprNode* node : te::Postorder(expressions)) {
      if (node->kind != ExprKind::kRead) continue;
      std::optional<Tile::Source> source = SourceOf(*node, tile);
      if (!source) return false;
      sources.push_back(*std::move(source));
    }
    tile.access = Tile::Access::kPanels;
    tile.sources = std::move(sources);
    return true;
  }

  // See Tile::scale. Few inner positions do not make up for the sums that are kept beside those of the inner axes.
  void SplitScale(Tile& tile) const {
    const ExprNode& product = *tile.vector;
    if (product.kind != ExprKind::kBinary || product.binary != BinaryOp::kMultiply) return;
    for (size_t side : {1, 0}) {
      const Expr scale = product.operands[side];
      size_t axes = reduce_.axes.size();
      while (axes > 0 && !te::DependsOn(scale, reduce_.axes[axes - 1].id)) --axes;
      Dim inner = te::NumPositions(std::span(reduce_.axes).subspan(axes));
      if (!inner.is_const() || inner.constant() < kMinDepthToScale) continue;
      tile.scale = scale;
      tile.scaled_axes = axes;
      tile.vector = product.operands[1 - side];
      return;
    }
  }

  // Returns the axis that leaves the fewest lanes idle: the last of the largest extent. One that is not known counts as
  // large.
  size_t Widest(const std::vector<size_t>& columns) const {
    auto extent = [&](size_t column) {
      return nest_.axes[column].extent.AsConst().value_or(std::numeric_limits<int64_t>::max());
    };
    return *std::max_element(columns.rbegin(), columns.rend(),
                             [&](size_t a, size_t b) { return extent(a) < extent(b); });
  }

  // The last axis that gives a tile several rows, else the one that gives it the most.
  size_t RowOf(const std::vector<size_t>& rows) const {
    auto extent = [&](size_t row) {
      return std::min(nest_.axes[row].extent.AsConst().value_or(kMinRowsForPanels), kMinRowsForPanels);
    };
    return *std::max_element(rows.rbegin(), rows.rend(), [&](size_t a, size_t b) { return extent(a) < extent(b); });
  }

  // Few columns leave most lanes idle.
  bool FillsVectors(const Dim& columns, const Tile& tile) const {
    return !columns.is_const() || columns.constant() * 2 >= tile.lanes;
  }

  bool ReadInPlace(const std::vector<size_t>& columns, Tile& tile) const {
    const Expr vector = tile.depth_step > 1 ? tile.vector : ElementOf(tile.vector, target_);
    if (vector->kind != ExprKind::kRead || (tile.depth_step > 1 && !HasFours(tile))) return false;
    const int64_t most = tile.depth_step > 1 ? 1 : kMaxColumnStride;
    for (size_t column : columns) {
      const IndexVar& axis = nest_.axes[column];
      int64_t elements = te::Stride(vector->operands[0], axis.id).value_or(0), stride = elements / tile.depth_step;
      if (elements % tile.depth_step != 0 || stride < 1 || stride > most || !FillsVectors(axis.extent, tile)) continue;
      bool fits = axis.extent.is_const() && axis.extent.constant() >= tile.lanes;
      if (!fits && !(tile.depth_step > 1 ? target_.masks_are_fast() : target_.has_masks)) continue;
      tile.vector = vector;
      tile.column = column;
      tile.column_stride = stride;
      tile.access = Tile::Access::kInPlace;
      if (!tile.row) tile.row = OtherRow(columns, column);
      return true;
    }
    return false;
  }

  // See Tile::shared_by_column. `rows`: the axes that the vectors alone depend on.
  bool ReadByColumn(std::vector<size_t> rows, Tile& tile) const {
    Expr shared = NarrowFactor(tile.broadcast);
    if (!shared) shared = tile.broadcast;
    if (tile.row || tile.depth_step > 1 || tile.vector->kind != ExprKind::kRead || shared->kind != ExprKind::kRead) {
      return false;
    }
    const size_t column = nest_.axes.size() - 1;
    const IndexVar& axis = nest_.axes[column];
    bool fits = te::Stride(tile.vector->operands[0], axis.id) == int64_t{1} &&
                te::Stride(shared->operands[0], axis.id) == int64_t{1} && axis.extent.is_const() &&
                (target_.has_masks ? FillsVectors(axis.extent, tile) : axis.extent.constant() >= tile.lanes);
    if (!fits) return false;
    Tile attempt = tile;
    attempt.broadcast = shared;
    attempt.shared_by_column = true;
    attempt.column = column;
    // The innermost axis of the image along which windows overlap.
    for (size_t i = rows.size(); i-- > 0;) {
      attempt.row = rows[i];
      if (rows[i] == column || nest_.axes[rows[i]].extent == Dim(1) || !WindowOf(attempt)) continue;
      tile = std::move(attempt);
      return true;
    }
    return false;
  }

  // Returns whether the four positions of a step lie side by side, as in a copy that PairDepth made.
  bool HasFours(const Tile& tile) const {
    const IndexVar& step = reduce_.axes.back();
    return tile.depth_step == 4 && step.extent == Dim(4) && te::Stride(tile.vector->operands[0], step.id) == int64_t{1};
  }

  // See Tile::Matrices.
  std::optional<Tile::Matrices> MatricesOf(const Tile& tile) const {
    const bool is_multiplied =
        tile.has_bfloat_pairs() ? target_.has_bfloat_matrices : target_.has_byte_matrices && tile.depth_step == 4;
    const bool has_factors = is_multiplied && !tile.blocks && tile.access == Tile::Access::kPanels &&
                             tile.broadcast->kind == ExprKind::kRead;
    if (!has_factors || !tile.row || tile.transposed_store) return std::nullopt;
    const IndexVar &row = nest_.axes[*tile.row], &innermost = reduce_.axes.back();
    const Expr& place = tile.broadcast->operands[0];
    const int64_t each = tile.depth_step, depth = innermost.extent.constant(), groups = (depth + each - 1) / each;
    const bool reads_whole = depth % each == 0 || (tile.packed && ReadsBehind(tile.broadcast, tile.depth_step));
    if (!te::Stride(place, row.id) || te::Stride(place, innermost.id) != int64_t{1} || !reads_whole)
      return std::nullopt;
    const int64_t rows = std::min(row.extent.AsConst().value_or(kRowsOfMatrix), kRowsOfMatrix);
    const Dim products = te::NumPositions(nest_.axes) * te::NumPositions(reduce_.axes);
    if (rows < kMinRowsOfMatrix || groups < kMinGroupsOfMatrix) return std::nullopt;
    if (products.is_const() && products.constant() < kMinProductsOfMatrices) return std::nullopt;
    // Steps are of equal length if that takes no more of them.
    const int64_t steps = (groups + kGroupsOfMatrix - 1) / kGroupsOfMatrix;
    if (groups % steps == 0) return Tile::Matrices{kMinRowsOfMatrix, rows, steps, groups / steps * each, 0};
    return Tile::Matrices{kMinRowsOfMatrix, rows, groups / kGroupsOfMatrix, kGroupsOfMatrix * each,
                          groups % kGroupsOfMatrix * each};
  }

  // See Tile::packed_rows. Steps of four bytes that lie apart would be put together for each row.
  std::optional<PackedLayout> RowsOfFours(const Tile& tile) const {
    const Expr& rows = tile.broadcast;
    const bool is_read = tile.depth_step == 4 && tile.row && rows->kind == ExprKind::kRead;
    if (!is_read || te::Stride(rows->operands[0], reduce_.axes.back().id) == int64_t{1}) return std::nullopt;
    Tile by_row = tile;
    by_row.column = *tile.row;
    std::optional<Tile::Source> source = SourceOf(*rows, by_row);
    return source ? std::optional(std::move(source->layout)) : std::nullopt;
  }

  // Returns a row axis where the broadcast factor has none: it is then one factor for the whole tile.
  std::optional<size_t> OtherRow(std::vector<size_t> columns, size_t column) const {
    std::erase(columns, column);
    return columns.empty() ? std::nullopt : std::optional(RowOf(columns));
  }

  bool CopyToPanels(Tile& tile) const {
    if (HasBranches(tile.vector) || !tile.row || !FillsVectors(nest_.axes[tile.column].extent, tile)) return false;
    const Dim& rows = nest_.axes[*tile.row].extent;
    const int64_t least = tile.has_bfloat_pairs() ? kMinRowsForPanelsOfPairs : kMinRowsForPanels;
    if (rows.is_const() && rows.constant() < least) return false;
    tile.access = Tile::Access::kPanels;
    return true;
  }

  // Returns whether rows of the broadcast factor compete for the sets of the first-level cache.
  bool RowsCollide(const Tile& tile) const {
    for (const ExprNode* node : te::Postorder({tile.broadcast})) {
      if (node->kind != ExprKind::kRead || !tile.row) continue;
      std::optional<int64_t> stride = te::Stride(node->operands[0], nest_.axes[*tile.row].id);
      if (stride && *stride != 0 && *stride * node->dtype.bytes() % kCacheSetBytes == 0) return true;
    }
    return false;
  }

  // See Tile::window. Each position of the window takes a register.
  std::optional<Tile::Window> WindowOf(const Tile& tile) const {
    if (tile.depth_step > 1 || tile.vector->kind != ExprKind::kRead) return std::nullopt;
    const Expr& place = tile.vector->operands[0];
    const int64_t most = tile.shared_by_column ? kMaxWindowByColumn : kMaxWindow;
    std::optional<int64_t> by_row = te::Stride(place, nest_.axes[*tile.row].id);
    for (size_t axis = 0; axis < reduce_.axes.size() && by_row; ++axis) {
      const Dim& extent = reduce_.axes[axis].extent;
      std::optional<int64_t> by_step = te::Stride(place, reduce_.axes[axis].id);
      if (!extent.is_const() || extent.constant() > most || !by_step || *by_step <= 0) continue;
      int64_t step = *by_row / *by_step;
      if (*by_row % *by_step != 0 || step < 1 || step >= extent.constant()) continue;
      return Tile::Window{axis, step, extent.constant()};
    }
    return std::nullopt;
  }

  // See Tile::slides.
  bool Slides(const Tile& tile) const {
    // With one vector there are registers left, and loads take as long as multiplications.
    if (!tile.row || tile.window || tile.vectors == 1 || tile.depth_step > 1) return false;
    for (const ExprNode* node : te::Postorder({tile.broadcast})) {
      if (node->kind != ExprKind::kRead) continue;
      int64_t by_row = te::Stride(node->operands[0], nest_.axes[*tile.row].id).value_or(0);
      int64_t by_step = te::Stride(node->operands[0], reduce_.axes.back().id).value_or(0);
      if (by_row <= 0 || by_step <= 0) continue;
      int64_t distance = std::lcm(by_row, by_step);
      if (distance < by_row * tile.rows && distance < by_step * tile.Unroll(tile.rows)) return true;
    }
    return false;
  }

  // Bytes of an element of the vector factor in memory.
  int64_t ElementBytes(const Tile& tile) const {
    return (tile.sources.empty() ? tile.vector.dtype() : reduce_.dtype).bytes();
  }

  // See Tile::panels_at_once. Each tile of rows reads the panels of a unit again, from the first-level cache.
  int64_t PanelsAtOnce(const Tile& tile, bool by_row) const {
    const Dim &columns = nest_.axes[tile.column].extent, depth = Depth();
    bool is_stored_by_rows = !tile.transposed_store && te::Stride(nest_.store_offset, nest_.axes[tile.column].id) == 1;
    if (!tile.row || by_row || !is_stored_by_rows || !columns.is_const() || !depth.is_const()) return 1;
    int64_t panel_bytes =
        std::max<int64_t>(depth.constant() * tile.panel() * tile.column_stride * ElementBytes(tile), 1);
    int64_t panels = (columns.constant() + tile.panel() - 1) / tile.panel(), most = kMaxPanelsAtOnce;
    Dim units = panels;
    for (size_t axis : tile.outer) units = units * nest_.axes[axis].extent;
    for (size_t axis : tile.inner) units = units * nest_.axes[axis].extent;
    if (units.is_const()) most = std::min(most, units.constant() / kMinUnits);
    return std::clamp<int64_t>(std::min(kPanelsInCache / panel_bytes, panels), 1, std::max<int64_t>(most, 1));
  }

  // Returns the vectors that the tile shares with those of another schedule; null: it is free.
  const SumOrder::Vectors* Agreed(const Tile& tile) const {
    const std::optional<int64_t> input = VectorInput(tile);
    if (!input) return nullptr;
    auto found = schedule_.sum_order.vectors.find(*input);
    return found == schedule_.sum_order.vectors.end() ? nullptr : &found->second;
  }

  // See Tile::segments. With a window, all heights have one order.
  int64_t Segments(const Tile& tile) const {
    if (!schedule_.sum_order.is_fixed || !reduce_.dtype.is_float() || tile.blocks || tile.window) return 0;
    if (const SumOrder::Vectors* agreed = Agreed(tile)) return agreed->segments;
    int64_t segments = 1;
    while (segments * tile.vectors < kChainsOfRow) segments *= 2;
    while (tile.inner_depth > 0 && segments > tile.inner_depth) segments /= 2;
    return segments;
  }

  void ChooseSize(Tile& tile) const {
    const Dim& columns = nest_.axes[tile.column].extent;
    Dim rows = tile.row ? nest_.axes[*tile.row].extent : Dim(1);
    // Columns that lie apart take a mask for each vector of neighbours.
    int64_t most_vectors = std::max<int64_t>((target_.vector_registers >= 32 ? 4 : 3) / tile.column_stride, 1);
    // One row of a product reads the other factor once, which is fast in long pieces.
    bool is_one_row = rows == Dim(1) && tile.access == Tile::Access::kInPlace && tile.column_stride == 1;
    if (is_one_row) most_vectors = target_.vector_registers / 2;
    int64_t most_rows = !rows.is_const() ? kMaxRowsUnknown : RowsCollide(tile) ? kRowsPerCacheSet : kMaxTileRows;
    bool in_place = tile.access == Tile::Access::kInPlace;
    auto fits = [&](int64_t vectors) { return columns.is_const() && columns.constant() >= vectors * tile.lanes; };
    if (in_place && !target_.has_masks) {
      while (!fits(most_vectors)) --most_vectors;
    }
    bool has_overlaps = !schedule_.sum_order.stores_once || (in_place && !target_.has_masks);
    auto divides = [&](int64_t vectors) { return columns.constant() % (vectors * tile.lanes) == 0; };
    auto is_masked = [&](int64_t vectors) {
      return in_place && (!fits(vectors) || (!has_overlaps && !divides(vectors)));
    };
    // The vectors depend on the row: each row loads its own.
    bool by_row = in_place && tile.row && te::DependsOn(tile.vector, nest_.axes[*tile.row].id);
    if (by_row) tile.window = WindowOf(tile);
    int64_t needed = columns.is_const() ? (columns.constant() + tile.lanes - 1) / tile.lanes : most_vectors;
    const auto depth = static_cast<double>(std::max<int64_t>(Depth().AsConst().value_or(kShallowDepth), 1));
    int64_t first = std::clamp<int64_t>(needed, 1, most_vectors), last = 1;
    const SumOrder::Vectors* agreed = Agreed(tile);
    if (agreed != nullptr && tile.is_packed()) first = last = agreed->panel / tile.lanes;
    const bool has_fours = tile.depth_step == 4 && target_.vector_registers >= 32;
    double least = 0;
    for (int64_t vectors = first; vectors >= last; --vectors) {
      // Sums, one step's vectors and a broadcast must fit the registers.
      int64_t others = tile.shared_by_column     ? vectors + vectors * tile.window->extent - 1
                       : tile.window             ? vectors + tile.window->extent - 1
                       : tile.blocks             ? vectors + kRegistersOfBlocks - 1
                       : tile.flips_sign()       ? 2 * vectors
                       : tile.has_bfloat_pairs() ? vectors
                       : tile.depth_step == 2    ? vectors + kRegistersOfPairs
                       : has_fours               ? vectors + kRegistersOfFours
                       : tile.sources.empty()    ? vectors
                                                 : 2 * vectors + kRegistersToExpand;
      int64_t height = std::clamp<int64_t>((target_.vector_registers - others - 1) / vectors, 1, most_rows);
      if (tile.transposed_store && height > tile.lanes) height -= height % std::max<int64_t>(tile.lanes / 2, 1);
      if (rows.is_const()) height = EvenHeight(rows.constant(), height);
      double per_vector = 1.0 / static_cast<double>(vectors), per_row = 1.0 / static_cast<double>(height);
      if (rows.is_const() && rows.constant() > 0) {
        int64_t tiles = (rows.constant() + height - 1) / height;
        per_row = static_cast<double>(tiles) / static_cast<double>(rows.constant());
      }
      // Cycles for each multiplication: two of them, or two loads, in one. A transposition takes the same time for few
      // rows as for many.
      bool in_cache = depth * static_cast<double>(vectors * tile.lanes * ElementBytes(tile)) <= kPanelInCache;
      double per_load = in_cache || in_place || rows == Dim(1) ? 1 : kLoadBeyondCache;
      double by_window = !tile.window ? 1
                                      : per_row * static_cast<double>(tile.window->Reads(height)) /
                                            static_cast<double>(tile.window->extent);
      double per_shared = tile.shared_by_column ? 1 : per_vector;
      double loads = 0.5 * (by_row ? by_window + per_row * per_shared : per_vector + per_load * per_row);
      double cost = std::max(0.5, loads) + kUnhiddenLoads * loads;
      if (tile.transposed_store) {
        const auto runs = static_cast<double>(VectorRuns(height, tile.lanes).size());
        cost += (kTransposition + kRowRun * runs) / depth * per_row;
      }
      if (is_masked(vectors)) cost *= kCostOfMasks;
      if (!rows.is_const()) cost *= 1 + kCostOfTile / static_cast<double>(height);
      cost *= static_cast<double>((needed + vectors - 1) / vectors * vectors);
      if (least != 0 && cost >= least) continue;
      least = cost;
      tile.vectors = vectors;
      tile.rows = height;
    }
    tile.matrices = MatricesOf(tile);
    if (tile.matrices) {
      // The heights of blocks of matrices are their own; others are of fewer rows.
      tile.vectors = std::min(needed, Tile::Matrices::kVectors);
      tile.rows = rows.is_const() ? std::min(rows.constant(), Tile::Matrices::kBlocks * tile.matrices->rows)
                                  : tile.matrices->least - 1;
    }
    const Dim& innermost = reduce_.axes.back().extent;
    tile.inner_depth = innermost.is_const() ? (innermost.constant() + tile.depth_step - 1) / tile.depth_step : 0;
    tile.whole_steps =
        tile.depth_step > 1 && tile.packed && !tile.blocks && ReadsBehind(tile.broadcast, tile.depth_step);
    tile.packed_rows = RowsOfFours(tile);
    tile.segments = Segments(tile);
    tile.slides = Slides(tile);
    if (tile.packed) tile.packed->panel = tile.panel(), tile.packed->depth_step = tile.depth_step;
    for (Tile::Source& source : tile.sources) source.layout.panel = tile.panel();
    if (tile.blocks) tile.sources[0].layout.depth_step = tile.depth_step;
    tile.masked = is_masked(tile.vectors);
    tile.overlaps = has_overlaps && !tile.is_packed() && fits(tile.vectors) && !divides(tile.vectors);
    tile.panels_at_once = PanelsAtOnce(tile, by_row);
  }

  const Schedule& schedule_;
  const Target& target_;
  const LoopNest& nest_;
  const ExprNode& reduce_;
};

}  // namespace

Expr NarrowFactor(const Expr& factor) {
  bool widens = factor->kind == ExprKind::kCast && factor.dtype() == kInt32;
  const DataType from = widens ? factor->operands[0].dtype() : factor.dtype();
  return widens && (from == kInt8 || from == kUInt8 || from == kInt16) ? factor->operands[0] : Expr();
}

int64_t DepthStep(const Target& target, DataType a, DataType b) {
  return target.has_byte_products && a.bits == 8 && b.bits == 8 ? 4 : 2;
}

std::optional<Tile> PlanTile(const Schedule& schedule, const LoopNest& nest) {
  return TilePlanner(schedule, nest).Run();
}

}  // namespace rvm::schedule
