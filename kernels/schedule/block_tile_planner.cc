#include "kernels/schedule/block_tile_planner.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::ReduceOp;

// Products of fewer rows or columns, or positions, or of less depth, use no element often enough.
constexpr int64_t kMinLines = 16;
constexpr int64_t kMinPositions = 1024;
constexpr int64_t kMinDepth = 8;
// Extent assumed for unknown extents when sizes are compared.
constexpr int64_t kUnknownExtent = 512;
// Minimum number of blocks that keeps a GPU busy.
constexpr int64_t kFullBlocks = 128;
// Elements that each thread copies in a step, or more: their loads are underway while the step before is summed up.
constexpr int64_t kMinCopies = 12;
// Maximum size of the tiles of a block, of the 48 KiB of shared memory that a block has on every GPU.
constexpr int64_t kSharedBytes = 40 << 10;
constexpr int64_t kSectorElements = 8;  // a load from global memory takes 32 bytes or more
constexpr int64_t kMaxVectorBytes = 16;
constexpr int64_t kBanks = 32;

struct Size {
  int64_t thread_rows, thread_columns, row_threads, column_threads;
  int64_t rows() const { return thread_rows * row_threads; }
  int64_t columns() const { return thread_columns * column_threads; }
};
// A warp is 4 x 8 threads, so that its loads from shared memory are short.
constexpr Size kSizes[] = {{8, 8, 16, 8}, {8, 8, 8, 16}, {8, 4, 8, 16}, {4, 4, 16, 8}, {4, 4, 8, 16},
                           {4, 2, 8, 16}, {4, 4, 4, 32}, {2, 4, 8, 16}, {4, 2, 16, 8}};
// With tensor cores a warp is 8 x 4 threads, each of which has pairs of rows and of columns.
constexpr Size kMmaSizes[] = {{8, 8, 16, 8}, {4, 16, 16, 8}, {4, 8, 16, 8}, {4, 8, 32, 4}, {4, 8, 8, 16},
                              {4, 4, 16, 8}, {2, 8, 16, 8},  {2, 8, 8, 16}, {2, 4, 16, 8}, {2, 4, 8, 16}};
// Words of a line that are copied in a step for tensor cores.
constexpr int64_t kMinWords = 8, kMaxWords = 32;
// Registers that hold the copies of a thread in such a step, beside up to 64 sums: each takes others for its place.
constexpr int64_t kMaxCopies = 24;

int64_t CountOf(const Dim& extent) { return extent.AsConst().value_or(kUnknownExtent); }
int64_t RoundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
bool IsKnownBelow(const Dim& extent, int64_t bound) { return extent.is_const() && extent.constant() < bound; }

// Returns the value of an index expression where all variables are 0; nullopt if it is not known.
std::optional<int64_t> ValueAtZero(const Expr& e) {
  if (e->kind == ExprKind::kIntConst) return e->int_value;
  if (e->kind == ExprKind::kIndex) return 0;
  if (e->kind != ExprKind::kBinary) return std::nullopt;
  std::optional<int64_t> a = ValueAtZero(e->operands[0]), b = ValueAtZero(e->operands[1]);
  if (e->binary == BinaryOp::kMultiply && (a == 0 || b == 0)) return 0;
  if (!a || !b) return std::nullopt;
  if (e->binary == BinaryOp::kAdd) return *a + *b;
  if (e->binary == BinaryOp::kSubtract) return *a - *b;
  return e->binary == BinaryOp::kMultiply ? std::optional(*a * *b) : std::nullopt;
}

// Elements that follow each other in memory as the number of a position of the axes grows, from each multiple of that
// number on. Of an unknown length: as many as count as unknown.
struct LineRun {
  int64_t length = 1;
  bool is_known = true;
  size_t axes = 0;  // the last so many of them
};

LineRun RunOf(const Expr& offset, std::span<const IndexVar> axes) {
  LineRun run;
  for (size_t i = axes.size(); i-- > 0;) {
    if (te::Stride(offset, axes[i].id) != run.length || !run.is_known) break;
    ++run.axes;
    run.is_known = axes[i].extent.is_const();
    run.length = run.is_known ? run.length * axes[i].extent.constant() : std::max(run.length, kUnknownExtent);
  }
  return run;
}

// Returns the read that the factor is a function of; null if it has others, or depends on the position otherwise.
const ExprNode* OnlyRead(const Expr& factor) {
  const ExprNode* read = nullptr;
  std::vector<const ExprNode*> path = {factor.get()};
  while (!path.empty()) {
    const ExprNode* node = path.back();
    path.pop_back();
    if (node->kind == ExprKind::kIndex || node->kind == ExprKind::kSelect) return nullptr;
    if (node->kind == ExprKind::kRead) {
      if (read != nullptr && read != node) return nullptr;
      read = node;
      continue;
    }
    for (const Expr& operand : node->operands) path.push_back(operand.get());
  }
  return read;
}

// Returns whether all values of the expression are values of the type.
bool IsOf(DataType dtype, const Expr& e) {
  std::vector<const Expr*> path = {&e};
  absl::flat_hash_set<const ExprNode*> seen;
  while (!path.empty()) {
    const Expr& node = *path.back();
    path.pop_back();
    if (!seen.insert(node.get()).second) continue;
    bool is_zero = (node->kind == ExprKind::kFloatConst && node->float_value == 0) ||
                   (node->kind == ExprKind::kIntConst && node->int_value == 0);
    if (node->kind == ExprKind::kSelect) {
      path.push_back(&node->operands[1]);
      path.push_back(&node->operands[2]);
    } else if (node->kind == ExprKind::kRead && node->tensor->kind == te::TensorKind::kCompute) {
      path.push_back(&node->tensor->body);  // a padded copy
    } else if (!is_zero && !(node->kind == ExprKind::kCast && node->operands[0].dtype() == dtype)) {
      return false;
    }
  }
  return true;
}

// Returns the type in which tensor cores multiply the factor without loss; nullopt if there is none.
std::optional<DataType> NarrowType(const Expr& factor) {
  for (DataType dtype : {kFloat16, kBFloat16, kInt8, kUInt8}) {
    if (dtype.is_float() == factor.dtype().is_float() && IsOf(dtype, factor)) return dtype;
  }
  return std::nullopt;
}

std::optional<Mma> ChooseMma(const Expr& rows, const Expr& columns, const Target& target) {
  bool has_80 = target.tensor_cores >= 80;
  if (target.tensor_cores < 75 || (rows.dtype() != kFloat32 && rows.dtype() != kInt32)) return std::nullopt;
  std::optional<DataType> a = NarrowType(rows), b = NarrowType(columns);
  if (a && b && !a->is_float()) {
    return has_80 ? Mma{*a, *b, 16, 32, 80} : Mma{*a, *b, 8, 16, 75};
  }
  if (a == kFloat16 && b == kFloat16) return has_80 ? Mma{*a, *b, 16, 16, 80} : Mma{*a, *b, 16, 8, 75};
  if (a == kBFloat16 && b == kBFloat16 && has_80) return Mma{*a, *b, 16, 16, 80};
  if (rows.dtype() == kFloat32 && has_80 && target.rounds_to_tf32) return Mma{kFloat32, kFloat32, 16, 8, 80};
  return std::nullopt;
}

class BlockTilePlanner {
 public:
  BlockTilePlanner(const LoopNest& nest, const Target& target)
      : nest_(nest), target_(target), reduce_(*nest.reduction()) {}

  std::optional<BlockTile> Run() {
    const Expr& product = reduce_.operands[0];
    bool fits = reduce_.reduce == ReduceOp::kSum && product->kind == ExprKind::kBinary &&
                product->binary == BinaryOp::kMultiply && !reduce_.axes.empty();
    const DataType dtype = product.dtype();
    if (!fits || (dtype != kFloat32 && dtype != kFloat64 && dtype != kInt32)) return std::nullopt;
    bytes_ = dtype.bytes();
    BlockTile tile;
    tile.rows.factor = product->operands[0];
    tile.columns.factor = product->operands[1];
    DivideAxes(tile);
    Dim rows = Lines(nest_, tile.rows), columns = Lines(nest_, tile.columns), depth = te::NumPositions(reduce_.axes);
    bool is_small = IsKnownBelow(rows, kMinLines) || IsKnownBelow(columns, kMinLines) ||
                    IsKnownBelow(rows * columns, kMinPositions) || IsKnownBelow(depth, kMinDepth);
    if (tile.rows.axes.empty() || tile.columns.axes.empty() || is_small) return std::nullopt;
    tile.mma = ChooseMma(tile.rows.factor, tile.columns.factor, target_);
    ChooseSize(rows, columns, tile);
    if (tile.mma) {
      PlanStepsOfWords(depth, tile);
    } else {
      PlanSteps(depth, tile);
    }
    return tile;
  }

 private:
  // Rows and columns are the axes of one factor; the last axis that is of either is a column.
  void DivideAxes(BlockTile& tile) const {
    for (size_t i = 0; i < nest_.axes.size(); ++i) {
      bool by_rows = te::DependsOn(tile.rows.factor, nest_.axes[i].id),
           by_columns = te::DependsOn(tile.columns.factor, nest_.axes[i].id);
      (by_rows == by_columns ? tile.outer : by_rows ? tile.rows.axes : tile.columns.axes).push_back(i);
    }
    auto last = [](const Staging& side) { return side.axes.empty() ? 0 : side.axes.back() + 1; };
    if (last(tile.rows) > last(tile.columns)) std::swap(tile.rows, tile.columns);
  }

  // Returns the time, up to a factor, that a full GPU takes, or a part of it that has work.
  static double Cost(const Size& size, bool has_mma, int64_t rows, int64_t columns, int64_t outer) {
    auto positions = static_cast<double>(RoundUp(rows, size.rows()) * RoundUp(columns, size.columns()) * outer);
    auto per_product = [](int64_t lines, int64_t others) {
      return 1.0 / static_cast<double>(lines) + 1.0 / static_cast<double>(others);
    };
    // From shared memory, and from global memory. Tensor cores multiply 16 times as fast, elements of half the size;
    // the lanes of a warp load for all of them.
    double loads =
        has_mma ? 16 * per_product(8 * size.thread_rows, 4 * size.thread_columns) +
                      64 * per_product(size.rows(), size.columns())
                : per_product(size.thread_rows, size.thread_columns) + 4 * per_product(size.rows(), size.columns());
    double blocks = positions / static_cast<double>(size.rows() * size.columns());
    return positions * (1 + loads) * std::max(1.0, kFullBlocks / std::max(blocks, 1.0));
  }

  void ChooseSize(const Dim& rows, const Dim& columns, BlockTile& tile) const {
    int64_t outer = 1;
    for (size_t axis : tile.outer) outer *= nest_.axes[axis].extent.AsConst().value_or(1);
    double least = std::numeric_limits<double>::infinity();
    const Size* best = nullptr;
    for (const Size& size : tile.mma ? std::span<const Size>(kMmaSizes) : std::span<const Size>(kSizes)) {
      // Sums of 8 bytes take two registers each.
      if (size.thread_rows * size.thread_columns * bytes_ > 256) continue;
      double cost = Cost(size, tile.mma.has_value(), CountOf(rows), CountOf(columns), outer);
      if (cost < least) best = &size, least = cost;
    }
    tile.thread_rows = best->thread_rows;
    tile.thread_columns = best->thread_columns;
    tile.rows.lines = best->rows();
    tile.columns.lines = best->columns();
    tile.rows.is_whole = rows.is_const() && rows.constant() % tile.rows.lines == 0;
    tile.columns.is_whole = columns.is_const() && columns.constant() % tile.columns.lines == 0;
  }

  bool HasRoom(int64_t words, const BlockTile& tile) const {
    return 2 * words * (tile.rows.lines + tile.columns.lines + kBanks) * bytes_ <= kSharedBytes;
  }

  void SetStep(int64_t words, int64_t pack, const Dim& depth, BlockTile& tile) const {
    for (Staging* side : {&tile.rows, &tile.columns}) side->pack = pack, side->depth_words = words;
    tile.depth = words * pack;
    tile.is_whole_depth = depth.is_const() && depth.constant() % tile.depth == 0;
    tile.is_one_step = depth.is_const() && depth.constant() <= tile.depth;
  }

  void PlanSteps(const Dim& depth, BlockTile& tile) const {
    int64_t lines = tile.rows.lines + tile.columns.lines, words = tile.depth;
    while (lines * words < kMinCopies * kBlockThreads && HasRoom(2 * words, tile)) words *= 2;
    SetStep(words, 1, depth, tile);
    for (Staging* side : {&tile.rows, &tile.columns}) {
      PlanCopies(tile.depth, std::nullopt, *side);
      DivideThreads(tile.depth, *side);
    }
  }

  // The largest step whose copies have room. Products of zeros beyond the end of the depth cost time, too.
  void PlanStepsOfWords(const Dim& depth, BlockTile& tile) const {
    int64_t pack = bytes_ / tile.mma->row_dtype.bytes();
    for (int64_t words = kMaxWords;; words /= 2) {
      SetStep(words, pack, depth, tile);
      PlanCopies(tile.depth, tile.mma->row_dtype, tile.rows);
      PlanCopies(tile.depth, tile.mma->column_dtype, tile.columns);
      int64_t copies = 0;
      for (const Staging* side : {&tile.rows, &tile.columns}) {
        copies += side->lines * (side->is_verbatim ? words : words * pack) / kBlockThreads;
      }
      bool is_half_empty = depth.is_const() && depth.constant() <= tile.depth / 2;
      if (words == kMinWords || (HasRoom(words, tile) && copies <= kMaxCopies && !is_half_empty)) break;
    }
    DivideThreadsOfWords(tile.rows);
    DivideThreadsOfWords(tile.columns);
  }

  // Returns whether loads of `vector` elements along the run are aligned, as all tensors are.
  bool IsAligned(const Expr& offset, const LineRun& run, std::span<const IndexVar> along, int64_t vector) const {
    if (!run.is_known || run.length % vector != 0) return false;
    std::optional<int64_t> first = ValueAtZero(offset);
    if (!first || *first % vector != 0) return false;
    std::span<const IndexVar> in_run = along.last(run.axes);
    auto is_multiple = [&](const IndexVar& axis) {
      bool runs = std::any_of(in_run.begin(), in_run.end(), [&](const IndexVar& one) { return one.id == axis.id; });
      std::optional<int64_t> stride = te::Stride(offset, axis.id);
      return runs || (stride && *stride % vector == 0);
    };
    return std::all_of(nest_.axes.begin(), nest_.axes.end(), is_multiple) &&
           std::all_of(reduce_.axes.begin(), reduce_.axes.end(), is_multiple);
  }

  // Chooses the loads of a factor. `word_dtype`: of the elements of a word, if it has several.
  void PlanCopies(int64_t depth, std::optional<DataType> word_dtype, Staging& side) const {
    std::vector<IndexVar> lines;
    for (size_t axis : side.axes) lines.push_back(nest_.axes[axis]);
    const ExprNode* read = OnlyRead(side.factor);
    const ExprNode* guide = read;
    for (const ExprNode* node : te::Postorder({side.factor})) {
      if (guide == nullptr && node->kind == ExprKind::kRead) guide = node;
    }
    LineRun run;
    if (guide != nullptr) {
      LineRun by_depth = RunOf(guide->operands[0], reduce_.axes), by_line = RunOf(guide->operands[0], lines);
      // The few taps of a window do not pay: their neighbours are copied for other lines.
      side.along_depth = by_depth.length > by_line.length && by_depth.length >= kSectorElements;
      run = side.along_depth ? by_depth : by_line;
    }
    std::span<const IndexVar> along = side.along_depth ? std::span(reduce_.axes) : std::span<const IndexVar>(lines);
    bool are_words = side.pack > 1 && side.along_depth && read != nullptr && read->dtype == word_dtype &&
                     side.factor->kind == ExprKind::kCast && side.factor->operands[0].get() == read;
    side.vector = 1;
    if (read != nullptr) {
      side.vector = kMaxVectorBytes / std::max<int64_t>(read->dtype.bytes(), are_words ? 1 : 4);
      side.vector = are_words ? side.vector : std::min<int64_t>(4, side.vector);
    }
    while (side.vector > 1 && !(IsAligned(read->operands[0], run, along, side.vector) && HasWork(depth, side)))
      side.vector /= 2;
    side.read = side.vector > 1 ? read : nullptr;
    side.is_verbatim = are_words && side.vector >= side.pack;
  }

  // Returns the units along the depth, and along the lines.
  static int64_t DepthUnits(int64_t depth, const Staging& side) { return depth / side.unit_depth(); }
  static int64_t LineUnits(const Staging& side) { return side.lines / side.unit_lines(); }
  static bool HasWork(int64_t depth, const Staging& side) {
    return DepthUnits(depth, side) * LineUnits(side) >= kBlockThreads;
  }

  // Banks: threads that store at once have 8 depths of 4 lines, 2 depths of 16 lines, or neighbouring lines.
  static void DivideThreads(int64_t depth, Staging& side) {
    int64_t units = LineUnits(side);
    if (side.along_depth) {
      side.depth_threads = std::min(DepthUnits(depth, side), kSectorElements / side.vector);
      side.line_threads = std::min(units, kBlockThreads / side.depth_threads);
      side.pad = 4;
    } else {
      // One position of the depth for several lines: decoding it takes some steps.
      side.line_threads = std::min(units, side.vector > 1 ? kBlockThreads : int64_t{16});
      side.pad = side.vector > 1 ? 0 : ((16 - side.lines) % kBanks + kBanks) % kBanks;
    }
  }

  // Banks: the lanes of a warp load words of 8 lines at 4 depths at once. Units of several words are stored as vectors.
  static void DivideThreadsOfWords(Staging& side) {
    side.is_by_line = side.along_depth;
    if (side.along_depth) {
      side.depth_threads = std::min(DepthUnits(side.depth_words * side.pack, side), kSectorElements);
      side.line_threads = std::min(LineUnits(side), kBlockThreads / side.depth_threads);
      side.pad = 4;  // lines are an odd multiple of 4 words apart, since the depth is one of 8 words
    } else {
      side.line_threads = std::min(LineUnits(side), side.vector > 1 ? kBlockThreads : kWarpThreads);
      side.pad = 8;  // depths are an odd multiple of 8 words apart, since a tile has a multiple of 16 lines
    }
  }

  const LoopNest& nest_;
  const Target& target_;
  const ExprNode& reduce_;
  int64_t bytes_ = 4;  // of a sum
};

}  // namespace

std::optional<BlockTile> PlanBlockTile(const LoopNest& nest, const Target& target) {
  return nest.reduction() == nullptr ? std::nullopt : BlockTilePlanner(nest, target).Run();
}

Dim IsWorthTiles(const LoopNest& nest) {
  Dim rows = Lines(nest, nest.block_tile->rows), columns = Lines(nest, nest.block_tile->columns);
  auto has = [](const Dim& count, int64_t least) { return Min(FloorDiv(count, least), 1); };
  return has(rows, kMinLines) * has(columns, kMinLines) * has(rows * columns, kMinPositions);
}

Dim Lines(const LoopNest& nest, const Staging& side) {
  Dim lines = 1;
  for (size_t axis : side.axes) lines = lines * nest.axes[axis].extent;
  return lines;
}

}  // namespace rvm::schedule
