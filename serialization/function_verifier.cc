#include "serialization/function_verifier.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "serialization/verify_tables.h"

namespace rvm {
namespace {

// For the states of pending labels. A function needs this much only if it has tens of thousands
// of registers and of open branches at once.
constexpr size_t kMaxHeldBytes = size_t{1} << 30;

bool IsInClass(const TypeDesc& type, RegisterClass register_class) {
  bool scalar = type.kind == TypeDescKind::kScalar;
  switch (register_class) {
    case RegisterClass::kNone: return false;
    case RegisterClass::kAny: return true;
    case RegisterClass::kBool: return scalar && type.dtype == kBool;
    case RegisterClass::kI32: return scalar && type.dtype == kInt32;
    case RegisterClass::kInt: return scalar && type.dtype.is_integral();
    case RegisterClass::kF32: return scalar && type.dtype == kFloat32;
    case RegisterClass::kF64: return scalar && type.dtype == kFloat64;
    case RegisterClass::kScalar: return scalar;
    case RegisterClass::kTensor: return type.kind == TypeDescKind::kTensor;
    case RegisterClass::kAdt: return type.kind == TypeDescKind::kAdt;
    case RegisterClass::kCell: return type.kind == TypeDescKind::kAdt || type.kind == TypeDescKind::kTuple;
    case RegisterClass::kClosure: return type.kind == TypeDescKind::kClosure;
    case RegisterClass::kRef: return type.kind == TypeDescKind::kRef;
    case RegisterClass::kShell: return type.kind == TypeDescKind::kShell;
    case RegisterClass::kPointer: return !scalar && type.kind != TypeDescKind::kShell;
  }
  return false;
}

bool IsLabel(OperandKind kind) { return kind == OperandKind::kLabel || kind == OperandKind::kLabels; }

bool FallsThrough(Flow flow) { return flow == Flow::kNext || flow == Flow::kBranch || flow == Flow::kCall; }

}  // namespace

FunctionVerifier::FunctionVerifier(const Executable& executable, const std::vector<LayoutId>& closure_layouts,
                                   FunctionId id)
    : executable_(executable),
      closure_layouts_(closure_layouts),
      id_(id),
      function_(executable.functions[id.value]),
      pointers_(function_.registers.size()),
      places_(function_.arena_bytes > 0 ? function_.registers.size() : 0) {
  state_.live = RegisterSet(function_.registers.size());
  for (size_t r = 0; r < function_.registers.size(); ++r) {
    auto reg = static_cast<uint16_t>(r);
    if (type(reg).kind != TypeDescKind::kScalar && !is_planned(reg)) pointers_.Add(reg);
    if (r < function_.num_params) state_.live.Add(reg);
  }
  state_.self_intact = closure_layouts[id.value].valid();
}

absl::Status FunctionVerifier::Error(std::string_view what) const {
  std::string where = absl::StrCat("in `", function_.name, "` at +0x", absl::Hex(pc_));
  if (spec_ != nullptr) absl::StrAppend(&where, " (", Abseil(spec_->mnemonic), ")");
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", Abseil(what)));
}

std::string FunctionVerifier::Text(TypeId type) const {
  return absl::StrCat("`", TypeToString(executable_, type), "`");
}

absl::Status FunctionVerifier::ExpectAssignable(TypeId from, TypeId to, std::string_view what) const {
  if (IsAssignable(executable_, from, to)) return absl::OkStatus();
  return Error(absl::StrCat(Abseil(what), " is ", Text(from), "; expected ", Text(to)));
}

absl::Status FunctionVerifier::Run() {
  RVM_RETURN_IF_ERROR(Scan());
  return RunUntil(static_cast<uint32_t>(function_.code.size()));
}

std::vector<Reg> FunctionVerifier::OwnedAt(uint32_t pc) {
  std::vector<Reg> owned;
  if (!Scan().ok() || !RunUntil(pc).ok()) return owned;
  for (size_t w = 0; w < pointers_.words().size(); ++w) {
    for (uint64_t bits = pointers_.words()[w] & state_.live.words()[w]; bits != 0; bits &= bits - 1) {
      owned.push_back(Reg(static_cast<uint16_t>(w * 64 + static_cast<size_t>(std::countr_zero(bits)))));
    }
  }
  return owned;
}

// Finds where instructions begin and where jumps go.
absl::Status FunctionVerifier::Scan() {
  const std::vector<uint16_t>& code = function_.code;
  if (code.empty()) return Error("no code");
  if (code.size() > UINT32_MAX / 2) return Error("too much code");
  starts_.assign(code.size(), false);
  for (pc_ = 0; pc_ < code.size();) {
    spec_ = nullptr;
    std::optional<Instruction> instruction = ReadInstruction(code, pc_);
    if (!instruction) {
      if (FindSpec(code[pc_]) == nullptr) return Error(absl::StrCat("unknown opcode 0x", absl::Hex(code[pc_])));
      spec_ = FindSpec(code[pc_]);
      return Error("the instruction runs over the end of the code");
    }
    spec_ = instruction->spec;
    starts_[pc_] = true;
    for (const Operand& operand : instruction->operands()) {
      if (!IsLabel(operand.kind())) continue;
      for (uint32_t i = 0; i < operand.count; ++i) {
        if (operand.u32(i) >= code.size()) {
          return Error(absl::StrCat("label +0x", absl::Hex(operand.u32(i)), " out of range; code has 0x",
                                    absl::Hex(code.size())));
        }
        ++labels_[operand.u32(i)].references_left;
      }
    }
    pc_ += instruction->length;
  }
  for (pc_ = 0; pc_ < code.size();) {
    Instruction instruction = *ReadInstruction(code, pc_);
    spec_ = instruction.spec;
    for (const Operand& operand : instruction.operands()) {
      if (!IsLabel(operand.kind())) continue;
      for (uint32_t i = 0; i < operand.count; ++i) {
        if (!starts_[operand.u32(i)])
          return Error(absl::StrCat("label +0x", absl::Hex(operand.u32(i)), " is inside an instruction"));
      }
    }
    pc_ += instruction.length;
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::RunUntil(uint32_t stop) {
  reachable_ = true;
  for (pc_ = 0; pc_ < function_.code.size();) {
    Instruction instruction = *ReadInstruction(function_.code, pc_);
    spec_ = instruction.spec;
    RVM_RETURN_IF_ERROR(Arrive());
    if (pc_ == stop) return absl::OkStatus();
    RVM_RETURN_IF_ERROR(Step(instruction));
    reachable_ = FallsThrough(spec_->flow);
    if (reachable_ && pc_ + instruction.length >= function_.code.size()) return Error("the code falls through its end");
    pc_ += instruction.length;
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::Hold(size_t bytes) {
  held_bytes_ += bytes;
  if (held_bytes_ <= kMaxHeldBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("in `", function_.name, "`: too many registers and open branches to verify; split the function"));
}

// Joins what falls through with what jumped here.
absl::Status FunctionVerifier::Arrive() {
  auto found = labels_.find(pc_);
  if (found == labels_.end()) return Expect(reachable_, "no path leads to this instruction");
  Label& label = found->second;
  if (!label.has_state) {
    if (!reachable_) return Error("no path from before leads to this instruction");
  } else {
    held_bytes_ -= label.state.bytes();
    if (reachable_) {
      if (std::optional<uint16_t> reg = FindOwnershipConflict(state_, label.state, pointers_)) {
        return Error(absl::StrCat("register r", *reg, " is owned on one path to this label and not on another"));
      }
      Intersect(state_, label.state);
    } else {
      state_ = std::move(label.state);
      for (const auto& [offset, place] : state_.arena) places_[place.reg] = offset;
    }
  }
  if (label.references_left == 0) {
    labels_.erase(found);
    return absl::OkStatus();
  }
  label.has_state = true;
  label.state = state_;
  return Hold(label.state.bytes());
}

absl::Status FunctionVerifier::JumpTo(uint32_t target) {
  Label& label = labels_.find(target)->second;
  --label.references_left;
  if (target > pc_) {
    if (!label.has_state) {
      label.has_state = true;
      label.state = state_;
      return Hold(label.state.bytes());
    }
    if (std::optional<uint16_t> reg = FindOwnershipConflict(state_, label.state, pointers_)) {
      return Error(absl::StrCat("register r", *reg, " is owned on one path to label +0x", absl::Hex(target),
                                " and not on another"));
    }
    held_bytes_ -= label.state.bytes();
    Intersect(label.state, state_);
    return Hold(label.state.bytes());
  }
  if (std::optional<uint16_t> reg = FindOwnershipConflict(label.state, state_, pointers_)) {
    return Error(absl::StrCat("register r", *reg, " is owned on one path to label +0x", absl::Hex(target),
                              " and not on another"));
  }
  if (std::optional<uint16_t> reg = FindMissing(label.state, state_)) {
    return Error(absl::StrCat("register r", *reg, " is defined at label +0x", absl::Hex(target),
                              " but not where it jumps back"));
  }
  if (label.state.self_intact && !state_.self_intact) {
    return Error(
        absl::StrCat("register r0 is this closure at label +0x", absl::Hex(target), " but not where it jumps back"));
  }
  if (label.references_left == 0) {
    held_bytes_ -= label.state.bytes();
    labels_.erase(target);
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::Step(const Instruction& instruction) {
  for (const Operand& operand : instruction.operands()) RVM_RETURN_IF_ERROR(CheckOperand(operand));
  RVM_RETURN_IF_ERROR(CheckRules(instruction));
  for (const Operand& operand : instruction.operands()) RVM_RETURN_IF_ERROR(Read(operand));
  if (spec_->flow == Flow::kReturn) RVM_RETURN_IF_ERROR(CheckNothingOwned());
  for (const Operand& operand : instruction.operands()) RVM_RETURN_IF_ERROR(Write(operand));
  if (spec_->opcode == Opcode::kCallKernelPlanned) RVM_RETURN_IF_ERROR(PlaceOutputs(instruction));
  for (const Operand& operand : instruction.operands()) {
    if (!IsLabel(operand.kind())) continue;
    for (uint32_t i = 0; i < operand.count; ++i) RVM_RETURN_IF_ERROR(JumpTo(operand.u32(i)));
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::CheckOperand(const Operand& operand) {
  auto in_range = [&](std::string_view what, size_t size) {
    if (operand.value() < size) [[likely]]
      return absl::OkStatus();
    return Error(absl::StrCat(Abseil(what), " ", operand.value(), " out of range; there are ", size));
  };
  switch (operand.kind()) {
    case OperandKind::kOut:
    case OperandKind::kIn:
    case OperandKind::kMove:
    case OperandKind::kOuts:
    case OperandKind::kMoves:
      for (uint32_t i = 0; i < operand.count; ++i) RVM_RETURN_IF_ERROR(CheckRegister(operand, operand.u16(i)));
      return absl::OkStatus();
    case OperandKind::kArgs:
      for (uint32_t i = 0; i < operand.count; ++i) {
        uint16_t arg = operand.u16(i);
        if ((arg & kConstantArg) == 0) {
          uint16_t reg = arg & ~kMovedArg;
          RVM_RETURN_IF_ERROR(CheckRegister(operand, reg));
          if (reg != arg && type(reg).kind != TypeDescKind::kTensor) {
            return Error(absl::StrCat("register r", reg, " for `args` is ", Text(type_id(reg)),
                                      "; expected a tensor to use up"));
          }
        } else if ((arg & ~kConstantArg) >= executable_.constants.size()) {
          return Error(absl::StrCat("constant ", arg & ~kConstantArg, " out of range; there are ",
                                    executable_.constants.size()));
        }
      }
      return absl::OkStatus();
    case OperandKind::kConstant: return in_range("constant", executable_.constants.size());
    case OperandKind::kFunction: return in_range("function", executable_.functions.size());
    case OperandKind::kKernel: return in_range("kernel", executable_.kernels.size());
    case OperandKind::kType: return in_range("type", executable_.types.size());
    case OperandKind::kLayout: return in_range("layout", executable_.layouts.size());
    case OperandKind::kDType:
      return Expect(UnpackDataType(operand.u16()).has_value(),
                    absl::StrCat("dtype 0x", absl::Hex(operand.u16()), " is not storable"));
    // Labels are checked before the pass, the others by the rules of their opcode.
    case OperandKind::kLabel:
    case OperandKind::kLabels:
    case OperandKind::kImm16:
    case OperandKind::kImm32:
    case OperandKind::kImm64:
    case OperandKind::kOffsets:
    case OperandKind::kTag:
    case OperandKind::kField: return absl::OkStatus();
  }
}

absl::Status FunctionVerifier::CheckRegister(const Operand& operand, uint16_t reg) {
  if (reg >= function_.registers.size()) {
    return Error(absl::StrCat("register r", reg, " out of range; frame has ", function_.registers.size()));
  }
  if (!IsInClass(type(reg), operand.spec->register_class)) {
    return Error(absl::StrCat("register r", reg, " for `", Abseil(operand.spec->name), "` is ", Text(type_id(reg)),
                              "; expected class ", Abseil(RegisterClassName(operand.spec->register_class))));
  }
  if (!is_planned(reg)) return absl::OkStatus();
  bool allowed = operand.kind() == OperandKind::kArgs || spec_->opcode == Opcode::kGetDim ||
                 spec_->opcode == Opcode::kGetElement ||
                 (spec_->opcode == Opcode::kCallKernelPlanned && operand.kind() == OperandKind::kOuts);
  return Expect(allowed, absl::StrCat("planned register r", reg, " for `", Abseil(operand.spec->name),
                                      "`; expected one that is not planned"));
}

absl::Status FunctionVerifier::Read(const Operand& operand) {
  OperandKind kind = operand.kind();
  if (kind == OperandKind::kIn) return ReadRegister(operand.u16(), false);
  if (kind == OperandKind::kMove || kind == OperandKind::kMoves) {
    for (uint32_t i = 0; i < operand.count; ++i) RVM_RETURN_IF_ERROR(ReadRegister(operand.u16(i), true));
  } else if (kind == OperandKind::kArgs) {
    for (uint32_t i = 0; i < operand.count; ++i) {
      uint16_t arg = operand.u16(i);
      if ((arg & kConstantArg) != 0) continue;
      RVM_RETURN_IF_ERROR(ReadRegister(arg & ~kMovedArg, (arg & kMovedArg) != 0));
    }
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::ReadRegister(uint16_t reg, bool moves) {
  if (!state_.live.Has(reg)) {
    std::string_view why = pointers_.Has(reg) ? " is not owned here: not defined on every path, or given away"
                           : is_planned(reg)  ? " is not defined here, or its place in the arena was overwritten"
                                              : " is not defined on every path to here";
    return Error(absl::StrCat("register r", reg, Abseil(why)));
  }
  if (moves && pointers_.Has(reg)) {
    state_.live.Remove(reg);
    if (reg == 0) state_.self_intact = false;
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::Write(const Operand& operand) {
  if (operand.kind() != OperandKind::kOut && operand.kind() != OperandKind::kOuts) return absl::OkStatus();
  for (uint32_t i = 0; i < operand.count; ++i) {
    uint16_t reg = operand.u16(i);
    if (is_planned(reg)) continue;  // see PlaceOutputs
    if (pointers_.Has(reg) && state_.live.Has(reg)) {
      return Error(absl::StrCat("register r", reg, " for `", Abseil(operand.spec->name), "` still owns a value"));
    }
    state_.live.Add(reg);
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::CheckNothingOwned() {
  for (size_t w = 0; w < pointers_.words().size(); ++w) {
    if (uint64_t owned = pointers_.words()[w] & state_.live.words()[w]; owned != 0) {
      return Error(
          absl::StrCat("register r", w * 64 + static_cast<size_t>(std::countr_zero(owned)), " still owns a value"));
    }
  }
  return absl::OkStatus();
}

}  // namespace rvm
