#include "kernels/codegen/llvm/block_tile_emitter.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/index_emitter.h"
#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/mma_emitter.h"
#include "kernels/codegen/llvm/staging_emitter.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::BlockTile;
using schedule::kBlockThreads;
using schedule::kWarpThreads;
using schedule::Mma;
using te::IndexVar;

namespace {

class BlockTileEmitter {
 public:
  explicit BlockTileEmitter(const BlockSite& site)
      : b_(site.b),
        e_(site.e),
        i_(site.b, site.e),
        nest_(site.nest),
        tile_(*site.nest.block_tile),
        reduce_(*site.nest.reduction()),
        dtype_(reduce_.operands[0].dtype()),
        type_(e_.RegisterType(dtype_)),
        row_group_(tile_.row_group(dtype_.bytes())),
        column_group_(tile_.column_group(dtype_.bytes())),
        buffer_(tile_.rows.words() + tile_.columns.words()),
        words_{tile_.mma ? b_.getInt32Ty() : type_},
        finished_{type_},
        block_(site.block),
        rows_(site, tile_.rows, MmaType(&Mma::row_dtype), words_, 0),
        columns_(site, tile_.columns, MmaType(&Mma::column_dtype), words_, tile_.rows.words()) {
    int64_t staged = tile_.is_one_step ? buffer_ : 2 * buffer_;
    int64_t finished = tile_.rows.lines / tile_.row_groups(dtype_.bytes()) * tile_.finished_stride();
    words_.memory = finished_.memory = SharedArray(site.module, type_, std::max(staged, finished));
  }

  void Run(llvm::function_ref<void(Value*)> finish);

 private:
  std::optional<DataType> MmaType(DataType Mma::* of) const {
    return tile_.mma ? std::optional((*tile_.mma).*of) : std::nullopt;
  }
  void FindBlock();
  void FindThread(Value* thread);
  std::vector<Value*> Load(Value* first);
  void Store(llvm::ArrayRef<Value*> values, Value* buffer);
  std::vector<Value*> LoadLines(StagingEmitter& side, Value* place, int64_t count, int64_t group, Value* buffer,
                                int64_t depth);
  std::vector<Value*> SumUp(std::vector<Value*> sums, Value* buffer);
  std::vector<Value*> LoadFragment(StagingEmitter& side, Value* line, int64_t lines, Value* buffer, int64_t word);
  std::vector<Value*> SumUpByMma(std::vector<Value*> sums, Value* buffer);
  std::vector<Value*> Sums();
  void Finish(const std::vector<Value*>& sums, Value* thread, llvm::function_ref<void(Value*)> finish);

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  IndexEmitter i_;
  const schedule::LoopNest& nest_;
  const BlockTile& tile_;
  const te::ExprNode& reduce_;
  DataType dtype_;  // of the sums
  llvm::Type* type_;
  int64_t row_group_, column_group_;  // rows, and columns, of a thread that lie together
  int64_t buffer_;                    // words of shared memory that a step takes
  SharedBuffers words_, finished_;    // the memory with the factors, and later with sums
  Value* block_;
  StagingEmitter rows_, columns_;
  Value* depth_ = nullptr;                                // of the product
  Value *row_place_ = nullptr, *column_place_ = nullptr;  // of the first sum of the thread, in the tile
  Value *column_line_ = nullptr, *depth_word_ = nullptr;  // mma: of the first word of the columns; of all words
};

// Computes which tile the block has: binds its outer axes. Neighbouring blocks have the same rows.
void BlockTileEmitter::FindBlock() {
  Value* number = rows_.FindTile(columns_.FindTile(block_));
  std::vector<IndexVar> outer;
  for (size_t axis : tile_.outer) outer.push_back(nest_.axes[axis]);
  i_.Bind(outer, i_.Decode(outer, number));
}

// Computes which elements a thread copies, and where its sums are.
void BlockTileEmitter::FindThread(Value* thread) {
  rows_.FindThread(thread);
  columns_.FindThread(thread);
  int64_t lane_columns = tile_.lane_columns(), lane_rows = kWarpThreads / lane_columns;
  int64_t warps = tile_.columns.lines / tile_.thread_columns / lane_columns;  // side by side
  Value *lane = i_.Remainder(thread, kWarpThreads), *warp = i_.Quotient(thread, kWarpThreads);
  Value *lane_row = i_.Quotient(lane, lane_columns), *lane_column = i_.Remainder(lane, lane_columns);
  // A warp has as many rows, and columns, side by side as its lanes have in one group.
  Value* first_row = i_.Times(i_.Quotient(warp, warps), lane_rows * row_group_);
  Value* first_column = i_.Times(i_.Remainder(warp, warps), lane_columns * column_group_);
  row_place_ = b_.CreateNUWAdd(first_row, i_.Times(lane_row, tile_.row_step() == 1 ? row_group_ : 1));
  column_place_ = b_.CreateNUWAdd(first_column, i_.Times(lane_column, column_group_));
  column_line_ = b_.CreateNUWAdd(first_column, lane_row);
  depth_word_ = lane_column;
}

std::vector<Value*> BlockTileEmitter::Load(Value* first) {
  auto load = [&](Value* end) {
    std::vector<Value*> values = rows_.Load(first, end);
    for (Value* value : columns_.Load(first, end)) values.push_back(value);
    return values;
  };
  // All threads take the same branch.
  if (tile_.is_whole_depth) {
    return EmitChoice(b_, b_.CreateICmpULT(first, depth_), [&] { return load(nullptr); });
  }
  Value* is_whole = b_.CreateICmpULE(i_.Plus(first, tile_.depth), depth_);
  std::vector<Value*> whole = EmitChoice(b_, is_whole, [&] { return load(nullptr); });
  return EmitChoice(b_, b_.CreateNot(is_whole), [&] { return load(depth_); }, whole);
}

void BlockTileEmitter::Store(llvm::ArrayRef<Value*> values, Value* buffer) {
  rows_.Store(values.take_front(rows_.copies()), buffer);
  columns_.Store(values.drop_front(rows_.copies()), buffer);
}

// Returns the elements at a depth of the step that a thread multiplies: `count` of them, in groups.
std::vector<Value*> BlockTileEmitter::LoadLines(StagingEmitter& side, Value* place, int64_t count, int64_t group,
                                                Value* buffer, int64_t depth) {
  int64_t apart = side.staging().lines / (count / group);
  std::vector<Value*> values;
  for (int64_t i = 0; i < count / group; ++i) {
    Value* words = words_.LoadVector(b_, side.Place(buffer, i_.Plus(place, i * apart), i_.Number(depth)), group);
    for (int64_t j = 0; j < group; ++j) values.push_back(b_.CreateExtractElement(words, static_cast<uint64_t>(j)));
  }
  return values;
}

std::vector<Value*> BlockTileEmitter::SumUp(std::vector<Value*> sums, Value* buffer) {
  for (int64_t depth = 0; depth < tile_.depth; ++depth) {
    std::vector<Value*> rows = LoadLines(rows_, row_place_, tile_.thread_rows, row_group_, buffer, depth);
    std::vector<Value*> columns =
        LoadLines(columns_, column_place_, tile_.thread_columns, column_group_, buffer, depth);
    size_t next = 0;
    for (Value* row : rows) {
      for (Value* column : columns) {
        Value* product = e_.EmitBinary(te::BinaryOp::kMultiply, dtype_, row, column);
        sums[next] = e_.EmitBinary(te::BinaryOp::kAdd, dtype_, sums[next], product);
        ++next;
      }
    }
  }
  return sums;
}

// Returns the words of a factor that a thread has for one instruction, of lines from `line` on.
std::vector<Value*> BlockTileEmitter::LoadFragment(StagingEmitter& side, Value* line, int64_t lines, Value* buffer,
                                                   int64_t word) {
  std::vector<Value*> words;
  for (int64_t i = 0; i < tile_.mma->words(); i += 4) {
    for (int64_t j = 0; j < lines; j += 8) {
      Value* place = side.Place(buffer, i_.Plus(line, j), i_.Plus(depth_word_, word + i));
      words.push_back(b_.CreateLoad(words_.word, words_.At(b_, place)));
    }
  }
  return words;
}

std::vector<Value*> BlockTileEmitter::SumUpByMma(std::vector<Value*> sums, Value* buffer) {
  const Mma& mma = *tile_.mma;
  auto width = static_cast<size_t>(tile_.thread_columns);
  int64_t row_apart = tile_.rows.lines / (tile_.thread_rows / row_group_);
  int64_t column_apart = tile_.columns.lines / (tile_.thread_columns / column_group_);
  for (int64_t word = 0; word < tile_.rows.depth_words; word += mma.words()) {
    std::vector<std::vector<Value*>> columns;
    for (int64_t j = 0; j < tile_.thread_columns / column_group_; ++j) {
      columns.push_back(LoadFragment(columns_, i_.Plus(column_line_, j * column_apart), 8, buffer, word));
    }
    for (int64_t i = 0; i < tile_.thread_rows; i += mma.rows / 8) {
      Value* line = i_.Plus(row_place_, i / row_group_ * row_apart + i % row_group_ * tile_.row_step());
      std::vector<Value*> rows = LoadFragment(rows_, line, mma.rows, buffer, word);
      for (size_t j = 0; j < columns.size(); ++j) {
        std::vector<Value**> places;
        for (int64_t row = i; row < i + mma.rows / 8; ++row) {
          for (size_t k = 0; k < 2; ++k) places.push_back(&sums[static_cast<size_t>(row) * width + 2 * j + k]);
        }
        std::vector<Value*> before;
        for (Value** place : places) before.push_back(*place);
        std::vector<Value*> after = EmitMma(b_, mma, rows, columns[j], before);
        for (size_t k = 0; k < places.size(); ++k) *places[k] = after[k];
      }
    }
  }
  return sums;
}

// Returns the sums of a thread, row by row. Each step loads the elements of the next one into registers, sums up those
// in one buffer of shared memory, and stores the loaded ones to the other buffer.
//
// The only barrier of a step stands between its loads and its sums. It makes the stores of the step before visible, and
// holds the stores of this step back until no thread reads that buffer any more. It stands there because ptxas moves no
// load across a barrier: at the end of the step, the loads would sink behind the arithmetic to the stores of their
// values, and each step would wait out the latency of global memory.
std::vector<Value*> BlockTileEmitter::Sums() {
  auto sum_up = [&](std::vector<Value*> sums, Value* buffer) {
    return tile_.mma ? SumUpByMma(std::move(sums), buffer) : SumUp(std::move(sums), buffer);
  };
  std::vector<Value*> sums(static_cast<size_t>(tile_.thread_rows * tile_.thread_columns),
                           llvm::Constant::getNullValue(type_));
  // Prevents LLVM from hoisting the address computation out of the loop over tiles, which would spill.
  Store(Load(i_.HiddenZero()), i_.Number(0));
  if (tile_.is_one_step) {
    EmitBarrier(b_);
    sums = sum_up(std::move(sums), i_.Number(0));
  } else {
    sums = EmitLoop(b_, i_.Number(0), depth_, tile_.depth, std::move(sums),
                    [&](Value* at, const std::vector<Value*>& current) {
                      std::vector<Value*> copies = Load(i_.Plus(at, tile_.depth));
                      EmitBarrier(b_);
                      Value* is_odd = b_.CreateAnd(i_.Quotient(at, tile_.depth), i_.Number(1));
                      Value* buffer = i_.Times(is_odd, buffer_);
                      std::vector<Value*> next = sum_up(current, buffer);
                      Store(copies, b_.CreateNUWSub(i_.Number(buffer_), buffer));
                      return next;
                    },
                    {.keep_rolled = true});
  }
  EmitBarrier(b_);  // Finish stores sums where the factors are.
  return sums;
}

// Group by group of the rows of all threads, which neighbour each other.
void BlockTileEmitter::Finish(const std::vector<Value*>& sums, Value* thread, llvm::function_ref<void(Value*)> finish) {
  int64_t width = tile_.columns.lines, stride = tile_.finished_stride(), groups = tile_.thread_rows / row_group_;
  int64_t height = tile_.rows.lines / groups, column_apart = width / (tile_.thread_columns / column_group_);
  Value* column_place = i_.Remainder(thread, width);
  Value* column = b_.CreateNUWAdd(columns_.first(), column_place);
  i_.Bind(columns_.axes(), i_.Decode(columns_.axes(), column));
  Value* is_column = b_.CreateICmpULT(column, columns_.count());
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t i = 0; i < row_group_; ++i) {
      Value* start = b_.CreateNUWAdd(i_.Times(i_.Plus(row_place_, i * tile_.row_step()), stride), column_place_);
      auto row = llvm::ArrayRef(sums).slice(static_cast<size_t>((group * row_group_ + i) * tile_.thread_columns));
      for (int64_t j = 0; j < tile_.thread_columns; j += column_group_) {
        finished_.StoreVector(b_, row.slice(static_cast<size_t>(j), static_cast<size_t>(column_group_)),
                              i_.Plus(start, j / column_group_ * column_apart));
      }
    }
    EmitBarrier(b_);
    EmitLoop(b_, i_.Quotient(thread, width), i_.Number(height), kBlockThreads / width, {},
             [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
               Value* row = b_.CreateNUWAdd(rows_.first(), i_.Plus(at, group * height));
               EmitIf(b_, b_.CreateAnd(is_column, b_.CreateICmpULT(row, rows_.count())), [&] {
                 e_.OpenScope();
                 i_.Bind(rows_.axes(), i_.Decode(rows_.axes(), row));
                 Value* place = b_.CreateNUWAdd(i_.Times(at, stride), column_place);
                 finish(b_.CreateLoad(type_, finished_.At(b_, place)));
                 e_.CloseScope();
               });
               return {};
             });
    EmitBarrier(b_);
  }
}

void BlockTileEmitter::Run(llvm::function_ref<void(Value*)> finish) {
  e_.OpenScope();
  depth_ = e_.EmitExtent(te::NumPositions(reduce_.axes));
  FindBlock();
  Value* thread = EmitThread(b_);
  FindThread(thread);
  std::vector<Value*> sums = Sums();
  Finish(sums, thread, finish);
  e_.CloseScope();
}

}  // namespace

void EmitBlockTile(const BlockSite& site, llvm::function_ref<void(Value*)> finish) {
  BlockTileEmitter(site).Run(finish);
}

}  // namespace rvm::codegen
