#include "kernels/codegen/llvm/finish_module.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/codegen/check_imports.h"
#include "kernels/codegen/llvm/host_target.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace rvm::codegen {

// Adds the passes of code generation, but for `left_out`: `TargetMachine::addPassesToEmitFile` leaves none out. Returns
// false if the target has no code generation.
static bool AddCodeGeneration(llvm::legacy::PassManager& passes, llvm::LLVMTargetMachine& machine,
                              std::span<const llvm::AnalysisID> left_out, llvm::raw_pwrite_stream& stream,
                              llvm::CodeGenFileType type) {
  auto* functions = new llvm::MachineModuleInfoWrapperPass(&machine);  // `passes` owns what is added
  llvm::TargetPassConfig* steps = machine.createPassConfig(passes);
  steps->setDisableVerify(true);
  for (llvm::AnalysisID pass : left_out) steps->disablePass(pass);
  passes.add(steps);
  passes.add(functions);
  if (steps->addISelPasses()) return false;
  steps->addMachinePasses();
  steps->setInitialized();
  if (machine.addAsmPrinter(passes, stream, nullptr, type, functions->getMMI().getContext())) return false;
  passes.add(llvm::createFreeMachineFunctionPass());
  return true;
}

static absl::StatusOr<std::string> Generate(llvm::Module& module, llvm::TargetMachine& machine,
                                            std::span<const llvm::AnalysisID> left_out, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (!AddCodeGeneration(passes, static_cast<llvm::LLVMTargetMachine&>(machine), left_out, stream, type))
    return absl::InternalError("this target emits no objects");
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

// Makes selections of single halves selections of their bits. Code generation takes `a < b ? a : b` for a minimum,
// which x86-64 without arithmetic on halves leaves to `fminf` of a library, and InstCombine narrows selections of
// floats that were halves.
static void SelectHalvesAsIntegers(llvm::Module& module) {
  if (!llvm::Triple(module.getTargetTriple()).isX86()) return;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      auto* select = llvm::dyn_cast<llvm::SelectInst>(&instruction);
      if (select == nullptr || !select->getType()->isHalfTy()) continue;
      llvm::IRBuilder<> b(select);
      llvm::Type* bits = b.getInt16Ty();
      llvm::Value* chosen = b.CreateSelect(select->getCondition(), b.CreateBitCast(select->getTrueValue(), bits),
                                           b.CreateBitCast(select->getFalseValue(), bits));
      select->replaceAllUsesWith(b.CreateBitCast(chosen, select->getType()));
      select->eraseFromParent();
    }
  }
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
                                            std::span<const std::string_view> imports,
                                            std::span<const llvm::AnalysisID> left_out) {
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
  SelectHalvesAsIntegers(module);
  if (options.keep_ir) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    RVM_ASSIGN_OR_RETURN(result.assembly, Generate(*copy, machine, left_out, llvm::CodeGenFileType::AssemblyFile));
  }
  RVM_ASSIGN_OR_RETURN(std::string object, Generate(module, machine, left_out, llvm::CodeGenFileType::ObjectFile));
  result.object.assign(object.begin(), object.end());
  RVM_RETURN_IF_ERROR(CheckImports(result.object, imports));
  return result;
}

}  // namespace rvm::codegen
