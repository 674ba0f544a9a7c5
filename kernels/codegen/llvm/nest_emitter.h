// Emits one loop nest as a function
//   void nest(i64 begin, i64 end, ptr tensors..., i64 symbols..., ptr cancel)
// which runs positions [begin, end) of the nest's outermost axis. On a GPU it ignores `cancel`, and runs units that are
// positions of all axes, the last one fastest, each by one thread, or blocks, each by all threads of a block.
#ifndef RVM_KERNELS_CODEGEN_LLVM_NEST_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_NEST_EMITTER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/schedule/schedule.h"

namespace rvm::codegen {

// kOfRows: positions of the axes that count rows (LoopNest::row_axes), also of a nest of tiles, whose units are
// otherwise panels of columns. A call has rows of one matrix: all but the last of these axes are the same.
enum class NestUnits { kOfOutermostAxis, kOfRows, kOfGrid };

struct EmittedNest {
  llvm::Function* function = nullptr;
  std::vector<te::Tensor> tensors;  // its pointer arguments
  Dim count = 1;                    // positions to run
  Dim work;                         // estimate, in additions
  bool in_order = false;            // positions depend on earlier ones
  bool of_blocks = false;           // on a GPU: blocks run together, each of them schedule::kBlockThreads threads
};

// Makes a function with these parameters and no body.
llvm::Function* MakeNestFunction(llvm::Module& module, const schedule::Schedule& schedule, size_t num_tensors,
                                 const std::string& name);

EmittedNest EmitNest(llvm::Module& module, const schedule::Schedule& schedule, const schedule::LoopNest& nest,
                     const std::string& name, NestUnits units = NestUnits::kOfOutermostAxis);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_NEST_EMITTER_H_
