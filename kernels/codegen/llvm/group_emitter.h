// Emits a group of nests (kernels/schedule/row_groups.h) as one function, as EmitNest does for one nest.
#ifndef RVM_KERNELS_CODEGEN_LLVM_GROUP_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_GROUP_EMITTER_H_

#include <string>

#include "kernels/codegen/llvm/nest_emitter.h"
#include "kernels/schedule/schedule.h"

namespace rvm::codegen {

// `name`, with the number of the nest, names the functions of its nests.
EmittedNest EmitGroup(llvm::Module& module, const schedule::Schedule& schedule, const schedule::NestGroup& group,
                      const std::string& name);

// Sorts `rows` rows of a tensor of te::OrderTensor, from the address `first` on.
void EmitOrder(llvm::IRBuilder<>& b, ExprEmitter& e, const te::Tensor& tensor, llvm::Value* first, llvm::Value* rows,
               llvm::Value* cancel);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_GROUP_EMITTER_H_
