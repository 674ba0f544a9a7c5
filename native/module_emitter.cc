#include "native/module_emitter.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/abi/machine_abi.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "native/function_emitter.h"
#include "serialization/function_types.h"

namespace rvm::native {
namespace {

using llvm::Value;

// An import as the module declares it: its LLVM type follows from its C type.
struct Import {
  std::string_view symbol;
  llvm::FunctionType* (*type)(llvm::LLVMContext& context);
  bool is_cold;
};

template <typename T>
llvm::Type* TypeOf(llvm::LLVMContext& context) {
  if constexpr (std::is_void_v<T>) {
    return llvm::Type::getVoidTy(context);
  } else if constexpr (std::is_pointer_v<T>) {
    return llvm::PointerType::getUnqual(context);
  } else {
    static_assert(std::is_same_v<T, uint64_t>);
    return llvm::Type::getInt64Ty(context);
  }
}

template <typename Function>
struct TypeOfFunction;
template <typename Result, typename... Params>
struct TypeOfFunction<Result(Params...)> {
  static llvm::FunctionType* Of(llvm::LLVMContext& context) {
    return llvm::FunctionType::get(TypeOf<Result>(context), {TypeOf<Params>(context)...}, /*isVarArg=*/false);
  }
};

enum Convention { Plain, Cold };
constexpr Import kImports[] = {
#define RVM_MACHINE_IMPORT(symbol, type, convention) {#symbol, TypeOfFunction<type>::Of, convention == Cold},
#include "kernels/abi/machine_imports.def"
};

// Assigns registers to the values of a signature, in their order.
class Registers {
 public:
  // `budget`: the place among the integers that is taken.
  Registers(RegisterCounts counts, uint32_t budget)
      : integers_(counts.integers), floats_(counts.floats), budget_(budget) {}

  struct Place {
    uint32_t index;  // among the registers, those for integers first, or in the overflow
    bool is_overflow;
  };
  Place Next(llvm::Type* type) {
    bool is_float = type->isFloatingPointTy();
    uint32_t& used = is_float ? used_floats_ : used_integers_;
    if (used == (is_float ? floats_ : integers_)) return {overflow_++, true};
    uint32_t index = used++;
    if (is_float) return {integers_ + 1 + index, false};
    return {index < budget_ ? index : index + 1, false};
  }

 private:
  uint32_t integers_, floats_, budget_;
  uint32_t used_integers_ = 0, used_floats_ = 0, overflow_ = 0;
};

// Returns a value in the type of its register, i64 or double; the upper half of a float's is undefined.
Value* ToRegister(llvm::IRBuilder<>& b, Value* value) {
  if (value->getType()->isPointerTy()) return b.CreatePtrToInt(value, b.getInt64Ty());
  if (!value->getType()->isFloatTy()) return value;
  auto* pair = llvm::FixedVectorType::get(b.getFloatTy(), 2);
  return b.CreateBitCast(b.CreateInsertElement(llvm::PoisonValue::get(pair), value, uint64_t{0}), b.getDoubleTy());
}
Value* FromRegister(llvm::IRBuilder<>& b, Value* value, llvm::Type* type) {
  if (type->isPointerTy()) return b.CreateIntToPtr(value, type);
  if (!type->isFloatTy()) return value;
  auto* pair = llvm::FixedVectorType::get(b.getFloatTy(), 2);
  return b.CreateExtractElement(b.CreateBitCast(value, pair), uint64_t{0});
}

}  // namespace

ModuleEmitter::ModuleEmitter(const Executable& executable, llvm::Module& module,
                             std::vector<llvm::Function*> small_kernels)
    : executable_(executable), module_(module), places_builder_(module), small_kernels_(std::move(small_kernels)) {
  CountRegisters();
  llvm::Type* integer = llvm::Type::getInt64Ty(context());
  llvm::Type* number = llvm::Type::getDoubleTy(context());
  std::vector<llvm::Type*> params = {llvm::PointerType::getUnqual(context())}, results;
  params.insert(params.end(), arguments_.integers + 1, integer);  // and the budget
  params.insert(params.end(), arguments_.floats, number);
  results.insert(results.end(), results_.integers + 1, integer);
  results.insert(results.end(), results_.floats, number);
  relay_type_ = llvm::FunctionType::get(llvm::StructType::get(context(), results), params, /*isVarArg=*/false);
}

void ModuleEmitter::CountRegisters() {
  auto widen = [&](RegisterCounts& counts, RegisterCounts most, std::span<const TypeId> types) {
    uint32_t floats =
        std::count_if(types.begin(), types.end(), [&](TypeId type) { return RegisterType(type)->isFloatingPointTy(); });
    counts.integers = std::clamp<uint32_t>(types.size() - floats, counts.integers, most.integers);
    counts.floats = std::clamp<uint32_t>(floats, counts.floats, most.floats);
  };
  for (const FunctionDesc& function : executable_.functions) {
    std::vector<TypeId> params;
    for (uint16_t i = 0; i < function.num_params; ++i) params.push_back(function.registers[i].type);
    widen(arguments_, {kRvmIntegerArgs, kRvmFloatArgs}, params);
    const std::vector<TypeId> result = {function.result};
    widen(results_, {kRvmIntegerResults, kRvmFloatResults},
          function.returns_fields ? executable_.types[function.result.value].fields : result);
  }
}

llvm::Type* ModuleEmitter::RegisterType(TypeId type) const {
  const TypeDesc& desc = executable_.types[type.value];
  if (desc.kind != TypeDescKind::kScalar) return llvm::PointerType::getUnqual(context());
  if (desc.dtype == kFloat32) return llvm::Type::getFloatTy(context());
  if (desc.dtype == kFloat64) return llvm::Type::getDoubleTy(context());
  return llvm::Type::getInt64Ty(context());
}

Value* ModuleEmitter::Overflow(llvm::IRBuilder<>& b, Value* machine, uint32_t index) {
  Value* place = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), machine, offsetof(RvmMachine, overflow));
  return b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), LoadConstant(b, place), index);
}

llvm::Constant* ModuleEmitter::Extents(std::span<const uint64_t> extents) {
  llvm::Constant* array = llvm::ConstantDataArray::get(context(), llvm::ArrayRef(extents.data(), extents.size()));
  llvm::GlobalVariable*& global = extents_[array];
  if (global == nullptr) {
    global = new llvm::GlobalVariable(module_, array->getType(), /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage,
                                      array, "extents");
    global->setAlignment(llvm::Align(8));
  }
  return global;
}

llvm::LoadInst* ModuleEmitter::LoadConstant(llvm::IRBuilder<>& b, Value* place) const {
  llvm::LoadInst* load = b.CreateLoad(b.getPtrTy(), place);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
  return load;
}

llvm::CallInst* ModuleEmitter::CallRelay(llvm::IRBuilder<>& b, Value* callee, Value* machine, Value* budget,
                                         std::span<Value* const> args) {
  std::vector<Value*> passed = {machine};
  for (llvm::Type* type : relay_type_->params().drop_front()) passed.push_back(llvm::PoisonValue::get(type));
  passed[1 + kRvmBudgetArg] = budget;
  Registers registers(arguments_, kRvmBudgetArg);
  for (Value* arg : args) {
    auto [index, is_overflow] = registers.Next(arg->getType());
    if (is_overflow) {
      b.CreateStore(ToSlot(b, arg), Overflow(b, machine, index));
    } else {
      passed[1 + index] = ToRegister(b, arg);
    }
  }
  llvm::CallInst* call = b.CreateCall(relay_type_, callee, passed);
  call->setCallingConv(llvm::CallingConv::Swift);
  call->addParamAttr(0, llvm::Attribute::SwiftSelf);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  call->addFnAttr(llvm::Attribute::NoMerge);
  call->setTailCallKind(llvm::CallInst::TCK_NoTail);
  return call;
}

std::vector<Value*> ModuleEmitter::ReceiveArguments(llvm::IRBuilder<>& b, llvm::Function* function,
                                                    std::span<llvm::Type* const> types) {
  std::vector<Value*> args;
  Registers registers(arguments_, kRvmBudgetArg);
  for (llvm::Type* type : types) {
    auto [index, is_overflow] = registers.Next(type);
    args.push_back(is_overflow
                       ? FromSlot(b, b.CreateLoad(b.getInt64Ty(), Overflow(b, function->getArg(0), index)), type)
                       : FromRegister(b, function->getArg(1 + index), type));
  }
  return args;
}

Value* ModuleEmitter::BudgetOf(llvm::Function* function) { return function->getArg(1 + kRvmBudgetArg); }
Value* ModuleEmitter::BudgetAfter(llvm::IRBuilder<>& b, llvm::CallInst* call) {
  return b.CreateExtractValue(call, kRvmBudgetResult);
}

Value* ModuleEmitter::PackResults(llvm::IRBuilder<>& b, Value* machine, Value* budget,
                                  std::span<Value* const> results) {
  Value* packed = llvm::PoisonValue::get(relay_type_->getReturnType());
  Registers registers(results_, kRvmBudgetResult);
  for (Value* result : results) {
    auto [index, is_overflow] = registers.Next(result->getType());
    if (is_overflow) {
      b.CreateStore(ToSlot(b, result), Overflow(b, machine, index));
    } else {
      packed = b.CreateInsertValue(packed, ToRegister(b, result), index);
    }
  }
  // The budget comes last. It is often that of the last call, and LLVM takes an element of a call's result at the same
  // place of poison for the whole result: this function would return the call's other registers, too, and spill them
  // around calls of the VM.
  return b.CreateInsertValue(packed, budget, kRvmBudgetResult);
}

std::vector<Value*> ModuleEmitter::UnpackResults(llvm::IRBuilder<>& b, Value* machine, llvm::CallInst* call,
                                                 std::span<llvm::Type* const> types) {
  std::vector<Value*> results;
  Registers registers(results_, kRvmBudgetResult);
  for (llvm::Type* type : types) {
    auto [index, is_overflow] = registers.Next(type);
    results.push_back(is_overflow ? FromSlot(b, b.CreateLoad(b.getInt64Ty(), Overflow(b, machine, index)), type)
                                  : FromRegister(b, b.CreateExtractValue(call, index), type));
  }
  return results;
}

llvm::CallInst* ModuleEmitter::CallImport(llvm::IRBuilder<>& b, llvm::StringRef name,
                                          llvm::ArrayRef<llvm::Value*> args) {
  const Import* import = std::find_if(std::begin(kImports), std::end(kImports),
                                      [&](const Import& i) { return i.symbol == std::string_view(name); });
  RVM_CHECK(import != std::end(kImports), "machine code calls a function that machine_imports.def does not list");
  auto* function = llvm::cast<llvm::Function>(module_.getOrInsertFunction(name, import->type(context())).getCallee());
  function->setDoesNotThrow();
  llvm::CallInst* call = b.CreateCall(function, args);
  if (import->is_cold) {
    function->setCallingConv(llvm::CallingConv::PreserveMost);
    function->addFnAttr(llvm::Attribute::Cold);
    call->setCallingConv(llvm::CallingConv::PreserveMost);
  }
  // Its return address tells the place.
  call->setTailCallKind(llvm::CallInst::TCK_NoTail);
  call->addFnAttr(llvm::Attribute::NoMerge);
  return call;
}

Value* ModuleEmitter::FromSlot(llvm::IRBuilder<>& b, Value* bits, llvm::Type* type) {
  if (type->isPointerTy()) return b.CreateIntToPtr(bits, type);
  if (type->isDoubleTy()) return b.CreateBitCast(bits, type);
  if (type->isFloatTy()) return b.CreateBitCast(b.CreateTrunc(bits, b.getInt32Ty()), type);
  return bits;
}

Value* ModuleEmitter::ToSlot(llvm::IRBuilder<>& b, Value* value) {
  llvm::Type* type = value->getType();
  if (type->isPointerTy()) return b.CreatePtrToInt(value, b.getInt64Ty());
  if (type->isDoubleTy()) return b.CreateBitCast(value, b.getInt64Ty());
  if (type->isFloatTy()) return b.CreateZExt(b.CreateBitCast(value, b.getInt32Ty()), b.getInt64Ty());
  return value;
}

void ModuleEmitter::Declare(uint32_t index) {
  std::string symbol = absl::StrCat(RVM_FUNCTION_SYMBOL, index);
  llvm::Function* function = llvm::Function::Create(relay_type_, llvm::Function::ExternalLinkage, symbol, module_);
  function->setCallingConv(llvm::CallingConv::Swift);
  function->addParamAttr(0, llvm::Attribute::SwiftSelf);
  function->addParamAttr(0, llvm::Attribute::NoAlias);
  function->addParamAttr(0, llvm::Attribute::NonNull);
  function->addParamAttr(0, llvm::Attribute::getWithDereferenceableBytes(context(), sizeof(RvmMachine)));
  function->setDoesNotThrow();
  // Backtraces walk the frames, so each call has one.
  function->addFnAttr("frame-pointer", "all");
  function->addFnAttr(llvm::Attribute::NoInline);
  llvm::DIFile* file = places_builder_.createFile("bytecode", "");
  llvm::DISubprogram* places =
      places_builder_.createFunction(file, symbol, "", file, 1, places_builder_.createSubroutineType({}), 1,
                                     llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  function->setSubprogram(places);
  functions_.push_back(function);
  places_.push_back(places);
}

void ModuleEmitter::EmitEntry(uint32_t index) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context());
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context()), {pointer, pointer, pointer}, false);
  llvm::Function* stub =
      llvm::Function::Create(type, llvm::Function::ExternalLinkage, absl::StrCat(RVM_STUB_SYMBOL, index), module_);
  stub->setDoesNotThrow();
  stub->addFnAttr("frame-pointer", "all");
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context(), "entry", stub));
  const FunctionDesc& desc = executable_.functions[index];
  std::vector<Value*> args;
  for (unsigned i = 0; i < desc.num_params; ++i) {
    Value* slot = b.CreateLoad(b.getInt64Ty(), b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), stub->getArg(1), i));
    args.push_back(FromSlot(b, slot, RegisterType(desc.registers[i].type)));
  }
  llvm::Type* type_of_result = RegisterType(desc.result);
  llvm::CallInst* call = CallRelay(b, functions_[index], stub->getArg(0), b.getInt64(0), args);
  Value* result = UnpackResults(b, stub->getArg(0), call, {&type_of_result, 1})[0];
  b.CreateStore(ToSlot(b, result), stub->getArg(2));
  b.CreateRetVoid();
}

void ModuleEmitter::Run() {
  module_.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  module_.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4);
  places_builder_.createCompileUnit(llvm::dwarf::DW_LANG_C, places_builder_.createFile("bytecode", ""), "relayvm",
                                    /*isOptimized=*/true, "", 0, "", llvm::DICompileUnit::LineTablesOnly);
  for (uint32_t i = 0; i < executable_.functions.size(); ++i) Declare(i);
  for (uint32_t i = 0; i < executable_.functions.size(); ++i) FunctionEmitter(*this, i).Run();
  std::vector<bool> has_stub(executable_.functions.size(), false);
  for (const Entry& entry : executable_.entries) {
    if (has_stub[entry.function.value]) continue;
    has_stub[entry.function.value] = true;
    EmitEntry(entry.function.value);
  }
  // The host may call closures of these types.
  FunctionTypes types = FunctionTypesOf(executable_);
  for (const CellLayout& layout : executable_.layouts) {
    if (layout.kind != CellKind::kClosure || !types.given[layout.type.value]) continue;
    if (has_stub[layout.function.value]) continue;
    has_stub[layout.function.value] = true;
    EmitEntry(layout.function.value);
  }
  places_builder_.finalize();
}

}  // namespace rvm::native
