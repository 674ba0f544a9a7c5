// Branches, calls, returns, and what they pay.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/abi/machine_abi.h"
#include "llvm/IR/MDBuilder.h"
#include "native/function_emitter.h"

namespace rvm::native {

void FunctionEmitter::Pay() {
  Value* budget = b_.CreateSub(b_.CreateLoad(b_.getInt64Ty(), budget_), Int(1));
  b_.CreateStore(budget, budget_);
  If(b_.CreateICmpSLT(budget, Int(0)), /*is_rare=*/true, [&] { b_.CreateStore(Import("rvm_poll"), budget_); });
}

void FunctionEmitter::JumpTo(uint32_t target) {
  if (target <= pc_) Pay();
  b_.CreateBr(labels_.at(target));
}

void FunctionEmitter::BranchOn(Value* condition) {
  uint32_t target = OperandOf("target").u32();
  Block *taken = NewBlock("taken"), *next = NewBlock("next");
  b_.CreateCondBr(condition, taken, next);
  b_.SetInsertPoint(taken);
  JumpTo(target);
  b_.SetInsertPoint(next);
}

// Ends the run if the frame lies below the stack's limit. Before calls rather than at the function's begin: paths
// without calls then need no frame. LLVM drops a check behind another one.
void FunctionEmitter::CheckStack() {
  Value* frame = b_.CreateIntrinsic(llvm::Intrinsic::frameaddress, {b_.getPtrTy()}, {b_.getInt32(0)});
  Value* limit = LoadMachine(offsetof(RvmMachine, stack_limit));
  If(b_.CreateICmpULT(frame, limit), /*is_rare=*/true, [&] {
    Import("rvm_stack_overflow")->setDoesNotReturn();
    b_.CreateUnreachable();
  });
}

FunctionEmitter::Value* FunctionEmitter::TagOf(uint16_t reg) {
  const AdtDesc& adt = m_.executable().adts[TypeDescOf(reg).adt.value];
  Value* value = Get(reg);
  size_t with_fields = 0, tag = 0;
  for (size_t i = 0; i < adt.constructors.size(); ++i) {
    if (!adt.constructors[i].layout.valid()) continue;
    ++with_fields;
    tag = i;
  }
  auto immediate = [&] { return b_.CreateLShr(b_.CreatePtrToInt(value, b_.getInt64Ty()), 1); };
  auto of_cell = [&]() -> Value* {
    if (with_fields == 1) return Int(static_cast<int64_t>(tag));
    return b_.CreateZExt(Load(b_.getInt16Ty(), value, kRvmTagOffset), b_.getInt64Ty());
  };
  if (with_fields == 0) return immediate();
  if (with_fields == adt.constructors.size()) return of_cell();
  return Choose(IsImmediate(value), /*is_rare=*/false, immediate, of_cell);
}

FunctionEmitter::Value* FunctionEmitter::HasTag(uint16_t reg, uint16_t tag) {
  const AdtDesc& adt = m_.executable().adts[TypeDescOf(reg).adt.value];
  if (!adt.constructors[tag].layout.valid()) {
    return b_.CreateICmpEQ(Get(reg), b_.CreateIntToPtr(Int(int64_t{tag} << 1 | 1), b_.getPtrTy()));
  }
  bool is_only_one = true;  // with fields
  for (size_t i = 0; i < adt.constructors.size(); ++i) {
    if (i != tag && adt.constructors[i].layout.valid()) is_only_one = false;
  }
  if (is_only_one) return b_.CreateNot(IsImmediate(Get(reg)));
  return b_.CreateICmpEQ(TagOf(reg), Int(tag));
}

void FunctionEmitter::EmitSwitch() {
  const Operand& targets = OperandOf("targets");
  Block* none = NewBlock("no_such_tag");
  llvm::SwitchInst* choice = b_.CreateSwitch(TagOf(RegisterOf("adt")), none, targets.count);
  for (uint32_t i = 0; i < targets.count; ++i) {
    Block* target = labels_.at(targets.u32(i));
    if (targets.u32(i) <= pc_) {
      target = NewBlock("back");
      b_.SetInsertPoint(target);
      JumpTo(targets.u32(i));
    }
    choice->addCase(b_.getInt64(i), target);
  }
  b_.SetInsertPoint(none);
  b_.CreateUnreachable();
}

std::vector<FunctionEmitter::Value*> FunctionEmitter::ValuesOf(const Operand& registers) {
  std::vector<Value*> values;
  for (uint32_t i = 0; i < registers.count; ++i) values.push_back(Get(registers.u16(i)));
  return values;
}

FunctionEmitter::Value* FunctionEmitter::CodeOfClosure(Value* closure) {
  Value* layout = b_.CreateZExt(Load(b_.getInt16Ty(), closure, kRvmLayoutOffset), b_.getInt64Ty());
  Value* table = LoadMachine(offsetof(RvmMachine, closures));
  return b_.CreateLoad(b_.getPtrTy(), b_.CreateInBoundsGEP(b_.getPtrTy(), table, layout));
}

void FunctionEmitter::EmitCallOf(Value* callee, std::span<Value* const> args) {
  CheckStack();
  llvm::CallInst* call = m_.CallRelay(b_, callee, machine_, b_.CreateLoad(b_.getInt64Ty(), budget_), args);
  b_.CreateStore(ModuleEmitter::BudgetAfter(b_, call), budget_);
  std::vector<uint16_t> registers;
  if (at_.opcode() == Opcode::kCallFields) {
    const Operand& dsts = OperandOf("dsts");
    for (uint32_t i = 0; i < dsts.count; ++i) registers.push_back(dsts.u16(i));
  } else {
    registers.push_back(RegisterOf("dst"));
  }
  std::vector<llvm::Type*> types;
  for (uint16_t reg : registers) types.push_back(m_.RegisterType(desc_.registers[reg].type));
  std::vector<Value*> results = m_.UnpackResults(b_, machine_, call, types);
  for (size_t i = 0; i < results.size(); ++i) Set(registers[i], results[i]);
}

void FunctionEmitter::EmitTailCallOf(Value* callee, std::span<Value* const> args) {
  LeaveWindow();
  llvm::CallInst* call = m_.CallRelay(b_, callee, machine_, b_.CreateLoad(b_.getInt64Ty(), budget_), args);
  call->setTailCallKind(llvm::CallInst::TCK_MustTail);
  b_.CreateRet(call);
}

void FunctionEmitter::EmitReturnOf(std::span<Value* const> results) {
  LeaveWindow();
  b_.CreateRet(m_.PackResults(b_, machine_, b_.CreateLoad(b_.getInt64Ty(), budget_), results));
}

void FunctionEmitter::LeaveWindow() {
  if (window_ != nullptr) Import("rvm_pop_window", {window_});
}

// ---- instructions

void FunctionEmitter::EmitJump() { JumpTo(OperandOf("target").u32()); }
void FunctionEmitter::EmitBranchIf() { BranchOn(b_.CreateICmpNE(Get("cond"), Int(0))); }
void FunctionEmitter::EmitBranchUnless() { BranchOn(b_.CreateICmpEQ(Get("cond"), Int(0))); }
void FunctionEmitter::EmitBranchEqInt() { BranchOn(b_.CreateICmpEQ(A(), B())); }
void FunctionEmitter::EmitBranchNeInt() { BranchOn(b_.CreateICmpNE(A(), B())); }
void FunctionEmitter::EmitBranchLtInt() { BranchOn(b_.CreateICmpSLT(A(), B())); }
void FunctionEmitter::EmitBranchLeInt() { BranchOn(b_.CreateICmpSLE(A(), B())); }
void FunctionEmitter::EmitBranchEqImm() { BranchOn(b_.CreateICmpEQ(A(), Immediate16())); }
void FunctionEmitter::EmitBranchNeImm() { BranchOn(b_.CreateICmpNE(A(), Immediate16())); }
void FunctionEmitter::EmitBranchLtImm() { BranchOn(b_.CreateICmpSLT(A(), Immediate16())); }
void FunctionEmitter::EmitBranchGeImm() { BranchOn(b_.CreateICmpSGE(A(), Immediate16())); }
void FunctionEmitter::EmitBranchTag() { BranchOn(HasTag(RegisterOf("adt"), static_cast<uint16_t>(Immediate("tag")))); }

void FunctionEmitter::EmitFatal() {
  Import("rvm_stop", {Int(kRvmNoClauseFits)})->setDoesNotReturn();
  b_.CreateUnreachable();
}

void FunctionEmitter::EmitReturn() {
  Value* result = Get("result");
  EmitReturnOf({&result, 1});
}
void FunctionEmitter::EmitReturnFields() { EmitReturnOf(ValuesOf(OperandOf("fields"))); }

void FunctionEmitter::EmitCall() {
  Pay();
  EmitCallOf(m_.FunctionOf(OperandOf("callee").u32()), ValuesOf(OperandOf("args")));
}
void FunctionEmitter::EmitCallFields() { EmitCall(); }
void FunctionEmitter::EmitTailCall() {
  Pay();
  EmitTailCallOf(m_.FunctionOf(OperandOf("callee").u32()), ValuesOf(OperandOf("args")));
}

// The closure is the first argument of its function.
std::vector<FunctionEmitter::Value*> FunctionEmitter::ValuesOfClosureCall() {
  std::vector<Value*> args = ValuesOf(OperandOf("args"));
  args.insert(args.begin(), Get("closure"));
  return args;
}
void FunctionEmitter::EmitCallClosure() {
  Pay();
  std::vector<Value*> args = ValuesOfClosureCall();
  EmitCallOf(CodeOfClosure(args[0]), args);
}
void FunctionEmitter::EmitTailCallClosure() {
  Pay();
  std::vector<Value*> args = ValuesOfClosureCall();
  EmitTailCallOf(CodeOfClosure(args[0]), args);
}

}  // namespace rvm::native
