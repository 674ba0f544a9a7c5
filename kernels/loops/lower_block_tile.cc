#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/loops/lower_forms.h"
#include "kernels/schedule/block.h"
#include "kernels/schedule/block_tile_planner.h"

namespace rvm::loops {

using schedule::BlockTile;
using schedule::kBlockThreads;
using schedule::LoopNest;
using schedule::Staging;
using te::IndexVar;

namespace {

// A factor of the product: the lines that the block has of it, and a step of the depth in shared memory.
struct Side {
  const Staging& staging;
  std::vector<IndexVar> axes;
  int64_t threads;  // among which the lines are divided: thread t has the lines t, t + threads, and so on
  int64_t stride;   // words from one position of the depth to the next
  BufferId words;
  Value first, count;  // the first line of the block, and the number of all lines
  Value thread;        // which of the threads this one is

  int64_t lines_of_thread() const { return staging.lines / threads; }
};

class BlockTileLowering {
 public:
  BlockTileLowering(Builder& b, const LoopNest& nest)
      : b_(b),
        nest_(nest),
        tile_(*nest.block_tile),
        reduce_(*nest.reduction()),
        dtype_(reduce_.operands[0].dtype()),
        rows_(SideOf(tile_.rows, tile_.thread_rows)),
        columns_(SideOf(tile_.columns, tile_.thread_columns)),
        depth_(b.Extent(te::NumPositions(reduce_.axes))),
        sums_(b.NewPrivate(dtype_, tile_.thread_rows * tile_.thread_columns)) {
    RVM_CHECK(!tile_.mma, "a program of loops has no instruction for matrices");
  }

  void Run(Value block, Value is_chosen);

 private:
  Side SideOf(const Staging& staging, int64_t lines_of_thread);
  Value FindTile(Side& side, Value number);
  void Stage(const Side& side, Value at);
  std::vector<Value> LoadLines(const Side& side, Value depth);
  void SumUp();
  void Finish();

  Value Number(int64_t x) { return b_.Number(x); }

  Builder& b_;
  const LoopNest& nest_;
  const BlockTile& tile_;
  const te::ExprNode& reduce_;
  DataType dtype_;  // of the sums
  Side rows_, columns_;
  Value depth_;
  BufferId sums_;  // row by row
};

Side BlockTileLowering::SideOf(const Staging& staging, int64_t lines_of_thread) {
  // Neighbouring threads store what follows along the depth to different banks.
  int64_t stride = staging.lines + (staging.along_depth ? 1 : 0);
  Side side{.staging = staging,
            .axes = {},
            .threads = staging.lines / lines_of_thread,
            .stride = stride,
            .words = b_.NewShared(dtype_, tile_.depth * stride),
            .first = {},
            .count = b_.Extent(Lines(nest_, staging)),
            .thread = {}};
  for (size_t axis : staging.axes) side.axes.push_back(nest_.axes[axis]);
  return side;
}

// Finds the lines of the side in the tile with that number. Returns the number of the tile among the other axes.
Value BlockTileLowering::FindTile(Side& side, Value number) {
  Value lines = Number(side.staging.lines);
  Value tiles = b_.Quotient(b_.Plus(side.count, Number(side.staging.lines - 1)), lines);
  side.first = b_.Times(b_.Remainder(number, tiles), lines);
  return b_.Quotient(number, tiles);
}

// Copies the elements of a step, from the position `at` of the depth on. Threads are side by side along what follows in
// memory. Lines behind the last one repeat it; behind the end of the depth there are zeros.
void BlockTileLowering::Stage(const Side& side, Value at) {
  Value depth = Number(tile_.depth), lines = Number(side.staging.lines),
        size = Number(tile_.depth * side.staging.lines);
  b_.For(b_.thread(), size, Number(kBlockThreads), [&](Value unit) {
    bool along_depth = side.staging.along_depth;
    Value in_depth = along_depth ? b_.Remainder(unit, depth) : b_.Quotient(unit, lines);
    Value in_lines = along_depth ? b_.Quotient(unit, depth) : b_.Remainder(unit, lines);
    Value place = b_.Plus(b_.Times(in_depth, Number(side.stride)), in_lines), position = b_.Plus(at, in_depth);
    auto copy = [&] {
      Value line = b_.Plus(side.first, in_lines);
      if (!side.staging.is_whole) line = b_.Minimum(line, b_.Minus(side.count, Number(1)));
      b_.BindFlat(side.axes, line);
      b_.BindFlat(reduce_.axes, position);
      b_.Store(side.words, place, b_.Emit(side.staging.factor));
    };
    if (tile_.is_whole_depth) return copy();
    Value is_there = b_.IsBelow(position, depth_);
    b_.If(is_there, copy);
    b_.If(b_.Unary(UnaryOp::kLogicalNot, kBool, is_there),
          [&] { b_.Store(side.words, place, b_.Constant(dtype_, 0)); });
  });
}

// Returns the elements of the thread's lines at a depth of the step.
std::vector<Value> BlockTileLowering::LoadLines(const Side& side, Value depth) {
  Value first = b_.Plus(b_.Times(depth, Number(side.stride)), side.thread);
  std::vector<Value> lines;
  for (int64_t i = 0; i < side.lines_of_thread(); ++i) {
    lines.push_back(b_.Load(dtype_, side.words, b_.Plus(first, Number(i * side.threads))));
  }
  return lines;
}

void BlockTileLowering::SumUp() {
  b_.For(Number(0), Number(tile_.depth), Number(1), [&](Value depth) {
    std::vector<Value> rows = LoadLines(rows_, depth), columns = LoadLines(columns_, depth);
    int64_t next = 0;
    for (Value row : rows) {
      for (Value column : columns) {
        Value place = Number(next++);
        Value product = b_.Binary(BinaryOp::kMultiply, dtype_, row, column);
        b_.Store(sums_, place, b_.Binary(BinaryOp::kAdd, dtype_, b_.Load(dtype_, sums_, place), product));
      }
    }
  });
}

// Moves the sums through shared memory, a row of each thread at a time, to the threads that finish them: neighbours
// along the columns.
void BlockTileLowering::Finish() {
  int64_t width = tile_.columns.lines, columns = columns_.lines_of_thread();
  BufferId finished = b_.NewShared(dtype_, rows_.threads * width);
  b_.For(Number(0), Number(rows_.lines_of_thread()), Number(1), [&](Value turn) {
    Value start = b_.Plus(b_.Times(rows_.thread, Number(width)), columns_.thread);
    for (int64_t i = 0; i < rows_.lines_of_thread(); ++i) {
      // Sums have constant places, so that they are registers.
      b_.If(b_.Binary(BinaryOp::kEqual, kInt64, turn, Number(i)), [&] {
        for (int64_t j = 0; j < columns; ++j) {
          Value sum = b_.Load(dtype_, sums_, Number(i * columns + j));
          b_.Store(finished, b_.Plus(start, Number(j * columns_.threads)), sum);
        }
      });
    }
    b_.Barrier();
    b_.For(b_.thread(), Number(rows_.threads * width), Number(kBlockThreads), [&](Value place) {
      Value row = b_.Plus(b_.Times(turn, Number(rows_.threads)), b_.Quotient(place, Number(width)));
      row = b_.Plus(rows_.first, row);
      Value column = b_.Plus(columns_.first, b_.Remainder(place, Number(width)));
      b_.If(b_.And(b_.IsBelow(row, rows_.count), b_.IsBelow(column, columns_.count)), [&] {
        b_.BindFlat(rows_.axes, row);
        b_.BindFlat(columns_.axes, column);
        FinishNest(b_, nest_, b_.Load(dtype_, finished, place));
      });
    });
    b_.Barrier();
  });
}

void BlockTileLowering::Run(Value block, Value is_chosen) {
  // Neighbouring blocks have the same rows.
  Value number = FindTile(rows_, FindTile(columns_, block));
  if (is_chosen.valid()) {
    depth_ = b_.Select(kInt64, is_chosen, depth_, Number(0));
    rows_.count = b_.Select(kInt64, is_chosen, rows_.count, Number(0));
  }
  columns_.thread = b_.Remainder(b_.thread(), Number(columns_.threads));
  rows_.thread = b_.Quotient(b_.thread(), Number(columns_.threads));
  std::vector<IndexVar> outer;
  for (size_t axis : tile_.outer) outer.push_back(nest_.axes[axis]);
  b_.Scoped([&] {
    b_.BindFlat(outer, number);
    for (int64_t i = 0; i < tile_.thread_rows * tile_.thread_columns; ++i) {
      b_.Store(sums_, Number(i), b_.Constant(dtype_, 0));
    }
    b_.For(Number(0), depth_, Number(tile_.depth), [&](Value at) {
      // The loop runs once if the depth is 0.
      Value is_step = b_.IsBelow(at, depth_);
      b_.If(is_step, [&] {
        Stage(rows_, at);
        Stage(columns_, at);
      });
      b_.Barrier();
      b_.If(is_step, [&] { SumUp(); });
      b_.Barrier();
    });
    Finish();
  });
}

}  // namespace

void LowerBlockTile(Builder& b, const LoopNest& nest, Value block, Value is_chosen) {
  BlockTileLowering(b, nest).Run(block, is_chosen);
}

}  // namespace rvm::loops
