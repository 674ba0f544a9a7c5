// Emits sums of products in tiles of blocks of threads, as described by schedule::BlockTile.
#ifndef RVM_KERNELS_CODEGEN_LLVM_BLOCK_TILE_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_BLOCK_TILE_EMITTER_H_

#include "kernels/codegen/llvm/team_emitter.h"

namespace rvm::codegen {

// `finish` emits what follows the sum at one position, whose axes are bound, given the sum.
void EmitBlockTile(const BlockSite& site, llvm::function_ref<void(llvm::Value*)> finish);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_BLOCK_TILE_EMITTER_H_
