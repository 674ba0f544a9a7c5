#include "kernels/codegen/llvm/run_passes.h"

#include <optional>

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/TargetParser/Triple.h"

namespace rvm::codegen {

void RunPasses(llvm::Module& module, llvm::TargetMachine* machine, const llvm::PipelineTuningOptions& tuning,
               llvm::function_ref<llvm::ModulePassManager(llvm::PassBuilder& builder)> pipeline,
               llvm::function_ref<bool()> must_stop) {
  llvm::PassInstrumentationCallbacks callbacks;
  if (must_stop) {
    callbacks.registerShouldRunOptionalPassCallback([=](llvm::StringRef, const llvm::Any&) { return !must_stop(); });
  }
  llvm::PassBuilder builder(machine, tuning, /*PGOOpt=*/std::nullopt, &callbacks);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library(llvm::Triple(module.getTargetTriple()));
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  pipeline(builder).run(module, modules);
}

}  // namespace rvm::codegen
