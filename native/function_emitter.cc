#include "native/function_emitter.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/check.h"
#include "kernels/abi/machine_abi.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"

namespace rvm::native {
namespace {

// Returns whether a function of the VM executes such instructions.
bool RunsOnFrame(Opcode opcode) {
  constexpr Opcode kOpcodes[] = {
      Opcode::kCallKernel, Opcode::kCallKernelPlanned, Opcode::kCallKernelDynamic, Opcode::kCallHost,
      Opcode::kView,       Opcode::kCheckShape,        Opcode::kCheckDims};
  return std::find(std::begin(kOpcodes), std::end(kOpcodes), opcode) != std::end(kOpcodes);
}

}  // namespace

FunctionEmitter::FunctionEmitter(ModuleEmitter& module, uint32_t function)
    : m_(module),
      index_(function),
      desc_(module.executable().functions[function]),
      function_(module.FunctionOf(function)),
      b_(module.context()),
      machine_(function_->getArg(0)) {}

FunctionEmitter::Block* FunctionEmitter::NewBlock(const char* name) {
  return Block::Create(m_.context(), name, function_);
}

const Operand& FunctionEmitter::OperandOf(std::string_view name) const {
  for (const Operand& operand : at_.operands()) {
    if (operand.spec->name == name) return operand;
  }
  RVM_UNREACHABLE("an instruction has no operand of this name");
}

const TypeDesc& FunctionEmitter::TypeDescOf(uint16_t reg) const {
  return m_.executable().types[desc_.registers[reg].type.value];
}

FunctionEmitter::Value* FunctionEmitter::Get(uint16_t reg) {
  return b_.CreateLoad(m_.RegisterType(desc_.registers[reg].type), registers_[reg]);
}

void FunctionEmitter::Set(uint16_t reg, Value* value) { b_.CreateStore(value, registers_[reg]); }

FunctionEmitter::Value* FunctionEmitter::At(Value* base, int64_t offset) {
  return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, static_cast<uint64_t>(offset));
}

llvm::LoadInst* FunctionEmitter::Load(llvm::Type* type, Value* base, int64_t offset) {
  return b_.CreateLoad(type, At(base, offset));
}

void FunctionEmitter::Store(Value* value, Value* base, int64_t offset) { b_.CreateStore(value, At(base, offset)); }

llvm::CallInst* FunctionEmitter::Import(llvm::StringRef name, llvm::ArrayRef<Value*> args) {
  std::vector<Value*> all = {machine_};
  all.insert(all.end(), args.begin(), args.end());
  return m_.CallImport(b_, name, all);
}

void FunctionEmitter::If(Value* condition, bool is_rare, llvm::function_ref<void()> then) {
  Block *yes = NewBlock("then"), *done = NewBlock("done");
  llvm::MDBuilder weights(m_.context());
  b_.CreateCondBr(condition, yes, done, is_rare ? weights.createUnlikelyBranchWeights() : nullptr);
  b_.SetInsertPoint(yes);
  then();
  if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

FunctionEmitter::Value* FunctionEmitter::Choose(Value* condition, bool is_rare, llvm::function_ref<Value*()> yes,
                                                llvm::function_ref<Value*()> no) {
  Block *on_yes = NewBlock("yes"), *on_no = NewBlock("no"), *done = NewBlock("chosen");
  llvm::MDBuilder weights(m_.context());
  b_.CreateCondBr(condition, on_yes, on_no, is_rare ? weights.createUnlikelyBranchWeights() : nullptr);
  b_.SetInsertPoint(on_yes);
  Value* first = yes();
  Block* end_of_yes = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(on_no);
  Value* second = no();
  Block* end_of_no = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  llvm::PHINode* phi = b_.CreatePHI(first->getType(), 2);
  phi->addIncoming(first, end_of_yes);
  phi->addIncoming(second, end_of_no);
  return phi;
}

void FunctionEmitter::FindLabels() {
  bool needs_frame = false;
  for (uint32_t pc = 0; pc < desc_.code.size(); pc += at_.length) {
    at_ = *ReadInstruction(desc_.code, pc);
    needs_frame = needs_frame || RunsOnFrame(at_.opcode());
    for (const Operand& operand : at_.operands()) {
      if (operand.kind() != OperandKind::kLabel && operand.kind() != OperandKind::kLabels) continue;
      for (uint32_t i = 0; i < operand.count; ++i) {
        Block*& block = labels_[operand.u32(i)];
        if (block == nullptr) block = NewBlock("label");
      }
    }
  }
  if (needs_frame) frame_ = b_.CreateAlloca(b_.getInt64Ty(), b_.getInt64(desc_.registers.size()), "frame");
}

// Registers are variables, which LLVM takes into its own.
void FunctionEmitter::Begin() {
  b_.SetInsertPoint(NewBlock("entry"));
  for (const RegisterDesc& reg : desc_.registers) registers_.push_back(b_.CreateAlloca(m_.RegisterType(reg.type)));
  budget_ = b_.CreateAlloca(b_.getInt64Ty());
  FindLabels();
  b_.CreateStore(ModuleEmitter::BudgetOf(function_), budget_);
  std::vector<llvm::Type*> types;
  for (uint16_t i = 0; i < desc_.num_params; ++i) types.push_back(m_.RegisterType(desc_.registers[i].type));
  std::vector<Value*> params = m_.ReceiveArguments(b_, function_, types);
  for (uint16_t i = 0; i < desc_.num_params; ++i) Set(i, params[i]);
  if (desc_.arena_bytes > 0) window_ = Import("rvm_push_window", {b_.getInt64(desc_.arena_bytes)});
}

void FunctionEmitter::Run() {
  b_.SetCurrentDebugLocation(llvm::DILocation::get(m_.context(), 1, 0, m_.PlacesOf(index_)));
  Begin();
  for (pc_ = 0; pc_ < desc_.code.size(); pc_ += at_.length) {
    b_.SetCurrentDebugLocation(llvm::DILocation::get(m_.context(), pc_ + 1, 0, m_.PlacesOf(index_)));
    at_ = *ReadInstruction(desc_.code, pc_);
    auto label = labels_.find(pc_);
    bool has_ended = b_.GetInsertBlock()->getTerminator() != nullptr;
    if (label != labels_.end()) {
      if (!has_ended) b_.CreateBr(label->second);
      b_.SetInsertPoint(label->second);
    } else if (has_ended) {
      b_.SetInsertPoint(NewBlock("unreachable"));
    }
    EmitInstruction();
  }
  // Only calls tell where they are.
  for (Block& block : *function_) {
    for (llvm::Instruction& instruction : block) {
      if (!llvm::isa<llvm::CallBase>(instruction) || llvm::isa<llvm::IntrinsicInst>(instruction))
        instruction.setDebugLoc(llvm::DebugLoc());
    }
  }
}

void FunctionEmitter::EmitInstruction() {
  switch (at_.opcode()) {
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) \
  case Opcode::k##Name: return Emit##Name();
#include "serialization/isa/isa.def"
  }
}

}  // namespace rvm::native
