// ModuleEmitter: an executable's functions as an LLVM module, and what its functions share.
#ifndef RVM_NATIVE_MODULE_EMITTER_H_
#define RVM_NATIVE_MODULE_EMITTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/abi/machine_abi.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "serialization/executable.h"

namespace rvm::native {

// Registers for values of calls, by kind.
struct RegisterCounts {
  uint32_t integers, floats;
};

class ModuleEmitter {
 public:
  // `executable` is verified. `small_kernels`: by kernel, those that become part of their callers; null for others, or
  // no list.
  ModuleEmitter(const Executable& executable, llvm::Module& module, std::vector<llvm::Function*> small_kernels);

  // Emits all functions, and the stubs of entries.
  void Run();

  const Executable& executable() const { return executable_; }
  llvm::LLVMContext& context() const { return module_.getContext(); }
  llvm::DISubprogram* PlacesOf(uint32_t function) const { return places_[function]; }
  llvm::Function* FunctionOf(uint32_t function) const { return functions_[function]; }

  // Null: the kernel is called.
  llvm::Function* SmallKernel(uint32_t kernel) const {
    return kernel < small_kernels_.size() ? small_kernels_[kernel] : nullptr;
  }

  // Returns the type of a value in a register: ptr for objects, float, double, or i64.
  llvm::Type* RegisterType(TypeId type) const;
  bool IsPointer(TypeId type) const { return RegisterType(type)->isPointerTy(); }
  // Returns the type of every function.
  llvm::FunctionType* relay_type() const { return relay_type_; }
  // Calls a function of Relay with `args`, of register types.
  llvm::CallInst* CallRelay(llvm::IRBuilder<>& b, llvm::Value* callee, llvm::Value* machine, llvm::Value* budget,
                            std::span<llvm::Value* const> args);
  // Returns the budget that `function` takes, and that a call leaves.
  static llvm::Value* BudgetOf(llvm::Function* function);
  static llvm::Value* BudgetAfter(llvm::IRBuilder<>& b, llvm::CallInst* call);
  // Returns the arguments of `function`, of these register types; to be called at its begin.
  std::vector<llvm::Value*> ReceiveArguments(llvm::IRBuilder<>& b, llvm::Function* function,
                                             std::span<llvm::Type* const> types);
  // Results as the function returns them, and those of a call.
  llvm::Value* PackResults(llvm::IRBuilder<>& b, llvm::Value* machine, llvm::Value* budget,
                           std::span<llvm::Value* const> results);
  std::vector<llvm::Value*> UnpackResults(llvm::IRBuilder<>& b, llvm::Value* machine, llvm::CallInst* call,
                                          std::span<llvm::Type* const> types);
  // Calls a function of the VM (machine_imports.def).
  llvm::CallInst* CallImport(llvm::IRBuilder<>& b, llvm::StringRef name, llvm::ArrayRef<llvm::Value*> args);
  // Returns the extents of a shape, in constant memory.
  llvm::Constant* Extents(std::span<const uint64_t> extents);
  // Loads a pointer that never changes while functions run.
  llvm::LoadInst* LoadConstant(llvm::IRBuilder<>& b, llvm::Value* place) const;
  // Bits of a 64-bit slot as a value of the register type `type`, and back.
  static llvm::Value* FromSlot(llvm::IRBuilder<>& b, llvm::Value* bits, llvm::Type* type);
  static llvm::Value* ToSlot(llvm::IRBuilder<>& b, llvm::Value* value);

 private:
  // Counts the registers that the calls of this program need: each argument takes the compiler time, also one that is
  // poison. Those in front of the budget are there in any case, so that its place is the same in all programs.
  void CountRegisters();
  // Returns the place of the `index`-th value without a register.
  llvm::Value* Overflow(llvm::IRBuilder<>& b, llvm::Value* machine, uint32_t index);
  void Declare(uint32_t function);
  void EmitEntry(uint32_t function);

  const Executable& executable_;
  llvm::Module& module_;
  llvm::DIBuilder places_builder_;
  RegisterCounts arguments_ = {kRvmBudgetArg, 0};
  RegisterCounts results_ = {kRvmBudgetResult, 0};
  llvm::FunctionType* relay_type_;
  llvm::DenseMap<llvm::Constant*, llvm::GlobalVariable*> extents_;  // by their array
  std::vector<llvm::Function*> small_kernels_;
  std::vector<llvm::Function*> functions_;
  std::vector<llvm::DISubprogram*> places_;  // whose lines are units of bytecode, from 1
};

}  // namespace rvm::native

#endif  // RVM_NATIVE_MODULE_EMITTER_H_
