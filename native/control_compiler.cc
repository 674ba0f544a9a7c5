#include "native/control_compiler.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/abi/machine_abi.h"
#include "kernels/codegen/llvm/emit_kernel.h"
#include "kernels/codegen/llvm/finish_module.h"
#include "kernels/codegen/llvm/host_target.h"
#include "kernels/codegen/llvm/lane_functions.h"
#include "kernels/codegen/llvm/run_passes.h"
#include "llvm/CodeGen/Passes.h"
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
#include "native/call_places.h"
#include "native/module_emitter.h"
#include "native/pay_in_strips.h"
#include "native/testing.h"
#include "serialization/isa/isa.h"

namespace rvm::native {
namespace {

constexpr std::string_view kImports[] = {
#define RVM_MACHINE_IMPORT(symbol, type, convention) #symbol,
#include "kernels/abi/machine_imports.def"
};

// Passes of code generation that are left out: the one that follows variables for debuggers. It runs over each function
// that has a line table, and these have no variables.
const llvm::AnalysisID kLeftOut[] = {&llvm::LiveDebugValuesID};

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
  f.addPass(PayInStripsPass());
  f.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(2, /*OnlyWhenForced=*/true)));
  f.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  f.addPass(llvm::GVNPass());
  f.addPass(llvm::DSEPass());
  f.addPass(llvm::InstCombinePass());
  f.addPass(llvm::ADCEPass());
  f.addPass(llvm::SimplifyCFGPass(
      llvm::SimplifyCFGOptions().hoistCommonInsts(true).sinkCommonInsts(true).needCanonicalLoops(false)));
  f.addPass(llvm::DivRemPairsPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::GlobalDCEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(f)));
  return passes;
}

void Optimise(llvm::Module& module, llvm::TargetMachine& machine, int opt_level, llvm::function_ref<bool()> must_stop) {
  codegen::RunPasses(
      module, &machine, {},
      [&](llvm::PassBuilder& builder) {
        llvm::ModulePassManager passes;
        passes.addPass(codegen::ExpandLaneFunctionsPass());
        passes.addPass(opt_level == 0 ? builder.buildO0DefaultPipeline(llvm::OptimizationLevel::O0)
                                      : ControlPipeline());
        return passes;
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
  if (std::any_of(functions.begin(), functions.end(), [](const Reach& reach) { return reach.loops; })) return true;
  // Takes away functions all of whose callees are away: the rest are in cycles, or call into them.
  std::vector<bool> is_away(functions.size(), false);
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t i = 0; i < functions.size(); ++i) {
      bool ends = std::all_of(functions[i].callees.begin(), functions[i].callees.end(),
                              [&](uint32_t callee) { return is_away[callee]; });
      if (is_away[i] || !ends) continue;
      is_away[i] = changes = true;
    }
  }
  return std::find(is_away.begin(), is_away.end(), false) != is_away.end();
}

namespace {

using Change = std::function<void(llvm::Module& module)>;  // null: none

absl::StatusOr<CompiledControl> Compile(const VerifiedExecutable& executable, const codegen::HostTarget& target,
                                        const codegen::CodegenOptions& options,
                                        std::span<const codegen::KernelRequest> kernels, const Change& change) {
  int opt_level = std::clamp(options.opt_level, 0, 3);
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, codegen::MakeTargetMachine(target, opt_level));
  llvm::LLVMContext context;
  llvm::Module module("control", context);
  module.setTargetTriple(target.triple);
  module.setDataLayout(machine->createDataLayout());
  std::vector<llvm::Function*> small_kernels = EmitSmallKernels(module, kernels);
  ModuleEmitter(*executable, module, std::move(small_kernels)).Run();
  if (change) change(module);
  codegen::SetTarget(module, target);
  auto optimise = [&](llvm::function_ref<bool()> must_stop) { Optimise(module, *machine, opt_level, must_stop); };
  RVM_ASSIGN_OR_RETURN(codegen::CompiledObject object,
                       codegen::FinishModule(module, *machine, options, optimise, kImports, kLeftOut));
  CompiledControl result{
      .code = {.target = target.cpu,
               .triple = target.triple,
               .features = target.features,
               .abi_version = RVM_MACHINE_ABI_VERSION},
      .llvm_ir = std::move(object.llvm_ir),
      .assembly = std::move(object.assembly),
  };
  RVM_ASSIGN_OR_RETURN(result.code.functions, ReadCallPlaces(object.object, executable->functions.size()));
  RVM_ASSIGN_OR_RETURN(result.code.bytes, StripPlaces(object.object));
  return result;
}

}  // namespace

absl::StatusOr<CompiledControl> CompileControl(const VerifiedExecutable& executable, const codegen::HostTarget& target,
                                               const codegen::CodegenOptions& options,
                                               std::span<const codegen::KernelRequest> kernels) {
  return Compile(executable, target, options, kernels, nullptr);
}

absl::StatusOr<CompiledControl> CompileChangedControl(const VerifiedExecutable& executable,
                                                      const codegen::HostTarget& target, const Change& change) {
  return Compile(executable, target, {.opt_level = 1}, {}, change);
}

}  // namespace rvm::native
