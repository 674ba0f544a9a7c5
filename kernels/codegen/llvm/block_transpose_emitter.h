// Emits nests that read along another axis than they store, for a GPU: a block computes square tiles of values with its
// threads side by side along the axis of the reads, and stores them side by side along the last axis.
#ifndef RVM_KERNELS_CODEGEN_LLVM_BLOCK_TRANSPOSE_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_BLOCK_TRANSPOSE_EMITTER_H_

#include "kernels/codegen/llvm/team_emitter.h"

namespace rvm::codegen {

// `compute` emits the value of a position, whose axes are bound, and `store` what is done with it.
void EmitBlockTranspose(const BlockSite& site, llvm::function_ref<llvm::Value*()> compute,
                        llvm::function_ref<void(llvm::Value*)> store);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_BLOCK_TRANSPOSE_EMITTER_H_
