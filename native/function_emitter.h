// FunctionEmitter: one function of bytecode as LLVM IR, instruction by instruction.
#ifndef RVM_NATIVE_FUNCTION_EMITTER_H_
#define RVM_NATIVE_FUNCTION_EMITTER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "native/module_emitter.h"
#include "serialization/isa/isa.h"

namespace rvm::native {

class FunctionEmitter {
 public:
  FunctionEmitter(ModuleEmitter& module, uint32_t function);

  void Run();

 private:
  using Value = llvm::Value;
  using Block = llvm::BasicBlock;

  // ---- the function: function_emitter.cc
  void Begin();
  void FindLabels();
  void EmitInstruction();
  // An opcode without an emitter does not link.
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) void Emit##Name();
#include "serialization/isa/isa.def"
  const Operand& OperandOf(std::string_view name) const;
  uint16_t RegisterOf(std::string_view name) const { return OperandOf(name).u16(); }
  uint64_t Immediate(std::string_view name) const { return OperandOf(name).value(); }
  const TypeDesc& TypeDescOf(uint16_t reg) const;
  Value* Get(uint16_t reg);
  Value* Get(std::string_view operand) { return Get(RegisterOf(operand)); }
  void Set(uint16_t reg, Value* value);
  void SetResult(Value* value) { Set(RegisterOf("dst"), value); }
  Block* NewBlock(const char* name);
  Value* Int(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  // Returns the pointer in RvmMachine at `offset`.
  Value* LoadMachine(size_t offset) { return m_.LoadConstant(b_, At(machine_, static_cast<int64_t>(offset))); }
  Value* At(Value* base, int64_t offset);
  llvm::LoadInst* Load(llvm::Type* type, Value* base, int64_t offset);
  void Store(Value* value, Value* base, int64_t offset);
  llvm::CallInst* Import(llvm::StringRef name, llvm::ArrayRef<Value*> args = {});
  // Emits `then` in a block of its own that runs if `condition` holds, which is rare if `is_rare`.
  void If(Value* condition, bool is_rare, llvm::function_ref<void()> then);
  // Returns a value from one of two blocks; `yes` is rare if `is_rare`.
  Value* Choose(Value* condition, bool is_rare, llvm::function_ref<Value*()> yes, llvm::function_ref<Value*()> no);

  // ---- branches, calls, fuel: emit_control.cc
  // Takes a call or a backward jump from the budget.
  void Pay();
  // Goes to the label, which costs if it is backward.
  void JumpTo(uint32_t target);
  void BranchOn(Value* condition);
  void CheckStack();
  Value* TagOf(uint16_t reg);
  Value* HasTag(uint16_t reg, uint16_t tag);
  Value* CodeOfClosure(Value* closure);
  std::vector<Value*> ValuesOf(const Operand& registers);
  std::vector<Value*> ValuesOfClosureCall();
  void EmitCallOf(Value* callee, std::span<Value* const> args);
  void EmitTailCallOf(Value* callee, std::span<Value* const> args);
  void EmitReturnOf(std::span<Value* const> results);
  void LeaveWindow();

  // ---- scalars: emit_scalar.cc
  Value* A() { return Get("a"); }
  Value* B() { return Get("b"); }
  Value* Immediate16() { return Int(static_cast<int16_t>(Immediate("value"))); }
  void SetFlag(Value* condition) { SetResult(b_.CreateZExt(condition, b_.getInt64Ty())); }
  Value* Divide(Value* a, Value* b, bool wants_rest, bool rounds_down);
  Value* Minimum(Value* a, Value* b);
  Value* Wrap(Value* value, DataType dtype);
  Value* Cast(Value* value, DataType from, DataType to);

  // ---- cells, counts, references: emit_cell.cc
  bool MayBeImmediate(uint16_t reg) const { return TypeDescOf(reg).kind == TypeDescKind::kAdt; }
  bool MayBeImmediate(TypeId type) const;
  Value* IsImmediate(Value* pointer);
  void Retain(Value* pointer, bool may_be_immediate);
  void Drop(Value* pointer, bool may_be_immediate);
  void CheckConstructor(uint16_t cell, uint16_t layout);
  // A block of a free list of the heap.
  struct FreeBlock {
    Value *heap, *list, *block, *count;
    Value* is_there;  // and the allocation does not fail for a test
    int64_t list_offset;
  };
  FreeBlock FindBlock(int64_t list, std::span<const FreeBlock> before = {});
  void TakeBlock(const FreeBlock& free, int64_t bytes);
  Value* NewCell(uint16_t layout);
  void WriteHeader(Value* cell, uint16_t layout);
  void WriteFields(Value* cell, const Operand& fields);
  void FreeShell(Value* cell, int64_t bytes);
  void LoadField(Value* cell, size_t field, TypeId type);
  void Unpack(bool keeps_shell);

  // ---- kernels: emit_kernel.cc
  struct DirectCall;
  void EmitKernel(llvm::StringRef import, llvm::ArrayRef<Value*> more = {});
  Value* BindArguments(DirectCall& call);
  void RunDirectly(DirectCall& call);
  void DropArguments(const DirectCall& call);
  // ---- their results: emit_result.cc
  std::vector<Value*> MakeResults(DirectCall& call);
  Value* TakeArgument(DirectCall& call, uint32_t result);
  std::vector<FreeBlock> FindBlocks(const DirectCall& call, std::span<const uint32_t> wanted);
  Value* NewTensor(const DirectCall& call, uint32_t result, const FreeBlock& block);
  void MakeOnHeap(DirectCall& call, std::span<const uint32_t> results, std::vector<Value*>& tensors);
  Value* PlaceTensor(const KernelTensor& type, uint32_t offset);
  void WriteTensor(Value* place, const KernelTensor& type, bool is_planned);
  // Returns an element as a register holds it.
  Value* ElementOf(Value* address, DataType dtype);

  // ---- tensors: emit_tensor.cc
  // Runs the instruction by a function of the VM, on the frame.
  void EmitOnFrame(llvm::StringRef import, llvm::ArrayRef<Value*> more = {});

  ModuleEmitter& m_;
  const uint32_t index_;
  const FunctionDesc& desc_;
  llvm::Function* function_;
  llvm::IRBuilder<> b_;
  Value* machine_;
  std::vector<Value*> registers_;  // variables
  Value* budget_ = nullptr;        // variable
  Value* frame_ = nullptr;         // for functions of the VM; null: none is called
  Value* window_ = nullptr;        // of the arena; null: none
  absl::flat_hash_map<uint32_t, Block*> labels_;
  // The instruction being emitted.
  Instruction at_;
  uint32_t pc_ = 0;
};

}  // namespace rvm::native

#endif  // RVM_NATIVE_FUNCTION_EMITTER_H_
