// Direct calls of kernels: those that give scalars, or small tensors of fixed shapes. All that such a call needs is
// addresses and extents. Small kernels become part of the function.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/abi/kernel_abi.h"
#include "kernels/abi/machine_abi.h"
#include "native/direct_call.h"
#include "native/function_emitter.h"

namespace rvm::native {
namespace {

// Maximum size of a result, in bytes: what the pool has.
constexpr int64_t kMaxResultBytes = kRvmMaxBlockBytes - kRvmTensorHeaderBytes;
// Maximum size of all arguments, where extents that are symbols count as 1. A kernel that reads more takes so long that
// it does not matter how it is called, and the code of a direct call takes time to compile.
constexpr int64_t kMaxArgumentBytes = 8 << 10;

bool IsSymbolOrConstant(const Dim& dim) { return dim.is_const() || dim.kind() == DimKind::kVar; }

// Size of the elements, or `limit` + 1 if it is greater than that. Symbols count as 1.
int64_t BytesUpTo(const KernelTensor& tensor, int64_t limit) {
  int64_t bytes = tensor.dtype.bytes();
  for (const Dim& dim : tensor.dims) {
    int64_t extent = dim.is_const() ? std::clamp<int64_t>(dim.constant(), 1, limit + 1) : 1;
    bytes = std::min(bytes * extent, limit + 1);
  }
  return bytes;
}

// Returns whether the result may be made by the code. A tensor of a dynamic call has its extents behind its header.
bool IsSmallResult(const KernelTensor& tensor, bool is_static) {
  constexpr size_t kMaxRankInHeader = 3;
  bool is_fixed = std::all_of(tensor.dims.begin(), tensor.dims.end(),
                              [](const Dim& dim) { return dim.is_const() && dim.constant() >= 0; });
  return is_fixed && (is_static || tensor.dims.size() <= kMaxRankInHeader) &&
         BytesUpTo(tensor, kMaxResultBytes) <= kMaxResultBytes;
}

// Returns whether the code of the call can do all that KernelCaller does for this kernel.
bool IsDirect(const KernelDesc& kernel, bool is_static) {
  if (!std::all_of(kernel.results.begin(), kernel.results.end(),
                   [&](const KernelTensor& result) { return IsSmallResult(result, is_static); })) {
    return false;
  }
  int64_t bytes = 0;
  for (const KernelTensor& param : kernel.params) {
    if (!std::all_of(param.dims.begin(), param.dims.end(), IsSymbolOrConstant)) return false;
    bytes += BytesUpTo(param, kMaxArgumentBytes);
    if (bytes > kMaxArgumentBytes) return false;
  }
  std::optional<int64_t> workspace = kernel.workspace.AsConst();
  return kernel.values.empty() && kernel.checks.empty() && kernel.updates.empty() && workspace.has_value() &&
         *workspace >= 0 && *workspace <= kRvmMinWorkspaceBytes;
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
// all elements are on the host, extents are as the kernel has them, and there is scratch memory if it needs any.
FunctionEmitter::Value* FunctionEmitter::BindArguments(DirectCall& call) {
  const KernelDesc& kernel = call.kernel;
  const Operand& args = call.args;
  Value* fits = b_.getTrue();
  std::vector<Value*> symbols(kernel.num_symbols, nullptr);
  Value* constants = LoadMachine(offsetof(RvmMachine, constants));
  for (uint32_t i = 0; i < args.count; ++i) {
    uint16_t arg = args.u16(i);
    bool is_constant = (arg & kConstantArg) != 0;
    if (kernel.params[i].dims.empty() && !is_constant) {
      Value* slot = At(call.scalars, int64_t{i} * 8);
      b_.CreateStore(m_.ToSlot(b_, Get(arg)), slot);
      Store(slot, call.buffers, int64_t{i} * 8);
      continue;
    }
    Value* tensor =
        is_constant ? Load(b_.getPtrTy(), constants, int64_t{arg & ~kConstantArg} * 8) : Get(call.RegisterOf(i));
    Value* data = Load(b_.getPtrTy(), tensor, kRvmTensorDataOffset);
    fits = b_.CreateAnd(fits, b_.CreateIsNotNull(data));
    Store(data, call.buffers, int64_t{i} * 8);
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
        Store(extent, call.dims, dim.id() * 8);
      }
    }
  }
  if (kernel.workspace.AsConst() != 0) {
    Value* context = LoadMachine(offsetof(RvmMachine, kernel_context));
    Value* workspace = Load(b_.getPtrTy(), context, offsetof(RvmKernelContext, workspace));
    fits = b_.CreateAnd(fits, b_.CreateIsNotNull(workspace, "has_space"));
  }
  return fits;
}

// Drops the arguments that the call consumes and no result has taken.
void FunctionEmitter::DropArguments(const DirectCall& call) {
  for (uint32_t i = 0; i < call.args.count; ++i) {
    if (!call.IsMoved(i)) continue;
    auto drop = [&] { Drop(Get(call.RegisterOf(i)), /*may_be_immediate=*/false); };
    if (call.is_taken[i] == nullptr) {
      drop();
    } else {
      If(b_.CreateNot(call.is_taken[i], "must_drop"), /*is_rare=*/false, drop);
    }
  }
}

// Runs the kernel's machine code on the arguments that were bound.
void FunctionEmitter::RunDirectly(DirectCall& call) {
  std::vector<Value*> tensors = MakeResults(call);
  Value* context = LoadMachine(offsetof(RvmMachine, kernel_context));
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy()}, false);
  Value* code = m_.SmallKernel(call.index);
  if (code == nullptr) code = call.code;
  llvm::CallInst* run = b_.CreateCall(type, code, {call.buffers, call.dims, context});
  run->addFnAttr(llvm::Attribute::NoUnwind);
  run->setTailCallKind(llvm::CallInst::TCK_NoTail);
  Value* attention = LoadMachine(offsetof(RvmMachine, attention));
  Value* wanted = b_.CreateLoad(b_.getInt32Ty(), attention, /*isVolatile=*/true);
  If(b_.CreateICmpNE(b_.CreateOr(run, wanted), b_.getInt32(0), "must_look"), /*is_rare=*/true,
     [&] { Import("rvm_after_kernel", {Int(call.index), b_.CreateZExt(run, b_.getInt64Ty())}); });
  DropArguments(call);
  for (uint32_t i = 0; i < call.dsts.count; ++i) {
    Value* place = At(call.scalars, (int64_t{call.args.count} + i) * 8);
    Set(call.dsts.u16(i), tensors[i] != nullptr ? tensors[i] : ElementOf(place, call.kernel.results[i].dtype));
  }
}

// Calls the kernel's machine code. The function of the VM `import` makes the call where that is not possible.
void FunctionEmitter::EmitKernel(llvm::StringRef import, llvm::ArrayRef<Value*> more) {
  uint32_t index = OperandOf("kernel").u32();
  const KernelDesc& kernel = m_.executable().kernels[index];
  if (!IsDirect(kernel, at_.opcode() != Opcode::kCallKernelDynamic)) return EmitOnFrame(import, more);
  DirectCall call = {kernel, index, OperandOf("args"), OperandOf("dsts"), NewBlock("by_the_vm")};
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  auto array = [&](size_t count) { return entry.CreateAlloca(b_.getInt64Ty(), entry.getInt64(count + 1)); };
  call.buffers = array(call.args.count + call.dsts.count);
  call.dims = array(kernel.num_symbols);
  call.scalars = array(call.args.count + call.dsts.count);
  call.is_taken.resize(call.args.count, nullptr);
  Value* fits = BindArguments(call);
  call.code = m_.LoadConstant(b_, At(LoadMachine(offsetof(RvmMachine, kernels)), int64_t{index} * 8));
  fits = b_.CreateAnd(fits, b_.CreateIsNotNull(call.code));
  Block *direct = NewBlock("direct"), *done = NewBlock("called");
  b_.CreateCondBr(fits, direct, call.by_the_vm);
  b_.SetInsertPoint(direct);
  RunDirectly(call);
  b_.CreateBr(done);

  b_.SetInsertPoint(call.by_the_vm);
  EmitOnFrame(import, more);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

}  // namespace rvm::native
