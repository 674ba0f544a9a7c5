// Emits the copies of a factor of a product to shared memory, as described by schedule::Staging.
#ifndef RVM_KERNELS_CODEGEN_LLVM_STAGING_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_STAGING_EMITTER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/codegen/llvm/index_emitter.h"
#include "kernels/codegen/llvm/team_emitter.h"

namespace rvm::codegen {

// Buffers of words in shared memory, each of which has an array for each factor.
struct SharedBuffers {
  llvm::Type* word;
  llvm::Value* memory = nullptr;

  llvm::Value* At(llvm::IRBuilder<>& b, llvm::Value* place) const { return b.CreateInBoundsGEP(word, memory, place); }
  // Neighbouring words; `place` is a multiple of their number.
  llvm::Value* LoadVector(llvm::IRBuilder<>& b, llvm::Value* place, int64_t count) const;
  void StoreVector(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> words, llvm::Value* place) const;
};

// One factor, as a thread sees it.
class StagingEmitter {
 public:
  // `mma_dtype`: the type in which tensor cores multiply the factor, if they do. The array begins at `offset` of each
  // buffer.
  StagingEmitter(const BlockSite& site, const schedule::Staging& staging, std::optional<DataType> mma_dtype,
                 const SharedBuffers& shared, int64_t offset);

  // Binds the block to one of the factor's tiles, by a number that counts them fastest; returns the rest of it.
  llvm::Value* FindTile(llvm::Value* number);
  void FindThread(llvm::Value* thread);

  const std::vector<te::IndexVar>& axes() const { return axes_; }  // of the lines
  llvm::Value* first() const { return first_; }                    // line of the tile
  llvm::Value* count() const { return count_; }                    // of lines, of all tiles
  const schedule::Staging& staging() const { return staging_; }

  // Loads the values that a thread copies in a step that begins at the depth `first`; zeros beyond `end`, unless that
  // is null.
  std::vector<llvm::Value*> Load(llvm::Value* first, llvm::Value* end);
  // Number of values that Load returns.
  size_t copies() const;
  void Store(llvm::ArrayRef<llvm::Value*> values, llvm::Value* buffer);
  // Returns the place of a word in shared memory.
  llvm::Value* Place(llvm::Value* buffer, llvm::Value* line, llvm::Value* depth_word);

 private:
  int64_t depth_units() const { return staging_.depth_words * staging_.pack / staging_.unit_depth(); }
  int64_t depth_units_at_once() const { return schedule::kBlockThreads / staging_.line_threads; }
  int64_t load_depth() const { return staging_.along_depth ? staging_.vector : 1; }
  // Returns the values that a load returns.
  int64_t load_values() const { return staging_.vector / (staging_.is_verbatim ? staging_.pack : 1); }
  std::vector<llvm::Value*> LoadAt(llvm::Value* depth);
  std::vector<llvm::Value*> LoadLine();
  std::vector<llvm::Value*> Words(llvm::ArrayRef<llvm::Value*> unit);

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  IndexEmitter i_;
  const schedule::Staging& staging_;
  const std::vector<te::IndexVar>& reduced_;
  std::optional<DataType> mma_dtype_;
  const SharedBuffers& shared_;
  int64_t offset_;
  std::vector<te::IndexVar> axes_;
  Dim lines_of_all_tiles_;
  llvm::Value* first_ = nullptr;
  llvm::Value* count_ = nullptr;
  llvm::Value* depth_place_ = nullptr;            // of its first unit in the step, in units
  llvm::Value* line_place_ = nullptr;             // in the tile, likewise
  std::vector<std::vector<llvm::Value*>> lines_;  // of each of its units at a depth: the positions of the axes
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_STAGING_EMITTER_H_
