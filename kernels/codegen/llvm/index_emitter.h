// Emits arithmetic of numbers of positions and places, i64, which neither wraps nor is negative.
#ifndef RVM_KERNELS_CODEGEN_LLVM_INDEX_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_INDEX_EMITTER_H_

#include <cstdint>
#include <vector>

#include "kernels/codegen/llvm/expr_emitter.h"

namespace rvm::codegen {

class IndexEmitter {
 public:
  IndexEmitter(llvm::IRBuilder<>& b, ExprEmitter& e) : b_(b), e_(e) {}

  llvm::Value* Number(int64_t x) { return b_.getInt64(static_cast<uint64_t>(x)); }
  llvm::Value* Plus(llvm::Value* x, int64_t y) { return b_.CreateNUWAdd(x, Number(y)); }
  llvm::Value* Times(llvm::Value* x, int64_t y) { return b_.CreateNUWMul(x, Number(y)); }
  llvm::Value* Quotient(llvm::Value* x, int64_t y) { return b_.CreateUDiv(x, Number(y)); }
  llvm::Value* Remainder(llvm::Value* x, int64_t y) { return b_.CreateURem(x, Number(y)); }

  // Returns a zero that the optimiser does not see.
  llvm::Value* HiddenZero();

  // The positions of the axes at that number, the last axis fastest.
  std::vector<llvm::Value*> Decode(const std::vector<te::IndexVar>& axes, llvm::Value* number);
  void Bind(const std::vector<te::IndexVar>& axes, const std::vector<llvm::Value*>& positions);

 private:
  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_INDEX_EMITTER_H_
