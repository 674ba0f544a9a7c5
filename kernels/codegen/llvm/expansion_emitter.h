// Emits the vectors of a tile that are computed from constants as they are stored.
#ifndef RVM_KERNELS_CODEGEN_LLVM_EXPANSION_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_EXPANSION_EMITTER_H_

#include <cstdint>

#include "kernels/codegen/llvm/expr_emitter.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace rvm::codegen {

// Returns `expansion`, which schedule::IsExpansion holds for, at `lanes` neighbouring columns. `load` gives the
// elements of a read of one column each, as they are in memory. What reads nothing is the same in each lane.
llvm::Value* EmitExpansion(llvm::IRBuilder<>& b, ExprEmitter& e, const te::Expr& expansion, int64_t lanes,
                           llvm::function_ref<llvm::Value*(const te::ExprNode&)> load);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_EXPANSION_EMITTER_H_
