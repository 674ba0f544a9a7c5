// FunctionEmitter: what each kind of step becomes.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/bytecode/branch_instruction.h"
#include "compiler/bytecode/function_emitter.h"
#include "compiler/ops/derive_type.h"
#include "compiler/ops/families/extent.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"

namespace rvm::bytecode {
namespace {

Opcode DimOpcode(DimKind kind) {
  switch (kind) {
    case DimKind::kAdd: return Opcode::kAddInt;
    case DimKind::kSub: return Opcode::kSubInt;
    case DimKind::kMul: return Opcode::kMulInt;
    case DimKind::kFloorDiv: return Opcode::kFloorDivInt;
    case DimKind::kFloorMod: return Opcode::kFloorModInt;
    case DimKind::kMin: return Opcode::kMinInt;
    case DimKind::kMax: return Opcode::kMaxInt;
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole:
    case DimKind::kBroadcast: RVM_UNREACHABLE("a reshape's dims are not arithmetic of its input's");
  }
}

// Returns the attribute `axis` of a call whose first argument is a tensor.
uint16_t AxisOf(const ir::Call& call) {
  const auto& data = *ir::DynCast<ir::TensorType>(call.args[0]->type);
  int64_t axis = call.attrs.GetInt("axis");
  return static_cast<uint16_t>(axis < 0 ? axis + static_cast<int64_t>(data.shape.dims.size()) : axis);
}

}  // namespace

absl::Status FunctionEmitter::EmitStep(const ir::Expr* expr, const ir::Var* var, const Target& target) {
  position_ = next_position_++;
  switch (expr->expr_kind) {
    case ir::ExprKind::kConstant:
    case ir::ExprKind::kVar: return EmitAtom(expr, var, target);
    case ir::ExprKind::kTuple: {
      if (returns_fields_ && var == nullptr && target.is_tail) return ReturnTuple(*ir::Cast<ir::Tuple>(expr));
      TypeId type = WantedType(expr, var, target);
      return EmitCell(tables_.types().TupleLayout(type), ir::Cast<ir::Tuple>(expr)->fields, type, var, target);
    }
    case ir::ExprKind::kProject: return EmitProject(*ir::Cast<ir::Project>(expr), var, target);
    case ir::ExprKind::kFunction: return EmitClosure(*ir::Cast<ir::Function>(expr), var, target);
    case ir::ExprKind::kCall: return EmitCall(*ir::Cast<ir::Call>(expr), var, target);
    case ir::ExprKind::kIf: return EmitIf(*ir::Cast<ir::If>(expr), var, target);
    case ir::ExprKind::kMatch: return EmitMatch(*ir::Cast<ir::Match>(expr), var, target);
    case ir::ExprKind::kRefCreate: {
      TypeId type = WantedType(expr, var, target);
      return EmitCell(tables_.types().RefLayout(type), {ir::Cast<ir::RefCreate>(expr)->value}, type, var, target);
    }
    case ir::ExprKind::kRefRead: return EmitRefRead(*ir::Cast<ir::RefRead>(expr), var, target);
    case ir::ExprKind::kRefWrite: return EmitRefWrite(*ir::Cast<ir::RefWrite>(expr), var, target);
    case ir::ExprKind::kGlobal:
    case ir::ExprKind::kOp:
    case ir::ExprKind::kConstructor:
    case ir::ExprKind::kLet: break;
  }
  RVM_UNREACHABLE("a step of the program is not in A-normal form");
}

// A tuple or ADT is built at the type of its destination, which may have fewer known extents.
TypeId FunctionEmitter::WantedType(const ir::Expr* expr, const ir::Var* var, const Target& target) {
  TypeTable& types = tables_.types();
  TypeId own = TypeOf(expr);
  TypeId wanted = var != nullptr ? types.Lower(var->type) : target.is_tail ? result_type_ : target.type;
  const TypeDesc& a = types.desc(own);
  const TypeDesc& b = types.desc(wanted);
  return a.kind == b.kind && a.fields.size() == b.fields.size() ? wanted : own;
}

absl::Status FunctionEmitter::EmitAtom(const ir::Expr* atom, const ir::Var* var, const Target& target) {
  TypeId wanted = var != nullptr ? tables_.types().Lower(var->type) : target.is_tail ? result_type_ : target.type;
  Operands operands;
  std::vector<ir::Expr*> atoms = {const_cast<ir::Expr*>(atom)};
  RVM_ASSIGN_OR_RETURN(Reg reg, Consume(atom, wanted, operands, atoms, 0));
  TypeId type = registers_.desc(reg).type;
  if (var == nullptr && target.is_tail) {
    if (!returns_fields_) code_.Op(Opcode::kReturn).R(reg);
    absl::Status status = returns_fields_ ? ReturnFieldsOf(reg) : absl::OkStatus();
    Release(operands);
    return status;
  }
  Reg out = var == nullptr ? target.reg : registers_.Allocate(type);
  code_.Op(Opcode::kMove).R(out).R(reg);
  Release(operands);
  if (var == nullptr) return absl::OkStatus();
  return Deliver(out, type, var, target);
}

absl::Status FunctionEmitter::EmitCell(LayoutId layout, const std::vector<ir::Expr*>& fields, TypeId type,
                                       const ir::Var* var, const Target& target) {
  Operands operands;
  std::vector<Reg> regs;
  std::vector<TypeId> expected = tables_.types().layout(layout).fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(Reg reg, Consume(fields[i], expected[i], operands, fields, i));
    regs.push_back(reg);
  }
  Release(operands);
  Reg out = Destination(var, target, type);
  const ir::Var* shell = ShellFor(regs.size());
  if (shell != nullptr) {
    code_.Op(Opcode::kMakeCellIn).R(out).R(vars_.at(shell).reg);
    GiveUp(shell);
  } else {
    code_.Op(Opcode::kMakeCell).R(out);
  }
  code_.Unit(static_cast<uint16_t>(layout.value)).Rs(regs);
  return Deliver(out, type, var, target);
}

absl::Status FunctionEmitter::EmitRefRead(const ir::RefRead& read, const ir::Var* var, const Target& target) {
  Operands operands;
  Reg ref = Borrow(read.ref, operands);
  TypeId type = tables_.types().desc(registers_.desc(ref).type).fields[0];
  Reg out = Destination(var, target, type);
  code_.Op(Opcode::kRefRead).R(out).R(ref);
  Release(operands);
  return Deliver(out, type, var, target);
}

absl::Status FunctionEmitter::EmitRefWrite(const ir::RefWrite& write, const ir::Var* var, const Target& target) {
  Operands operands;
  std::vector<ir::Expr*> atoms = {write.value, write.ref};
  Reg ref = Borrow(write.ref, operands);
  TypeId contents = tables_.types().desc(registers_.desc(ref).type).fields[0];
  RVM_ASSIGN_OR_RETURN(Reg value, Consume(write.value, contents, operands, atoms, 0));
  code_.Op(Opcode::kRefWrite).R(ref).R(value);
  Release(operands);
  TypeId unit = TypeOf(&write);
  Reg out = Destination(var, target, unit);
  code_.Op(Opcode::kMakeCell).R(out).Unit(static_cast<uint16_t>(tables_.types().TupleLayout(unit).value)).Rs({});
  return Deliver(out, unit, var, target);
}

absl::Status FunctionEmitter::EmitClosure(const ir::Function& function, const ir::Var* var, const Target& target) {
  PendingFunction pending;
  pending.name = absl::StrCat(pending_.name, ".", var != nullptr && var->name != "_" ? var->name : "fn");
  pending.function = &function;
  pending.self = var;
  pending.captures = liveness_.captures(&function);
  std::vector<ir::Expr*> captures;
  for (ir::Var* captured : pending.captures) {
    ir::Expr* atom = tables_.arena().New<ir::VarExpr>(captured, function.span);
    atom->type = captured->type;
    captures.push_back(atom);
  }
  LayoutId layout = tables_.ClosureLayout(std::move(pending));
  return EmitCell(layout, captures, tables_.types().layout(layout).type, var, target);
}

// ---- calls ------------------------------------------------------------------

absl::Status FunctionEmitter::EmitCall(const ir::Call& call, const ir::Var* var, const Target& target) {
  switch (call.callee->expr_kind) {
    case ir::ExprKind::kConstructor: return EmitConstructor(call, var, target);
    case ir::ExprKind::kGlobal: {
      const std::string& name = ir::Cast<ir::GlobalExpr>(call.callee)->name;
      const bool may_be_tail = !tables_.KeepsCaller(name, *pending_.function);
      return EmitFunctionCall(tables_.GlobalByName(name), call.args, var, target, may_be_tail);
    }
    case ir::ExprKind::kFunction: return EmitKernelCall(call, {var}, target);
    case ir::ExprKind::kVar: return EmitClosureCall(call, var, target);
    case ir::ExprKind::kOp:
      if (std::optional<ops::ScalarInstruction> selected = ops::SelectScalar(call)) {
        return EmitScalar(call, *selected, var, target);
      }
      if (ops::IsExtent(call)) return EmitExtent(call, var, target);
      if (ops::IsCheckExtent(call)) return EmitCheckExtent(call, var, target);
      if (ops::IsCheckAtLeast(call)) return EmitCheckAtLeast(call, var, target);
      return EmitView(call, var, target);
    case ir::ExprKind::kConstant:
    case ir::ExprKind::kTuple:
    case ir::ExprKind::kProject:
    case ir::ExprKind::kCall:
    case ir::ExprKind::kLet:
    case ir::ExprKind::kIf:
    case ir::ExprKind::kMatch:
    case ir::ExprKind::kRefCreate:
    case ir::ExprKind::kRefRead:
    case ir::ExprKind::kRefWrite: RVM_UNREACHABLE("a callee is not in A-normal form");
  }
}

absl::Status FunctionEmitter::EmitConstructor(const ir::Call& call, const ir::Var* var, const Target& target) {
  const ir::Constructor* constructor = ir::Cast<ir::ConstructorExpr>(call.callee)->constructor;
  TypeId type = WantedType(&call, var, target);
  if (!constructor->fields.empty()) {
    return EmitCell(tables_.types().ConstructorLayout(type, constructor->tag), call.args, type, var, target);
  }
  Reg out = Destination(var, target, type);
  code_.Op(Opcode::kLoadTag).R(out).Unit(static_cast<uint16_t>(constructor->tag));
  return Deliver(out, type, var, target);
}

absl::Status FunctionEmitter::EmitFunctionCall(FunctionId callee, const std::vector<ir::Expr*>& args,
                                               const ir::Var* var, const Target& target, bool may_be_tail) {
  bool is_tail = may_be_tail && var == nullptr && target.is_tail;
  if (is_tail && callee == pending_.id) return EmitSelfTailCall(args);
  Operands operands;
  RVM_ASSIGN_OR_RETURN(std::vector<Reg> regs, TakeArgs(callee, args, operands));
  TypeId type = tables_.function(callee).result;
  const bool gives_fields = tables_.function(callee).returns_fields;
  if (is_tail && gives_fields == returns_fields_ && tables_.IsAssignable(type, result_type_)) {
    code_.Op(Opcode::kTailCall).U32(callee.value).Rs(regs);
    Release(operands);
    return absl::OkStatus();
  }
  Release(operands);
  if (gives_fields) return DeliverFields(CallForFields(callee, regs, {}), type, var, target);
  Reg out = Destination(var, target, type);
  code_.Op(Opcode::kCall).R(out).U32(callee.value).Rs(regs);
  return Deliver(out, type, var, target);
}

absl::StatusOr<std::vector<Reg>> FunctionEmitter::TakeArgs(FunctionId callee, const std::vector<ir::Expr*>& args,
                                                           Operands& operands) {
  std::vector<Reg> regs;
  for (size_t i = 0; i < args.size(); ++i) {
    TypeId expected = tables_.function(callee).registers[i].type;
    RVM_ASSIGN_OR_RETURN(Reg reg, Consume(args[i], expected, operands, args, i));
    regs.push_back(reg);
  }
  return regs;
}

// A recursive call of a closure is a direct call with the closure as first argument, if this is its last use. For a
// copy, the verifier could not tell that it is the same closure.
absl::Status FunctionEmitter::EmitClosureCall(const ir::Call& call, const ir::Var* var, const Target& target) {
  const ir::Var* callee = ir::Cast<ir::VarExpr>(call.callee)->var;
  const bool is_self = callee == pending_.self;
  const bool is_tail = var == nullptr && target.is_tail;
  if (is_self && is_tail) {
    std::vector<ir::Expr*> args = {call.callee};
    args.insert(args.end(), call.args.begin(), call.args.end());
    return EmitSelfTailCall(args);
  }
  std::vector<ir::Expr*> atoms = call.args;
  atoms.push_back(call.callee);
  TypeId closure_type = vars_.at(callee).type;
  std::vector<TypeId> expected = tables_.types().desc(closure_type).fields;
  TypeId type = tables_.types().desc(closure_type).result;
  Operands operands;
  std::vector<Reg> regs;
  for (size_t i = 0; i < call.args.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(Reg reg, Consume(call.args[i], expected[i], operands, atoms, i));
    regs.push_back(reg);
  }
  RVM_ASSIGN_OR_RETURN(Reg closure, Consume(call.callee, closure_type, operands, atoms, call.args.size()));
  if (is_tail && !returns_fields_ && tables_.IsAssignable(type, result_type_)) {
    code_.Op(Opcode::kTailCallClosure).R(closure).Rs(regs);
    Release(operands);
    return absl::OkStatus();
  }
  Release(operands);
  Reg out = Destination(var, target, type);
  if (is_self && closure == Reg(0)) {
    regs.insert(regs.begin(), closure);
    code_.Op(Opcode::kCall).R(out).U32(pending_.id.value).Rs(regs);
  } else {
    code_.Op(Opcode::kCallClosure).R(out).R(closure).Rs(regs);
  }
  return Deliver(out, type, var, target);
}

// ---- operators ----------------------------------------------------------------

absl::Status FunctionEmitter::EmitScalar(const ir::Call& call, const ops::ScalarInstruction& selected,
                                         const ir::Var* var, const Target& target) {
  TypeId type = TypeOf(&call);
  DataType dtype = tables_.types().desc(TypeOf(call.args[0])).dtype;
  Operands operands;
  const bool is_i32 = selected.opcode == Opcode::kAddI32 || selected.opcode == Opcode::kSubI32;
  const bool is_difference = selected.opcode == Opcode::kSubI32 || selected.opcode == Opcode::kSubInt;
  const ir::Expr* left = call.args[0];
  std::optional<int16_t> immediate;
  if (is_i32 || is_difference || selected.opcode == Opcode::kAddInt) {
    immediate = SmallInt(call.args[1]);
    if (!immediate && !is_difference && (immediate = SmallInt(left))) left = call.args[1];
  }
  Reg a = Borrow(left, operands);
  Reg b = selected.unary || immediate ? a : Borrow(call.args[1], operands);
  if (selected.swap) std::swap(a, b);
  // Operands are read before the result is written, so the result may reuse the register of one of them.
  Release(operands);
  Reg out = Destination(var, target, type);
  if (immediate) {
    int value = is_difference ? -*immediate : *immediate;
    code_.Op(is_i32 ? Opcode::kAddImmI32 : Opcode::kAddImmInt).R(out).R(a).Unit(static_cast<uint16_t>(value));
    if (selected.wrap) code_.Op(Opcode::kWrapInt).R(out).R(out).Unit(PackDataType(dtype));
    return Deliver(out, type, var, target);
  }
  code_.Op(selected.opcode).R(out).R(a);
  if (!selected.unary) code_.R(b);
  if (selected.opcode == Opcode::kCast) {
    code_.Unit(PackDataType(dtype)).Unit(PackDataType(tables_.types().desc(type).dtype));
  }
  if (selected.wrap) code_.Op(Opcode::kWrapInt).R(out).R(out).Unit(PackDataType(dtype));
  if (selected.negate) code_.Op(Opcode::kNotBool).R(out).R(out);
  return Deliver(out, type, var, target);
}

Reg FunctionEmitter::EmitDim(const Dim& dim, ViewDims& dims) {
  if (dim.kind() == DimKind::kVar) return dims.symbols.at(dim.id());
  // The extents of a view repeat most of their parts.
  if (auto found = dims.computed.find(dim); found != dims.computed.end()) return found->second;
  Reg out = registers_.Allocate(tables_.types().Scalar(kInt64));
  dims.temporaries.push_back(out);
  dims.computed.emplace(dim, out);
  if (dim.is_const()) {
    code_.Op(Opcode::kLoadBits).R(out).U64(static_cast<uint64_t>(dim.constant()));
    return out;
  }
  Opcode opcode = DimOpcode(dim.kind());
  Reg a = EmitDim(dim.lhs(), dims);
  Reg b = EmitDim(dim.rhs(), dims);
  code_.Op(opcode).R(out).R(a).R(b);
  return out;
}

// An operator that only changes the shape. Its type relation gives the unknown dims in terms of the input's dims and of
// values.
absl::Status FunctionEmitter::EmitView(const ir::Call& call, const ir::Var* var, const Target& target) {
  const ops::OpDef& op = *ir::Cast<ir::OpExpr>(call.callee)->op;
  RVM_CHECK(op.is_reshape, "an operator call reached emission without a kernel");
  Operands operands;
  RVM_ASSIGN_OR_RETURN(Reg source, Consume(call.args[0], TypeOf(call.args[0]), operands, call.args, 0));
  ViewDims dims;
  std::vector<Reg> regs;
  std::vector<const ir::Type*> arg_types;
  std::vector<const Literal*> arg_values;
  for (const ir::Expr* arg : call.args) {
    const auto* constant = ir::DynCast<ir::Constant>(arg);
    arg_values.push_back(constant == nullptr ? nullptr : &constant->literal);
    bool is_known = constant != nullptr && arg != call.args[0];
    regs.push_back(arg == call.args[0] ? source : is_known ? Reg() : Borrow(arg, operands));
    arg_types.push_back(MeasuredType(arg, regs.back(), dims));
  }
  auto value_dim = [&](size_t arg, int64_t element) { return ValueOf(call.args[arg], regs[arg], element, dims); };
  RVM_ASSIGN_OR_RETURN(ops::DerivedResult derived,
                       ops::DeriveResult(op, call.attrs, arg_types, arg_values, tables_.arena(), value_dim));
  for (const ops::DimCheck& check : derived.checks) {
    Reg a = EmitDim(check.a, dims);
    Reg b = EmitDim(check.b, dims);
    EmitCheckDims(a, b, check.relation, check.what);
  }
  // The type says more of extents that are values of elements, which the checks compare.
  const auto &measured = *ir::DynCast<ir::TensorType>(derived.result), &typed = *ir::DynCast<ir::TensorType>(call.type);
  Dims extents = measured.shape.dims;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (typed.shape.dims[i].is_const()) extents[i] = typed.shape.dims[i];
  }
  std::vector<Reg> unknown;
  for (const Dim& dim : extents) {
    if (!dim.is_const()) unknown.push_back(EmitDim(dim, dims));
  }
  const ir::Type* result = ir::MakeTensorType(tables_.arena(), std::move(extents), measured.dtype.dtype);
  TypeId type = tables_.types().Lower(result);
  Reg out = Destination(var, target, type);
  code_.Op(Opcode::kView).R(out).R(source).U32(type.value).Rs(unknown);
  for (Reg reg : dims.temporaries) registers_.Free(reg);
  Release(operands);
  return Deliver(out, type, var, target);
}

absl::Status FunctionEmitter::EmitExtent(const ir::Call& call, const ir::Var* var, const Target& target) {
  Operands operands;
  Reg data = Borrow(call.args[0], operands);
  Reg out = Destination(var, target, TypeOf(&call));
  code_.Op(Opcode::kGetDim).R(out).R(data).Unit(AxisOf(call));
  Release(operands);
  return Deliver(out, TypeOf(&call), var, target);
}

// Without the operator's relation, which rejects extents that are known to differ: the code may be unreachable.
absl::Status FunctionEmitter::EmitCheckExtent(const ir::Call& call, const ir::Var* var, const Target& target) {
  Operands operands;
  TypeId type = TypeOf(call.args[0]);
  RVM_ASSIGN_OR_RETURN(Reg data, Consume(call.args[0], type, operands, call.args, 0));
  Reg expected = Borrow(call.args[1], operands);
  Reg seen = registers_.Allocate(tables_.types().Scalar(kInt64));
  code_.Op(Opcode::kGetDim).R(seen).R(data).Unit(AxisOf(call));
  std::string what = call.attrs.GetString("what");
  EmitCheckDims(seen, expected, DimRelation::kEqual, what.empty() ? absl::StrCat("axis ", AxisOf(call)) : what);
  registers_.Free(seen);
  Reg out = Destination(var, target, type);
  code_.Op(Opcode::kMove).R(out).R(data);
  Release(operands);
  return Deliver(out, type, var, target);
}

absl::Status FunctionEmitter::EmitCheckAtLeast(const ir::Call& call, const ir::Var* var, const Target& target) {
  Operands operands;
  TypeId type = TypeOf(call.args[0]);
  RVM_ASSIGN_OR_RETURN(Reg data, Consume(call.args[0], type, operands, call.args, 0));
  Reg a = Borrow(call.args[1], operands), b = Borrow(call.args[2], operands);
  EmitCheckDims(a, b, DimRelation::kAtLeast, call.attrs.GetString("what"));
  Reg out = Destination(var, target, type);
  code_.Op(Opcode::kMove).R(out).R(data);
  Release(operands);
  return Deliver(out, type, var, target);
}

Dim FunctionEmitter::NewSymbol(Reg reg, ViewDims& dims) {
  int64_t id = static_cast<int64_t>(dims.symbols.size());
  dims.symbols.emplace(id, reg);
  return Dim::Var(id, absl::StrCat("d", id));
}

// Returns the type of `arg`, which is in `reg`, with a symbol for each dim that is not known.
const ir::Type* FunctionEmitter::MeasuredType(const ir::Expr* arg, Reg reg, ViewDims& dims) {
  const auto& tensor = *ir::DynCast<ir::TensorType>(arg->type);
  Dims measured;
  for (size_t axis = 0; axis < tensor.shape.dims.size(); ++axis) {
    const Dim& dim = tensor.shape.dims[axis];
    if (dim.is_const()) {
      measured.push_back(dim);
      continue;
    }
    Reg extent = registers_.Allocate(tables_.types().Scalar(kInt64));
    dims.temporaries.push_back(extent);
    code_.Op(Opcode::kGetDim).R(extent).R(reg).Unit(static_cast<uint16_t>(axis));
    measured.push_back(NewSymbol(extent, dims));
  }
  return ir::MakeTensorType(tables_.arena(), std::move(measured), tensor.dtype.dtype);
}

// Returns a symbol for an element of `arg`, which is in `reg`.
Dim FunctionEmitter::ValueOf(const ir::Expr* arg, Reg reg, int64_t element, ViewDims& dims) {
  if (ir::IsScalar(arg->type)) return NewSymbol(reg, dims);
  auto [it, is_new] = dims.values.try_emplace({reg.value, element});
  if (!is_new) return it->second;
  Reg value = registers_.Allocate(tables_.types().Scalar(kInt64));
  dims.temporaries.push_back(value);
  code_.Op(Opcode::kGetElement).R(value).R(reg).Unit(static_cast<uint16_t>(element));
  return it->second = NewSymbol(value, dims);
}

}  // namespace rvm::bytecode
