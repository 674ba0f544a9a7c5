#include "kernels/codegen/llvm/finish_module.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/codegen/check_imports.h"
#include "kernels/codegen/llvm/host_target.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace rvm::codegen {

static absl::StatusOr<std::string> Generate(llvm::Module& module, llvm::TargetMachine& machine,
                                            llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return absl::InternalError("this target emits no objects");
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

void SetTarget(llvm::Module& module, const HostTarget& target) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", BaselineCpu(target.triple));
    function.addFnAttr("tune-cpu", TunedCpu(target));
    function.addFnAttr("target-features", TunedFeatures(target));
    function.addFnAttr("no-builtins");
  }
}

absl::StatusOr<CompiledObject> FinishModule(llvm::Module& module, llvm::TargetMachine& machine,
                                            const CodegenOptions& options,
                                            llvm::function_ref<void(llvm::function_ref<bool()> must_stop)> optimise,
                                            std::span<const std::string_view> imports) {
  auto must_stop = [&] { return options.must_stop && options.must_stop(); };
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(module, &problems)) return absl::InternalError(absl::StrCat("malformed IR: ", problem));
  CompiledObject result;
  if (options.keep_ir) {
    llvm::raw_string_ostream text(result.llvm_ir);
    module.print(text, nullptr);
  }
  optimise(must_stop);
  if (must_stop()) return absl::CancelledError("cancelled");
  if (options.keep_ir) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    RVM_ASSIGN_OR_RETURN(result.assembly, Generate(*copy, machine, llvm::CodeGenFileType::AssemblyFile));
  }
  RVM_ASSIGN_OR_RETURN(std::string object, Generate(module, machine, llvm::CodeGenFileType::ObjectFile));
  result.object.assign(object.begin(), object.end());
  RVM_RETURN_IF_ERROR(CheckImports(result.object, imports));
  return result;
}

}  // namespace rvm::codegen
