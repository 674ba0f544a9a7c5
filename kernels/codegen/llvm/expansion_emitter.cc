#include "kernels/codegen/llvm/expansion_emitter.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace rvm::codegen {
namespace {

using llvm::Value;
using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;

// Integers are in lanes of 32 bits, extended by their sign or by zeros, whatever their dtype: what IsExpansion accepts
// of narrower ones needs no more bits.
class ExpansionEmitter {
 public:
  ExpansionEmitter(llvm::IRBuilder<>& b, ExprEmitter& e, int64_t lanes,
                   llvm::function_ref<Value*(const ExprNode&)> load)
      : b_(b), e_(e), lanes_(static_cast<unsigned>(lanes)), load_(load) {}

  Value* Emit(const Expr& e) {
    auto [found, is_new] = done_.try_emplace(e.get(), nullptr);
    if (!is_new) return found->second;
    Value* value = WithStack([&] { return EmitNode(e); });
    return done_[e.get()] = value;
  }

 private:
  Value* EmitNode(const Expr& e) {
    if (e->kind == ExprKind::kRead) return Held(e->dtype, load_(*e));
    if (Value* looked_up = EmitLookup(e)) return looked_up;
    if (e->kind == ExprKind::kCast && !IsUniform(e)) return EmitCast(e->operands[0].dtype(), e->dtype, e->operands[0]);
    if (e->kind == ExprKind::kBinary && !IsUniform(e)) {
      Value *x = Emit(e->operands[0]), *y = Emit(e->operands[1]);
      return e->dtype.is_float() ? EmitFloats(e->binary, x, y) : EmitIntegers(e->binary, e->dtype, x, y);
    }
    Value* scalar = e_.Emit(e);
    if (e->dtype.is_float()) return b_.CreateVectorSplat(lanes_, scalar);
    return b_.CreateVectorSplat(lanes_, b_.CreateIntCast(scalar, b_.getInt32Ty(), e->dtype.is_int()));
  }

  // Returns a float32 that depends on four bits alone, as one permutation of a table; null if it is something else, or
  // the lanes are not 16.
  Value* EmitLookup(const Expr& e) {
    if (is_table_ || lanes_ != kTableSize || e.dtype() != kFloat32) return nullptr;
    const ExprNode* code = nullptr;
    for (const ExprNode* node : te::Postorder({e})) {
      if (IsCode(*node)) code = code == nullptr ? node : nullptr;
      if (IsCode(*node) && code == nullptr) return nullptr;
    }
    if (code == nullptr || ReadsBeside(e, code)) return nullptr;
    llvm::SmallVector<llvm::Constant*, kTableSize> codes;
    const auto mask = static_cast<uint32_t>(code->operands[1]->int_value);
    for (uint32_t i = 0; i < lanes_; ++i) codes.push_back(b_.getInt32(i & mask));
    // The builder folds operations on constants. The permutation drops the upper bits of an index.
    ExpansionEmitter on_codes(b_, e_, lanes_, load_);
    on_codes.is_table_ = true;
    on_codes.done_[code] = llvm::ConstantVector::get(codes);
    auto* table = llvm::dyn_cast<llvm::Constant>(on_codes.Emit(e));
    if (table == nullptr) return nullptr;
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {table, Emit(code->operands[0])});
  }

  // Returns whether the node has no more than the four lowest bits of its first operand.
  static bool IsCode(const ExprNode& e) {
    return e.kind == ExprKind::kBinary && e.binary == BinaryOp::kAnd && e.operands[1]->kind == ExprKind::kIntConst &&
           e.operands[1]->int_value > 0 && e.operands[1]->int_value < kTableSize;
  }

  // Returns whether `e` reads elements that `code` does not.
  static bool ReadsBeside(const Expr& e, const ExprNode* code) {
    if (e.get() == code) return false;
    if (e->kind == ExprKind::kRead) return true;
    return std::any_of(e->operands.begin(), e->operands.end(), [&](const Expr& x) { return ReadsBeside(x, code); });
  }

  static bool IsUniform(const Expr& e) {
    for (const ExprNode* node : te::Postorder({e})) {
      if (node->kind == ExprKind::kRead) return false;
    }
    return true;
  }

  // Elements as they are in memory, as they are held.
  Value* Held(DataType dtype, Value* elements) {
    if (dtype == kFloat32) return elements;
    return e_.WidenVector(dtype, dtype.is_float() ? kFloat32 : kInt32, elements);
  }

  Value* EmitCast(DataType from, DataType to, const Expr& operand) {
    Value* x = Emit(operand);
    if (from.is_float() || !to.is_float()) return x;
    return b_.CreateSIToFP(x, llvm::FixedVectorType::get(b_.getFloatTy(), lanes_));
  }

  Value* EmitFloats(BinaryOp op, Value* x, Value* y) {
    if (op == BinaryOp::kAdd) return b_.CreateFAdd(x, y);
    return op == BinaryOp::kSubtract ? b_.CreateFSub(x, y) : b_.CreateFMul(x, y);
  }

  Value* EmitIntegers(BinaryOp op, DataType dtype, Value* x, Value* y) {
    if (op == BinaryOp::kAdd) return b_.CreateAdd(x, y);
    if (op == BinaryOp::kSubtract) return b_.CreateSub(x, y);
    if (op == BinaryOp::kMultiply) return b_.CreateMul(x, y);
    if (op == BinaryOp::kAnd) return b_.CreateAnd(x, y);
    if (op == BinaryOp::kOr) return b_.CreateOr(x, y);
    if (op == BinaryOp::kXor) return b_.CreateXor(x, y);
    RVM_CHECK(op == BinaryOp::kShiftRight, "an operation that tiles do not expand");
    return dtype.is_int() ? b_.CreateAShr(x, y) : b_.CreateLShr(x, y);
  }

  static constexpr int64_t kTableSize = 16;  // floats of a register of 512 bits

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  unsigned lanes_;
  bool is_table_ = false;  // emits the table of a lookup
  llvm::function_ref<Value*(const ExprNode&)> load_;
  absl::flat_hash_map<const ExprNode*, Value*> done_;
};

}  // namespace

Value* EmitExpansion(llvm::IRBuilder<>& b, ExprEmitter& e, const Expr& expansion, int64_t lanes,
                     llvm::function_ref<Value*(const ExprNode&)> load) {
  return ExpansionEmitter(b, e, lanes, load).Emit(expansion);
}

}  // namespace rvm::codegen
