#include "kernels/codegen/llvm/tile_emitter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/dot_emitter.h"
#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/matrix_emitter.h"
#include "kernels/codegen/llvm/tile_factors.h"
#include "kernels/codegen/llvm/tile_sums.h"
#include "kernels/codegen/llvm/transpose_vectors.h"
#include "kernels/schedule/nest_cost.h"
#include "kernels/schedule/vector_runs.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

namespace rvm::codegen {
namespace {

using llvm::Value;
using schedule::Tile;
using te::Expr;
using te::IndexVar;

using Values = std::vector<Value*>;

// How many tiles have the schedule's height for each that has another.
constexpr int64_t kWeightOfFullHeight = 64;

class TileEmitter {
 public:
  TileEmitter(const TileSite& site, llvm::function_ref<void(Value*)> finish)
      : b_(site.b),
        e_(site.e),
        s_(site),
        t_(*site.nest.tile),
        f_(site),
        sums_(site, f_),
        matrices_(site, f_),
        dots_(site, f_),
        finish_(finish),
        depth_(site.nest.reduction()->axes),
        element_(f_.element()),
        vector_(f_.vector()),
        columns_(site.nest.axes[t_.column].extent),
        panels_(f_.panels()),
        takes_range_(site.by_rows && site.nest.HasTilesOfRows()) {
    if (t_.row) rows_ = site.nest.axes[*t_.row].extent;
    buffer_rows_ = t_.transposed_store ? (t_.rows + t_.lanes - 1) / t_.lanes * t_.lanes : t_.rows;
    if (t_.matrices) buffer_rows_ = std::max(buffer_rows_, Tile::Matrices::kBlocks * t_.matrices->rows);
  }

  Dim Run();

 private:
  using Panel = TileFactors::Panel;

  // The tiles of rows of a unit: a loop over them, the heights that they have, and the first row and the height of one.
  struct RowTiles {
    LoopRange range;
    std::vector<int64_t> heights;
    std::function<std::pair<Value*, Value*>(Value* tile)> at;
  };

  void EmitSums(Value* row, int64_t height, const Panel& panel);
  Values LoadSums(int64_t height);
  void StoreSums(int64_t height, const Values& sums);
  void EmitEpilogue(Value* row, Value* height, const Panel& panel, Value* buffer_row = nullptr);
  llvm::MDNode* Weights(const std::vector<int64_t>& heights) const;
  void EmitSumsOfHeight(Value* row, Value* height, const std::vector<int64_t>& heights, const Panel& panel,
                        llvm::function_ref<void(int64_t height)> then = nullptr);
  void EmitTile(Value* row, Value* height, const std::vector<int64_t>& heights, const Panel& panel);
  void EmitPanels(Value* block, llvm::function_ref<void(const Panel&)> emit);
  void EmitMatrices(Value* row, const Panel& panel);
  Value* HasMatrices();
  Value* RowsOfMatrix();
  void EmitRowsOfMatrices(Value* block);
  void EmitRows(Value* block);
  void EmitManyRows(Value* block);
  void EmitTilesInDepthBlocks(const RowTiles& tiles, const Panel& panel);
  void EmitFewRows(Value* block);
  void EmitUnits(Value* begin, Value* end, llvm::function_ref<void(Value* unit, Value* block)> emit);
  void EmitDepthBlocks(Value* begin, Value* end, const Dim& units);
  llvm::AllocaInst* NewBuffer(int64_t sums);
  void EmitDepthInBlocks(int64_t cost, llvm::function_ref<void()> emit);
  Value* BindUnit(Value* unit);
  std::pair<Value*, Value*> PartOfRows(const Dim& in_part, Value* count);
  void EmitRange();
  Value* TakeAxis(const IndexVar& axis, Value* rest);
  // Returns the number of blocks of panels that the columns have.
  Dim Blocks() const { return FloorDiv(panels_ + (t_.panels_at_once - 1), t_.panels_at_once); }
  Value* I64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const TileSite& s_;
  const Tile& t_;
  TileFactors f_;
  TileSums sums_;
  MatrixEmitter matrices_;
  DotEmitter dots_;
  llvm::function_ref<void(Value*)> finish_;
  const std::vector<IndexVar>& depth_;
  llvm::Type* element_;  // of sums
  llvm::FixedVectorType* vector_;
  Dim columns_, panels_, rows_ = 1;
  int64_t buffer_rows_;
  Value* buffer_ = nullptr;
  Value* part_ = nullptr;  // of the rows, with parts
  bool takes_range_;       // of rows
};

// Returns the sums that the buffer has, by rows of vectors.
Values TileEmitter::LoadSums(int64_t height) {
  Values sums;
  for (int64_t i = 0; i < height * t_.vectors; ++i) {
    Value* address = b_.CreateInBoundsGEP(element_, buffer_, I64(i * t_.lanes));
    sums.push_back(b_.CreateAlignedLoad(vector_, address, llvm::Align(16)));
  }
  return sums;
}

// Into the buffer; with blocks of the depth, the sums of a block are added to those that it has.
void TileEmitter::EmitSums(Value* row, int64_t height, const Panel& panel) {
  auto per_strand = static_cast<size_t>(sums_.NumSums(height));
  Values sums = t_.depth_block > 0 ? LoadSums(height) : Values();
  for (int64_t segment = 0; segment == 0 || segment < t_.segments; segment += t_.Strands(height)) {
    Values strands = sums_.EmitStrands(row, height, panel, segment);
    size_t next = 0;
    if (sums.empty()) sums.assign(strands.begin(), strands.begin() + static_cast<std::ptrdiff_t>(per_strand)), next = 1;
    for (size_t i = next * per_strand; i < strands.size(); ++i) {
      Value*& sum = sums[i % per_strand];
      sum = element_->isFloatingPointTy() ? b_.CreateFAdd(sum, strands[i]) : b_.CreateAdd(sum, strands[i]);
    }
  }
  const auto num_stored = static_cast<size_t>(height * t_.vectors);
  for (size_t i = 0; i < num_stored && num_stored < per_strand; ++i) {
    sums[i] = b_.CreateSub(sums[i], sums[num_stored + i % static_cast<size_t>(t_.vectors)]);
  }
  sums.resize(num_stored);
  StoreSums(height, sums);
}

void TileEmitter::StoreSums(int64_t height, const Values& sums) {
  auto store = [&](Value* value, int64_t at) {
    b_.CreateAlignedStore(value, b_.CreateInBoundsGEP(element_, buffer_, I64(at)), llvm::Align(16));
  };
  auto sum = [&](int64_t row, int64_t vector) { return sums[static_cast<size_t>(row * t_.vectors + vector)]; };
  if (!t_.transposed_store) {
    for (int64_t r = 0; r < height; ++r) {
      for (int64_t v = 0; v < t_.vectors; ++v) store(sum(r, v), r * t_.panel() + v * t_.lanes);
    }
    return;
  }
  for (int64_t v = 0; v < t_.vectors; ++v) {
    for (int64_t first = 0; first < height; first += t_.lanes) {
      Values block;
      for (int64_t r = first; r < first + t_.lanes; ++r) {
        block.push_back(r < height ? sum(r, v) : llvm::PoisonValue::get(vector_));
      }
      block = TransposedVectors(b_, std::move(block));
      for (int64_t c = 0; c < t_.lanes; ++c) {
        store(block[static_cast<size_t>(c)], (v * t_.lanes + c) * buffer_rows_ + first);
      }
    }
  }
}

// `buffer_row`: that of the first row; null: 0.
void TileEmitter::EmitEpilogue(Value* row, Value* height, const Panel& panel, Value* buffer_row) {
  Value* buffer = buffer_;
  if (buffer_row != nullptr) {
    buffer = b_.CreateInBoundsGEP(element_, buffer_, b_.CreateNSWMul(buffer_row, I64(t_.panel())));
  }
  Value* width = I64(t_.panel());
  bool whole = t_.overlaps || (columns_.is_const() && columns_.constant() % t_.panel() == 0);
  if (!whole) {
    Value* left = b_.CreateNSWSub(e_.EmitExtent(columns_), panel.column);
    width = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, width);
  }
  auto at = [&](Value* r, Value* c) {
    e_.OpenScope();
    if (t_.row) e_.Bind(s_.nest.axes[*t_.row], b_.CreateNSWAdd(row, r));
    e_.Bind(s_.nest.axes[t_.column], b_.CreateNSWAdd(panel.column, c));
    Value* place = t_.transposed_store ? b_.CreateNSWAdd(b_.CreateNSWMul(c, I64(buffer_rows_)), r)
                                       : b_.CreateNSWAdd(b_.CreateNSWMul(r, I64(t_.panel())), c);
    finish_(b_.CreateLoad(element_, b_.CreateInBoundsGEP(element_, buffer, place)));
    e_.CloseScope();
  };
  auto loop_from = [&](Value* begin, Value* end, LoopHints hints, llvm::function_ref<void(Value*)> body) {
    auto iteration = [&](Value* i, const Values&) -> Values {
      body(i);
      return {};
    };
    EmitLoop(b_, begin, end, 1, {}, iteration, hints);
  };
  auto loop = [&](Value* end, LoopHints hints, llvm::function_ref<void(Value*)> body) {
    loop_from(I64(0), end, hints, body);
  };
  // `length`: of the inner loop, over elements that are stored side by side.
  auto all = [&](Value* length, int64_t fold_tail) {
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(length);
    const bool is_cut = t_.transposed_store && known != nullptr;
    bool is_panel = !t_.transposed_store && te::Stride(s_.nest.store_offset, s_.nest.axes[t_.column].id) == int64_t{1};
    // Unrolled before it is vectorised, it would store element by element.
    LoopHints inner{.independent = s_.independent, .fold_tail = fold_tail, .keep_rolled = is_panel || is_cut};
    if (is_cut) {
      loop(width, {}, [&](Value* c) {
        for (auto [first, end] : schedule::VectorRuns(known->getSExtValue(), t_.lanes)) {
          loop_from(I64(first), I64(end), inner, [&](Value* r) { at(r, c); });
        }
      });
    } else if (t_.transposed_store) {
      loop(width, {}, [&](Value* c) { loop(length, inner, [&](Value* r) { at(r, c); }); });
    } else if (!t_.row) {
      loop(length, inner, [&](Value* c) { at(I64(0), c); });
    } else {
      // Taken for a long loop, its constants would stay in registers, and sums of the tile would not.
      loop(height, {.iterations = t_.rows}, [&](Value* r) { loop(length, inner, [&](Value* c) { at(r, c); }); });
    }
  };
  Value* length = t_.transposed_store ? height : width;
  if (llvm::isa<llvm::ConstantInt>(length)) return all(length, 0);
  // Masked stores are slow on many CPUs: only tiles at the end have them.
  Value* full = I64(t_.transposed_store ? t_.rows : t_.panel());
  EmitIfElse(
      b_, b_.CreateICmpEQ(length, full), [&] { all(full, 0); },
      [&] { all(length, s_.target.has_masks ? t_.lanes : 0); });
}

// Returns how many tiles have each height, for LLVM, which takes them for equally frequent otherwise.
llvm::MDNode* TileEmitter::Weights(const std::vector<int64_t>& heights) const {
  std::vector<uint32_t> weights = {0};  // no other height
  for (int64_t height : heights) {
    int64_t count = height == t_.rows ? kWeightOfFullHeight : 1;
    if (rows_.is_const() && !takes_range_) {
      const auto [tiles, low, higher] = t_.HeightsOf(rows_.constant());
      count = height == low ? tiles - higher : higher;
    }
    weights.push_back(static_cast<uint32_t>(std::min<int64_t>(count, std::numeric_limits<uint32_t>::max())));
  }
  return llvm::MDBuilder(b_.getContext()).createBranchWeights(weights);
}

// Emits the sums of a tile, for each height that it may have; `then` behind those of each.
void TileEmitter::EmitSumsOfHeight(Value* row, Value* height, const std::vector<int64_t>& heights, const Panel& panel,
                                   llvm::function_ref<void(int64_t height)> then) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function); };
  llvm::BasicBlock *never = block("never"), *done = block("summed");
  llvm::SwitchInst* choice = b_.CreateSwitch(height, never, static_cast<unsigned>(heights.size()), Weights(heights));
  b_.SetInsertPoint(never);
  b_.CreateUnreachable();
  for (int64_t h : heights) {
    llvm::BasicBlock* rows = block("rows");
    choice->addCase(b_.getInt64(static_cast<uint64_t>(h)), rows);
    b_.SetInsertPoint(rows);
    EmitSums(row, h, panel);
    if (then) then(h);
    b_.CreateBr(done);
  }
  b_.SetInsertPoint(done);
}

void TileEmitter::EmitTile(Value* row, Value* height, const std::vector<int64_t>& heights, const Panel& panel) {
  // Rows of a known height are stored without masks.
  if (t_.transposed_store && heights.size() <= 2) {
    return EmitSumsOfHeight(row, height, heights, panel, [&](int64_t h) { EmitEpilogue(row, I64(h), panel); });
  }
  EmitSumsOfHeight(row, height, heights, panel);
  EmitEpilogue(row, height, panel);
}

// Emits what is computed for each panel of a block.
void TileEmitter::EmitPanels(Value* block, llvm::function_ref<void(const Panel&)> emit) {
  if (t_.panels_at_once == 1) return emit(f_.BeginPanel(block));
  Value* first = b_.CreateNSWMul(block, I64(t_.panels_at_once));
  Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWAdd(first, I64(t_.panels_at_once)),
                                        e_.EmitExtent(panels_));
  int64_t cost = sums_.CostOf(static_cast<size_t>(-1));
  EmitStoppableLoop(b_, {first, end, t_.panels_at_once}, s_.cancel, cost, {},
                    [&](Value* panel, const Values&) -> Values {
                      emit(f_.BeginPanel(panel));
                      return {};
                    });
}

// All rows of a block of panels, into the buffer and from there to the epilogue.
void TileEmitter::EmitFewRows(Value* block) {
  DotEmitter::Rows range = {rows_};
  Value *row = I64(0), *rows = e_.EmitExtent(rows_), *buffer = buffer_;
  if (takes_range_) {
    // The first row of the range has the beginning of the buffer.
    range.first = row = s_.begin;
    range.last = s_.end;
    rows = b_.CreateNSWSub(s_.end, s_.begin);
    buffer = b_.CreateGEP(element_, buffer_, b_.CreateNSWMul(s_.begin, I64(-t_.panel())));
  }
  Value* first = b_.CreateNSWMul(block, I64(t_.panels_at_once));
  Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWAdd(first, I64(t_.panels_at_once)),
                                        e_.EmitExtent(panels_));
  int64_t cost = schedule::CostOfIterations(t_.panel() * t_.few->most, FloorDiv(t_.few->depth.extent, t_.lanes));
  auto one_panel = [&](Value* index, const Values&) -> Values {
    e_.OpenScope();
    Panel panel = f_.BeginPanel(index, /*loads_vectors=*/false);
    Value* left = b_.CreateNSWSub(e_.EmitExtent(columns_), panel.column);
    Value* width = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, I64(t_.panel()));
    dots_.EmitPanel(range, panel.column, width, {buffer, buffer_rows_});
    EmitEpilogue(row, rows, panel);
    e_.CloseScope();
    return {};
  };
  EmitStoppableLoop(b_, {first, end, t_.panels_at_once}, s_.cancel, cost, {}, one_panel);
}

// Runs `emit` for the units from `begin` to `end`, with their axes bound, for their blocks of panels.
void TileEmitter::EmitUnits(Value* begin, Value* end, llvm::function_ref<void(Value* unit, Value* block)> emit) {
  EmitLoop(b_, begin, end, 1, {}, [&](Value* unit, const Values&) -> Values {
    e_.OpenScope();
    emit(unit, BindUnit(unit));
    e_.CloseScope();
    return {};
  });
}

// Returns memory for so many sums, on the stack.
llvm::AllocaInst* TileEmitter::NewBuffer(int64_t sums) {
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  llvm::AllocaInst* buffer = at_entry.CreateAlloca(element_, at_entry.getInt64(static_cast<uint64_t>(sums)));
  buffer->setAlignment(llvm::Align(64));
  return buffer;
}

// Runs `emit` for one block of the depth after the other, see Tile::depth_block; `cost`: of what it emits.
void TileEmitter::EmitDepthInBlocks(int64_t cost, llvm::function_ref<void()> emit) {
  const Dim& extent = depth_[0].extent;
  Value* depth = e_.EmitExtent(extent);
  EmitStoppableLoop(b_, {I64(0), depth, extent, t_.depth_block}, s_.cancel, cost, {},
                    [&](Value* first, const Values&) -> Values {
                      Value* last = b_.CreateNSWAdd(first, I64(t_.depth_block));
                      sums_.SumUp(first, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, depth));
                      emit();
                      return {};
                    });
}

// Emits the units from `begin` to `end` in blocks of the depth.
void TileEmitter::EmitDepthBlocks(Value* begin, Value* end, const Dim& units) {
  const int64_t size = rows_.constant() * t_.panel();
  auto bytes = static_cast<uint64_t>(units.constant() * size * element_->getScalarSizeInBits() / 8);
  llvm::AllocaInst* sums = NewBuffer(units.constant() * size);
  b_.CreateMemSet(sums, b_.getInt8(0), bytes, llvm::Align(64));
  // Points the buffer to the sums of a unit, from a row on.
  auto at_row = [&](Value* unit, int64_t row) {
    Value* first = b_.CreateNSWAdd(b_.CreateNSWMul(unit, I64(size)), I64(row * t_.panel()));
    buffer_ = b_.CreateInBoundsGEP(element_, sums, first);
  };
  const auto [tiles, low, higher] = t_.HeightsOf(rows_.constant());
  int64_t cost = schedule::CostOfIterations(sums_.CostOf(static_cast<size_t>(-1)), units * t_.depth_block);
  EmitDepthInBlocks(cost, [&] {
    EmitUnits(begin, end, [&](Value* unit, Value* block) {
      Panel panel = f_.BeginPanel(block);
      for (int64_t tile = 0, row = 0; tile < tiles; ++tile) {
        const int64_t height = low + (tile < higher ? 1 : 0);
        at_row(unit, row);
        EmitSums(I64(row), height, panel);
        row += height;
      }
    });
  });
  EmitUnits(begin, end, [&](Value* unit, Value* block) {
    at_row(unit, 0);
    EmitEpilogue(I64(0), I64(rows_.constant()), f_.BeginPanel(block, /*loads_vectors=*/false));
  });
}

// Emits one or two blocks of rows from `row` on: all that are left, or two whole ones.
void TileEmitter::EmitMatrices(Value* row, const Panel& panel) {
  Value* height = RowsOfMatrix();
  Value* last = b_.CreateNSWSub(e_.EmitExtent(rows_), height);  // where a block ends with the last row
  Value* left = b_.CreateNSWSub(e_.EmitExtent(rows_), row);
  auto one = [&] {
    Value* first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row, last);
    matrices_.EmitSums({{first}}, panel, buffer_);
    EmitEpilogue(row, left, panel, b_.CreateNSWSub(row, first));
  };
  auto two = [&](Value* count) {
    Value* second = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWAdd(row, height), last);
    matrices_.EmitSums({{row, second}}, panel, buffer_);
    EmitEpilogue(row, count, panel);
  };
  const int64_t most = Tile::Matrices::kBlocks * t_.matrices->rows;
  auto rest = [&] {
    if (!rows_.is_const()) return EmitIfElse(b_, b_.CreateICmpSGT(left, height), [&] { two(left); }, one);
    left = I64(rows_.constant() % most);
    rows_.constant() % most > t_.matrices->rows ? two(left) : one();
  };
  const bool has_rest = !rows_.is_const() || rows_.constant() % most != 0;
  if (!has_rest) return two(I64(most));
  if (rows_.is_const() && rows_.constant() < most) return rest();
  EmitIfElse(b_, b_.CreateICmpSGE(left, I64(most)), [&] { two(I64(most)); }, rest);
}

// Returns whether there are enough rows for matrices.
Value* TileEmitter::HasMatrices() { return b_.CreateICmpSGE(e_.EmitExtent(rows_), I64(t_.matrices->least)); }

// Returns the number of rows of a block of matrices.
Value* TileEmitter::RowsOfMatrix() {
  if (rows_.is_const()) return I64(t_.matrices->rows);
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, e_.EmitExtent(rows_), I64(t_.matrices->rows));
}

void TileEmitter::EmitRowsOfMatrices(Value* block) {
  const int64_t height = Tile::Matrices::kBlocks * t_.matrices->rows;
  const Dim in_part = FloorDiv(rows_ + (height * t_.row_parts - 1), height * t_.row_parts) * height;
  const auto [first, end] = PartOfRows(in_part, e_.EmitExtent(rows_));
  int64_t cost = sums_.CostOf(static_cast<size_t>(-1));
  EmitStoppableLoop(b_, {first, end, in_part, height}, s_.cancel, cost, {}, [&](Value* row, const Values&) -> Values {
    EmitPanels(block, [&](const Panel& panel) { EmitMatrices(row, panel); });
    return {};
  });
}

void TileEmitter::EmitRows(Value* block) {
  auto in_scope = [&](void (TileEmitter::*emit)(Value*)) {
    e_.OpenScope();
    (this->*emit)(block);
    e_.CloseScope();
  };
  if (t_.matrices) {
    if (rows_.is_const()) return EmitRowsOfMatrices(block);
    return EmitIfElse(
        b_, HasMatrices(), [&] { in_scope(&TileEmitter::EmitRowsOfMatrices); },
        [&] { in_scope(&TileEmitter::EmitManyRows); });
  }
  if (!t_.few) return EmitManyRows(block);
  if (t_.few->always()) return EmitFewRows(block);
  Value* is_few = b_.CreateICmpSLE(e_.EmitExtent(rows_), I64(t_.few->most));
  EmitIfElse(b_, is_few, [&] { in_scope(&TileEmitter::EmitFewRows); }, [&] { in_scope(&TileEmitter::EmitManyRows); });
}

// Emits the tiles of rows one after the other: by their numbers if the number of rows is known, else by their first
// rows.
void TileEmitter::EmitManyRows(Value* block) {
  if (!t_.row) {
    Panel panel = f_.BeginPanel(block);
    EmitSums(I64(0), 1, panel);
    return EmitEpilogue(I64(0), I64(1), panel);
  }
  RowTiles tiles;
  Dim in_part;
  Value* count = nullptr;
  if (takes_range_) {
    // Tiles of the full height, and one of those that are left of a block, or of the last one.
    const auto& [at_once, span] = t_.blocks_of_rows;
    for (int64_t height = 1; height <= t_.rows; ++height) {
      const bool occurs = !span.is_const() || height == t_.rows || height == at_once % t_.rows;
      if (occurs || height == span.constant() % at_once % t_.rows) tiles.heights.push_back(height);
    }
    in_part = rows_;
    tiles.at = [this](Value* row) {
      return std::pair(row,
                       b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWSub(s_.end, row), I64(t_.rows)));
    };
  } else if (rows_.is_const()) {
    const auto [number, low, higher] = t_.HeightsOf(rows_.constant());
    if (number == 0) return;
    tiles.heights.push_back(low);
    if (higher > 0) tiles.heights.push_back(low + 1);
    in_part = (number + t_.row_parts - 1) / t_.row_parts;
    count = I64(number);
    tiles.at = [this, low = low, higher = higher](Value* tile) {
      Value* before = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, tile, I64(higher));
      Value* row = b_.CreateNSWAdd(b_.CreateNSWMul(tile, I64(low)), before);
      Value* height = I64(low);
      if (higher > 0) height = b_.CreateSelect(b_.CreateICmpSLT(tile, I64(higher)), I64(low + 1), height);
      return std::pair(row, height);
    };
  } else {
    for (int64_t height = 1; height <= t_.rows; ++height) tiles.heights.push_back(height);
    in_part = FloorDiv(rows_ + (t_.rows * t_.row_parts - 1), t_.rows * t_.row_parts) * t_.rows;
    count = e_.EmitExtent(rows_);
    tiles.at = [this, count](Value* row) {
      return std::pair(row, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWSub(count, row), I64(t_.rows)));
    };
  }
  const auto [first, end] = takes_range_ ? std::pair(s_.begin, s_.end) : PartOfRows(in_part, count);
  tiles.range = {first, end, in_part, rows_.is_const() && !takes_range_ ? 1 : t_.rows};
  if (t_.depth_block > 0) return EmitTilesInDepthBlocks(tiles, f_.BeginPanel(block));
  EmitStoppableLoop(b_, tiles.range, s_.cancel, sums_.CostOf(static_cast<size_t>(-1)), {},
                    [&](Value* tile, const Values&) -> Values {
                      const auto [row, height] = tiles.at(tile);
                      if (t_.row_panels) e_.Bind(t_.row_panels->tile, tile);
                      EmitPanels(block, [&, row = row, height = height](const Panel& panel) {
                        EmitTile(row, height, tiles.heights, panel);
                      });
                      return {};
                    });
}

// Emits the tiles of rows of a panel in blocks of the depth: so many tiles that their sums stay in the cache.
void TileEmitter::EmitTilesInDepthBlocks(const RowTiles& tiles, const Panel& panel) {
  const int64_t size = t_.rows * t_.panel(), at_once = Tile::kTilesOfDepthBlock * tiles.range.step;
  Value* tile_buffer = buffer_;
  llvm::AllocaInst* sums = NewBuffer(Tile::kTilesOfDepthBlock * size);
  const int64_t cost = sums_.CostOf(0);
  auto many = schedule::CostOfIterations(sums_.CostOf(static_cast<size_t>(-1)), Tile::kTilesOfDepthBlock);
  EmitStoppableLoop(
      b_, {tiles.range.begin, tiles.range.end, tiles.range.extent, at_once}, s_.cancel, many, {},
      [&](Value* group, const Values&) -> Values {
        Value* end =
            b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWAdd(group, I64(at_once)), tiles.range.end);
        // Points the buffer to the sums of a tile.
        auto each = [&](llvm::function_ref<void(Value * row, Value * height)> emit) {
          EmitLoop(b_, group, end, tiles.range.step, {},
                   [&](Value* tile, const Values&) -> Values {
                     Value* number = b_.CreateSDiv(b_.CreateNSWSub(tile, group), I64(tiles.range.step));
                     buffer_ = b_.CreateInBoundsGEP(element_, sums, b_.CreateNSWMul(number, I64(size)));
                     const auto [row, height] = tiles.at(tile);
                     e_.OpenScope();
                     if (t_.row_panels) e_.Bind(t_.row_panels->tile, tile);
                     emit(row, height);
                     e_.CloseScope();
                     return {};
                   },
                   {.keep_rolled = true});
        };
        const auto bytes = static_cast<uint64_t>(size) * element_->getScalarSizeInBits() / 8;
        each([&](Value*, Value*) { b_.CreateMemSet(buffer_, b_.getInt8(0), bytes, llvm::Align(64)); });
        EmitDepthInBlocks(schedule::CostOfIterations(cost, t_.depth_block * Tile::kTilesOfDepthBlock), [&] {
          each([&](Value* row, Value* height) { EmitSumsOfHeight(row, height, tiles.heights, panel); });
        });
        each([&](Value* row, Value* height) { EmitEpilogue(row, height, panel); });
        return {};
      });
  buffer_ = tile_buffer;
}

// Returns the range of the unit's part of `count` rows or tiles, of which a part has `in_part`.
std::pair<Value*, Value*> TileEmitter::PartOfRows(const Dim& in_part, Value* count) {
  if (t_.row_parts == 1) return {I64(0), count};
  Value* first = b_.CreateNSWMul(part_, e_.EmitExtent(in_part));
  first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, first, count);
  Value* end = b_.CreateNSWAdd(first, e_.EmitExtent(in_part));
  return {first, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, count)};
}

// Binds an axis to its share of the number of a position; gives the rest.
Value* TileEmitter::TakeAxis(const IndexVar& axis, Value* rest) {
  Value* extent = e_.EmitExtent(axis.extent);
  e_.Bind(axis, b_.CreateURem(rest, extent));
  return b_.CreateUDiv(rest, extent);
}

// Binds the axes of a unit; returns its block of panels.
Value* TileEmitter::BindUnit(Value* unit) {
  Value* rest = unit;
  if (t_.row_parts > 1) {
    part_ = b_.CreateURem(rest, I64(t_.row_parts));
    rest = b_.CreateUDiv(rest, I64(t_.row_parts));
  }
  for (size_t i = t_.inner.size(); i-- > 0;) rest = TakeAxis(s_.nest.axes[t_.inner[i]], rest);
  Value* block = rest;
  if (!t_.outer.empty() && !t_.panels_first) {
    block = b_.CreateURem(rest, e_.EmitExtent(Blocks()));
    rest = b_.CreateUDiv(rest, e_.EmitExtent(Blocks()));
  }
  for (size_t i = t_.outer.size(); i-- > 0;) rest = TakeAxis(s_.nest.axes[t_.outer[i]], rest);
  return t_.panels_first ? rest : block;
}

// All panels of a range of rows.
void TileEmitter::EmitRange() {
  int64_t cost = schedule::CostOfIterations(sums_.CostOf(static_cast<size_t>(-1)), t_.panels_at_once);
  EmitStoppableLoop(b_, {I64(0), e_.EmitExtent(Blocks()), Blocks()}, s_.cancel, cost, {},
                    [&](Value* block, const Values&) -> Values {
                      e_.OpenScope();
                      EmitRows(block);
                      e_.CloseScope();
                      return {};
                    });
}

Dim TileEmitter::Run() {
  buffer_ = NewBuffer(buffer_rows_ * t_.panel());
  if (takes_range_) {
    EmitRange();
    return rows_;
  }
  Dim units = Blocks() * t_.row_parts;
  for (const std::vector<size_t>& axes : {t_.outer, t_.inner}) {
    for (size_t axis : axes) units = units * s_.nest.axes[axis].extent;
  }
  Value *begin = s_.begin, *end = s_.end;
  if (s_.by_rows) {
    Value* row = b_.CreateSDiv(e_.EmitExtent(units), e_.EmitExtent(s_.nest.axes[0].extent));
    begin = b_.CreateNSWMul(begin, row);
    end = b_.CreateNSWMul(end, row);
  }
  int64_t cost = schedule::CostOfIterations(sums_.CostOf(static_cast<size_t>(-1)),
                                            FloorDiv(rows_ + (t_.rows * t_.row_parts - 1), t_.rows * t_.row_parts));
  if (t_.matrices) EmitIf(b_, HasMatrices(), [&] { matrices_.Configure(RowsOfMatrix()); });
  if (t_.depth_block > 0 && t_.access == Tile::Access::kInPlace) {
    EmitDepthBlocks(begin, end, units);
  } else {
    EmitStoppableLoop(b_, {begin, end, units}, s_.cancel, cost, {}, [&](Value* unit, const Values&) -> Values {
      e_.OpenScope();
      EmitRows(BindUnit(unit));
      e_.CloseScope();
      return {};
    });
  }
  if (t_.matrices) EmitIf(b_, HasMatrices(), [&] { matrices_.Release(); });
  return s_.by_rows ? s_.nest.axes[0].extent : units;
}

}  // namespace

Dim EmitTiles(const TileSite& site, llvm::function_ref<void(Value*)> finish) { return TileEmitter(site, finish).Run(); }

}  // namespace rvm::codegen
