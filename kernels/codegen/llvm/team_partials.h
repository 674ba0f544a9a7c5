// Merges the partial results of threads that reduce the same position (schedule::Team, schedule::RowTeam).
#ifndef RVM_KERNELS_CODEGEN_LLVM_TEAM_PARTIALS_H_
#define RVM_KERNELS_CODEGEN_LLVM_TEAM_PARTIALS_H_

#include <cstdint>
#include <vector>

#include "kernels/codegen/llvm/reduce_emitter.h"

namespace rvm::codegen {

// Values of ReduceEmitter.
using Partial = std::vector<llvm::Value*>;

// Returns the values of the thread whose number in the warp differs by that power of two.
Partial EmitExchange(llvm::IRBuilder<>& b, const Partial& partial, int64_t distance);

// Arrays in the memory that the block shares, one for each value of a partial result.
class SharedPartials {
 public:
  SharedPartials(llvm::Module& module, llvm::IRBuilder<>& b, const Partial& like, int64_t count);

  void Store(const Partial& partial, llvm::Value* place);
  Partial Load(llvm::Value* place);

 private:
  llvm::Type* MemoryType(llvm::Type* type) { return type->isIntegerTy(1) ? b_.getInt8Ty() : type; }

  llvm::IRBuilder<>& b_;
  std::vector<llvm::Type*> types_;
  std::vector<llvm::Value*> arrays_;
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_TEAM_PARTIALS_H_
