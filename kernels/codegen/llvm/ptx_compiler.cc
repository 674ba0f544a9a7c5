#include "kernels/codegen/ptx_compiler.h"

#include <algorithm>
#include <cstddef>
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
#include "kernels/te/kernel_symbols.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
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

// Emits the function of one launch into a module of its own, where all names are the same for all launches.
class GridEntryEmitter {
 public:
  GridEntryEmitter(llvm::Module& module, const Schedule& schedule)
      : module_(module), schedule_(schedule), b_(module.getContext()), e_(b_, schedule.target) {}

  // Returns the entry, and the functions of its nests.
  std::vector<llvm::Function*> Run(const schedule::NestGroup& launch);

  // Returns what the launch passes to the entry. Once, after Run.
  std::vector<PtxLaunch::Argument> TakeArguments() { return std::move(arguments_); }

 private:
  void AddTensors(llvm::ArrayRef<EmittedNest> nests);
  void AddSymbols(const schedule::NestGroup& launch, llvm::ArrayRef<EmittedNest> nests);
  PtxLaunch::Argument PlaceOf(const te::Tensor& tensor) const;
  void Begin();
  Value* PointerOf(const te::Tensor& tensor) const { return pointers_.at(tensor.get()); }
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
  std::vector<te::Tensor> tensors_;  // each of which is a parameter
  std::vector<Dim> symbols_;         // likewise, behind them
  std::vector<PtxLaunch::Argument> arguments_;
  absl::flat_hash_map<const te::TensorNode*, Value*> pointers_;
};

void GridEntryEmitter::AddTensors(llvm::ArrayRef<EmittedNest> nests) {
  for (const EmittedNest& nest : nests) {
    for (const te::Tensor& tensor : nest.tensors) {
      bool is_known = std::any_of(tensors_.begin(), tensors_.end(),
                                  [&](const te::Tensor& known) { return known.get() == tensor.get(); });
      if (!is_known) tensors_.push_back(tensor);
    }
  }
}

// Adds the symbols that a nest reads, and those in the extents by which the launch divides the work.
void GridEntryEmitter::AddSymbols(const schedule::NestGroup& launch, llvm::ArrayRef<EmittedNest> nests) {
  std::vector<Dim> read;
  for (size_t n = 0; n < launch.count; ++n) {
    for (const te::IndexVar& axis : schedule_.nests[launch.first + n].axes) te::AddVariables(axis.extent, read);
  }
  for (const EmittedNest& nest : nests) {
    te::AddVariables(nest.count, read);
    for (size_t i = 0; i < schedule_.symbols.size(); ++i) {
      // Behind the range of positions and the tensors.
      auto parameter = static_cast<unsigned>(2 + nest.tensors.size() + i);
      if (!nest.function->getArg(parameter)->use_empty()) te::AddVariables(schedule_.symbols[i], read);
    }
  }
  for (const Dim& symbol : schedule_.symbols) {
    if (std::find(read.begin(), read.end(), symbol) != read.end()) symbols_.push_back(symbol);
  }
}

PtxLaunch::Argument GridEntryEmitter::PlaceOf(const te::Tensor& tensor) const {
  if (tensor->kind == te::TensorKind::kInput) return {static_cast<size_t>(tensor->input_index), 0};
  const te::Computation& computation = schedule_.computation;
  const schedule::TensorBuffer& buffer = schedule_.buffers.at(tensor.get());
  if (buffer.is_output) return {computation.inputs.size() + static_cast<size_t>(buffer.output), 0};
  return {computation.inputs.size() + computation.outputs.size(), buffer.offset};
}

// Scalar arguments go to allocas, because nests load their inputs. SROA removes the allocas.
void GridEntryEmitter::Begin() {
  llvm::Type *i64 = b_.getInt64Ty(), *pointer = b_.getPtrTy();
  std::vector<llvm::Type*> parameters;
  auto is_scalar = [](const te::Tensor& tensor) {
    return tensor->kind == te::TensorKind::kInput && tensor.rank() == 0;
  };
  for (const te::Tensor& tensor : tensors_) parameters.push_back(is_scalar(tensor) ? i64 : pointer);
  parameters.insert(parameters.end(), symbols_.size(), i64);
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), parameters, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "launch", module_);
  function_->setDoesNotThrow();
  Annotate("kernel", 1);
  b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function_));
  unsigned next = 0;
  for (const te::Tensor& tensor : tensors_) {
    llvm::Argument* argument = function_->getArg(next++);
    arguments_.push_back(PlaceOf(tensor));
    Value* place = argument;
    if (is_scalar(tensor)) {
      place = b_.CreateAlloca(i64);
      b_.CreateStore(argument, place);
    } else {
      argument->addAttr(llvm::Attribute::getWithAlignment(b_.getContext(), llvm::Align(kTensorAlignment)));
    }
    pointers_[tensor.get()] = place;
  }
  size_t first = schedule_.computation.inputs.size() + schedule_.computation.outputs.size() + 1;
  for (size_t i = 0; i < schedule_.symbols.size(); ++i) {
    const Dim& symbol = schedule_.symbols[i];
    // A symbol that the nests do not read is a parameter of them nonetheless.
    bool is_read = std::find(symbols_.begin(), symbols_.end(), symbol) != symbols_.end();
    e_.symbols[symbol.id()] = is_read ? static_cast<Value*>(function_->getArg(next++)) : b_.getInt64(0);
    if (is_read) arguments_.push_back({first + i, 0});
  }
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

std::vector<llvm::Function*> GridEntryEmitter::Run(const schedule::NestGroup& launch) {
  std::vector<EmittedNest> nests;
  if (launch.team) {
    nests.push_back(EmitRowTeam(module_, schedule_, launch, "rows"));
  } else {
    for (size_t n = 0; n < launch.count; ++n) {
      std::string of_nest = absl::StrCat("nest", n);
      nests.push_back(EmitNest(module_, schedule_, schedule_.nests[launch.first + n], of_nest, NestUnits::kOfGrid));
    }
  }
  for (const EmittedNest& nest : nests) {
    nest.function->removeFnAttr(llvm::Attribute::NoInline);
    nest.function->addFnAttr(llvm::Attribute::AlwaysInline);
  }
  AddTensors(nests);
  AddSymbols(launch, nests);
  Begin();
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

// Returns the name of a function that is called but does not exist on a GPU; "": there is none.
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

absl::Status IsMissing(const std::string& function) {
  bool wide = function.back() != 'f' || function == "erf";
  return absl::UnimplementedError(absl::StrCat(
      "it computes `", wide ? function : function.substr(0, function.size() - 1), wide ? "` in float64" : "`"));
}

// Inlines the nests of a launch, and returns the text of its module: equal for launches that do the same.
std::string TextOf(llvm::Module& module) {
  RunPasses(module, nullptr, {}, [](llvm::PassBuilder&) {
    llvm::ModulePassManager passes;
    passes.addPass(llvm::AlwaysInlinerPass());
    return passes;
  });
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
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
  RunPasses(module, &machine, tuning, [](llvm::PassBuilder& builder) {
    llvm::ModulePassManager passes;
    // Run SROA first, after inlining. A later pass may merge two loads into one with a selected address; if one is a
    // scalar's alloca, SROA could no longer remove it.
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
  // The functions by number, each in a module, and the texts of their modules.
  std::vector<std::unique_ptr<llvm::Module>> functions;
  absl::flat_hash_map<std::string, size_t> numbers;
};

PtxCompiler::PtxCompiler(const PtxTarget& target) : impl_(std::make_unique<Impl>()) {
  impl_->target = target;
  impl_->context.setDiscardValueNames(true);
}
PtxCompiler::~PtxCompiler() = default;

absl::StatusOr<std::vector<PtxLaunch>> PtxCompiler::Add(const std::string& name, const Schedule& schedule) {
  // Rejects scans even if they have a single element and therefore no dependence.
  for (const schedule::LoopNest& nest : schedule.nests) {
    if (nest.tensors[0].tensor->is_ordered) return absl::UnimplementedError("it sorts");
    if (nest.tensors[0].tensor->self) return absl::UnimplementedError("it computes elements one after the other");
  }
  std::vector<PtxLaunch> launches;
  std::vector<std::unique_ptr<llvm::Module>> modules;
  for (const schedule::NestGroup& launch : schedule::Launches(schedule)) {
    auto module = std::make_unique<llvm::Module>("kernels", impl_->context);
    module->setTargetTriple(kTriple);
    GridEntryEmitter emitter(*module, schedule);
    for (llvm::Function* function : emitter.Run(launch)) {
      if (std::string missing = MissingFunction(*function); !missing.empty()) return IsMissing(missing);
    }
    launches.push_back({0, emitter.TakeArguments()});
    modules.push_back(std::move(module));
  }
  for (size_t i = 0; i < launches.size(); ++i) {
    auto [it, added] = impl_->numbers.try_emplace(TextOf(*modules[i]), impl_->functions.size());
    launches[i].function = it->second;
    if (!added) continue;
    modules[i]->getFunction("launch")->setName(absl::StrCat(name, "_", i));
    impl_->functions.push_back(std::move(modules[i]));
  }
  return launches;
}

absl::StatusOr<std::string> PtxCompiler::Finish() {
  llvm::Module module("kernels", impl_->context);
  module.setTargetTriple(kTriple);
  llvm::Linker linker(module);
  for (std::unique_ptr<llvm::Module>& function : impl_->functions) {
    if (linker.linkInModule(std::move(function))) return absl::InternalError("functions that do not link");
  }
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
