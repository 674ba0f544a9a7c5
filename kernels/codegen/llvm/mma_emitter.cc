#include "kernels/codegen/llvm/mma_emitter.h"

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace rvm::codegen {

using llvm::Value;

namespace {

struct MmaInstruction {
  DataType row_dtype, column_dtype;
  int64_t depth;
  llvm::Intrinsic::ID id;
};
constexpr MmaInstruction kInstructions[] = {
    {kFloat16, kFloat16, 8, llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_f32_f32},
    {kFloat16, kFloat16, 16, llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32},
    {kBFloat16, kBFloat16, 16, llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16},
    {kFloat32, kFloat32, 8, llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32},
    {kInt8, kInt8, 16, llvm::Intrinsic::nvvm_mma_m8n8k16_row_col_s8},
    {kInt8, kUInt8, 16, llvm::Intrinsic::nvvm_mma_m8n8k16_row_col_s8_u8},
    {kUInt8, kInt8, 16, llvm::Intrinsic::nvvm_mma_m8n8k16_row_col_u8_s8},
    {kUInt8, kUInt8, 16, llvm::Intrinsic::nvvm_mma_m8n8k16_row_col_u8},
    {kInt8, kInt8, 32, llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8},
    {kInt8, kUInt8, 32, llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8_u8},
    {kUInt8, kInt8, 32, llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_u8_s8},
    {kUInt8, kUInt8, 32, llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_u8},
};

llvm::Intrinsic::ID IntrinsicOf(const schedule::Mma& mma) {
  for (const MmaInstruction& one : kInstructions) {
    if (one.row_dtype == mma.row_dtype && one.column_dtype == mma.column_dtype && one.depth == mma.depth) return one.id;
  }
  RVM_UNREACHABLE("tensor cores have no such instruction");
}

}  // namespace

Value* EmitNarrow(llvm::IRBuilder<>& b, DataType dtype, Value* value) {
  if (dtype == kFloat16) return b.CreateBitCast(b.CreateFPTrunc(value, b.getHalfTy()), b.getInt16Ty());
  if (dtype == kBFloat16)
    return b.CreateTrunc(b.CreateLShr(b.CreateBitCast(value, b.getInt32Ty()), 16), b.getInt16Ty());
  return dtype.is_float() ? value : b.CreateTrunc(value, b.getIntNTy(dtype.bits));
}

Value* EmitWord(llvm::IRBuilder<>& b, llvm::ArrayRef<Value*> elements) {
  if (elements.size() == 1) return b.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {}, {elements[0]});
  auto* type = llvm::FixedVectorType::get(elements[0]->getType(), static_cast<unsigned>(elements.size()));
  Value* vector = llvm::PoisonValue::get(type);
  for (size_t i = 0; i < elements.size(); ++i) vector = b.CreateInsertElement(vector, elements[i], i);
  return b.CreateBitCast(vector, b.getInt32Ty());
}

std::vector<Value*> EmitMma(llvm::IRBuilder<>& b, const schedule::Mma& mma, llvm::ArrayRef<Value*> rows,
                            llvm::ArrayRef<Value*> columns, llvm::ArrayRef<Value*> sums) {
  std::vector<Value*> operands;
  auto* halves = llvm::FixedVectorType::get(b.getHalfTy(), 2);
  for (llvm::ArrayRef<Value*> words : {rows, columns}) {
    for (Value* word : words) operands.push_back(mma.row_dtype == kFloat16 ? b.CreateBitCast(word, halves) : word);
  }
  operands.insert(operands.end(), sums.begin(), sums.end());
  llvm::CallInst* call = b.CreateIntrinsic(IntrinsicOf(mma), {}, operands);
  call->setConvergent();
  std::vector<Value*> results;
  for (unsigned i = 0; i < sums.size(); ++i) results.push_back(b.CreateExtractValue(call, i));
  return results;
}

}  // namespace rvm::codegen
