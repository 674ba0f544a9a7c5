#include "serialization/isa/isa.h"

#include "base/check.h"

namespace rvm {
namespace {

constexpr uint8_t kNoOpcode = 0xff;

constexpr std::array<uint8_t, 256> MakeIndex() {
  std::array<uint8_t, 256> index{};
  for (uint8_t& entry : index) entry = kNoOpcode;
  for (size_t i = 0; i < std::size(kIsa); ++i) index[static_cast<size_t>(kIsa[i].opcode)] = static_cast<uint8_t>(i);
  return index;
}
constexpr std::array<uint8_t, 256> kIndexOfCode = MakeIndex();

constexpr bool IsAscending() {
  for (size_t i = 1; i < std::size(kIsa); ++i) {
    if (kIsa[i - 1].opcode >= kIsa[i].opcode) return false;
  }
  return std::size(kIsa) < kNoOpcode;
}
static_assert(IsAscending(), "isa.def lists opcodes in the order of their codes, each code once");

}  // namespace

const OpcodeSpec* FindSpec(uint16_t code) {
  if (code >= kIndexOfCode.size() || kIndexOfCode[code] == kNoOpcode) return nullptr;
  return &kIsa[kIndexOfCode[code]];
}

const OpcodeSpec* FindSpec(std::string_view mnemonic) {
  for (const OpcodeSpec& spec : kIsa) {
    if (spec.mnemonic == mnemonic) return &spec;
  }
  return nullptr;
}

std::string_view RegisterClassName(RegisterClass register_class) {
  switch (register_class) {
    case RegisterClass::kNone: return "None";
    case RegisterClass::kAny: return "Any";
    case RegisterClass::kBool: return "Bool";
    case RegisterClass::kI32: return "I32";
    case RegisterClass::kInt: return "Int";
    case RegisterClass::kF32: return "F32";
    case RegisterClass::kF64: return "F64";
    case RegisterClass::kScalar: return "Scalar";
    case RegisterClass::kTensor: return "Tensor";
    case RegisterClass::kAdt: return "Adt";
    case RegisterClass::kCell: return "Cell";
    case RegisterClass::kClosure: return "Closure";
    case RegisterClass::kRef: return "Ref";
    case RegisterClass::kShell: return "Shell";
    case RegisterClass::kPointer: return "Pointer";
  }
  RVM_UNREACHABLE("a register class without a name");
}

std::string_view OperandKindName(OperandKind kind) {
  switch (kind) {
    case OperandKind::kOut: return "OUT";
    case OperandKind::kIn: return "IN";
    case OperandKind::kMove: return "MOVE";
    case OperandKind::kOuts: return "OUTS";
    case OperandKind::kMoves: return "MOVES";
    case OperandKind::kArgs: return "ARGS";
    case OperandKind::kLabel: return "LABEL";
    case OperandKind::kLabels: return "LABELS";
    case OperandKind::kImm16: return "IMM16";
    case OperandKind::kImm32: return "IMM32";
    case OperandKind::kImm64: return "IMM64";
    case OperandKind::kOffsets: return "OFFSETS";
    case OperandKind::kConstant: return "CONSTANT";
    case OperandKind::kFunction: return "FUNCTION";
    case OperandKind::kKernel: return "KERNEL";
    case OperandKind::kType: return "TYPE";
    case OperandKind::kLayout: return "LAYOUT";
    case OperandKind::kTag: return "TAG";
    case OperandKind::kField: return "FIELD";
    case OperandKind::kDType: return "DTYPE";
  }
  RVM_UNREACHABLE("an operand kind without a name");
}

std::optional<Instruction> ReadInstruction(std::span<const uint16_t> code, uint32_t pc) {
  if (pc >= code.size()) return std::nullopt;
  Instruction instruction;
  instruction.spec = FindSpec(code[pc]);
  if (instruction.spec == nullptr) return std::nullopt;
  size_t at = size_t{pc} + 1;
  for (size_t i = 0; i < instruction.spec->num_operands; ++i) {
    const OperandSpec& spec = instruction.spec->operand_array[i];
    Operand& operand = instruction.operand_array[i];
    operand.spec = &spec;
    operand.count = 1;
    if (IsList(spec.kind)) {
      if (at >= code.size()) return std::nullopt;
      operand.count = code[at++];
    }
    size_t units = size_t{operand.count} * UnitsPerElement(spec.kind);
    if (units > code.size() - at) return std::nullopt;
    operand.units = code.data() + at;
    at += units;
  }
  instruction.length = static_cast<uint32_t>(at - pc);
  return instruction;
}

std::optional<DataType> UnpackDataType(uint16_t packed) {
  DataType dtype{static_cast<TypeCode>(packed >> 8), static_cast<uint8_t>(packed), 1};
  if (!IsStorable(dtype)) return std::nullopt;
  return dtype;
}

}  // namespace rvm
