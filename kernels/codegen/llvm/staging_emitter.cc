#include "kernels/codegen/llvm/staging_emitter.h"

#include <cstdint>
#include <vector>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/mma_emitter.h"
#include "kernels/schedule/block_tile_planner.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen {

using llvm::Value;

Value* SharedBuffers::LoadVector(llvm::IRBuilder<>& b, Value* place, int64_t count) const {
  auto* type = llvm::FixedVectorType::get(word, static_cast<unsigned>(count));
  uint64_t bytes = static_cast<uint64_t>(count) * word->getPrimitiveSizeInBits() / 8;
  return b.CreateAlignedLoad(type, At(b, place), llvm::Align(bytes));
}

void SharedBuffers::StoreVector(llvm::IRBuilder<>& b, llvm::ArrayRef<Value*> words, Value* place) const {
  auto* type = llvm::FixedVectorType::get(word, static_cast<unsigned>(words.size()));
  Value* vector = llvm::PoisonValue::get(type);
  for (size_t i = 0; i < words.size(); ++i) vector = b.CreateInsertElement(vector, words[i], i);
  b.CreateAlignedStore(vector, At(b, place), llvm::Align(words.size() * word->getPrimitiveSizeInBits() / 8));
}

StagingEmitter::StagingEmitter(const BlockSite& site, const schedule::Staging& staging,
                               std::optional<DataType> mma_dtype, const SharedBuffers& shared, int64_t offset)
    : b_(site.b),
      e_(site.e),
      i_(site.b, site.e),
      staging_(staging),
      reduced_(site.nest.reduction()->axes),
      mma_dtype_(mma_dtype),
      shared_(shared),
      offset_(offset),
      lines_of_all_tiles_(Lines(site.nest, staging)) {
  for (size_t axis : staging.axes) axes_.push_back(site.nest.axes[axis]);
}

Value* StagingEmitter::FindTile(Value* number) {
  count_ = e_.EmitExtent(lines_of_all_tiles_);
  Value* tiles = i_.Quotient(i_.Plus(count_, staging_.lines - 1), staging_.lines);
  first_ = i_.Times(b_.CreateURem(number, tiles), staging_.lines);
  return b_.CreateUDiv(number, tiles);
}

void StagingEmitter::FindThread(Value* thread) {
  Value* depth_thread = i_.Remainder(thread, staging_.depth_threads);
  Value* rest = i_.Quotient(thread, staging_.depth_threads);
  line_place_ = i_.Remainder(rest, staging_.line_threads);
  Value* far = i_.Times(i_.Quotient(rest, staging_.line_threads), staging_.depth_threads);
  depth_place_ = b_.CreateNUWAdd(far, depth_thread);
  for (int64_t at = 0; at < staging_.lines / staging_.unit_lines(); at += staging_.line_threads) {
    Value* line = b_.CreateNUWAdd(first_, i_.Times(i_.Plus(line_place_, at), staging_.unit_lines()));
    if (!staging_.is_whole) {
      Value* last = b_.CreateNSWSub(count_, i_.Number(staging_.unit_lines()));
      line = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, line, last);
    }
    lines_.push_back(i_.Decode(axes_, line));
  }
}

// Returns a load, at the depth and line that are bound.
std::vector<Value*> StagingEmitter::LoadLine() {
  std::vector<Value*> values;
  auto emit = [&] {
    Value* value = e_.Emit(staging_.factor);
    values.push_back(mma_dtype_ ? EmitNarrow(b_, *mma_dtype_, value) : value);
  };
  if (staging_.vector == 1) {
    emit();
    return values;
  }
  DataType dtype = staging_.read->dtype;
  Value* pointer = e_.pointers.at(staging_.read->tensor.get());
  Value* offset = e_.Emit(staging_.read->operands[0]);
  if (staging_.is_verbatim) {
    auto* type = llvm::FixedVectorType::get(shared_.word, static_cast<unsigned>(load_values()));
    auto bytes = static_cast<uint64_t>(staging_.vector * dtype.bytes());
    Value* words = b_.CreateAlignedLoad(type, e_.Address(dtype, pointer, offset), llvm::Align(bytes));
    for (int64_t i = 0; i < load_values(); ++i) {
      values.push_back(b_.CreateExtractElement(words, static_cast<uint64_t>(i)));
    }
    return values;
  }
  for (Value* element : e_.LoadVector(dtype, pointer, offset, staging_.vector)) {
    e_.OpenScope();
    e_.BindValue(staging_.read, element);
    emit();
    e_.CloseScope();
  }
  return values;
}

// Returns the loads of all lines at a depth.
std::vector<Value*> StagingEmitter::LoadAt(Value* depth) {
  std::vector<Value*> values;
  e_.OpenScope();
  i_.Bind(reduced_, i_.Decode(reduced_, depth));
  for (const std::vector<Value*>& line : lines_) {
    e_.OpenScope();
    i_.Bind(axes_, line);
    for (Value* value : LoadLine()) values.push_back(value);
    e_.CloseScope();
  }
  e_.CloseScope();
  return values;
}

std::vector<Value*> StagingEmitter::Load(Value* first, Value* end) {
  std::vector<Value*> values;
  for (int64_t at = 0; at < depth_units(); at += depth_units_at_once()) {
    Value* unit = b_.CreateNUWAdd(first, i_.Times(i_.Plus(depth_place_, at), staging_.unit_depth()));
    for (int64_t i = 0; i < staging_.unit_depth(); i += load_depth()) {
      Value* depth = i_.Plus(unit, i);
      auto load = [&] { return LoadAt(depth); };
      std::vector<Value*> some = end == nullptr ? load() : EmitChoice(b_, b_.CreateICmpULT(depth, end), load);
      values.insert(values.end(), some.begin(), some.end());
    }
  }
  return values;
}

// Returns the words of a unit, whose values are those of its loads, one after the other.
std::vector<Value*> StagingEmitter::Words(llvm::ArrayRef<Value*> unit) {
  if (!mma_dtype_ || staging_.is_verbatim) return unit.vec();
  // From one element of a word to the next.
  auto apart = static_cast<size_t>(staging_.unit_lines()), pack = static_cast<size_t>(staging_.pack);
  std::vector<Value*> words;
  for (size_t first = 0; first < unit.size(); first += pack * apart) {
    for (size_t line = 0; line < apart; ++line) {
      std::vector<Value*> elements;
      for (size_t i = 0; i < pack; ++i) elements.push_back(unit[first + line + i * apart]);
      words.push_back(EmitWord(b_, elements));
    }
  }
  return words;
}

size_t StagingEmitter::copies() const {
  auto units = lines_.size() * static_cast<size_t>(depth_units() / depth_units_at_once());
  return units * static_cast<size_t>(staging_.unit_depth() / load_depth() * load_values());
}

void StagingEmitter::Store(llvm::ArrayRef<Value*> values, Value* buffer) {
  auto of_load = static_cast<size_t>(load_values()), of_depth = lines_.size() * of_load;
  auto loads = static_cast<size_t>(staging_.unit_depth() / load_depth());
  int64_t unit_words = staging_.unit_depth() / staging_.pack;
  bool is_vector = staging_.is_by_line || unit_words == 1;
  for (int64_t at = 0; at < depth_units(); at += depth_units_at_once()) {
    for (size_t line = 0; line < lines_.size(); ++line) {
      std::vector<Value*> unit;
      for (size_t i = 0; i < loads; ++i) {
        for (Value* value : values.slice(i * of_depth + line * of_load, of_load)) unit.push_back(value);
      }
      Value* first_line =
          i_.Times(i_.Plus(line_place_, static_cast<int64_t>(line) * staging_.line_threads), staging_.unit_lines());
      Value* place = Place(buffer, first_line, i_.Times(i_.Plus(depth_place_, at), unit_words));
      std::vector<Value*> words = Words(unit);
      if (is_vector) {
        shared_.StoreVector(b_, words, place);
        continue;
      }
      for (Value* word : words) {
        b_.CreateStore(word, shared_.At(b_, place));
        place = i_.Plus(place, staging_.depth_stride());
      }
    }
    values = values.drop_front(loads * of_depth);
  }
}

Value* StagingEmitter::Place(Value* buffer, Value* line, Value* depth_word) {
  Value* place = b_.CreateNUWAdd(i_.Times(depth_word, staging_.depth_stride()), i_.Times(line, staging_.line_stride()));
  return i_.Plus(b_.CreateNUWAdd(buffer, place), offset_);
}

}  // namespace rvm::codegen
