#include "compiler/bytecode/function_emitter.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "compiler/bytecode/branch_instruction.h"
#include "compiler/ops/families/extent.h"
#include "compiler/ops/select_scalar.h"

namespace rvm::bytecode {
namespace {

absl::Status TooManyRegisters(std::string_view function) {
  return absl::ResourceExhaustedError(absl::StrCat("function `", Abseil(function), "` needs more than ",
                                                   RegisterAllocator::kMaxRegisters,
                                                   " registers; split it into several functions"));
}

}  // namespace

absl::StatusOr<FunctionDesc> FunctionEmitter::Run() {
  const ir::Function& function = *pending_.function;
  const FunctionDesc declared = tables_.function(pending_.id);  // a copy: the table grows
  result_type_ = declared.result;
  for (const RegisterDesc& desc : declared.registers) params_.push_back(registers_.Allocate(desc.type));
  FindSelfTailCalls(function.body);
  Mark(function.span);
  if (is_loop_) LoadLoopConstants();
  start_ = code_.NewLabel();
  code_.Bind(start_);

  Block block{next_block_++, 0, liveness_.block_end(0), {}};
  block_ = &block;
  size_t first = pending_.is_closure ? 1 : 0;
  if (pending_.is_closure) {
    for (size_t i = 0; i < pending_.captures.size(); ++i) {
      Reg reg = registers_.Allocate(tables_.types().Lower(pending_.captures[i]->type));
      code_.Op(Opcode::kGetField)
          .R(reg)
          .R(params_[0])
          .Unit(static_cast<uint16_t>(pending_.layout.value))
          .Unit(static_cast<uint16_t>(i));
      Bind(pending_.captures[i], reg, registers_.desc(reg).type);
    }
    bool used = pending_.self != nullptr && liveness_.num_uses(pending_.self) > 0;
    if (used) {
      Bind(pending_.self, params_[0], pending_.closure_type);
    } else {
      code_.Op(Opcode::kDrop).R(params_[0]);
    }
  }
  for (size_t i = 0; i < function.params.size(); ++i) {
    Bind(function.params[i], params_[first + i], registers_.desc(params_[first + i]).type);
  }
  EmitEntryChecks();
  for (const ir::Var* param : function.params) DropIfUnused(param);

  RVM_RETURN_IF_ERROR(EmitBlock(function.body, Target{}));
  if (registers_.overflowed()) return TooManyRegisters(declared.name);

  FunctionDesc desc = declared;
  desc.registers = registers_.registers();
  desc.arena_bytes = registers_.arena_bytes();
  desc.code = code_.Take();
  desc.lines = std::move(lines_);
  return desc;
}

// Checks that a named extent has the same value at all of its occurrences in the parameters.
void FunctionEmitter::EmitEntryChecks() {
  struct Place {
    const ir::Var* param;
    uint16_t axis;
    const Dim* declared;
  };
  absl::flat_hash_map<int64_t, Place> first;
  std::vector<Place> others;
  for (const ir::Var* param : pending_.function->params) {
    const auto* tensor = ir::DynCast<ir::TensorType>(param->type);
    if (tensor == nullptr || !tensor->shape.is_dims()) continue;
    for (size_t axis = 0; axis < tensor->shape.dims.size(); ++axis) {
      const Dim& dim = tensor->shape.dims[axis];
      if (dim.is_const() || dim.is_any()) continue;
      Place here{param, static_cast<uint16_t>(axis), &dim};
      bool is_first = dim.kind() == DimKind::kVar && first.try_emplace(dim.id(), here).second;
      if (!is_first) others.push_back(here);
    }
  }
  ViewDims dims;
  auto measure = [&](const Place& place) {
    Reg reg = registers_.Allocate(tables_.types().Scalar(kInt64));
    code_.Op(Opcode::kGetDim).R(reg).R(vars_.at(place.param).reg).Unit(place.axis);
    dims.temporaries.push_back(reg);
    return reg;
  };
  for (const Place& place : others) {
    auto is_first_seen = [&](const Dim& leaf) { return leaf.kind() == DimKind::kVar && first.contains(leaf.id()); };
    if (!IsArithmeticOf(*place.declared, is_first_seen)) continue;
    SubstituteDim(*place.declared, [&](const Dim& leaf) -> std::optional<Dim> {
      auto [it, is_new] = dims.symbols.try_emplace(leaf.id());
      if (is_new) it->second = measure(first.at(leaf.id()));
      return std::nullopt;
    });
    Reg expected = EmitDim(*place.declared, dims), seen = measure(place);
    EmitCheckDims(seen, expected, DimRelation::kEqual,
                  ops::DeclaredExtentText(place.axis, absl::StrCat("`%", place.param->name, "`"), *place.declared));
  }
  for (Reg reg : dims.temporaries) registers_.Free(reg);
}

absl::Status FunctionEmitter::EmitBlock(const ir::Expr* expr, Target target) {
  while (const auto* let = ir::DynCast<ir::Let>(expr)) {
    RVM_RETURN_IF_ERROR(EmitLet(*let, &expr));
  }
  Mark(expr->span);
  return EmitStep(expr, nullptr, target);
}

// Emits `let.value`; `*next` becomes what follows.
absl::Status FunctionEmitter::EmitLet(const ir::Let& let, const ir::Expr** next) {
  *next = let.body;
  // A comparison that is only used by the `if` after it becomes part of the branch.
  const auto* branch = ir::DynCast<ir::If>(let.body);
  const ir::Let* branch_let = nullptr;
  if (branch == nullptr && (branch_let = ir::DynCast<ir::Let>(let.body)) != nullptr) {
    branch = ir::DynCast<ir::If>(branch_let->value);
  }
  if (branch != nullptr && CanFuseCompare(let, *branch)) {
    fused_compare_ = ir::Cast<ir::Call>(let.value);
    fused_position_ = next_position_++;
    return absl::OkStatus();
  }
  if (const auto* call = ir::DynCast<ir::Call>(let.value);
      call != nullptr && ir::IsPrimitive(call->callee) && ir::DynCast<ir::TupleType>(call->type) != nullptr) {
    return EmitKernelWithProjections(let, next);
  }
  if (IsCallForFields(let.value)) return EmitCallWithProjections(let, next);
  Mark(let.value->span);
  RVM_RETURN_IF_ERROR(EmitStep(let.value, let.var, Target{}));
  return absl::OkStatus();
}

bool FunctionEmitter::CanFuseCompare(const ir::Let& let, const ir::If& branch) const {
  const auto* condition = ir::DynCast<ir::VarExpr>(branch.condition);
  const auto* call = ir::DynCast<ir::Call>(let.value);
  if (condition == nullptr || condition->var != let.var || call == nullptr || liveness_.num_uses(let.var) != 1)
    return false;
  std::optional<ops::ScalarInstruction> selected = ops::SelectScalar(*call);
  return selected && BranchIfNot(selected->opcode, selected->negate).has_value();
}

// `let %t = kernel(...); let %a = %t.0; let %b = %t.1; ...`: the outputs go straight to
// the variables that project them; the tuple never exists.
uint32_t FunctionEmitter::FollowProjections(const ir::Var* tuple, const ir::Expr** rest,
                                            std::vector<const ir::Var*>& fields) {
  uint32_t projections = 0;
  while (const auto* field = ir::DynCast<ir::Let>(*rest)) {
    const auto* project = ir::DynCast<ir::Project>(field->value);
    const auto* source = project == nullptr ? nullptr : ir::DynCast<ir::VarExpr>(project->tuple);
    if (source == nullptr || source->var != tuple || fields[project->index] != nullptr) break;
    fields[project->index] = field->var;
    ++projections;
    *rest = field->body;
  }
  return projections;
}

absl::Status FunctionEmitter::EmitKernelWithProjections(const ir::Let& let, const ir::Expr** next) {
  const auto& call = *ir::Cast<ir::Call>(let.value);
  const auto& tuple = *ir::DynCast<ir::TupleType>(call.type);
  std::vector<const ir::Var*> results(tuple.fields.size(), nullptr);
  const ir::Expr* rest = let.body;
  uint32_t projections = FollowProjections(let.var, &rest, results);
  RVM_CHECK(liveness_.num_uses(let.var) == projections,
            "the outputs of a fused function are used as a tuple, or one of them twice");
  position_ = next_position_++;
  next_position_ += projections;
  Mark(call.span);
  RVM_RETURN_IF_ERROR(EmitKernelCall(call, results, Target{}));
  *next = rest;
  return absl::OkStatus();
}

std::vector<const ir::Var*> FunctionEmitter::DyingIn(uint32_t begin, uint32_t end) {
  std::vector<const ir::Var*> dying;
  for (auto it = block_->dying.lower_bound({begin, nullptr}); it != block_->dying.end() && it->first < end; ++it) {
    dying.push_back(it->second);
  }
  return dying;
}

absl::Status FunctionEmitter::EmitIf(const ir::If& expr, const ir::Var* var, const Target& target) {
  Operands operands;
  Label otherwise = code_.NewLabel();
  Label end = code_.NewLabel();
  if (fused_compare_ != nullptr) {
    const ir::Call& compare = *std::exchange(fused_compare_, nullptr);
    uint32_t position = std::exchange(position_, fused_position_);
    ops::ScalarInstruction selected = *ops::SelectScalar(compare);
    InverseBranch branch = *BranchIfNot(selected.opcode, selected.negate);
    const ir::Expr *left = compare.args[0], *right = compare.args[1];
    if (selected.swap != branch.swap) std::swap(left, right);
    std::optional<int16_t> value = SmallInt(right);
    bool is_left = !value && (value = SmallInt(left)).has_value();
    std::optional<ImmediateBranch> immediate = value ? WithImmediate(branch.opcode, *value, is_left) : std::nullopt;
    if (immediate) {
      Reg reg = Borrow(is_left ? right : left, operands);
      code_.Op(immediate->opcode).R(reg).Unit(static_cast<uint16_t>(immediate->value)).L(otherwise);
    } else {
      Reg a = Borrow(left, operands);
      Reg b = Borrow(right, operands);
      code_.Op(branch.opcode).R(a).R(b).L(otherwise);
    }
    Release(operands);
    position_ = position;
  } else {
    Reg condition = Borrow(expr.condition, operands);
    code_.Op(Opcode::kBranchUnless).R(condition).L(otherwise);
    Release(operands);
  }
  std::vector<const ir::Var*> dying = DyingIn(position_, liveness_.step_end(position_));
  Target inner = JoinTarget(expr.type, var, target);
  RVM_RETURN_IF_ERROR(InBranch(dying, [&] { return EmitBlock(expr.then_branch, inner); }));
  if (!inner.is_tail) code_.Op(Opcode::kJump).L(end);
  code_.Bind(otherwise);
  RVM_RETURN_IF_ERROR(InBranch(dying, [&] { return EmitBlock(expr.else_branch, inner); }));
  code_.Bind(end);
  Forget(dying);
  return Joined(inner, var, target);
}

// Branches of a value deliver it to one register, allocated before them.
FunctionEmitter::Target FunctionEmitter::JoinTarget(const ir::Type* type, const ir::Var* var, const Target& target) {
  if (var == nullptr) return target;
  TypeId id = tables_.types().Lower(type);
  return Target{false, registers_.Allocate(id), id};
}

absl::Status FunctionEmitter::Joined(const Target& inner, const ir::Var* var, const Target& target) {
  if (var == nullptr) return absl::OkStatus();
  return Deliver(inner.reg, inner.type, var, target);
}

absl::Status FunctionEmitter::InBranch(const std::vector<const ir::Var*>& dying,
                                       absl::FunctionRef<absl::Status()> body) {
  Block branch{next_block_, next_position_, liveness_.block_end(next_block_), {}};
  ++next_block_;
  Block* outer = std::exchange(block_, &branch);
  RegisterAllocator::Position mark = registers_.Mark();
  std::vector<VarState> saved;
  saved.reserve(dying.size());
  for (const ir::Var* var : dying) {
    VarState& state = vars_.at(var);
    saved.push_back(state);
    std::optional<uint32_t> last = IsShell(state.reg) ? NextCell(FieldsOf(state.reg), branch, branch.begin)
                                                      : liveness_.LastUse(var, branch.begin, branch.end);
    if (last) {
      state.owner = branch.id;
      state.last_use = *last;
      branch.dying.insert({*last, var});
    } else {
      DropVar(var);
    }
  }
  absl::Status status = WithStack([&] { return body(); });
  registers_.RollBack(mark);
  for (size_t i = 0; i < dying.size(); ++i) vars_[dying[i]] = saved[i];
  block_ = outer;
  return status;
}

void FunctionEmitter::Forget(const std::vector<const ir::Var*>& dying) {
  for (const ir::Var* var : dying) GiveUp(var);
}

// ---- operands ---------------------------------------------------------------

bool FunctionEmitter::DiesHere(const ir::Var* var) const {
  const VarState& state = vars_.at(var);
  return state.owner == block_->id && state.last_use <= position_;
}

void FunctionEmitter::GiveUp(const ir::Var* var) {
  auto found = vars_.find(var);
  VarState& state = found->second;
  registers_.Free(state.reg);
  if (state.slot) registers_.FreeSlot(*state.slot);
  block_->dying.erase({state.last_use, var});
}

void FunctionEmitter::DropVar(const ir::Var* var) {
  Reg reg = vars_.at(var).reg;
  if (Owns(reg)) code_.Op(IsShell(reg) ? Opcode::kDropShell : Opcode::kDrop).R(reg);
  GiveUp(var);
}

void FunctionEmitter::DropIfUnused(const ir::Var* var) {
  const VarState& state = vars_.at(var);
  if (!liveness_.LastUse(var, block_->begin, block_->end)) {
    RVM_CHECK(state.owner == block_->id, "an unused variable is owned by another block");
    DropVar(var);
  }
}

Reg FunctionEmitter::LoadConstant(const ir::Constant& constant) {
  const Literal& literal = constant.literal;
  Reg reg = registers_.Allocate(tables_.types().Tensor(literal.dtype(), ToDims(literal.shape())));
  if (literal.rank() > 0) {
    code_.Op(Opcode::kLoadConst).R(reg).U32(tables_.Constant(constant).value);
    return reg;
  }
  if (literal.dtype().is_integral()) {
    int64_t value = literal.IntAt(0);
    if (value == static_cast<int32_t>(value)) {
      code_.Op(Opcode::kLoadInt).R(reg).U32(static_cast<uint32_t>(value));
    } else {
      code_.Op(Opcode::kLoadBits).R(reg).U64(static_cast<uint64_t>(value));
    }
    return reg;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, literal.data(), static_cast<size_t>(literal.dtype().bytes()));
  code_.Op(Opcode::kLoadBits).R(reg).U64(bits);
  return reg;
}

Reg FunctionEmitter::Borrow(const ir::Expr* atom, Operands& operands) {
  if (const auto* constant = ir::DynCast<ir::Constant>(atom)) {
    if (std::optional<Reg> loaded = LoopConstant(constant->literal)) return *loaded;
    Reg reg = LoadConstant(*constant);
    operands.temporaries.push_back(reg);
    return reg;
  }
  const ir::Var* var = ir::Cast<ir::VarExpr>(atom)->var;
  operands.borrowed.push_back(var);
  return vars_.at(var).reg;
}

absl::StatusOr<Reg> FunctionEmitter::Consume(const ir::Expr* atom, TypeId expected, Operands& operands,
                                             const std::vector<ir::Expr*>& all_atoms, size_t index) {
  if (const auto* constant = ir::DynCast<ir::Constant>(atom)) {
    Reg reg = LoadConstant(*constant);
    RVM_ASSIGN_OR_RETURN(reg, Coerce(reg, registers_.desc(reg).type, expected));
    operands.consumed.push_back(reg);
    return reg;
  }
  const ir::Var* var = ir::Cast<ir::VarExpr>(atom)->var;
  const VarState& state = vars_.at(var);
  bool again = false;
  for (size_t i = index + 1; i < all_atoms.size(); ++i) {
    const auto* other = ir::DynCast<ir::VarExpr>(all_atoms[i]);
    again = again || (other != nullptr && other->var == var);
  }
  Reg reg = state.reg;
  bool is_mine = DiesHere(var) && !again;
  if (is_mine) {
    operands.moved.push_back(var);
  } else if (Owns(reg)) {
    Reg copy = registers_.Allocate(state.type);
    code_.Op(Opcode::kRetain).R(copy).R(reg);
    operands.consumed.push_back(copy);
    reg = copy;
  }
  RVM_ASSIGN_OR_RETURN(Reg coerced, Coerce(reg, state.type, expected));
  if (coerced.value != reg.value) operands.consumed.push_back(coerced);
  return coerced;
}

void FunctionEmitter::Release(const Operands& operands) {
  for (Reg reg : operands.temporaries) {
    if (Owns(reg)) code_.Op(Opcode::kDrop).R(reg);
    registers_.Free(reg);
  }
  for (Reg reg : operands.consumed) registers_.Free(reg);
  for (const ir::Var* var : operands.moved) GiveUp(var);
  for (size_t i = 0; i < operands.borrowed.size(); ++i) {
    const ir::Var* var = operands.borrowed[i];
    if (!DiesHere(var)) continue;
    bool repeated = false;
    for (size_t j = 0; j < i; ++j) repeated = repeated || operands.borrowed[j] == var;
    for (const ir::Var* moved : operands.moved) repeated = repeated || moved == var;
    if (!repeated) DropVar(var);
  }
}

// ---- results ----------------------------------------------------------------

absl::StatusOr<Reg> FunctionEmitter::Coerce(Reg reg, TypeId from, TypeId to) {
  TypeTable& types = tables_.types();
  if (from == to || tables_.IsAssignable(from, to)) return reg;
  if (types.desc(from).kind == TypeDescKind::kTensor && types.desc(to).kind == TypeDescKind::kTensor &&
      types.desc(from).dims.size() == types.desc(to).dims.size() && types.desc(from).dtype == types.desc(to).dtype) {
    Reg checked = registers_.Allocate(to);
    code_.Op(Opcode::kCheckShape).R(checked).R(reg).U32(to.value);
    return checked;
  }
  if (types.desc(from).kind == TypeDescKind::kTuple && types.desc(to).kind == TypeDescKind::kTuple &&
      types.desc(from).fields.size() == types.desc(to).fields.size()) {
    return CoerceFields(reg, from, to);
  }
  return absl::UnimplementedError(
      absl::StrCat("in `", pending_.name, "`: a value of type `", tables_.TypeText(from), "` flows where `",
                   tables_.TypeText(to), "` is expected, and the dims inside cannot be checked; annotate both alike"));
}

// Takes the tuple apart and makes another of its fields.
absl::StatusOr<Reg> FunctionEmitter::CoerceFields(Reg tuple, TypeId from, TypeId to) {
  TypeTable& types = tables_.types();
  const std::vector<TypeId> has = types.desc(from).fields, wanted = types.desc(to).fields;  // copies: the table grows
  std::vector<Reg> fields;
  for (TypeId field : has) fields.push_back(registers_.Allocate(field));
  code_.Op(Opcode::kUnpack).Rs(fields).R(tuple).Unit(static_cast<uint16_t>(types.TupleLayout(from).value));
  for (size_t i = 0; i < fields.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(Reg coerced, Coerce(fields[i], has[i], wanted[i]));
    if (coerced.value != fields[i].value) registers_.Free(fields[i]);
    fields[i] = coerced;
  }
  for (Reg field : fields) registers_.Free(field);
  Reg out = registers_.Allocate(to);
  code_.Op(Opcode::kMakeCell).R(out).Unit(static_cast<uint16_t>(types.TupleLayout(to).value)).Rs(fields);
  return out;
}

void FunctionEmitter::Bind(const ir::Var* var, Reg reg, TypeId type, std::optional<uint32_t> slot) {
  VarState state{reg, type, block_->id, position_, slot};
  if (std::optional<uint32_t> last = liveness_.LastUse(var, block_->begin, block_->end)) state.last_use = *last;
  block_->dying.insert({state.last_use, var});
  vars_[var] = state;
}

Reg FunctionEmitter::Destination(const ir::Var* var, const Target& target, TypeId type) {
  if (var == nullptr && !target.is_tail && target.type == type) return target.reg;
  std::optional<Reg> preferred = var == nullptr ? std::nullopt : PreferredRegister(var, type);
  if (preferred && registers_.IsFree(*preferred)) {
    registers_.Take(*preferred);
    return *preferred;
  }
  return registers_.Allocate(type);
}

absl::Status FunctionEmitter::Deliver(Reg reg, TypeId type, const ir::Var* var, const Target& target) {
  if (var != nullptr) {
    TypeId wanted = tables_.types().Lower(var->type);
    RVM_ASSIGN_OR_RETURN(Reg coerced, Coerce(reg, type, wanted));
    if (coerced.value != reg.value) registers_.Free(reg);
    Bind(var, coerced, coerced.value == reg.value ? type : wanted);
    DropIfUnused(var);
    return absl::OkStatus();
  }
  if (target.is_tail) {
    RVM_ASSIGN_OR_RETURN(Reg coerced, Coerce(reg, type, result_type_));
    if (returns_fields_) return ReturnFieldsOf(coerced);
    code_.Op(Opcode::kReturn).R(coerced);
    if (coerced.value != reg.value) registers_.Free(coerced);
    registers_.Free(reg);
    return absl::OkStatus();
  }
  if (reg.value == target.reg.value) return absl::OkStatus();
  RVM_ASSIGN_OR_RETURN(Reg coerced, Coerce(reg, type, target.type));
  code_.Op(Opcode::kMove).R(target.reg).R(coerced);
  if (coerced.value != reg.value) registers_.Free(coerced);
  registers_.Free(reg);
  return absl::OkStatus();
}

void FunctionEmitter::Mark(ir::Span span) {
  SourceLine line = tables_.LineOf(span);
  line.pc = code_.pc();
  if (line.line == 0) return;
  if (!lines_.empty()) {
    SourceLine& last = lines_.back();
    if (last.file == line.file && last.line == line.line && last.column == line.column) return;
    if (last.pc == line.pc) {
      last = line;
      return;
    }
  }
  lines_.push_back(line);
}

void FunctionEmitter::EmitCheckDims(Reg a, Reg b, DimRelation relation, std::string what) {
  SourceLine line = lines_.empty() ? SourceLine{} : lines_.back();
  line.pc = code_.pc();
  line.what = std::move(what);
  if (lines_.empty() || lines_.back().pc != line.pc) lines_.emplace_back();
  lines_.back() = std::move(line);
  code_.Op(Opcode::kCheckDims).R(a).R(b).Unit(static_cast<uint16_t>(relation));
}

}  // namespace rvm::bytecode
