#include "kernels/codegen/ptx_compiler.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/codegen/llvm/host_target.h"
#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/nest_emitter.h"
#include "kernels/codegen/llvm/row_team_emitter.h"
#include "kernels/codegen/llvm/run_passes.h"
#include "kernels/codegen/llvm/team_emitter.h"
#include "kernels/schedule/gpu_schedule.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/Scalar/SROA.h"

namespace rvm::codegen {
namespace {

using llvm::Value;
using schedule::Schedule;

constexpr char kTriple[] = "nvptx64-nvidia-cuda";

constexpr uint64_t kTensorAlignment = 64;  // of tensors and the workspace

struct Capability {
  int64_t number;
  const char* isa;  // LLVM's name of the oldest version of PTX that has its instructions
};
constexpr Capability kCapabilities[] = {{80, "+ptx70"}, {75, "+ptx65"}};

// Emits the function of one launch.
class GridEntryEmitter {
 public:
  GridEntryEmitter(llvm::Module& module, const Schedule& schedule)
      : module_(module), schedule_(schedule), b_(module.getContext()), e_(b_, schedule.target) {}

  // The entry, and the functions of its nests.
  std::vector<llvm::Function*> Run(const schedule::NestGroup& launch, const std::string& name);

 private:
  void Begin(const std::string& name);
  Value* PointerOf(const te::Tensor& tensor);
  Value* Special(llvm::Intrinsic::ID id) { return b_.CreateZExt(b_.CreateIntrinsic(id, {}, {}), b_.getInt64Ty()); }
  void Annotate(const char* key, int64_t value);
  void PlaceScalars();
  void EmitStrided(Value* first, Value* end, Value* stride, llvm::function_ref<void(Value* at)> emit);
  void RunUnits(const EmittedNest& nest);
  void RunRows(const schedule::NestGroup& launch, llvm::ArrayRef<EmittedNest> nests);
  void RunRow(const schedule::LoopNest& nest, const EmittedNest& emitted, Value* row);
  void Call(const EmittedNest& nest, Value* unit);

  llvm::Module& module_;
  const Schedule& schedule_;
  llvm::IRBuilder<> b_;
  ExprEmitter e_;
  llvm::Function* function_ = nullptr;
  unsigned workspace_ = 0;                        // its parameter
  absl::flat_hash_map<int64_t, Value*> scalars_;  // by number of the input
};

void GridEntryEmitter::Begin(const std::string& name) {
  llvm::Type *i64 = b_.getInt64Ty(), *pointer = b_.getPtrTy();
  std::vector<llvm::Type*> parameters;
  for (const te::Tensor& input : schedule_.computation.inputs) parameters.push_back(input.rank() == 0 ? i64 : pointer);
  parameters.insert(parameters.end(), schedule_.computation.outputs.size(), pointer);
  workspace_ = static_cast<unsigned>(parameters.size());
  parameters.push_back(pointer);
  parameters.insert(parameters.end(), schedule_.symbols.size(), i64);
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), parameters, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  function_->setDoesNotThrow();
  for (llvm::Argument& argument : function_->args()) {
    if (argument.getType()->isPointerTy())
      argument.addAttr(llvm::Attribute::getWithAlignment(b_.getContext(), llvm::Align(kTensorAlignment)));
  }
  Annotate("kernel", 1);
  b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function_));
  for (size_t i = 0; i < schedule_.symbols.size(); ++i) {
    e_.symbols[schedule_.symbols[i].id()] = function_->getArg(workspace_ + 1 + static_cast<unsigned>(i));
  }
}

// Stores scalar arguments to allocas, because nests load their inputs. SROA removes the allocas.
void GridEntryEmitter::PlaceScalars() {
  for (const te::Tensor& input : schedule_.computation.inputs) {
    if (input.rank() != 0) continue;
    Value* place = b_.CreateAlloca(b_.getInt64Ty());
    b_.CreateStore(function_->getArg(static_cast<unsigned>(input->input_index)), place);
    scalars_[input->input_index] = place;
  }
}

Value* GridEntryEmitter::PointerOf(const te::Tensor& tensor) {
  if (tensor->kind == te::TensorKind::kInput) {
    if (tensor.rank() == 0) return scalars_.at(tensor->input_index);
    return function_->getArg(static_cast<unsigned>(tensor->input_index));
  }
  const schedule::TensorBuffer& buffer = schedule_.buffers.at(tensor.get());
  if (!buffer.is_output) {
    return b_.CreateInBoundsGEP(b_.getInt8Ty(), function_->getArg(workspace_), e_.EmitExtent(buffer.offset));
  }
  size_t index = schedule_.computation.inputs.size() + static_cast<size_t>(buffer.output);
  return function_->getArg(static_cast<unsigned>(index));
}

void GridEntryEmitter::Annotate(const char* key, int64_t value) {
  llvm::LLVMContext& context = module_.getContext();
  module_.getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(
          llvm::MDNode::get(context, {llvm::ValueAsMetadata::get(function_), llvm::MDString::get(context, key),
                                      llvm::ConstantAsMetadata::get(b_.getInt32(static_cast<uint32_t>(value)))}));
}

// for (at = first; at < end; at += stride)
void GridEntryEmitter::EmitStrided(Value* first, Value* end, Value* stride, llvm::function_ref<void(Value* at)> emit) {
  auto make = [&](const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function_); };
  llvm::BasicBlock *entry = b_.GetInsertBlock(), *body = make("position"), *done = make("done");
  b_.CreateCondBr(b_.CreateICmpSLT(first, end), body, done);
  b_.SetInsertPoint(body);
  llvm::PHINode* at = b_.CreatePHI(b_.getInt64Ty(), 2);
  emit(at);
  Value* next = b_.CreateNSWAdd(at, stride);
  at->addIncoming(first, entry);
  at->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, done);
  b_.SetInsertPoint(done);
}

// for (at = block * threads of a block + thread; at < count; at += threads of the grid), or for units of blocks
// for (at = block; at < count; at += blocks)
void GridEntryEmitter::RunUnits(const EmittedNest& nest) {
  Value *first = Special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x),
        *stride = Special(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  if (!nest.of_blocks) {
    Value* threads = Special(llvm::Intrinsic::nvvm_read_ptx_sreg_ntid_x);
    first = b_.CreateNUWAdd(b_.CreateNUWMul(first, threads), Special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x));
    stride = b_.CreateNUWMul(threads, stride);
  }
  EmitStrided(first, e_.EmitExtent(nest.count), stride, [&](Value* at) { Call(nest, at); });
}

// for (row = block; row < rows; row += blocks) each nest of the launch does what it has in the row. Threads of the
// block wait for one another, as they read what others stored.
void GridEntryEmitter::RunRows(const schedule::NestGroup& launch, llvm::ArrayRef<EmittedNest> nests) {
  Value* rows = e_.EmitExtent(schedule_.nests[launch.first].axes[0].extent);
  EmitStrided(Special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x), rows,
              Special(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x), [&](Value* row) {
                for (size_t n = 0; n < nests.size(); ++n) {
                  RunRow(schedule_.nests[launch.first + n], nests[n], row);
                  EmitBarrier(b_);
                }
              });
}

// The positions of a nest in a row: a thread has each 128th, or all have each together.
void GridEntryEmitter::RunRow(const schedule::LoopNest& nest, const EmittedNest& emitted, Value* row) {
  Dim size = te::NumPositions(std::span(nest.axes).subspan(1));
  Value *first = b_.CreateNSWMul(row, e_.EmitExtent(size)), *end = b_.CreateNSWAdd(first, e_.EmitExtent(size));
  if (!emitted.of_blocks) first = b_.CreateNSWAdd(first, EmitThread(b_));
  EmitLoop(b_, first, end, emitted.of_blocks ? 1 : schedule::kBlockThreads, {},
           [&](Value* at, llvm::ArrayRef<Value*>) -> std::vector<Value*> {
             Call(emitted, at);
             return {};
           });
}

// Runs one unit of the nest.
void GridEntryEmitter::Call(const EmittedNest& nest, Value* unit) {
  std::vector<Value*> args = {unit, b_.CreateNSWAdd(unit, b_.getInt64(1))};
  for (const te::Tensor& tensor : nest.tensors) args.push_back(PointerOf(tensor));
  for (const Dim& symbol : schedule_.symbols) args.push_back(e_.symbols.at(symbol.id()));
  args.push_back(llvm::ConstantPointerNull::get(b_.getPtrTy()));  // no flag to cancel it
  b_.CreateCall(nest.function, args);
}

std::vector<llvm::Function*> GridEntryEmitter::Run(const schedule::NestGroup& launch, const std::string& name) {
  std::vector<EmittedNest> nests;
  if (launch.team) {
    nests.push_back(EmitRowTeam(module_, schedule_, launch, absl::StrCat(name, ".rows")));
  } else {
    for (size_t n = 0; n < launch.count; ++n) {
      std::string of_nest = absl::StrCat(name, ".nest", n);
      nests.push_back(EmitNest(module_, schedule_, schedule_.nests[launch.first + n], of_nest, NestUnits::kOfGrid));
    }
  }
  for (const EmittedNest& nest : nests) {
    nest.function->removeFnAttr(llvm::Attribute::NoInline);
    nest.function->addFnAttr(llvm::Attribute::AlwaysInline);
  }
  Begin(name);
  PlaceScalars();
  if (nests.size() > 1 || nests[0].of_blocks) {
    Annotate("reqntidx", schedule::kBlockThreads);
    function_->setConvergent();
  }
  // ptxas otherwise saves registers for more blocks, and loads what a row needs bit by bit.
  if (launch.team) Annotate("minctasm", 1);
  if (nests.size() > 1) {
    RunRows(launch, nests);
  } else {
    RunUnits(nests[0]);
  }
  b_.CreateRetVoid();
  std::vector<llvm::Function*> made = {function_};
  for (const EmittedNest& nest : nests) made.push_back(nest.function);
  return made;
}

// The name of a function that is called but does not exist on a GPU; "": there is none.
std::string MissingFunction(const llvm::Function& function) {
  for (const llvm::BasicBlock& block : function) {
    for (const llvm::Instruction& instruction : block) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (call == nullptr) continue;
      const llvm::Function* callee = call->getCalledFunction();
      if (callee != nullptr && callee->isDeclaration() && !callee->isIntrinsic()) return callee->getName().str();
    }
  }
  return "";
}

const char* IsaOf(const PtxTarget& target) {
  for (const Capability& capability : kCapabilities) {
    if (capability.number == target.capability) return capability.isa;
  }
  RVM_UNREACHABLE("a compute capability without a version of PTX");
}

void Optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  RunPasses(module, machine, tuning, [](llvm::PassBuilder& builder) {
    llvm::ModulePassManager passes;
    // Inline and run SROA first. A later pass may merge two loads into one with a selected address; if one is a
    // scalar's alloca, SROA could no longer remove it.
    passes.addPass(llvm::AlwaysInlinerPass());
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::SROAPass(llvm::SROAOptions::ModifyCFG)));
    passes.addPass(builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2));
    return passes;
  });
}

}  // namespace

std::string PtxTarget::Features() const { return absl::StrCat("+sm_", capability); }

schedule::Target PtxTarget::ScheduleTarget() const {
  return {.has_blocks = true, .tensor_cores = capability, .rounds_to_tf32 = has_tf32, .has_half_conversions = true};
}

absl::StatusOr<std::optional<PtxTarget>> ParsePtxTarget(std::string_view text) {
  if (!text.starts_with("sm_")) return std::nullopt;
  for (const Capability& capability : kCapabilities) {
    PtxTarget target{.capability = capability.number};
    std::string name = absl::StrCat("sm_", capability.number);
    if (text == name) return target;
    target.has_tf32 = true;
    if (capability.number >= 80 && text == name + "+tf32") return target;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown compute capability `", Abseil(text),
      "`; expected `sm_75`, `sm_80` or `sm_80+tf32`, which rounds products of float32; later GPUs run such code"));
}

std::vector<PtxTarget> DefaultPtxTargets() {
  std::vector<PtxTarget> targets;
  for (const Capability& capability : kCapabilities) targets.push_back({.capability = capability.number});
  return targets;
}

struct PtxCompiler::Impl {
  PtxTarget target;
  llvm::LLVMContext context;
  llvm::Module module{"kernels", context};
};

PtxCompiler::PtxCompiler(const PtxTarget& target) : impl_(std::make_unique<Impl>()) {
  impl_->target = target;
  impl_->module.setTargetTriple(kTriple);
}
PtxCompiler::~PtxCompiler() = default;

absl::Status PtxCompiler::Add(const std::string& name, const Schedule& schedule) {
  // Rejects scans even if they have a single element and therefore no dependence.
  for (const schedule::LoopNest& nest : schedule.nests) {
    if (nest.tensors[0].tensor->is_ordered) return absl::UnimplementedError("it sorts");
    if (nest.tensors[0].tensor->self) return absl::UnimplementedError("it computes elements one after the other");
  }
  llvm::NamedMDNode* annotations = impl_->module.getOrInsertNamedMetadata("nvvm.annotations");
  unsigned annotated = annotations->getNumOperands();
  std::vector<llvm::Function*> made;
  std::string missing;
  for (size_t i = 0; const schedule::NestGroup& launch : schedule::Launches(schedule)) {
    for (llvm::Function* function :
         GridEntryEmitter(impl_->module, schedule).Run(launch, absl::StrCat(name, "_", i++))) {
      if (missing.empty()) missing = MissingFunction(*function);
      made.push_back(function);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  // The last annotations name the functions to drop.
  std::vector<llvm::MDNode*> kept(annotations->op_begin(), annotations->op_end());
  kept.resize(annotated);
  annotations->clearOperands();
  for (llvm::MDNode* annotation : kept) annotations->addOperand(annotation);
  for (llvm::Function* function : made) function->eraseFromParent();  // an entry before the nest that it calls
  bool wide = missing.back() != 'f' || missing == "erf";
  return absl::UnimplementedError(absl::StrCat("it computes `", wide ? missing : missing.substr(0, missing.size() - 1),
                                               wide ? "` in float64" : "`"));
}

absl::StatusOr<std::string> PtxCompiler::Finish() {
  llvm::Module& module = impl_->module;
  RVM_ASSIGN_OR_RETURN(const llvm::Target* backend, FindBackend(kTriple));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(
      backend->createTargetMachine(kTriple, absl::StrCat("sm_", impl_->target.capability), IsaOf(impl_->target),
                                   options, llvm::Reloc::PIC_, std::nullopt));
  if (machine == nullptr) return absl::InternalError("LLVM has no code generator for PTX");
  module.setDataLayout(machine->createDataLayout());
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(module, &problems)) return absl::InternalError(absl::StrCat("malformed IR: ", problem));
  Optimise(module, *machine);
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    return absl::InternalError("LLVM emits no PTX");
  }
  passes.run(module);
  return std::string(text.begin(), text.end());
}

}  // namespace rvm::codegen
