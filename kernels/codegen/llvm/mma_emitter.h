// Emits products by tensor cores (schedule::Mma).
#ifndef RVM_KERNELS_CODEGEN_LLVM_MMA_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_MMA_EMITTER_H_

#include <vector>

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/schedule/block.h"

namespace rvm::codegen {

// Returns the bits, of its own width, of an element in the type that tensor cores multiply; `value` is the one that has
// the type of the sums and is, but for float32, exactly that element.
llvm::Value* EmitNarrow(llvm::IRBuilder<>& b, DataType dtype, llvm::Value* value);
// One word of the elements that EmitNarrow gives, the first one in the low bits. float32 is rounded to TF32.
llvm::Value* EmitWord(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> elements);

// Returns the sums of a lane after one instruction, row by row. `rows` and `columns`: the words that the lane holds,
// the lines of a step of the depth first. All lanes of the warp run this together.
std::vector<llvm::Value*> EmitMma(llvm::IRBuilder<>& b, const schedule::Mma& mma, llvm::ArrayRef<llvm::Value*> rows,
                                  llvm::ArrayRef<llvm::Value*> columns, llvm::ArrayRef<llvm::Value*> sums);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_MMA_EMITTER_H_
