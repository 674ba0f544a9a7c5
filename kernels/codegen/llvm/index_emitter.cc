#include "kernels/codegen/llvm/index_emitter.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "llvm/IR/InlineAsm.h"

namespace rvm::codegen {

using llvm::Value;
using te::IndexVar;

Value* IndexEmitter::HiddenZero() {
  auto* type = llvm::FunctionType::get(b_.getInt64Ty(), false);
  return b_.CreateCall(llvm::InlineAsm::get(type, "mov.u64 $0, 0;", "=l", /*hasSideEffects=*/true));
}

// In 32 bits where that suffices: divisions are slow.
std::vector<Value*> IndexEmitter::Decode(const std::vector<IndexVar>& axes, Value* number) {
  Dim count = te::NumPositions(axes);
  bool is_short = count.is_const() && count.constant() <= std::numeric_limits<int32_t>::max();
  std::vector<Value*> positions(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    positions[i] = number;
    if (i == 0) break;
    Value* extent = e_.EmitExtent(axes[i].extent);
    Value* dividend = number;
    if (is_short) {
      dividend = b_.CreateTrunc(number, b_.getInt32Ty());
      extent = b_.CreateTrunc(extent, b_.getInt32Ty());
    }
    positions[i] = b_.CreateZExt(b_.CreateURem(dividend, extent), b_.getInt64Ty());
    number = b_.CreateZExt(b_.CreateUDiv(dividend, extent), b_.getInt64Ty());
  }
  return positions;
}

void IndexEmitter::Bind(const std::vector<IndexVar>& axes, const std::vector<Value*>& positions) {
  for (size_t i = 0; i < axes.size(); ++i) e_.Bind(axes[i], positions[i]);
}

}  // namespace rvm::codegen
