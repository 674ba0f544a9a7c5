// Emits the steps of a reduction: what it begins with, how it takes in an element, how partial results are merged.
#ifndef RVM_KERNELS_CODEGEN_LLVM_REDUCE_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_REDUCE_EMITTER_H_

#include <vector>

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/te/tensor.h"

namespace rvm::codegen {

// A partial result is one value, or, of a reduction that finds a place, three: the best value, its position among the
// reduced elements (i64), and how many elements were taken in (i64).
class ReduceEmitter {
 public:
  ReduceEmitter(llvm::IRBuilder<>& builder, ExprEmitter& emitter, const te::ExprNode& reduce);

  // Returns the partial result of no elements, which is also the result of none.
  std::vector<llvm::Value*> Initial();
  // Takes in the element at the position that is bound. `position`: its number; null: it follows all those before.
  std::vector<llvm::Value*> Combine(const std::vector<llvm::Value*>& carried, llvm::Value* position = nullptr);
  // Merges two partial results, over any elements. The position decides between equal ones.
  std::vector<llvm::Value*> Merge(const std::vector<llvm::Value*>& a, const std::vector<llvm::Value*>& b);
  llvm::Value* Result(const std::vector<llvm::Value*>& carried) { return carried[finds_place_ ? 1 : 0]; }
  // Folds a value of the operand into `best`, for a reduction without positions.
  llvm::Value* Fold(llvm::Value* best, llvm::Value* value);

 private:
  llvm::Value* Identity();
  llvm::Value* Combined(llvm::Value* x, llvm::Value* y);
  llvm::Value* IsBetter(llvm::Value* value, llvm::Value* best, llvm::Value* is_later);

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const te::ExprNode& reduce_;
  DataType dtype_;  // of the operand
  bool finds_place_;
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_REDUCE_EMITTER_H_
