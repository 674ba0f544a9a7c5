// Functions of float32 whose code depends on the number of lanes: a vector can test whether any of its lanes needs the
// slow way, and AVX-512 has instructions that no scalar code becomes.
//
// Nests call declared functions of scalars. The vectoriser replaces these by calls of the declared functions of vectors
// that each call names, and ExpandLaneFunctionsPass replaces what is left by code. Lanes have the same bits in vectors
// of any number of lanes and as scalars.
#ifndef RVM_KERNELS_CODEGEN_LLVM_LANE_FUNCTIONS_H_
#define RVM_KERNELS_CODEGEN_LLVM_LANE_FUNCTIONS_H_

#include <cstdint>
#include <string>

#include "kernels/codegen/llvm/math.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

namespace rvm::codegen {

enum class LaneFunction : uint8_t { kExp, kSin, kCos, kTan, kLog, kLog2, kLog10, kAsinh, kAcosh, kAtanh, kPower };

// Declares a function of lanes, which has no effects.
llvm::Function* DeclareLaneFunction(llvm::Module& module, const std::string& name, llvm::FunctionType* type);

// Emits a call of the function for scalars.
llvm::Value* CallLaneFunction(llvm::IRBuilder<>& b, LaneFunction function, llvm::ArrayRef<llvm::Value*> args);

// Emits the code of the function for numbers of all sizes, scalars or vectors.
llvm::Value* EmitAnywhere(llvm::IRBuilder<>& b, LaneFunction function, llvm::ArrayRef<llvm::Value*> args,
                          const MathTarget& target);

// For opt level 2 it runs after the vectoriser, elsewhere before all other passes.
struct ExpandLaneFunctionsPass : llvm::PassInfoMixin<ExpandLaneFunctionsPass> {
  static llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&);
  static bool isRequired() { return true; }
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_LANE_FUNCTIONS_H_
