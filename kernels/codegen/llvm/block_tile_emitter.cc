#include "kernels/codegen/llvm/block_tile_emitter.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/schedule/block_tile_planner.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::BlockTile;
using schedule::kBlockThreads;
using schedule::Staging;
using te::IndexVar;

namespace {

class BlockTileEmitter {
 public:
  explicit BlockTileEmitter(const BlockSite& site)
      : b_(site.b),
        e_(site.e),
        nest_(site.nest),
        tile_(*site.nest.block_tile),
        reduce_(*site.nest.reduction()),
        dtype_(reduce_.operands[0].dtype()),
        type_(e_.RegisterType(dtype_)),
        row_group_(BlockTile::group(tile_.thread_rows, dtype_.bytes())),
        column_group_(BlockTile::group(tile_.thread_columns, dtype_.bytes())) {
    buffer_ = tile_.depth * (tile_.rows.stride() + tile_.columns.stride());
    int64_t staged = tile_.is_one_step ? buffer_ : 2 * buffer_;
    int64_t finished = tile_.rows.lines / tile_.row_groups(dtype_.bytes()) * tile_.columns.lines;
    shared_ = SharedArray(site.module, type_, std::max(staged, finished));
    block_ = site.block;
  }

  void Run(llvm::function_ref<void(Value*)> finish);

 private:
  // One factor, as a thread sees it.
  struct Side {
    const Staging& staging;
    int64_t offset;                            // of its array in a buffer of shared memory
    std::vector<IndexVar> axes;                // of its lines
    Value* first = nullptr;                    // line of the tile
    Value* count = nullptr;                    // of lines
    Value* depth_place = nullptr;              // of its first copy in the step, in loads
    Value* line_place = nullptr;               // in the tile, likewise
    std::vector<std::vector<Value*>> lines{};  // of each of its copies at a depth: the positions of the axes
    Value* compute_place = nullptr;            // of the first of its lines in the tile, when it sums up

    int64_t depth_vector() const { return staging.along_depth ? staging.vector : 1; }
    int64_t line_vector() const { return staging.along_depth ? 1 : staging.vector; }
    int64_t depths_at_once() const { return kBlockThreads / staging.line_threads; }
  };

  Value* Number(int64_t x) { return b_.getInt64(static_cast<uint64_t>(x)); }
  Value* Plus(Value* x, int64_t y) { return b_.CreateNUWAdd(x, Number(y)); }
  Value* Times(Value* x, int64_t y) { return b_.CreateNUWMul(x, Number(y)); }
  Value* Shared(Value* offset) { return b_.CreateInBoundsGEP(type_, shared_, offset); }
  std::vector<Value*> Decode(const std::vector<IndexVar>& axes, Value* number);
  void BindAll(const std::vector<IndexVar>& axes, const std::vector<Value*>& values);
  std::vector<Value*> Choose(Value* condition, llvm::function_ref<std::vector<Value*>()> then,
                             const std::vector<Value*>& otherwise = {});
  void FindBlock();
  void FindThread(Value* thread);
  void PlaceCopies(Side& side, Value* thread);
  std::vector<Value*> LoadAt(const Side& side, Value* depth);
  std::vector<Value*> LoadFactor(const Side& side, Value* first, bool checks);
  std::vector<Value*> Load(Value* first);
  void Store(const std::vector<Value*>& values, Value* buffer);
  std::vector<Value*> LoadShared(Value* place, int64_t count);
  void StoreVector(llvm::ArrayRef<Value*> values, Value* place);
  std::vector<Value*> LoadLines(const Side& side, Value* buffer, int64_t depth);
  std::vector<Value*> SumUp(std::vector<Value*> sums, Value* buffer);
  std::vector<Value*> Sums();
  void Finish(const std::vector<Value*>& sums, Value* thread, llvm::function_ref<void(Value*)> finish);

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const schedule::LoopNest& nest_;
  const BlockTile& tile_;
  const te::ExprNode& reduce_;
  DataType dtype_;  // of the sums
  llvm::Type* type_;
  int64_t row_group_, column_group_;  // neighbouring rows, and columns, of a thread
  int64_t buffer_ = 0;                // elements of shared memory that a step takes
  Value* shared_ = nullptr;
  Value* block_ = nullptr;
  Value* depth_ = nullptr;  // of the product
  std::vector<Side> sides_;
};

// The positions of the axes at that number, the last axis fastest. In 32 bits where that suffices: divisions are slow.
std::vector<Value*> BlockTileEmitter::Decode(const std::vector<IndexVar>& axes, Value* number) {
  Dim count = 1;
  for (const IndexVar& axis : axes) count = count * axis.extent;
  bool is_short = count.is_const() && count.constant() <= std::numeric_limits<int32_t>::max();
  std::vector<Value*> positions(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    positions[i] = number;
    if (i == 0) break;
    Value* extent = e_.EmitExtent(axes[i].extent);
    Value* dividend = number;
    if (is_short) {
      dividend = b_.CreateTrunc(number, b_.getInt32Ty());
      extent = b_.CreateTrunc(extent, b_.getInt32Ty());
    }
    positions[i] = b_.CreateZExt(b_.CreateURem(dividend, extent), b_.getInt64Ty());
    number = b_.CreateZExt(b_.CreateUDiv(dividend, extent), b_.getInt64Ty());
  }
  return positions;
}

void BlockTileEmitter::BindAll(const std::vector<IndexVar>& axes, const std::vector<Value*>& values) {
  for (size_t i = 0; i < axes.size(); ++i) e_.Bind(axes[i], values[i]);
}

// The values where the condition holds, else those of `otherwise`, or zeros if it is empty.
std::vector<Value*> BlockTileEmitter::Choose(Value* condition, llvm::function_ref<std::vector<Value*>()> then,
                                             const std::vector<Value*>& otherwise) {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  std::vector<Value*> values;
  llvm::BasicBlock* inside = nullptr;
  EmitIf(b_, condition, [&] {
    values = then();
    inside = b_.GetInsertBlock();
  });
  for (size_t i = 0; i < values.size(); ++i) {
    llvm::Type* type = values[i]->getType();
    llvm::PHINode* phi = b_.CreatePHI(type, 2);
    phi->addIncoming(otherwise.empty() ? llvm::Constant::getNullValue(type) : otherwise[i], before);
    phi->addIncoming(values[i], inside);
    values[i] = phi;
  }
  return values;
}

// Which tile the block computes: its outer axes are bound. Neighbouring blocks have the same rows.
void BlockTileEmitter::FindBlock() {
  Value* number = block_;
  for (Side* side : {&sides_[1], &sides_[0]}) {
    side->count = e_.EmitExtent(Lines(nest_, side->staging));
    Value* tiles = b_.CreateUDiv(Plus(side->count, side->staging.lines - 1), Number(side->staging.lines));
    side->first = Times(b_.CreateURem(number, tiles), side->staging.lines);
    number = b_.CreateUDiv(number, tiles);
  }
  std::vector<IndexVar> outer;
  for (size_t axis : tile_.outer) outer.push_back(nest_.axes[axis]);
  BindAll(outer, Decode(outer, number));
}

void BlockTileEmitter::PlaceCopies(Side& side, Value* thread) {
  const Staging& staging = side.staging;
  Value* depth_thread = b_.CreateURem(thread, Number(staging.depth_threads));
  Value* rest = b_.CreateUDiv(thread, Number(staging.depth_threads));
  side.line_place = b_.CreateURem(rest, Number(staging.line_threads));
  Value* far = Times(b_.CreateUDiv(rest, Number(staging.line_threads)), staging.depth_threads);
  side.depth_place = b_.CreateNUWAdd(far, depth_thread);
  for (int64_t at = 0; at < staging.lines / side.line_vector(); at += staging.line_threads) {
    Value* line = b_.CreateNUWAdd(side.first, Times(Plus(side.line_place, at), side.line_vector()));
    if (!staging.is_whole) {
      Value* last = b_.CreateNSWSub(side.count, Number(side.line_vector()));
      line = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, line, last);
    }
    side.lines.push_back(Decode(side.axes, line));
  }
}

// What a thread copies, and where its sums are. A warp is 4 x 8 threads.
void BlockTileEmitter::FindThread(Value* thread) {
  for (Side& side : sides_) PlaceCopies(side, thread);
  Value *lane = b_.CreateAnd(thread, Number(31)), *warp = b_.CreateLShr(thread, Number(5));
  int64_t warps = tile_.columns.lines / tile_.thread_columns / 8;  // side by side
  Value* row = b_.CreateNUWAdd(b_.CreateLShr(lane, Number(3)), Times(b_.CreateUDiv(warp, Number(warps)), 4));
  Value* column = b_.CreateNUWAdd(b_.CreateAnd(lane, Number(7)), Times(b_.CreateURem(warp, Number(warps)), 8));
  sides_[0].compute_place = Times(row, row_group_);
  sides_[1].compute_place = Times(column, column_group_);
}

// The elements that a thread copies at one of its depths, or at as many as a load has.
std::vector<Value*> BlockTileEmitter::LoadAt(const Side& side, Value* depth) {
  const Staging& staging = side.staging;
  std::vector<Value*> values;
  e_.OpenScope();
  BindAll(reduce_.axes, Decode(reduce_.axes, depth));
  for (const std::vector<Value*>& line : side.lines) {
    e_.OpenScope();
    BindAll(side.axes, line);
    if (staging.vector == 1) {
      values.push_back(e_.Emit(staging.factor));
    } else {
      Value* pointer = e_.pointers.at(staging.read->tensor.get());
      Value* offset = e_.Emit(staging.read->operands[0]);
      for (Value* element : e_.LoadVector(staging.read->dtype, pointer, offset, staging.vector)) {
        e_.OpenScope();
        e_.BindValue(staging.read, element);
        values.push_back(e_.Emit(staging.factor));
        e_.CloseScope();
      }
    }
    e_.CloseScope();
  }
  e_.CloseScope();
  return values;
}

// What a thread copies of a step that begins at depth `first`; checks: zeros beyond the end of the depth.
std::vector<Value*> BlockTileEmitter::LoadFactor(const Side& side, Value* first, bool checks) {
  std::vector<Value*> values;
  for (int64_t at = 0; at < tile_.depth / side.depth_vector(); at += side.depths_at_once()) {
    Value* depth = b_.CreateNUWAdd(first, Times(Plus(side.depth_place, at), side.depth_vector()));
    auto load = [&] { return LoadAt(side, depth); };
    std::vector<Value*> some = checks ? Choose(b_.CreateICmpULT(depth, depth_), load) : load();
    values.insert(values.end(), some.begin(), some.end());
  }
  return values;
}

std::vector<Value*> BlockTileEmitter::Load(Value* first) {
  auto load = [&](bool checks) {
    std::vector<Value*> values = LoadFactor(sides_[0], first, checks);
    for (Value* value : LoadFactor(sides_[1], first, checks)) values.push_back(value);
    return values;
  };
  // All threads take the same branch.
  if (tile_.is_whole_depth) return Choose(b_.CreateICmpULT(first, depth_), [&] { return load(false); });
  Value* is_whole = b_.CreateICmpULE(Plus(first, tile_.depth), depth_);
  std::vector<Value*> whole = Choose(is_whole, [&] { return load(false); });
  return Choose(b_.CreateNot(is_whole), [&] { return load(true); }, whole);
}

// Neighbouring elements of shared memory; the first one is a multiple of their number.
std::vector<Value*> BlockTileEmitter::LoadShared(Value* place, int64_t count) {
  if (count == 1) return {b_.CreateLoad(type_, Shared(place))};
  auto* type = llvm::FixedVectorType::get(type_, static_cast<unsigned>(count));
  Value* loaded = b_.CreateAlignedLoad(type, Shared(place), llvm::Align(static_cast<uint64_t>(count * dtype_.bytes())));
  std::vector<Value*> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(b_.CreateExtractElement(loaded, static_cast<uint64_t>(i)));
  return values;
}

void BlockTileEmitter::StoreVector(llvm::ArrayRef<Value*> values, Value* place) {
  auto* type = llvm::FixedVectorType::get(type_, static_cast<unsigned>(values.size()));
  Value* vector = llvm::PoisonValue::get(type);
  for (size_t i = 0; i < values.size(); ++i) vector = b_.CreateInsertElement(vector, values[i], i);
  b_.CreateAlignedStore(vector, Shared(place), llvm::Align(values.size() * static_cast<uint64_t>(dtype_.bytes())));
}

// Stores what Load returned, in its order.
void BlockTileEmitter::Store(const std::vector<Value*>& values, Value* buffer) {
  size_t next = 0;
  for (const Side& side : sides_) {
    const Staging& staging = side.staging;
    for (int64_t at = 0; at < tile_.depth / side.depth_vector(); at += side.depths_at_once()) {
      for (int64_t line = 0; line < staging.lines / side.line_vector(); line += staging.line_threads) {
        Value* row = Times(Times(Plus(side.depth_place, at), side.depth_vector()), staging.stride());
        Value* column = Times(Plus(side.line_place, line), side.line_vector());
        Value* place = Plus(b_.CreateNUWAdd(buffer, b_.CreateNUWAdd(row, column)), side.offset);
        if (side.line_vector() > 1) {
          StoreVector(llvm::ArrayRef(values).slice(next, static_cast<size_t>(staging.vector)), place);
          next += static_cast<size_t>(staging.vector);
          continue;
        }
        for (int64_t i = 0; i < side.depth_vector(); ++i) {
          b_.CreateStore(values[next++], Shared(Plus(place, i * staging.stride())));
        }
      }
    }
  }
}

// The elements at a depth of the step that a thread multiplies.
std::vector<Value*> BlockTileEmitter::LoadLines(const Side& side, Value* buffer, int64_t depth) {
  bool is_row = &side == &sides_[0];
  int64_t group = is_row ? row_group_ : column_group_, count = is_row ? tile_.thread_rows : tile_.thread_columns;
  int64_t apart = side.staging.lines / (count / group);
  std::vector<Value*> values;
  for (int64_t i = 0; i < count / group; ++i) {
    Value* place = b_.CreateNUWAdd(buffer, side.compute_place);
    place = Plus(place, side.offset + depth * side.staging.stride() + i * apart);
    for (Value* value : LoadShared(place, group)) values.push_back(value);
  }
  return values;
}

std::vector<Value*> BlockTileEmitter::SumUp(std::vector<Value*> sums, Value* buffer) {
  for (int64_t depth = 0; depth < tile_.depth; ++depth) {
    std::vector<Value*> rows = LoadLines(sides_[0], buffer, depth), columns = LoadLines(sides_[1], buffer, depth);
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

// The sums of a thread, row by row. The loads of a step are underway while the step before, in the other buffer, is
// summed up.
std::vector<Value*> BlockTileEmitter::Sums() {
  std::vector<Value*> sums(static_cast<size_t>(tile_.thread_rows * tile_.thread_columns),
                           llvm::Constant::getNullValue(type_));
  Store(Load(Number(0)), Number(0));
  EmitBarrier(b_);
  if (tile_.is_one_step) {
    sums = SumUp(std::move(sums), Number(0));
    EmitBarrier(b_);
    return sums;
  }
  return EmitLoop(b_, Number(0), depth_, tile_.depth, std::move(sums),
                  [&](Value* at, const std::vector<Value*>& current) {
                    std::vector<Value*> copies = Load(Plus(at, tile_.depth));
                    Value* is_odd = b_.CreateAnd(b_.CreateUDiv(at, Number(tile_.depth)), Number(1));
                    Value* buffer = Times(is_odd, buffer_);
                    std::vector<Value*> next = SumUp(current, buffer);
                    Store(copies, b_.CreateNUWSub(Number(buffer_), buffer));
                    EmitBarrier(b_);
                    return next;
                  },
                  {.keep_rolled = true});
}

// Group by group of the rows of all threads, which neighbour each other.
void BlockTileEmitter::Finish(const std::vector<Value*>& sums, Value* thread, llvm::function_ref<void(Value*)> finish) {
  const Side &rows = sides_[0], &columns = sides_[1];
  int64_t width = columns.staging.lines, groups = tile_.thread_rows / row_group_;
  int64_t height = rows.staging.lines / groups, column_apart = width / (tile_.thread_columns / column_group_);
  Value* column_place = b_.CreateURem(thread, Number(width));
  Value* column = b_.CreateNUWAdd(columns.first, column_place);
  BindAll(columns.axes, Decode(columns.axes, column));
  Value* is_column = b_.CreateICmpULT(column, columns.count);
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t i = 0; i < row_group_; ++i) {
      Value* start = b_.CreateNUWAdd(Times(Plus(rows.compute_place, i), width), columns.compute_place);
      auto row = llvm::ArrayRef(sums).slice(static_cast<size_t>((group * row_group_ + i) * tile_.thread_columns));
      for (int64_t j = 0; j < tile_.thread_columns; j += column_group_) {
        StoreVector(row.slice(static_cast<size_t>(j), static_cast<size_t>(column_group_)),
                    Plus(start, j / column_group_ * column_apart));
      }
    }
    EmitBarrier(b_);
    Value* first = b_.CreateUDiv(thread, Number(width));
    EmitLoop(b_, first, Number(height), kBlockThreads / width, {},
             [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
               Value* row = b_.CreateNUWAdd(rows.first, Plus(at, group * height));
               EmitIf(b_, b_.CreateAnd(is_column, b_.CreateICmpULT(row, rows.count)), [&] {
                 e_.OpenScope();
                 BindAll(rows.axes, Decode(rows.axes, row));
                 Value* place = b_.CreateNUWAdd(Times(at, width), column_place);
                 finish(b_.CreateLoad(type_, Shared(place)));
                 e_.CloseScope();
               });
               return {};
             });
    EmitBarrier(b_);
  }
}

void BlockTileEmitter::Run(llvm::function_ref<void(Value*)> finish) {
  e_.OpenScope();
  Dim depth = 1;
  for (const IndexVar& axis : reduce_.axes) depth = depth * axis.extent;
  depth_ = e_.EmitExtent(depth);
  int64_t offset = 0;
  for (const Staging* staging : {&tile_.rows, &tile_.columns}) {
    std::vector<IndexVar> axes;
    for (size_t axis : staging->axes) axes.push_back(nest_.axes[axis]);
    sides_.push_back({*staging, offset, std::move(axes)});
    offset += tile_.depth * staging->stride();
  }
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
