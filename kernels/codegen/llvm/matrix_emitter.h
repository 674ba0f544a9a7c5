// Emits sums of products of bytes, or of bfloat16, by instructions that multiply matrices, as described by
// schedule::Tile::Matrices.
//
// Intel's AMX has eight registers of up to 16 rows of 64 bytes. Four hold sums, of two blocks of rows by two vectors of
// columns; the others hold the factors of one step of the depth: rows as they lie in memory, and columns as panels have
// them, with four bytes of the depth side by side.
#ifndef RVM_KERNELS_CODEGEN_LLVM_MATRIX_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_MATRIX_EMITTER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/codegen/llvm/tile_factors.h"

namespace rvm::codegen {

class MatrixEmitter {
 public:
  MatrixEmitter(const TileSite& site, TileFactors& factors);

  // Loads the shapes of the registers, for blocks of so many rows in the sums that follow.
  void Configure(llvm::Value* rows);
  // Gives the registers back, so that the operating system does not save them.
  void Release();
  // Stores the sums of a panel in `buffer`, which has a row of the panel for each row from rows[0] on. `rows`: the
  // first rows of one or two blocks; the second begins at most one block behind the first.
  void EmitSums(std::span<llvm::Value* const> rows, const TileFactors::Panel& panel, llvm::Value* buffer);

 private:
  // The registers of the factors of a step.
  struct Factors {
    uint8_t rows, columns;
  };

  void EmitDepth(size_t axis, std::span<llvm::Value* const> rows, const TileFactors::Panel& panel, int64_t vector);
  void EmitInnermost(std::span<llvm::Value* const> rows, const TileFactors::Panel& panel, int64_t vector);
  void EmitStep(llvm::Value* k, Factors factors, std::span<llvm::Value* const> rows, const TileFactors::Panel& panel,
                int64_t vector);
  // Returns the number of vectors of a panel that are summed up together with `vector`, which is the first of them.
  int64_t VectorsFrom(int64_t vector) const;
  llvm::Value* I64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const TileSite& s_;
  const schedule::Tile& t_;
  TileFactors& f_;
  const std::vector<te::IndexVar>& depth_;
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_MATRIX_EMITTER_H_
