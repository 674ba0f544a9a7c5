// Emits sums of products in register tiles, as described by schedule::Tile.
//
// A unit of work is one panel of columns at one position of the loops around the tile. Its rows are summed tile by
// tile; the sums of a tile go through a buffer on the stack to the epilogue, whose innermost loop vectorises.
#ifndef RVM_KERNELS_CODEGEN_LLVM_TILE_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_TILE_EMITTER_H_

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/schedule/loop_nest.h"

namespace rvm::codegen {

struct TileSite {
  llvm::IRBuilder<>& b;
  ExprEmitter& e;
  const schedule::Target& target;
  const schedule::LoopNest& nest;
  llvm::Value* begin;  // of the units
  llvm::Value* end;
  llvm::Value* cancel;
  llvm::MDNode* independent;  // as for EmitLoop: of the accesses at different positions
  // Units are positions of an axis: the first one, which is the outermost loop around the tile, or the row axis, if it
  // is the last of LoopNest::row_axes, of which the others are bound.
  bool by_rows = false;
};

// Returns the number of units of work. `finish` emits the
// epilogue at one position, whose axes are bound, given the value of the sum.
Dim EmitTiles(const TileSite& site, llvm::function_ref<void(llvm::Value*)> finish);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_TILE_EMITTER_H_
