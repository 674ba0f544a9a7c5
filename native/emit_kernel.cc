// Direct calls of kernels that give scalars: no tensor is made for a result, so that all a call needs is addresses and
// extents. Small kernels become part of the function.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/abi/kernel_abi.h"
#include "kernels/abi/machine_abi.h"
#include "native/function_emitter.h"

namespace rvm::native {
namespace {

bool IsSymbolOrConstant(const Dim& dim) { return dim.is_const() || dim.kind() == DimKind::kVar; }

// Whether the code of the call can do all that KernelCaller does for this kernel.
bool IsDirect(const KernelDesc& kernel) {
  for (const KernelTensor& result : kernel.results) {
    if (!result.dims.empty()) return false;
  }
  for (const KernelTensor& param : kernel.params) {
    for (const Dim& dim : param.dims) {
      if (!IsSymbolOrConstant(dim)) return false;
    }
  }
  return kernel.values.empty() && kernel.checks.empty() && kernel.workspace.AsConst() == 0;
}

}  // namespace

FunctionEmitter::Value* FunctionEmitter::ElementOf(Value* address, DataType dtype) {
  if (dtype == kFloat32 || dtype == kFloat64) {
    return b_.CreateLoad(dtype == kFloat32 ? b_.getFloatTy() : b_.getDoubleTy(), address);
  }
  Value* element = b_.CreateLoad(b_.getIntNTy(static_cast<unsigned>(dtype.bytes()) * 8), address);
  return dtype.is_int() ? b_.CreateSExt(element, b_.getInt64Ty()) : b_.CreateZExt(element, b_.getInt64Ty());
}

// Stores the address of each argument, and the extents of the kernel's symbols. Gives whether the call may be direct:
// all elements are on the host, and extents are as the kernel has them.
FunctionEmitter::Value* FunctionEmitter::BindArguments(const KernelDesc& kernel, const Operand& args, Value* buffers,
                                                       Value* dims, Value* scalars) {
  Value* fits = b_.getTrue();
  std::vector<Value*> symbols(kernel.num_symbols, nullptr);
  Value* constants = LoadMachine(offsetof(RvmMachine, constants));
  for (uint32_t i = 0; i < args.count; ++i) {
    uint16_t arg = args.u16(i);
    bool is_constant = (arg & kConstantArg) != 0;
    if (kernel.params[i].dims.empty() && !is_constant) {
      Value* slot = At(scalars, int64_t{i} * 8);
      b_.CreateStore(m_.ToSlot(b_, Get(arg)), slot);
      Store(slot, buffers, int64_t{i} * 8);
      continue;
    }
    Value* tensor = is_constant ? Load(b_.getPtrTy(), constants, int64_t{arg & ~kConstantArg} * 8)
                                : Get(arg & static_cast<uint16_t>(~kMovedArg));
    Value* data = Load(b_.getPtrTy(), tensor, kRvmTensorDataOffset);
    fits = b_.CreateAnd(fits, b_.CreateIsNotNull(data));
    Store(data, buffers, int64_t{i} * 8);
    if (at_.opcode() != Opcode::kCallKernelDynamic || kernel.params[i].dims.empty()) continue;
    Value* extents = Load(b_.getPtrTy(), tensor, kRvmTensorDimsOffset);
    for (size_t axis = 0; axis < kernel.params[i].dims.size(); ++axis) {
      const Dim& dim = kernel.params[i].dims[axis];
      Value* extent = Load(b_.getInt64Ty(), extents, static_cast<int64_t>(axis) * 8);
      Value* expected = dim.is_const() ? Int(dim.constant()) : symbols[static_cast<size_t>(dim.id())];
      if (expected != nullptr) {
        fits = b_.CreateAnd(fits, b_.CreateICmpEQ(extent, expected));
      } else {
        symbols[static_cast<size_t>(dim.id())] = extent;
        Store(extent, dims, dim.id() * 8);
      }
    }
  }
  return fits;
}

// Calls the kernel's machine code. The function of the VM `import` makes the call where that is not possible.
void FunctionEmitter::EmitKernel(llvm::StringRef import, llvm::ArrayRef<Value*> more) {
  uint32_t index = OperandOf("kernel").u32();
  const KernelDesc& kernel = m_.executable().kernels[index];
  if (!IsDirect(kernel)) return EmitOnFrame(import, more);
  const Operand& args = OperandOf("args");
  const Operand& dsts = OperandOf("dsts");
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  auto array = [&](size_t count) { return entry.CreateAlloca(b_.getInt64Ty(), entry.getInt64(count + 1)); };
  Value* buffers = array(args.count + dsts.count);
  Value* dims = array(kernel.num_symbols);
  Value* scalars = array(args.count + dsts.count);
  Value* fits = BindArguments(kernel, args, buffers, dims, scalars);
  Value* table = LoadMachine(offsetof(RvmMachine, kernels));
  Value* code = m_.LoadConstant(b_, At(table, int64_t{index} * 8));
  Block *direct = NewBlock("direct"), *otherwise = NewBlock("by_the_vm"), *done = NewBlock("called");
  b_.CreateCondBr(b_.CreateAnd(fits, b_.CreateIsNotNull(code)), direct, otherwise);

  b_.SetInsertPoint(direct);
  auto place_of_result = [&](uint32_t i) { return At(scalars, int64_t{args.count + i} * 8); };
  for (uint32_t i = 0; i < dsts.count; ++i) Store(place_of_result(i), buffers, int64_t{args.count + i} * 8);
  Value* context = LoadMachine(offsetof(RvmMachine, kernel_context));
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy()}, false);
  Value* small = m_.SmallKernel(index);
  llvm::CallInst* call = b_.CreateCall(type, small != nullptr ? small : code, {buffers, dims, context});
  call->addFnAttr(llvm::Attribute::NoUnwind);
  call->setTailCallKind(llvm::CallInst::TCK_NoTail);
  Value* attention = LoadMachine(offsetof(RvmMachine, attention));
  Value* wanted = b_.CreateLoad(b_.getInt32Ty(), attention, /*isVolatile=*/true);
  If(b_.CreateICmpNE(b_.CreateOr(call, wanted), b_.getInt32(0)), /*is_rare=*/true,
     [&] { Import("rvm_after_kernel", {Int(index), b_.CreateZExt(call, b_.getInt64Ty())}); });
  for (uint32_t i = 0; i < args.count; ++i) {
    bool is_moved = (args.u16(i) & (kConstantArg | kMovedArg)) == kMovedArg;
    if (is_moved) Drop(Get(args.u16(i) & static_cast<uint16_t>(~kMovedArg)), /*may_be_immediate=*/false);
  }
  for (uint32_t i = 0; i < dsts.count; ++i) Set(dsts.u16(i), ElementOf(place_of_result(i), kernel.results[i].dtype));
  b_.CreateBr(done);

  b_.SetInsertPoint(otherwise);
  EmitOnFrame(import, more);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

}  // namespace rvm::native
