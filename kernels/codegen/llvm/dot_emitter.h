// Emits products of few rows as dot products of vectors along the depth, as described by schedule::Tile::FewRows: both
// factors are read in place.
#ifndef RVM_KERNELS_CODEGEN_LLVM_DOT_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_DOT_EMITTER_H_

#include <cstdint>
#include <vector>

#include "kernels/codegen/llvm/tile_factors.h"

namespace rvm::codegen {

class DotEmitter {
 public:
  DotEmitter(const TileSite& site, TileFactors& factors);

  // The buffer of a tile's sums, which has space for so many rows.
  struct Buffer {
    llvm::Value* first;
    int64_t rows;
  };
  // Rows of which there are few: so many, or a range of them.
  struct Rows {
    Dim count;
    llvm::Value* first = nullptr;
    llvm::Value* last = nullptr;
  };
  // Stores the products of the rows with `width` columns from `panel` on.
  void EmitPanel(const Rows& rows, llvm::Value* panel, llvm::Value* width, Buffer buffer);

 private:
  void EmitColumns(const Rows& rows, llvm::Value* panel, llvm::Value* from, llvm::Value* to, int64_t count,
                   Buffer buffer);
  void EmitRows(llvm::Value* row, int64_t height, llvm::Value* panel, llvm::Value* column, int64_t count,
                Buffer buffer);
  std::vector<llvm::Value*> EmitDots(llvm::Value* row, int64_t height, llvm::Value* column, int64_t count);
  llvm::Value* SumOfLanes(llvm::Value* vector);
  llvm::Value* I64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const TileSite& s_;
  const schedule::Tile& t_;
  TileFactors& f_;
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_DOT_EMITTER_H_
