// Kernels and tensors. The VM executes what is more than a load.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/abi/machine_abi.h"
#include "native/function_emitter.h"

namespace rvm::native {

namespace {

// Returns the registers whose values an operand reads, in its order; `wants_written`: that it writes.
std::vector<uint16_t> RegistersOf(const Operand& operand, bool wants_written) {
  OperandKind kind = operand.kind();
  bool is_written = kind == OperandKind::kOut || kind == OperandKind::kOuts;
  bool is_read = kind == OperandKind::kIn || kind == OperandKind::kMove || kind == OperandKind::kMoves ||
                 kind == OperandKind::kArgs;
  std::vector<uint16_t> registers;
  if (wants_written ? !is_written : !is_read) return registers;
  for (uint32_t i = 0; i < operand.count; ++i) {
    uint16_t reg = operand.u16(i);
    if (kind == OperandKind::kArgs && (reg & kConstantArg) != 0) continue;
    registers.push_back(kind == OperandKind::kArgs ? reg & static_cast<uint16_t>(~kMovedArg) : reg);
  }
  return registers;
}

}  // namespace

// Stores the operands where the interpreter has its registers, and loads the results from there.
void FunctionEmitter::EmitOnFrame(llvm::StringRef import, llvm::ArrayRef<Value*> more) {
  auto slot = [&](uint16_t reg) { return At(frame_, int64_t{reg} * 8); };
  for (const Operand& operand : at_.operands()) {
    for (uint16_t reg : RegistersOf(operand, /*wants_written=*/false)) {
      b_.CreateStore(m_.ToSlot(b_, Get(reg)), slot(reg));
    }
  }
  Value* codes = LoadMachine(offsetof(RvmMachine, code));
  Value* code = m_.LoadConstant(b_, At(codes, int64_t{index_} * 8));
  std::vector<Value*> args = {At(code, int64_t{pc_} * 2), frame_};
  args.insert(args.end(), more.begin(), more.end());
  Import(import, args);
  for (const Operand& operand : at_.operands()) {
    for (uint16_t reg : RegistersOf(operand, /*wants_written=*/true)) {
      Value* bits = b_.CreateLoad(b_.getInt64Ty(), slot(reg));
      Set(reg, m_.FromSlot(b_, bits, m_.RegisterType(desc_.registers[reg].type)));
    }
  }
}

// ---- instructions

void FunctionEmitter::EmitCallKernel() { EmitKernel("rvm_call_kernel"); }
void FunctionEmitter::EmitCallKernelPlanned() {
  // Without an arena, no result is there.
  EmitKernel("rvm_call_kernel_planned", {window_ != nullptr ? window_ : llvm::ConstantPointerNull::get(b_.getPtrTy())});
}
void FunctionEmitter::EmitCallKernelDynamic() { EmitKernel("rvm_call_kernel_dynamic"); }
void FunctionEmitter::EmitCallHost() { EmitOnFrame("rvm_call_host"); }
void FunctionEmitter::EmitView() { EmitOnFrame("rvm_view"); }
void FunctionEmitter::EmitCheckShape() { EmitOnFrame("rvm_check_shape"); }
void FunctionEmitter::EmitCheckDims() { EmitOnFrame("rvm_check_dims"); }

void FunctionEmitter::EmitLoadConst() {
  Value* constants = LoadMachine(offsetof(RvmMachine, constants));
  SetResult(Load(b_.getPtrTy(), constants, static_cast<int64_t>(Immediate("constant")) * 8));
}

void FunctionEmitter::EmitGetDim() {
  Value* dims = Load(b_.getPtrTy(), Get("tensor"), kRvmTensorDimsOffset);
  SetResult(Load(b_.getInt64Ty(), dims, static_cast<int64_t>(Immediate("axis")) * 8));
}

void FunctionEmitter::EmitGetElement() {
  uint16_t reg = RegisterOf("tensor");
  Value* tensor = Get(reg);
  If(b_.CreateIsNull(Load(b_.getPtrTy(), tensor, kRvmTensorDataOffset)), /*is_rare=*/true,
     [&] { Import("rvm_fetch_tensor", {tensor}); });
  DataType dtype = TypeDescOf(reg).dtype;
  int64_t offset = static_cast<int64_t>(Immediate("element")) * dtype.bytes();
  Value* data = Load(b_.getPtrTy(), tensor, kRvmTensorDataOffset);
  SetResult(ElementOf(At(data, offset), dtype));
}

}  // namespace rvm::native
