#include "kernels/codegen/llvm/expr_emitter.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/element.h"
#include "base/literal.h"
#include "base/stack_guard.h"
#include "kernels/codegen/llvm/byte_tables.h"
#include "kernels/codegen/llvm/lane_functions.h"
#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/math.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen {

using llvm::Value;
using llvm::Intrinsic::ID;
using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::UnaryOp;

namespace {

// Returns the least and the greatest integer of a dtype of at most 32 bits. Each is a double.
std::pair<double, double> LimitsOf(DataType dtype) {
  const double end = std::ldexp(1.0, dtype.is_int() ? static_cast<int>(dtype.bits) - 1 : static_cast<int>(dtype.bits));
  return {dtype.is_int() ? -end : 0, end - 1};
}

// Returns what is left of the operand of a cast to `dtype` without limits that the cast sets as well.
const Expr& WithoutLimits(const Expr& e, DataType dtype) {
  if (e->kind != ExprKind::kBinary || e->operands[1]->kind != ExprKind::kFloatConst) return e;
  if (!(dtype.is_int() || dtype.is_uint()) || dtype.bits > 16) return e;
  const Expr& limit = e->operands[1];
  const auto [least, most] = LimitsOf(dtype);
  const bool is_reached = (e->binary == BinaryOp::kMaximum && limit->float_value <= least) ||
                          (e->binary == BinaryOp::kMinimum && limit->float_value >= most);
  return is_reached ? WithoutLimits(e->operands[0], dtype) : e;
}

}  // namespace

llvm::Type* ExprEmitter::RegisterType(DataType dtype) {
  if (dtype.is_float()) return dtype.bits == 64 ? b_.getDoubleTy() : b_.getFloatTy();
  return b_.getIntNTy(dtype.bits);
}

llvm::Type* ExprEmitter::MemoryType(DataType dtype) {
  if (dtype.is_small_float()) return b_.getIntNTy(dtype.bits);
  return dtype.is_bool() ? b_.getInt8Ty() : RegisterType(dtype);
}

Value* ExprEmitter::Address(DataType dtype, Value* pointer, Value* offset) {
  return b_.CreateInBoundsGEP(MemoryType(dtype), pointer, offset);
}

Value* ExprEmitter::Load(DataType dtype, Value* pointer, Value* offset) {
  Value* raw = b_.CreateAlignedLoad(MemoryType(dtype), Address(dtype, pointer, offset),
                                    llvm::Align(static_cast<uint64_t>(dtype.bytes())));
  if (dtype.is_bool()) return b_.CreateICmpNE(raw, b_.getInt8(0));
  return dtype.is_small_float() ? FromBits(dtype, raw) : raw;
}

std::vector<Value*> ExprEmitter::LoadVector(DataType dtype, Value* pointer, Value* offset, int64_t count) {
  auto* type = llvm::FixedVectorType::get(MemoryType(dtype), static_cast<unsigned>(count));
  Value* raw = b_.CreateAlignedLoad(type, Address(dtype, pointer, offset),
                                    llvm::Align(static_cast<uint64_t>(count * dtype.bytes())));
  std::vector<Value*> values;
  for (int64_t i = 0; i < count; ++i) {
    Value* element = b_.CreateExtractElement(raw, static_cast<uint64_t>(i));
    values.push_back(dtype.is_small_float() ? FromBits(dtype, element) : element);
  }
  return values;
}

// Returns the value of a small float, from its bits, and its bits, from a value.
Value* ExprEmitter::FromBits(DataType dtype, Value* bits) {
  if (dtype == kBFloat16) return EmitBFloatToFloat(b_, bits);
  if (dtype == kFloat16 && target_.has_half_conversions) return EmitHalfToFloat(b_, bits);
  return EmitBitsToFloat(b_, bits, *FindDataType(dtype)->format);
}

Value* ExprEmitter::ToBits(DataType dtype, Value* value) {
  if (dtype == kBFloat16) return EmitFloatToBFloat(b_, value);
  if (dtype == kFloat16 && target_.has_half_conversions)
    return b_.CreateBitCast(b_.CreateFPTrunc(value, b_.getHalfTy()), b_.getInt16Ty());
  return EmitFloatToBits(b_, value, *FindDataType(dtype)->format);
}

llvm::StoreInst* ExprEmitter::Store(DataType dtype, Value* value, Value* pointer, Value* offset) {
  if (dtype.is_bool()) {
    value = b_.CreateZExt(value, b_.getInt8Ty());
  } else if (dtype.is_small_float()) {
    value = ToBits(dtype, value);
  }
  return b_.CreateAlignedStore(value, Address(dtype, pointer, offset),
                               llvm::Align(static_cast<uint64_t>(dtype.bytes())));
}

Value* ExprEmitter::Round(DataType dtype, Value* value) {
  return dtype.is_small_float() ? FromBits(dtype, ToBits(dtype, value)) : value;
}

Value* ExprEmitter::EmitExtent(const Dim& dim) {
  if (dim.is_const()) return b_.getInt64(static_cast<uint64_t>(dim.constant()));
  if (!dim.is_binary()) {
    auto found = symbols.find(dim.id());
    RVM_CHECK(found != symbols.end(), "an extent has a symbol that no input has");
    return found->second;
  }
  Value *x = EmitExtent(dim.lhs()), *y = EmitExtent(dim.rhs());
  switch (dim.kind()) {
    case DimKind::kAdd: return b_.CreateAdd(x, y);
    case DimKind::kSub: return b_.CreateSub(x, y);
    case DimKind::kMul: return b_.CreateMul(x, y);
    case DimKind::kFloorDiv: return EmitDivision(BinaryOp::kFloorDivide, true, x, y);
    case DimKind::kFloorMod: return EmitDivision(BinaryOp::kFloorMod, true, x, y);
    case DimKind::kMin: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
    case DimKind::kMax: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole:
    case DimKind::kBroadcast: return b_.CreateSelect(b_.CreateICmpEQ(x, b_.getInt64(1)), y, x);
  }
}

Value* ExprEmitter::EmitVariable(const te::IndexVar& variable) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (auto found = scopes_[i].variables.find(variable.id); found != scopes_[i].variables.end()) return found->second;
  }
  RVM_UNREACHABLE("an index variable has no loop");
}

Value* ExprEmitter::Emit(const Expr& e) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (auto found = scopes_[i].values.find(e.get()); found != scopes_[i].values.end()) return found->second;
  }
  Value* value = WithStack([&] { return EmitOnThisStack(e); });
  scopes_.back().values[e.get()] = value;
  return value;
}

Value* ExprEmitter::EmitOnThisStack(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kIntConst:
      return llvm::ConstantInt::get(RegisterType(e->dtype), static_cast<uint64_t>(e->int_value), true);
    case ExprKind::kFloatConst: {
      double value = LoadDouble(e->dtype, Literal::Scalar(e->dtype, e->float_value).data());
      return llvm::ConstantFP::get(RegisterType(e->dtype), value);
    }
    case ExprKind::kIndex: return EmitVariable(e->index);
    case ExprKind::kDim: return EmitExtent(e->dim);
    case ExprKind::kRead: return EmitRead(*e);
    case ExprKind::kSelect: return EmitSelect(*e);
    case ExprKind::kCast: {
      const Expr& operand = WithoutLimits(e->operands[0], e->dtype);
      return EmitCast(operand.dtype(), e->dtype, Emit(operand));
    }
    case ExprKind::kBitcast: return EmitBitcast(e->operands[0].dtype(), e->dtype, Emit(e->operands[0]));
    case ExprKind::kUnary: return EmitUnary(e->unary, e->operands[0].dtype(), Emit(e->operands[0]));
    case ExprKind::kBinary: {
      if (Value* index = EmitIndexArithmetic(*e)) return index;
      Value* x = Emit(e->operands[0]);
      return EmitBinary(e->binary, e->operands[0].dtype(), x, Emit(e->operands[1]));
    }
    case ExprKind::kReduce: break;
  }
  RVM_UNREACHABLE("a reduction is not at the root");
}

// Arithmetic on what is surely an index neither overflows nor is negative.
Value* ExprEmitter::EmitIndexArithmetic(const ExprNode& e) {
  const Expr &a = e.operands[0], &c = e.operands[1];
  if (a.dtype() != kInt64 || !te::IsNonNegative(a) || !te::IsNonNegative(c)) return nullptr;
  bool divides = e.binary == BinaryOp::kFloorDivide || e.binary == BinaryOp::kFloorMod;
  if (e.binary != BinaryOp::kAdd && e.binary != BinaryOp::kMultiply && !divides) return nullptr;
  Value* x = Emit(a);
  Value* y = Emit(c);
  if (e.binary == BinaryOp::kAdd) return b_.CreateNSWAdd(x, y);
  if (e.binary == BinaryOp::kMultiply) return b_.CreateNSWMul(x, y);
  return EmitDivision(e.binary, false, x, y);
}

Value* ExprEmitter::EmitRead(const ExprNode& e) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (auto found = scopes_[i].tensors.find(e.tensor.get()); found != scopes_[i].tensors.end()) return found->second;
  }
  auto pointer = pointers.find(e.tensor.get());
  RVM_CHECK(pointer != pointers.end(), "a tensor that is read has no buffer");
  if (!target_.has_blocks && IsByteLookup(e)) {
    return CallByteLookup(b_, pointer->second, Emit(e.operands[0]->operands[0]));
  }
  Value* offset = Emit(e.operands[0]);
  return Load(e.dtype, pointer->second, offset);
}

Value* ExprEmitter::EmitSelect(const ExprNode& e) {
  Value* condition = Emit(e.operands[0]);
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) return Emit(e.operands[known->isZero() ? 2 : 1]);
  if (!te::MustBranch(e.operands[1]) && !te::MustBranch(e.operands[2])) {
    Value* then = Emit(e.operands[1]);
    return b_.CreateSelect(condition, then, Emit(e.operands[2]));
  }
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* blocks[2];
  llvm::BasicBlock* ends[2];
  Value* values[2];
  for (auto& block : blocks) block = llvm::BasicBlock::Create(b_.getContext(), "choice", function);
  llvm::BasicBlock* join = llvm::BasicBlock::Create(b_.getContext(), "join", function);
  b_.CreateCondBr(condition, blocks[0], blocks[1]);
  for (size_t i = 0; i < 2; ++i) {
    b_.SetInsertPoint(blocks[i]);
    OpenScope();
    values[i] = Emit(e.operands[i + 1]);
    CloseScope();
    ends[i] = b_.GetInsertBlock();
    b_.CreateBr(join);
  }
  b_.SetInsertPoint(join);
  llvm::PHINode* phi = b_.CreatePHI(values[0]->getType(), 2);
  for (size_t i = 0; i < 2; ++i) phi->addIncoming(values[i], ends[i]);
  return phi;
}

Value* ExprEmitter::EmitCast(DataType from, DataType to, Value* x) {
  llvm::Type* type = RegisterType(to);
  if (from.is_float() && to.is_float()) return Round(to, b_.CreateFPCast(x, type));
  if (from.is_float()) {
    if (to.is_bool()) return b_.CreateFCmpUNE(x, llvm::ConstantFP::get(x->getType(), 0));
    return EmitSaturating(from, to, x);
  }
  if (to.is_float()) return from.is_int() ? b_.CreateSIToFP(x, type) : b_.CreateUIToFP(x, type);
  if (to.is_bool()) return b_.CreateICmpNE(x, llvm::ConstantInt::get(x->getType(), 0));
  return b_.CreateIntCast(x, type, from.is_int());
}

// Truncates and saturates; a NaN becomes 0. Conversions of floats to int32 are vector instructions everywhere, so that
// what fits there is done so.
Value* ExprEmitter::EmitSaturating(DataType from, DataType to, Value* x) {
  llvm::Type* type = RegisterType(to);
  bool fits = from.bits <= 32 && (to.is_int() ? to.bits <= 32 : to.bits <= 16);
  if (!fits) {
    ID id = to.is_int() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(id, {type, x->getType()}, {x});
  }
  auto constant = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  const auto [least, most] = LimitsOf(to);
  // A comparison with a NaN is false, so that a NaN becomes `least`: each of these is one instruction of a minimum or a
  // maximum.
  Value* number = to.is_int() ? b_.CreateSelect(b_.CreateFCmpORD(x, x), x, constant(0)) : x;
  number = b_.CreateSelect(b_.CreateFCmpOGT(number, constant(least)), number, constant(least));
  if (to.bits < 32) {
    number = b_.CreateSelect(b_.CreateFCmpOLT(number, constant(most)), number, constant(most));
    return b_.CreateTrunc(b_.CreateFPToSI(number, b_.getInt32Ty()), type);
  }
  // The greatest int32 is 2^31 as a float, which is outside already.
  Value* inside = b_.CreateFCmpOLT(number, constant(most));
  Value* converted = b_.CreateFPToSI(b_.CreateSelect(inside, number, constant(0)), b_.getInt32Ty());
  return b_.CreateSelect(inside, converted, b_.getInt32(std::numeric_limits<int32_t>::max()));
}

Value* ExprEmitter::WidenVector(DataType from, DataType to, Value* elements) {
  auto* shape = llvm::cast<llvm::FixedVectorType>(elements->getType());
  llvm::Type* type = llvm::FixedVectorType::get(RegisterType(to), shape->getNumElements());
  if (from.is_small_float()) elements = FromBits(from, elements);
  if (from.is_float()) return b_.CreateFPExt(elements, type);
  if (to.is_float()) return from.is_int() ? b_.CreateSIToFP(elements, type) : b_.CreateUIToFP(elements, type);
  return from.is_int() ? b_.CreateSExt(elements, type) : b_.CreateZExt(elements, type);
}

Value* ExprEmitter::EmitBitcast(DataType from, DataType to, Value* x) {
  if (from.is_small_float()) x = ToBits(from, x);
  return to.is_small_float() ? FromBits(to, x) : b_.CreateBitCast(x, RegisterType(to));
}

Value* ExprEmitter::CallImport(const char* name, std::vector<Value*> args) {
  llvm::Type* type = args[0]->getType();
  std::string symbol = absl::StrCat(name, type->isDoubleTy() ? "" : "f");
  std::vector<llvm::Type*> parameters(args.size(), type);
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  llvm::FunctionCallee callee = module->getOrInsertFunction(symbol, llvm::FunctionType::get(type, parameters, false));
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotThrow();
  function->setDoesNotAccessMemory();
  function->setWillReturn();
  return b_.CreateCall(callee, args);
}

Value* ExprEmitter::EmitLane(LaneFunction function, llvm::ArrayRef<Value*> args) {
  // A thread of a GPU is a lane.
  return target_.has_blocks ? EmitAnywhere(b_, function, args, {}) : CallLaneFunction(b_, function, args);
}

Value* ExprEmitter::EmitUnary(UnaryOp op, DataType dtype, Value* x) {
  return dtype.is_float() ? EmitFloatUnary(op, x) : EmitIntUnary(op, dtype, x);
}

Value* ExprEmitter::EmitFloatUnary(UnaryOp op, Value* x) {
  llvm::Type* type = x->getType();
  bool f32 = type->isFloatTy();
  auto constant = [&](double value) { return llvm::ConstantFP::get(type, value); };
  auto intrinsic = [&](ID id) { return b_.CreateUnaryIntrinsic(id, x); };
  switch (op) {
    case UnaryOp::kNegative: return b_.CreateFNeg(x);
    case UnaryOp::kAbs: return intrinsic(llvm::Intrinsic::fabs);
    case UnaryOp::kSign: {
      Value* zero = b_.CreateSelect(b_.CreateFCmpOEQ(x, constant(0)), constant(0), x);  // or the NaN
      Value* negative = b_.CreateSelect(b_.CreateFCmpOLT(x, constant(0)), constant(-1), zero);
      return b_.CreateSelect(b_.CreateFCmpOGT(x, constant(0)), constant(1), negative);
    }
    case UnaryOp::kFloor: return intrinsic(llvm::Intrinsic::floor);
    case UnaryOp::kCeil: return intrinsic(llvm::Intrinsic::ceil);
    case UnaryOp::kRound: return intrinsic(llvm::Intrinsic::nearbyint);
    case UnaryOp::kTrunc: return intrinsic(llvm::Intrinsic::trunc);
    case UnaryOp::kSqrt: return intrinsic(llvm::Intrinsic::sqrt);
    case UnaryOp::kRsqrt: return b_.CreateFDiv(constant(1), intrinsic(llvm::Intrinsic::sqrt));
    case UnaryOp::kExp: return f32 ? EmitLane(LaneFunction::kExp, {x}) : CallImport("exp", {x});
    case UnaryOp::kLog: return f32 ? EmitLane(LaneFunction::kLog, {x}) : CallImport("log", {x});
    case UnaryOp::kLog2: return f32 ? EmitLane(LaneFunction::kLog2, {x}) : CallImport("log2", {x});
    case UnaryOp::kLog10: return f32 ? EmitLane(LaneFunction::kLog10, {x}) : CallImport("log10", {x});
    case UnaryOp::kTanh: return f32 ? EmitTanh(b_, x) : CallImport("tanh", {x});
    case UnaryOp::kSigmoid:
      return f32 ? EmitSigmoid(b_, x)
                 : b_.CreateFDiv(constant(1), b_.CreateFAdd(constant(1), CallImport("exp", {b_.CreateFNeg(x)})));
    case UnaryOp::kErf: return f32 ? EmitErf(b_, x) : CallImport("erf", {x});
    case UnaryOp::kSin: return f32 ? EmitLane(LaneFunction::kSin, {x}) : CallImport("sin", {x});
    case UnaryOp::kCos: return f32 ? EmitLane(LaneFunction::kCos, {x}) : CallImport("cos", {x});
    case UnaryOp::kTan: return f32 ? EmitLane(LaneFunction::kTan, {x}) : CallImport("tan", {x});
    case UnaryOp::kAsin: return f32 ? EmitAsin(b_, x) : CallImport("asin", {x});
    case UnaryOp::kAcos: return f32 ? EmitAcos(b_, x) : CallImport("acos", {x});
    case UnaryOp::kAtan: return f32 ? EmitAtan(b_, x) : CallImport("atan", {x});
    case UnaryOp::kSinh: return f32 ? EmitSinh(b_, x) : CallImport("sinh", {x});
    case UnaryOp::kCosh: return f32 ? EmitCosh(b_, x) : CallImport("cosh", {x});
    case UnaryOp::kAsinh: return f32 ? EmitLane(LaneFunction::kAsinh, {x}) : CallImport("asinh", {x});
    case UnaryOp::kAcosh: return f32 ? EmitLane(LaneFunction::kAcosh, {x}) : CallImport("acosh", {x});
    case UnaryOp::kAtanh: return f32 ? EmitLane(LaneFunction::kAtanh, {x}) : CallImport("atanh", {x});
    case UnaryOp::kIsNan: return b_.CreateFCmpUNO(x, x);
    case UnaryOp::kIsInf:
      return b_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs), llvm::ConstantFP::getInfinity(type));
    case UnaryOp::kIsFinite:
      return b_.CreateFCmpONE(intrinsic(llvm::Intrinsic::fabs), llvm::ConstantFP::getInfinity(type));
    case UnaryOp::kLogicalNot:
    case UnaryOp::kBitwiseNot: break;
  }
  RVM_UNREACHABLE("a logical operation on floats");
}

Value* ExprEmitter::EmitIntUnary(UnaryOp op, DataType dtype, Value* x) {
  Value* zero = llvm::ConstantInt::get(x->getType(), 0);
  switch (op) {
    case UnaryOp::kNegative: return b_.CreateNeg(x);
    case UnaryOp::kAbs: return dtype.is_int() ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse()) : x;
    case UnaryOp::kSign: {
      if (!dtype.is_int()) return b_.CreateZExt(b_.CreateICmpNE(x, zero), x->getType());
      Value* positive = b_.CreateZExt(b_.CreateICmpSGT(x, zero), x->getType());
      return b_.CreateOr(b_.CreateSExt(b_.CreateICmpSLT(x, zero), x->getType()), positive);
    }
    case UnaryOp::kLogicalNot: return b_.CreateICmpEQ(x, zero);
    case UnaryOp::kBitwiseNot: return b_.CreateNot(x);
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf: return b_.getFalse();
    case UnaryOp::kIsFinite: return b_.getTrue();
#define RVM_CASE(Name, text) case UnaryOp::k##Name:
      RVM_UNARY_ROUNDING_OPS(RVM_CASE)
      RVM_UNARY_FLOAT_OPS(RVM_CASE)
#undef RVM_CASE
      return x;  // an integer stays as it is
  }
}

Value* ExprEmitter::EmitBinary(BinaryOp op, DataType dtype, Value* x, Value* y) {
  if (dtype.is_float()) return EmitFloatBinary(op, x, y);
  return dtype.is_bool() ? EmitBoolBinary(op, x, y) : EmitIntBinary(op, dtype, x, y);
}

Value* ExprEmitter::EmitFloatBinary(BinaryOp op, Value* x, Value* y) {
  switch (op) {
    case BinaryOp::kAdd: return b_.CreateFAdd(x, y);
    case BinaryOp::kSubtract: return b_.CreateFSub(x, y);
    case BinaryOp::kMultiply: return b_.CreateFMul(x, y);
    case BinaryOp::kDivide: return b_.CreateFDiv(x, y);
    case BinaryOp::kFloorDivide:
    case BinaryOp::kFloorMod:
    case BinaryOp::kTruncDivide: {
      // In double, so that a quotient just below an integer is not rounded up to it.
      llvm::Type* type = x->getType();
      Value *a = b_.CreateFPExt(x, b_.getDoubleTy()), *c = b_.CreateFPExt(y, b_.getDoubleTy());
      bool floor = op != BinaryOp::kTruncDivide;
      Value* q = b_.CreateUnaryIntrinsic(floor ? llvm::Intrinsic::floor : llvm::Intrinsic::trunc, b_.CreateFDiv(a, c));
      if (op == BinaryOp::kFloorMod) q = b_.CreateFSub(a, b_.CreateFMul(c, q));
      return b_.CreateFPTrunc(q, type);
    }
    case BinaryOp::kTruncMod: return EmitFloatRemainder(x, y);
    case BinaryOp::kPower:
      if (auto* c = llvm::dyn_cast<llvm::ConstantFP>(y); c != nullptr && c->isExactlyValue(2.0))
        return b_.CreateFMul(x, x);
      return x->getType()->isFloatTy() ? EmitLane(LaneFunction::kPower, {x, y}) : CallImport("pow", {x, y});
    case BinaryOp::kMaximum: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x, y);
    case BinaryOp::kMinimum: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, x, y);
    case BinaryOp::kEqual: return b_.CreateFCmpOEQ(x, y);
    case BinaryOp::kNotEqual: return b_.CreateFCmpUNE(x, y);
    case BinaryOp::kLess: return b_.CreateFCmpOLT(x, y);
    case BinaryOp::kLessEqual: return b_.CreateFCmpOLE(x, y);
    case BinaryOp::kGreater: return b_.CreateFCmpOGT(x, y);
    case BinaryOp::kGreaterEqual: return b_.CreateFCmpOGE(x, y);
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kXor:
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight: break;
  }
  RVM_UNREACHABLE("a bitwise operation on floats");
}

Value* ExprEmitter::EmitBoolBinary(BinaryOp op, Value* x, Value* y) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMaximum:
    case BinaryOp::kOr: return b_.CreateOr(x, y);
    case BinaryOp::kSubtract:
    case BinaryOp::kXor:
    case BinaryOp::kNotEqual: return b_.CreateXor(x, y);
    case BinaryOp::kMultiply:
    case BinaryOp::kMinimum:
    case BinaryOp::kAnd:
    case BinaryOp::kDivide:
    case BinaryOp::kTruncDivide:
    case BinaryOp::kFloorDivide: return b_.CreateAnd(x, y);
    case BinaryOp::kFloorMod:
    case BinaryOp::kTruncMod: return b_.getFalse();
    case BinaryOp::kPower:
    case BinaryOp::kGreaterEqual: return b_.CreateOr(x, b_.CreateNot(y));
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
    case BinaryOp::kGreater: return b_.CreateAnd(x, b_.CreateNot(y));
    case BinaryOp::kEqual: return b_.CreateNot(b_.CreateXor(x, y));
    case BinaryOp::kLess: return b_.CreateAnd(b_.CreateNot(x), y);
    case BinaryOp::kLessEqual: return b_.CreateOr(b_.CreateNot(x), y);
  }
  RVM_UNREACHABLE("no such operation");
}

Value* ExprEmitter::EmitIntBinary(BinaryOp op, DataType dtype, Value* x, Value* y) {
  bool s = dtype.is_int();
  llvm::Type* type = x->getType();
  auto shift = [&](auto make) {
    Value* in_range = b_.CreateICmpULT(y, llvm::ConstantInt::get(type, dtype.bits));
    Value* shifted = make(b_.CreateSelect(in_range, y, llvm::ConstantInt::get(type, 0)));
    Value* otherwise = llvm::ConstantInt::get(type, 0);
    if (op == BinaryOp::kShiftRight && s) otherwise = b_.CreateAShr(x, static_cast<uint64_t>(dtype.bits) - 1);
    return b_.CreateSelect(in_range, shifted, otherwise);
  };
  switch (op) {
    case BinaryOp::kAdd: return b_.CreateAdd(x, y);
    case BinaryOp::kSubtract: return b_.CreateSub(x, y);
    case BinaryOp::kMultiply: return b_.CreateMul(x, y);
    case BinaryOp::kDivide:
    case BinaryOp::kTruncDivide:
    case BinaryOp::kTruncMod:
    case BinaryOp::kFloorDivide:
    case BinaryOp::kFloorMod: return EmitDivision(op, s, x, y);
    case BinaryOp::kPower: return EmitIntPower(dtype, x, y);
    case BinaryOp::kMaximum: return b_.CreateBinaryIntrinsic(s ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case BinaryOp::kMinimum: return b_.CreateBinaryIntrinsic(s ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
    case BinaryOp::kAnd: return b_.CreateAnd(x, y);
    case BinaryOp::kOr: return b_.CreateOr(x, y);
    case BinaryOp::kXor: return b_.CreateXor(x, y);
    case BinaryOp::kShiftLeft: return shift([&](Value* by) { return b_.CreateShl(x, by); });
    case BinaryOp::kShiftRight:
      return shift([&](Value* by) { return s ? b_.CreateAShr(x, by) : b_.CreateLShr(x, by); });
    case BinaryOp::kEqual: return b_.CreateICmpEQ(x, y);
    case BinaryOp::kNotEqual: return b_.CreateICmpNE(x, y);
    case BinaryOp::kLess: return s ? b_.CreateICmpSLT(x, y) : b_.CreateICmpULT(x, y);
    case BinaryOp::kLessEqual: return s ? b_.CreateICmpSLE(x, y) : b_.CreateICmpULE(x, y);
    case BinaryOp::kGreater: return s ? b_.CreateICmpSGT(x, y) : b_.CreateICmpUGT(x, y);
    case BinaryOp::kGreaterEqual: return s ? b_.CreateICmpSGE(x, y) : b_.CreateICmpUGE(x, y);
  }
  RVM_UNREACHABLE("no such operation");
}

// x - trunc(x / y) * y. Of float32 in double: while the quotient has few bits, it is not rounded up to an integer, and
// its product and the difference are exact.
Value* ExprEmitter::EmitFloatRemainder(Value* x, Value* y) {
  if (!x->getType()->isFloatTy() || !target_.has_vectors) return CallImport("fmod", {x, y});
  llvm::Type* wide = b_.getDoubleTy();
  auto below = [&](Value* v, double limit) {
    return b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v), llvm::ConstantFP::get(wide, limit));
  };
  Value *a = b_.CreateFPExt(x, wide), *c = b_.CreateFPExt(y, wide), *quotient = b_.CreateFDiv(a, c);
  Value* fits = b_.CreateAnd(below(quotient, 0x1p28), below(c, std::numeric_limits<double>::infinity()));
  Value* whole = b_.CreateSIToFP(
      b_.CreateFPToSI(b_.CreateSelect(fits, quotient, llvm::ConstantFP::get(wide, 0)), b_.getInt32Ty()), wide);
  Value* rest = b_.CreateFPTrunc(b_.CreateFSub(a, b_.CreateFMul(whole, c)), x->getType());
  // A remainder of 0 has the sign of x, too.
  rest = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, x);
  return EmitChoice(b_, b_.CreateNot(fits), [&] { return std::vector<Value*>{CallImport("fmod", {x, y})}; }, {rest})[0];
}

// Returns the quotient of integers, truncated. `y` is not 0. Of narrow integers in floating point, which has vectors:
// their quotients, unless they are integers, differ from these by more than rounding.
Value* ExprEmitter::EmitSignedQuotient(Value* x, Value* y) {
  unsigned bits = x->getType()->getIntegerBitWidth();
  if (bits > 32 || llvm::isa<llvm::Constant>(y) || !target_.has_vectors) return b_.CreateSDiv(x, y);
  llvm::Type* wide = bits <= 16 ? b_.getFloatTy() : b_.getDoubleTy();
  return b_.CreateFPToSI(b_.CreateFDiv(b_.CreateSIToFP(x, wide), b_.CreateSIToFP(y, wide)), x->getType());
}

// By 0 gives 0; the least integer by -1 wraps.
Value* ExprEmitter::EmitDivision(BinaryOp op, bool is_signed, Value* x, Value* y) {
  llvm::Type* type = x->getType();
  Value* zero = llvm::ConstantInt::get(type, 0);
  Value* one = llvm::ConstantInt::get(type, 1);
  bool modulo = op == BinaryOp::kFloorMod || op == BinaryOp::kTruncMod;
  Value* by_zero = b_.CreateICmpEQ(y, zero);
  if (!is_signed) {
    Value* divisor = b_.CreateSelect(by_zero, one, y);
    Value* result = modulo ? b_.CreateURem(x, divisor) : b_.CreateUDiv(x, divisor);
    return b_.CreateSelect(by_zero, zero, result);
  }
  Value* by_minus_one = b_.CreateICmpEQ(y, llvm::ConstantInt::getSigned(type, -1));
  Value* divisor = b_.CreateSelect(b_.CreateOr(by_zero, by_minus_one), one, y);
  Value* quotient = EmitSignedQuotient(x, divisor);
  Value* remainder = b_.CreateSub(x, b_.CreateMul(quotient, divisor));
  if (op == BinaryOp::kFloorDivide || op == BinaryOp::kFloorMod) {
    Value* opposite = b_.CreateICmpSLT(b_.CreateXor(remainder, divisor), zero);
    Value* below = b_.CreateAnd(b_.CreateICmpNE(remainder, zero), opposite);
    quotient = b_.CreateSelect(below, b_.CreateSub(quotient, one), quotient);
    remainder = b_.CreateSelect(below, b_.CreateAdd(remainder, divisor), remainder);
  }
  Value* result = modulo ? remainder : quotient;
  result = b_.CreateSelect(by_minus_one, modulo ? zero : b_.CreateNeg(x), result);
  return b_.CreateSelect(by_zero, zero, result);
}

Value* ExprEmitter::EmitIntPower(DataType dtype, Value* x, Value* y) {
  llvm::Type* i64 = b_.getInt64Ty();
  Value *base = b_.CreateIntCast(x, i64, dtype.is_int()), *exponent = b_.CreateIntCast(y, i64, dtype.is_int());
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function); };
  llvm::BasicBlock *entry = b_.GetInsertBlock(), *head = block("power"), *done = block("power.done");
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode *result = b_.CreatePHI(i64, 2), *factor = b_.CreatePHI(i64, 2), *left = b_.CreatePHI(i64, 2);
  Value* multiplied = b_.CreateSelect(b_.CreateTrunc(left, b_.getInt1Ty()), b_.CreateMul(result, factor), result);
  Value* rest = b_.CreateAShr(left, 1);
  Value* squared = b_.CreateMul(factor, factor);
  b_.CreateCondBr(b_.CreateICmpSGT(rest, b_.getInt64(0)), head, done);
  result->addIncoming(b_.getInt64(1), entry);
  result->addIncoming(multiplied, head);
  factor->addIncoming(base, entry);
  factor->addIncoming(squared, head);
  left->addIncoming(exponent, entry);
  left->addIncoming(rest, head);
  b_.SetInsertPoint(done);
  // A negative exponent leaves something of 1 and -1 only.
  Value* odd = b_.CreateTrunc(exponent, b_.getInt1Ty());
  Value* sign = b_.CreateSelect(odd, b_.getInt64(static_cast<uint64_t>(-1)), b_.getInt64(1));
  Value* of_minus_one =
      b_.CreateSelect(b_.CreateICmpEQ(base, b_.getInt64(static_cast<uint64_t>(-1))), sign, b_.getInt64(0));
  Value* inverse = b_.CreateSelect(b_.CreateICmpEQ(base, b_.getInt64(1)), b_.getInt64(1), of_minus_one);
  Value* value = b_.CreateSelect(b_.CreateICmpSLT(exponent, b_.getInt64(0)), inverse, multiplied);
  return b_.CreateIntCast(value, x->getType(), false);
}

void BindFlat(llvm::IRBuilder<>& b, ExprEmitter& e, const std::vector<te::IndexVar>& axes, Value* number) {
  for (size_t axis = axes.size(); axis-- > 0;) {
    Value* index = number;
    if (axis > 0) {
      Value* extent = e.EmitExtent(axes[axis].extent);
      index = b.CreateURem(number, extent);
      number = b.CreateUDiv(number, extent);
    }
    e.Bind(axes[axis], index);
  }
}

}  // namespace rvm::codegen
