// Emits the scalar expressions of loop nests (kernels/schedule/loop_nest.h) as IR.
#ifndef RVM_KERNELS_CODEGEN_LLVM_EXPR_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_EXPR_EMITTER_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/codegen/llvm/lane_functions.h"
#include "kernels/schedule/target.h"
#include "kernels/te/expr_pool.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace rvm::codegen {

// Elements in registers: bool is i1, integers are iN, float16 and bfloat16 are float.
class ExprEmitter {
 public:
  ExprEmitter(llvm::IRBuilder<>& builder, const schedule::Target& target) : b_(builder), target_(target) {
    scopes_.emplace_back();
  }

  // Values of the variables and tensors in expressions.
  absl::flat_hash_map<const te::TensorNode*, llvm::Value*> pointers;
  absl::flat_hash_map<int64_t, llvm::Value*> symbols;  // by id of the variable

  llvm::Value* Emit(const te::Expr& e);
  llvm::Value* EmitExtent(const Dim& dim);
  llvm::Value* EmitVariable(const te::IndexVar& variable);
  // Within the current scope:
  void Bind(const te::IndexVar& variable, llvm::Value* value) { scopes_.back().variables[variable.id] = value; }
  void BindValue(const te::ExprNode* expression, llvm::Value* value) { scopes_.back().values[expression] = value; }
  void BindTensor(const te::TensorNode* tensor, llvm::Value* value) { scopes_.back().tensors[tensor] = value; }

  // Values emitted in a scope are reused until it ends. Open a scope for each block that does not dominate the blocks
  // that follow.
  struct Scope {
    absl::flat_hash_map<const te::ExprNode*, llvm::Value*> values;
    absl::flat_hash_map<int64_t, llvm::Value*> variables;
    absl::flat_hash_map<const te::TensorNode*, llvm::Value*> tensors;
  };
  void OpenScope(Scope scope = {}) { scopes_.push_back(std::move(scope)); }
  // Returns what was emitted in the scope, to open it again where that dominates.
  Scope CloseScope() {
    Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    return scope;
  }

  llvm::Type* RegisterType(DataType dtype);
  llvm::Type* MemoryType(DataType dtype);
  llvm::Value* Load(DataType dtype, llvm::Value* pointer, llvm::Value* offset);
  // `count` elements that follow each other, aligned to their size together.
  std::vector<llvm::Value*> LoadVector(DataType dtype, llvm::Value* pointer, llvm::Value* offset, int64_t count);
  // Elements as they are in memory, converted to numbers of a dtype that holds them or rounds them to nearest.
  llvm::Value* WidenVector(DataType from, DataType to, llvm::Value* elements);
  llvm::StoreInst* Store(DataType dtype, llvm::Value* value, llvm::Value* pointer, llvm::Value* offset);
  llvm::Value* Address(DataType dtype, llvm::Value* pointer, llvm::Value* offset);
  // Rounds to the precision of `dtype`.
  llvm::Value* Round(DataType dtype, llvm::Value* value);
  llvm::Value* EmitBinary(te::BinaryOp op, DataType dtype, llvm::Value* x, llvm::Value* y);

 private:
  llvm::Value* EmitOnThisStack(const te::Expr& e);
  llvm::Value* EmitIndexArithmetic(const te::ExprNode& e);
  llvm::Value* EmitRead(const te::ExprNode& e);
  llvm::Value* EmitSelect(const te::ExprNode& e);
  llvm::Value* EmitCast(DataType from, DataType to, llvm::Value* x);
  llvm::Value* EmitSaturating(DataType from, DataType to, llvm::Value* x);
  llvm::Value* EmitBitcast(DataType from, DataType to, llvm::Value* x);
  llvm::Value* FromBits(DataType dtype, llvm::Value* bits);
  llvm::Value* ToBits(DataType dtype, llvm::Value* value);
  llvm::Value* EmitLane(LaneFunction function, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* EmitUnary(te::UnaryOp op, DataType dtype, llvm::Value* x);
  llvm::Value* EmitFloatUnary(te::UnaryOp op, llvm::Value* x);
  llvm::Value* EmitIntUnary(te::UnaryOp op, DataType dtype, llvm::Value* x);
  llvm::Value* EmitFloatBinary(te::BinaryOp op, llvm::Value* x, llvm::Value* y);
  llvm::Value* EmitBoolBinary(te::BinaryOp op, llvm::Value* x, llvm::Value* y);
  llvm::Value* EmitIntBinary(te::BinaryOp op, DataType dtype, llvm::Value* x, llvm::Value* y);
  llvm::Value* EmitFloatRemainder(llvm::Value* x, llvm::Value* y);
  llvm::Value* EmitSignedQuotient(llvm::Value* x, llvm::Value* y);
  llvm::Value* EmitDivision(te::BinaryOp op, bool is_signed, llvm::Value* x, llvm::Value* y);
  llvm::Value* EmitIntPower(DataType dtype, llvm::Value* x, llvm::Value* y);
  llvm::Value* CallImport(const char* name, std::vector<llvm::Value*> args);

  llvm::IRBuilder<>& b_;
  const schedule::Target& target_;
  std::vector<Scope> scopes_;
};

// Binds the axes to the position of that number, the last axis fastest.
void BindFlat(llvm::IRBuilder<>& b, ExprEmitter& e, const std::vector<te::IndexVar>& axes, llvm::Value* number);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_EXPR_EMITTER_H_
