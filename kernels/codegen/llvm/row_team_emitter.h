// Emits nests whose rows stay in the registers of a warp or a block, as described by schedule::RowTeam.
#ifndef RVM_KERNELS_CODEGEN_LLVM_ROW_TEAM_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_ROW_TEAM_EMITTER_H_

#include <string>

#include "kernels/codegen/llvm/nest_emitter.h"

namespace rvm::codegen {

// A function that runs one block of the rows of a group, whose `team` is set; all threads of a block call it.
EmittedNest EmitRowTeam(llvm::Module& module, const schedule::Schedule& schedule, const schedule::NestGroup& group,
                        const std::string& name);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_ROW_TEAM_EMITTER_H_
