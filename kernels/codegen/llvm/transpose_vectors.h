// Square matrices in vector registers.
#ifndef RVM_KERNELS_CODEGEN_LLVM_TRANSPOSE_VECTORS_H_
#define RVM_KERNELS_CODEGEN_LLVM_TRANSPOSE_VECTORS_H_

#include <vector>

#include "llvm/IR/IRBuilder.h"

namespace rvm::codegen {

// `rows` are as many vectors as each has lanes, a power of two. Each round interleaves the rows of the first half with
// those of the second.
std::vector<llvm::Value*> TransposedVectors(llvm::IRBuilder<>& b, std::vector<llvm::Value*> rows);

// Returns a vector of the sums of the lanes of each of four vectors of floats, of as many lanes each: a power of two,
// at least four.
llvm::Value* SumsOfLanes(llvm::IRBuilder<>& b, const std::vector<llvm::Value*>& four);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_TRANSPOSE_VECTORS_H_
