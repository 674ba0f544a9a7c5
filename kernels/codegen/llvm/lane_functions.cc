#include "kernels/codegen/llvm/lane_functions.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "kernels/codegen/llvm/byte_tables.h"
#include "kernels/codegen/llvm/math.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace rvm::codegen {
namespace {

using llvm::IRBuilder;
using llvm::Value;

// The numbers of lanes of vectors that may call a function: an element is as wide as the float or wider.
constexpr unsigned kLanes[] = {2, 4, 8, 16};

struct Row {
  LaneFunction function;
  const char* name;
  size_t arity;
};

constexpr Row kRows[] = {
    {LaneFunction::kExp, "rvm.exp", 1},     {LaneFunction::kSin, "rvm.sin", 1},
    {LaneFunction::kCos, "rvm.cos", 1},     {LaneFunction::kTan, "rvm.tan", 1},
    {LaneFunction::kLog, "rvm.log", 1},     {LaneFunction::kLog2, "rvm.log2", 1},
    {LaneFunction::kLog10, "rvm.log10", 1}, {LaneFunction::kAsinh, "rvm.asinh", 1},
    {LaneFunction::kAcosh, "rvm.acosh", 1}, {LaneFunction::kAtanh, "rvm.atanh", 1},
    {LaneFunction::kPower, "rvm.power", 2},
};

std::string VectorName(const Row& row, unsigned lanes) { return absl::StrCat(row.name, ".", lanes); }

llvm::Function* Declare(llvm::Module& module, const std::string& name, llvm::Type* type, size_t arity) {
  std::vector<llvm::Type*> parameters(arity, type);
  return DeclareLaneFunction(module, name, llvm::FunctionType::get(type, parameters, false));
}

MathTarget FactsOf(const llvm::Function& function) {
  llvm::StringRef features = function.getFnAttribute("target-features").getValueAsString();
  llvm::SmallVector<llvm::StringRef, 64> list;
  features.split(list, ',');
  llvm::Triple triple(function.getParent()->getTargetTriple());
  return {.has_fma = triple.isAArch64() || llvm::is_contained(list, "+fma"),
          .has_avx512 = llvm::is_contained(list, "+avx512f") && llvm::is_contained(list, "+avx512dq") &&
                        llvm::is_contained(list, "+avx512vl")};
}

// Returns the function for numbers that are not near, out of line: its many constants then are no burden to the loop.
llvm::Function* FarFunction(llvm::CallInst& call, LaneFunction function) {
  std::string name = absl::StrCat(Abseil(call.getCalledFunction()->getName()), ".far");
  llvm::Function& user = *call.getFunction();
  llvm::Module& module = *user.getParent();
  if (llvm::Function* made = module.getFunction(name)) return made;
  llvm::Function* far = llvm::Function::Create(call.getFunctionType(), llvm::Function::InternalLinkage, name, module);
  for (const char* attribute : {"target-cpu", "tune-cpu", "target-features", "prefer-vector-width", "no-builtins"}) {
    if (user.hasFnAttribute(attribute)) far->addFnAttr(user.getFnAttribute(attribute));
  }
  for (auto attribute : {llvm::Attribute::NoInline, llvm::Attribute::Cold}) far->addFnAttr(attribute);
  far->setDoesNotThrow();
  far->setDoesNotAccessMemory();
  far->setWillReturn();
  IRBuilder<> b(llvm::BasicBlock::Create(module.getContext(), "entry", far));
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b.setFastMathFlags(flags);
  b.CreateRet(EmitAnywhere(b, function, {far->getArg(0)}, {}));
  return far;
}

// Returns the power of positive finite numbers with finite exponents; where a lane has others, code for all cases
// follows.
Value* EmitUsualPower(IRBuilder<>& b, llvm::CallInst& call, const MathTarget& target) {
  Value *x = call.getArgOperand(0), *y = call.getArgOperand(1);
  UsualPower usual = EmitPowerOfMagnitude(b, x, y, target);
  bool is_vector = call.getType()->isVectorTy();
  Value* any = is_vector ? b.CreateOrReduce(usual.is_unusual) : usual.is_unusual;
  llvm::BasicBlock* before = call.getParent();
  llvm::Instruction* end = llvm::SplitBlockAndInsertIfThen(any, call.getIterator(), /*Unreachable=*/false);
  b.SetInsertPoint(end);
  Value* other = EmitSpecialPowers(b, x, y, usual.value);
  b.SetInsertPoint(&call);
  llvm::PHINode* phi = b.CreatePHI(call.getType(), 2);
  phi->addIncoming(usual.value, before);
  phi->addIncoming(other, end->getParent());
  return phi;
}

// Chooses by lane between the code for near numbers and, where any lane needs it, a call for the others.
Value* EmitNearAndFar(IRBuilder<>& b, llvm::CallInst& call, LaneFunction function) {
  Value* x = call.getArgOperand(0);
  NearValue near =
      function == LaneFunction::kTan ? EmitNearTan(b, x) : EmitNearSin(b, x, function == LaneFunction::kCos ? 1 : 0);
  Value* any = near.is_far->getType()->isVectorTy() ? b.CreateOrReduce(near.is_far) : near.is_far;
  llvm::BasicBlock* before = call.getParent();
  llvm::Instruction* end = llvm::SplitBlockAndInsertIfThen(
      any, call.getIterator(), /*Unreachable=*/false, llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(end);
  Value* other = b.CreateSelect(near.is_far, b.CreateCall(FarFunction(call, function), {x}), near.value);
  b.SetInsertPoint(&call);
  llvm::PHINode* phi = b.CreatePHI(call.getType(), 2);
  phi->addIncoming(near.value, before);
  phi->addIncoming(other, end->getParent());
  return phi;
}

void Expand(llvm::CallInst& call, LaneFunction function) {
  IRBuilder<> b(&call);
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b.setFastMathFlags(flags);
  MathTarget target = FactsOf(*call.getFunction());
  bool has_near = function == LaneFunction::kSin || function == LaneFunction::kCos || function == LaneFunction::kTan;
  llvm::SmallVector<Value*, 2> args(call.args());
  if (function == LaneFunction::kPower) {
    Value* power = EmitUsualPower(b, call, target);
    call.replaceAllUsesWith(power);
    call.eraseFromParent();
    return;
  }
  Value* value =
      has_near && target.has_fma ? EmitNearAndFar(b, call, function) : EmitAnywhere(b, function, args, target);
  call.replaceAllUsesWith(value);
  call.eraseFromParent();
}

}  // namespace

llvm::Function* DeclareLaneFunction(llvm::Module& module, const std::string& name, llvm::FunctionType* type) {
  auto* function = llvm::cast<llvm::Function>(module.getOrInsertFunction(name, type).getCallee());
  function->setDoesNotThrow();
  function->setDoesNotAccessMemory();
  function->setWillReturn();
  function->setSpeculatable();
  return function;
}

Value* EmitAnywhere(IRBuilder<>& b, LaneFunction function, llvm::ArrayRef<Value*> args, const MathTarget& target) {
  switch (function) {
    case LaneFunction::kExp: return EmitExp(b, args[0], target);
    case LaneFunction::kSin: return EmitSin(b, args[0]);
    case LaneFunction::kCos: return EmitCos(b, args[0]);
    case LaneFunction::kTan: return EmitTan(b, args[0]);
    case LaneFunction::kLog: return EmitLog(b, args[0], LogBase::kE, target);
    case LaneFunction::kLog2: return EmitLog(b, args[0], LogBase::k2, target);
    case LaneFunction::kLog10: return EmitLog(b, args[0], LogBase::k10, target);
    case LaneFunction::kAsinh: return EmitAsinh(b, args[0], target);
    case LaneFunction::kAcosh: return EmitAcosh(b, args[0], target);
    case LaneFunction::kAtanh: return EmitAtanh(b, args[0], target);
    case LaneFunction::kPower: return EmitPower(b, args[0], args[1], target);
  }
}

Value* CallLaneFunction(IRBuilder<>& b, LaneFunction function, llvm::ArrayRef<Value*> args) {
  const Row& row = kRows[static_cast<size_t>(function)];
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  std::vector<std::string> variants;
  for (unsigned lanes : kLanes) {
    std::string name = VectorName(row, lanes);
    Declare(module, name, llvm::FixedVectorType::get(b.getFloatTy(), lanes), row.arity);
    variants.push_back(absl::StrCat("_ZGV_LLVM_N", lanes, std::string(row.arity, 'v'), "_", row.name, "(", name, ")"));
  }
  llvm::CallInst* call = b.CreateCall(Declare(module, row.name, b.getFloatTy(), row.arity), args);
  call->addFnAttr(llvm::Attribute::get(b.getContext(), "vector-function-abi-variant", absl::StrJoin(variants, ",")));
  return call;
}

llvm::PreservedAnalyses ExpandLaneFunctionsPass::run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
  std::vector<std::pair<llvm::CallInst*, LaneFunction>> calls;
  auto collect = [&](const std::string& name, LaneFunction function) {
    llvm::Function* declared = module.getFunction(name);
    if (declared == nullptr) return;
    for (llvm::User* user : declared->users()) calls.emplace_back(llvm::cast<llvm::CallInst>(user), function);
  };
  for (const Row& row : kRows) {
    collect(row.name, row.function);
    for (unsigned lanes : kLanes) collect(VectorName(row, lanes), row.function);
  }
  for (auto [call, function] : calls) Expand(*call, function);
  const bool has_tables = ExpandByteLookups(module);
  return calls.empty() && !has_tables ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

}  // namespace rvm::codegen
