#include "kernels/codegen/kernel_compiler.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "kernels/abi/kernel_abi.h"
#include "kernels/codegen/llvm/emit_kernel.h"
#include "kernels/codegen/llvm/finish_module.h"
#include "kernels/codegen/llvm/group_emitter.h"
#include "kernels/codegen/llvm/host_target.h"
#include "kernels/codegen/llvm/lane_functions.h"
#include "kernels/codegen/llvm/run_passes.h"
#include "kernels/codegen/llvm/streamed_stores.h"
#include "kernels/schedule/schedule.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/DeadArgumentElimination.h"
#include "llvm/Transforms/IPO/MergeFunctions.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/DivRemPairs.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SimpleLoopUnswitch.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Vectorize/LoopVectorize.h"
#include "llvm/Transforms/Vectorize/VectorCombine.h"

namespace rvm::codegen {
namespace {

using llvm::Value;
using schedule::Schedule;

// Emits the function that runs a kernel's nests in order.
class EntryEmitter {
 public:
  EntryEmitter(llvm::Module& module, const Schedule& schedule, const std::string& symbol)
      : module_(module), schedule_(schedule), symbol_(symbol), b_(module.getContext()), e_(b_, schedule.target) {}

  void Run();

 private:
  void Begin();
  Value* PointerOf(const te::Tensor& tensor);
  Value* Field(unsigned index, llvm::Type* type);
  void ReturnIfCancelled();
  void RunNest(const EmittedNest& nest, std::vector<Value*> args);
  void Order(const te::Tensor& tensor);
  void CallInParallel(const EmittedNest& nest, const std::vector<Value*>& args, Value* count, Value* work,
                      Value* parallel_for);
  llvm::Function* MakeThunk(const EmittedNest& nest);

  llvm::Module& module_;
  const Schedule& schedule_;
  const std::string& symbol_;
  llvm::IRBuilder<> b_;
  ExprEmitter e_;
  llvm::Function* function_ = nullptr;
  Value* context_ = nullptr;
  Value* workspace_ = nullptr;
  Value* cancel_ = nullptr;
};

Value* EntryEmitter::Field(unsigned index, llvm::Type* type) {
  return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), context_, index));
}

void EntryEmitter::Begin() {
  static_assert(offsetof(RvmKernelContext, workspace) == 0 && offsetof(RvmKernelContext, parallel_for) == 8 &&
                offsetof(RvmKernelContext, cancel) == 16);
  llvm::Type* pointer = b_.getPtrTy();
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {pointer, pointer, pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol_, module_);
  function_->setDoesNotThrow();
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", function_));
  context_ = function_->getArg(2);
  workspace_ = Field(0, pointer);
  llvm::GlobalVariable* never = module_.getGlobalVariable("never", true);
  if (never == nullptr) {
    never = new llvm::GlobalVariable(module_, b_.getInt32Ty(), true, llvm::GlobalValue::InternalLinkage, b_.getInt32(0),
                                     "never");
  }
  Value* cancel = Field(2, pointer);
  cancel_ = b_.CreateSelect(b_.CreateIsNull(cancel), never, cancel);
  for (size_t i = 0; i < schedule_.symbols.size(); ++i) {
    e_.symbols[schedule_.symbols[i].id()] =
        b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function_->getArg(1), i));
  }
}

Value* EntryEmitter::PointerOf(const te::Tensor& tensor) {
  int64_t index = tensor->input_index;
  if (tensor->kind != te::TensorKind::kInput) {
    const schedule::TensorBuffer& buffer = schedule_.buffers.at(tensor.get());
    if (!buffer.is_output) return b_.CreateInBoundsGEP(b_.getInt8Ty(), workspace_, e_.EmitExtent(buffer.offset));
    index = static_cast<int64_t>(schedule_.computation.inputs.size()) + buffer.output;
  }
  return b_.CreateLoad(
      b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function_->getArg(0), static_cast<uint64_t>(index)));
}

void EntryEmitter::ReturnIfCancelled() {
  llvm::BasicBlock* cancelled = llvm::BasicBlock::Create(b_.getContext(), "cancelled", function_);
  llvm::BasicBlock* go_on = llvm::BasicBlock::Create(b_.getContext(), "go_on", function_);
  Value* wanted = b_.CreateLoad(b_.getInt32Ty(), cancel_, /*isVolatile=*/true);
  b_.CreateCondBr(b_.CreateICmpNE(wanted, b_.getInt32(0)), cancelled, go_on);
  b_.SetInsertPoint(cancelled);
  b_.CreateRet(b_.getInt32(kRvmCancelled));
  b_.SetInsertPoint(go_on);
}

// body(begin, end, closure) for parallel_for: the closure is the other arguments, 8 bytes each.
llvm::Function* EntryEmitter::MakeThunk(const EmittedNest& nest) {
  llvm::Type *i64 = b_.getInt64Ty(), *pointer = b_.getPtrTy();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {i64, i64, pointer}, false);
  llvm::Function* thunk =
      llvm::Function::Create(type, llvm::Function::InternalLinkage, nest.function->getName() + ".range", module_);
  thunk->setDoesNotThrow();
  thunk->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(b_.getContext(), "entry", thunk));
  std::vector<Value*> args = {thunk->getArg(0), thunk->getArg(1)};
  for (unsigned i = 2; i < nest.function->arg_size(); ++i) {
    Value* address = b.CreateConstInBoundsGEP1_64(i64, thunk->getArg(2), i - 2);
    args.push_back(b.CreateLoad(nest.function->getArg(i)->getType(), address));
  }
  b.CreateCall(nest.function, args);
  b.CreateRetVoid();
  return thunk;
}

void EntryEmitter::CallInParallel(const EmittedNest& nest, const std::vector<Value*>& args, Value* count, Value* work,
                                  Value* parallel_for) {
  llvm::Type *i64 = b_.getInt64Ty(), *pointer = b_.getPtrTy();
  llvm::IRBuilder<> at_entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  Value* closure = at_entry.CreateAlloca(i64, at_entry.getInt64(args.size() - 2));
  for (size_t i = 2; i < args.size(); ++i) b_.CreateStore(args[i], b_.CreateConstInBoundsGEP1_64(i64, closure, i - 2));
  Value* per_unit = b_.CreateUDiv(work, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b_.getInt64(1)));
  Value* grain = b_.CreateAdd(b_.CreateUDiv(b_.getInt64(static_cast<uint64_t>(schedule_.target.parallel_grain)),
                                            b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, per_unit, b_.getInt64(1))),
                              b_.getInt64(1));
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, i64, i64, pointer, pointer}, false);
  b_.CreateCall(type, parallel_for, {context_, count, grain, MakeThunk(nest), closure});
}

void EntryEmitter::RunNest(const EmittedNest& nest, std::vector<Value*> args) {
  Value* count = e_.EmitExtent(nest.count);
  args[1] = count;
  bool too_small = nest.work.is_const() && nest.work.constant() < schedule_.target.parallel_work;
  if (too_small || nest.in_order || nest.count == Dim(1)) {
    b_.CreateCall(nest.function, args);
    return;
  }
  Value* work = e_.EmitExtent(nest.work);
  Value* parallel_for = Field(1, b_.getPtrTy());
  Value* wanted =
      b_.CreateAnd(b_.CreateIsNotNull(parallel_for),
                   b_.CreateICmpSGE(work, b_.getInt64(static_cast<uint64_t>(schedule_.target.parallel_work))));
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function_); };
  llvm::BasicBlock *parallel = block("parallel"), *serial = block("serial"), *done = block("done");
  b_.CreateCondBr(wanted, parallel, serial);
  b_.SetInsertPoint(parallel);
  CallInParallel(nest, args, count, work, parallel_for);
  b_.CreateBr(done);
  b_.SetInsertPoint(serial);
  b_.CreateCall(nest.function, args);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

void EntryEmitter::Order(const te::Tensor& tensor) {
  Dim rows = NumElements(std::span(tensor.dims()).first(tensor.rank() - 2));
  EmitOrder(b_, e_, tensor, PointerOf(tensor), e_.EmitExtent(rows), cancel_);
  ReturnIfCancelled();
}

void EntryEmitter::Run() {
  Begin();
  for (const schedule::NestGroup& group : schedule_.groups) {
    EmittedNest nest = EmitGroup(module_, schedule_, group, symbol_);
    std::vector<Value*> args = {b_.getInt64(0), nullptr};
    for (const te::Tensor& tensor : nest.tensors) args.push_back(PointerOf(tensor));
    for (const Dim& symbol : schedule_.symbols) args.push_back(e_.symbols.at(symbol.id()));
    args.push_back(cancel_);
    RunNest(nest, std::move(args));
    ReturnIfCancelled();
    const te::Tensor& first = schedule_.nests[group.first].tensors[0].tensor;
    if (group.count == 1 && first->is_ordered) Order(first);
  }
  b_.CreateRet(b_.getInt32(kRvmOk));
}

void SetAttributes(llvm::Module& module, const HostTarget& target) {
  SetTarget(module, target);
  std::string width = absl::StrCat(ScheduleTarget(target).vector_bits);
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) function.addFnAttr("prefer-vector-width", width);
  }
}

// Returns the passes that follow the vectoriser.
llvm::FunctionPassManager PassesOnVectors() {
  llvm::FunctionPassManager f;
  f.addPass(StreamStoresPass());
  f.addPass(llvm::InstCombinePass());
  f.addPass(llvm::SimplifyCFGPass(llvm::SimplifyCFGOptions().hoistCommonInsts(true).sinkCommonInsts(true)));
  f.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  f.addPass(llvm::VectorCombinePass());
  f.addPass(llvm::EarlyCSEPass());
  f.addPass(llvm::DivRemPairsPass());
  return f;
}

// Returns the passes that loop nests gain from, in less than half the time of LLVM's own pipeline: nests come without
// calls, aggregates or memory that could be registers. Nests of several kernels that differ in unused symbols only
// become one function.
llvm::ModulePassManager LoopNestPipeline() {
  llvm::FunctionPassManager f;
  f.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  f.addPass(llvm::InstCombinePass());
  f.addPass(llvm::SimplifyCFGPass());
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  loops.addPass(llvm::SimpleLoopUnswitchPass(/*NonTrivial=*/true));
  f.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  f.addPass(llvm::SimplifyCFGPass(llvm::SimplifyCFGOptions().convertSwitchRangeToICmp(true)));
  f.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::IndVarSimplifyPass()));
  f.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LoopFullUnrollPass(2)));
  // Unrolled iterations are one block, without the offsets that they share, before the vectoriser counts what they
  // cost.
  f.addPass(llvm::SimplifyCFGPass());
  f.addPass(llvm::EarlyCSEPass());
  f.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  f.addPass(llvm::LoopVectorizePass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::DeadArgumentEliminationPass());
  passes.addPass(llvm::MergeFunctionsPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(f)));
  passes.addPass(ExpandLaneFunctionsPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(PassesOnVectors()));
  return passes;
}
// Skips passes as soon as `must_stop` returns true.
void Optimise(llvm::Module& module, llvm::TargetMachine& machine, int opt_level, llvm::function_ref<bool()> must_stop) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = opt_level >= 2;
  tuning.LoopInterleaving = opt_level >= 2;
  tuning.SLPVectorization = opt_level >= 3;
  RunPasses(
      module, &machine, tuning,
      [&](llvm::PassBuilder& builder) {
        if (opt_level == 2) return LoopNestPipeline();
        llvm::ModulePassManager passes;
        passes.addPass(ExpandLaneFunctionsPass());
        switch (opt_level) {
          case 0: passes.addPass(builder.buildO0DefaultPipeline(llvm::OptimizationLevel::O0)); break;
          case 1: passes.addPass(builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1)); break;
          default: passes.addPass(builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3));
        }
        return passes;
      },
      must_stop);
}

}  // namespace

schedule::Target ScheduleTarget(const HostTarget& target) {
  std::vector<std::string> features = absl::StrSplit(target.features, ',');
  auto has = [&](const char* name) { return std::find(features.begin(), features.end(), name) != features.end(); };
  schedule::Target facts{.has_vectors = true, .has_updates = true};
  if (has("+neon")) {
    facts.vector_registers = 32;
    facts.has_half_conversions = true;
    facts.has_signed_fours = has("+dotprod");
    return facts;
  }
  facts.has_streamed_stores = true;
  facts.has_half_conversions = has("+f16c");
  if (has("+avx")) facts.vector_bits = 256;
  facts.has_masks = has("+avx");
  if (has("+avx512f") && has("+avx512vl") && has("+avx512bw") && has("+avx512dq")) {
    facts.vector_bits = 512;
    facts.vector_registers = 32;
  }
  facts.has_pair_products = facts.vector_bits == 128 || has("+avx2");
  facts.has_narrow_pairs = facts.vector_bits == 128 ? has("+ssse3") : has("+avx2");
  facts.has_byte_products = facts.vector_bits == 512 ? has("+avx512vnni") : facts.vector_bits == 256 && has("+avxvnni");
  facts.has_byte_matrices = facts.vector_bits == 512 && facts.has_byte_products && has("+amx-int8");
  facts.has_bfloat_matrices = facts.vector_bits == 512 && has("+avx512bf16") && has("+amx-bf16");
  return facts;
}

bool IsSmall(const KernelRequest& request) {
  const Schedule& schedule = request.schedule;
  constexpr int64_t kMaxSteps = 16;
  if (schedule.nests.size() != 1 || schedule.nests[0].form != schedule::NestForm::kPositions) return false;
  const schedule::LoopNest& nest = schedule.nests[0];
  if (nest.update || nest.tensors[0].tensor->is_ordered) return false;
  const te::ExprNode* reduction = nest.reduction();
  int64_t steps = 1;
  auto count = [&](const std::vector<te::IndexVar>& axes) {
    for (const te::IndexVar& axis : axes) {
      // At least 1: results of empty sums are stored, too.
      int64_t extent =
          axis.extent.is_const() ? std::clamp(axis.extent.constant(), int64_t{1}, kMaxSteps + 1) : kMaxSteps + 1;
      steps = std::min(steps * extent, kMaxSteps + 1);
    }
  };
  count(nest.axes);
  if (reduction != nullptr) count(reduction->axes);
  return steps <= kMaxSteps;
}

void EmitKernel(llvm::Module& module, const KernelRequest& request) {
  EntryEmitter(module, request.schedule, request.symbol).Run();
}

absl::StatusOr<CompiledObject> CompileKernels(const HostTarget& target, const std::vector<KernelRequest>& requests,
                                              const CodegenOptions& options) {
  int opt_level = std::clamp(options.opt_level, 0, 3);
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, MakeTargetMachine(target, opt_level));
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  module.setTargetTriple(target.triple);
  module.setDataLayout(machine->createDataLayout());
  for (const KernelRequest& request : requests) {
    if (options.must_stop && options.must_stop()) return absl::CancelledError("cancelled");
    EmitKernel(module, request);
  }
  SetAttributes(module, target);
  return FinishModule(module, *machine, options,
                      [&](llvm::function_ref<bool()> stops) { Optimise(module, *machine, opt_level, stops); });
}

}  // namespace rvm::codegen
