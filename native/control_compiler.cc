#include "native/control_compiler.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/abi/machine_abi.h"
#include "kernels/codegen/check_imports.h"
#include "kernels/codegen/llvm/emit_kernel.h"
#include "kernels/codegen/llvm/host_target.h"
#include "kernels/codegen/llvm/run_passes.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/DeadStoreElimination.h"
#include "llvm/Transforms/Scalar/DivRemPairs.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/JumpThreading.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "native/call_places.h"
#include "native/module_emitter.h"
#include "serialization/isa/isa.h"

namespace rvm::native {
namespace {

constexpr std::string_view kImports[] = {
#define RVM_MACHINE_IMPORT(symbol, type, convention) #symbol,
#include "kernels/abi/machine_imports.def"
};

void SetAttributes(llvm::Module& module, const codegen::HostTarget& target) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", codegen::BaselineCpu(target.triple));
    function.addFnAttr("tune-cpu", codegen::TunedCpu(target));
    function.addFnAttr("target-features", codegen::TunedFeatures(target));
    function.addFnAttr("no-builtins");
  }
}

// Returns the passes that functions gain from, in less than half the time of LLVM's own pipeline. Vectorisers and the
// inliner are not among them: loops of control flow are no loops over arrays, and backtraces need the frames of calls.
llvm::ModulePassManager ControlPipeline() {
  llvm::FunctionPassManager f;
  f.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  f.addPass(llvm::EarlyCSEPass());
  f.addPass(llvm::SimplifyCFGPass());
  f.addPass(llvm::InstCombinePass());
  f.addPass(llvm::JumpThreadingPass());
  f.addPass(llvm::SimplifyCFGPass());
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LoopRotatePass());
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  f.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  f.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::IndVarSimplifyPass()));
  // Kernels have loops of a few steps.
  f.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LoopFullUnrollPass(2)));
  f.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  f.addPass(llvm::GVNPass());
  f.addPass(llvm::DSEPass());
  f.addPass(llvm::InstCombinePass());
  f.addPass(llvm::ADCEPass());
  f.addPass(llvm::SimplifyCFGPass(llvm::SimplifyCFGOptions().hoistCommonInsts(true).sinkCommonInsts(true)));
  f.addPass(llvm::DivRemPairsPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::GlobalDCEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(f)));
  return passes;
}

void Optimise(llvm::Module& module, llvm::TargetMachine& machine, const ControlOptions& options,
              llvm::function_ref<bool()> must_stop) {
  codegen::RunPasses(
      module, &machine, {},
      [&](llvm::PassBuilder& builder) {
        if (options.opt_level == 0) return builder.buildO0DefaultPipeline(llvm::OptimizationLevel::O0);
        return ControlPipeline();
      },
      must_stop);
}

// Emits the small ones among `kernels`, for calls to be replaced by their bodies.
std::vector<llvm::Function*> EmitSmallKernels(llvm::Module& module, std::span<const codegen::KernelRequest> kernels) {
  std::vector<llvm::Function*> functions(kernels.size(), nullptr);
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!codegen::IsSmall(kernels[i])) continue;
    codegen::EmitKernel(module, kernels[i]);
    functions[i] = module.getFunction(kernels[i].symbol);
  }
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.removeFnAttr(llvm::Attribute::NoInline);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  return functions;
}

// The callees of a function, and whether it loops by itself.
struct Reach {
  std::vector<uint32_t> callees;
  bool loops = false;  // or may, by a closure
};

Reach ReachOf(const FunctionDesc& function) {
  Reach reach;
  for (uint32_t pc = 0; pc < function.code.size();) {
    Instruction instruction = *ReadInstruction(function.code, pc);
    Opcode opcode = instruction.opcode();
    reach.loops = reach.loops || opcode == Opcode::kCallClosure || opcode == Opcode::kTailCallClosure;
    for (const Operand& operand : instruction.operands()) {
      if (operand.kind() == OperandKind::kFunction) reach.callees.push_back(operand.u32());
      bool is_label = operand.kind() == OperandKind::kLabel || operand.kind() == OperandKind::kLabels;
      for (uint32_t i = 0; is_label && i < operand.count; ++i) reach.loops = reach.loops || operand.u32(i) <= pc;
    }
    pc += instruction.length;
  }
  return reach;
}

}  // namespace

bool HasLoops(const Executable& executable) {
  std::vector<Reach> functions;
  for (const FunctionDesc& function : executable.functions) functions.push_back(ReachOf(function));
  // Takes away functions all of whose callees are away: the rest are in cycles, or call into them.
  std::vector<bool> is_away(functions.size(), false);
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t i = 0; i < functions.size(); ++i) {
      if (functions[i].loops) return true;
      bool ends = std::all_of(functions[i].callees.begin(), functions[i].callees.end(),
                              [&](uint32_t callee) { return is_away[callee]; });
      if (is_away[i] || !ends) continue;
      is_away[i] = changes = true;
    }
  }
  return std::find(is_away.begin(), is_away.end(), false) != is_away.end();
}

absl::StatusOr<CompiledControl> CompileControl(const VerifiedExecutable& executable, const codegen::HostTarget& target,
                                               const ControlOptions& options) {
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine,
                       codegen::MakeTargetMachine(target, std::clamp(options.opt_level, 0, 3)));
  llvm::LLVMContext context;
  llvm::Module module("control", context);
  module.setTargetTriple(target.triple);
  module.setDataLayout(machine->createDataLayout());
  auto must_stop = [&] { return options.must_stop && options.must_stop(); };
  std::vector<llvm::Function*> small_kernels = EmitSmallKernels(module, options.kernels);
  ModuleEmitter(*executable, module, std::move(small_kernels)).Run();
  SetAttributes(module, target);
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(module, &problems)) {
    return absl::InternalError(absl::StrCat("internal error: malformed IR of functions: ", problem));
  }
  CompiledControl result;
  if (options.keep_ir) {
    llvm::raw_string_ostream text(result.llvm_ir);
    module.print(text, nullptr);
  }
  Optimise(module, *machine, options, must_stop);
  if (must_stop()) return absl::CancelledError("cancelled");
  if (options.keep_ir) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    RVM_ASSIGN_OR_RETURN(result.assembly, codegen::Generate(*copy, *machine, llvm::CodeGenFileType::AssemblyFile));
  }
  RVM_ASSIGN_OR_RETURN(std::string object, codegen::Generate(module, *machine, llvm::CodeGenFileType::ObjectFile));
  std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(object.data()), object.size());
  RVM_RETURN_IF_ERROR(codegen::CheckImports(bytes, kImports));
  result.code = {target.cpu, target.triple, target.features, RVM_MACHINE_ABI_VERSION, {}, {}};
  RVM_ASSIGN_OR_RETURN(result.code.functions, ReadCallPlaces(bytes, executable->functions.size()));
  RVM_ASSIGN_OR_RETURN(result.code.bytes, StripPlaces(bytes));
  return result;
}

}  // namespace rvm::native
