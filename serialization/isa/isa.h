// The instruction set as C++: isa.def expanded into an enum and a table, and a
// bounds-checked view of one instruction. Verifier, disassembler, assembler, codec
// and documents all read the table.
#ifndef RVM_SERIALIZATION_ISA_ISA_H_
#define RVM_SERIALIZATION_ISA_ISA_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "base/data_type.h"

namespace rvm {

enum class Opcode : uint16_t {
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) k##Name = code,
#include "serialization/isa/isa.def"
};

constexpr bool IsKernelCall(Opcode opcode) {
  return opcode == Opcode::kCallKernel || opcode == Opcode::kCallKernelPlanned || opcode == Opcode::kCallKernelDynamic;
}

enum class OperandKind : uint8_t {
  kOut,
  kIn,
  kMove,  // one register
  kOuts,
  kMoves,  // registers
  kArgs,   // registers or constants
  kLabel,
  kLabels,
  kImm16,
  kImm32,
  kImm64,
  kOffsets,
  kConstant,
  kFunction,
  kKernel,
  kType,  // indices of 32 bits
  kLayout,
  kTag,
  kField,
  kDType,  // of 16
};

enum class RegisterClass : uint8_t {
  kNone,  // not a register
  kAny,
  kBool,
  kI32,
  kInt,
  kF32,
  kF64,
  kScalar,
  kTensor,
  kAdt,
  kCell,
  kClosure,
  kRef,
  kShell,
  kPointer,
};

// Successors of an instruction.
enum class Flow : uint8_t {
  kNext,    // the next instruction
  kJump,    // its label
  kBranch,  // its label or the next instruction
  kSwitch,  // one of its labels
  kCall,    // the next instruction, after the callee returned
  kReturn,  // nothing in this frame
  kStop,    // nothing
};

struct OperandSpec {
  OperandKind kind = OperandKind::kImm16;
  RegisterClass register_class = RegisterClass::kNone;
  std::string_view name;
};

inline constexpr size_t kMaxOperands = 4;

struct OpcodeSpec {
  Opcode opcode;
  std::string_view name;      // "AddI32"
  std::string_view mnemonic;  // "add_i32"
  Flow flow;
  std::string_view semantics;
  size_t num_operands = 0;
  std::array<OperandSpec, kMaxOperands> operand_array;

  constexpr std::span<const OperandSpec> operands() const { return {operand_array.data(), num_operands}; }
};

// Units of one element of an operand of this kind.
constexpr uint32_t UnitsPerElement(OperandKind kind) {
  switch (kind) {
    case OperandKind::kImm64: return 4;
    case OperandKind::kLabel:
    case OperandKind::kLabels:
    case OperandKind::kOffsets:
    case OperandKind::kImm32:
    case OperandKind::kConstant:
    case OperandKind::kFunction:
    case OperandKind::kKernel:
    case OperandKind::kType: return 2;
    case OperandKind::kOut:
    case OperandKind::kIn:
    case OperandKind::kMove:
    case OperandKind::kOuts:
    case OperandKind::kMoves:
    case OperandKind::kArgs:
    case OperandKind::kImm16:
    case OperandKind::kLayout:
    case OperandKind::kTag:
    case OperandKind::kField:
    case OperandKind::kDType: return 1;
  }
}

// Returns whether the operand is a count and that many elements.
constexpr bool IsList(OperandKind kind) {
  return kind == OperandKind::kOuts || kind == OperandKind::kMoves || kind == OperandKind::kArgs ||
         kind == OperandKind::kLabels || kind == OperandKind::kOffsets;
}

// kArgs elements with this bit are indices of constants; others are registers.
inline constexpr uint16_t kConstantArg = 0x8000;
// A register of kArgs whose tensor the call consumes.
inline constexpr uint16_t kMovedArg = 0x4000;
constexpr bool IsMovedArg(uint16_t arg) { return (arg & (kConstantArg | kMovedArg)) == kMovedArg; }
// An element of kOffsets for an output that does not live in the arena.
inline constexpr uint32_t kNoOffset = 0xffffffff;
// Distance from the offset of a planned tensor to its elements; its header is in between.
inline constexpr uint32_t kPlannedHeaderBytes = 64;

namespace isa_internal {

constexpr OpcodeSpec MakeSpec(Opcode opcode, std::string_view name, std::string_view mnemonic,
                              std::initializer_list<OperandSpec> operands, Flow flow, std::string_view semantics) {
  OpcodeSpec spec{opcode, name, mnemonic, flow, semantics, operands.size(), {}};
  size_t i = 0;
  for (const OperandSpec& operand : operands) spec.operand_array[i++] = operand;
  return spec;
}

}  // namespace isa_internal

#define OUT(name, class) OperandSpec{OperandKind::kOut, RegisterClass::k##class, #name},
#define IN(name, class) OperandSpec{OperandKind::kIn, RegisterClass::k##class, #name},
#define MOVE(name, class) OperandSpec{OperandKind::kMove, RegisterClass::k##class, #name},
#define OUTS(name, class) OperandSpec{OperandKind::kOuts, RegisterClass::k##class, #name},
#define MOVES(name, class) OperandSpec{OperandKind::kMoves, RegisterClass::k##class, #name},
#define ARGS(name) OperandSpec{OperandKind::kArgs, RegisterClass::kAny, #name},
#define LABEL(name) OperandSpec{OperandKind::kLabel, RegisterClass::kNone, #name},
#define LABELS(name) OperandSpec{OperandKind::kLabels, RegisterClass::kNone, #name},
#define IMM16(name) OperandSpec{OperandKind::kImm16, RegisterClass::kNone, #name},
#define IMM32(name) OperandSpec{OperandKind::kImm32, RegisterClass::kNone, #name},
#define IMM64(name) OperandSpec{OperandKind::kImm64, RegisterClass::kNone, #name},
#define OFFSETS(name) OperandSpec{OperandKind::kOffsets, RegisterClass::kNone, #name},
#define CONSTANT(name) OperandSpec{OperandKind::kConstant, RegisterClass::kNone, #name},
#define FUNCTION(name) OperandSpec{OperandKind::kFunction, RegisterClass::kNone, #name},
#define KERNEL(name) OperandSpec{OperandKind::kKernel, RegisterClass::kNone, #name},
#define TYPE(name) OperandSpec{OperandKind::kType, RegisterClass::kNone, #name},
#define LAYOUT(name) OperandSpec{OperandKind::kLayout, RegisterClass::kNone, #name},
#define TAG(name) OperandSpec{OperandKind::kTag, RegisterClass::kNone, #name},
#define FIELD(name) OperandSpec{OperandKind::kField, RegisterClass::kNone, #name},
#define DTYPE(name) OperandSpec{OperandKind::kDType, RegisterClass::kNone, #name},
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) \
  isa_internal::MakeSpec(Opcode::k##Name, #Name, mnemonic, {operands}, Flow::flow, semantics),

// All opcodes, in the order of their codes.
inline constexpr OpcodeSpec kIsa[] = {
#include "serialization/isa/isa.def"
};

// Null if no opcode has this code.
const OpcodeSpec* FindSpec(uint16_t code);
const OpcodeSpec* FindSpec(std::string_view mnemonic);
inline const OpcodeSpec& SpecOf(Opcode opcode) { return *FindSpec(static_cast<uint16_t>(opcode)); }

std::string_view RegisterClassName(RegisterClass register_class);  // "Tensor"
std::string_view OperandKindName(OperandKind kind);                // "OUT"

// One operand of an instruction in code.
struct Operand {
  const OperandSpec* spec = nullptr;
  const uint16_t* units = nullptr;  // of the first element
  uint32_t count = 0;               // elements; 1 unless IsList

  OperandKind kind() const { return spec->kind; }
  // Bits of element `i`, zero-extended. REQUIRES: i < count.
  uint64_t value(uint32_t i = 0) const {
    uint32_t width = UnitsPerElement(spec->kind);
    uint64_t bits = 0;
    for (uint32_t u = 0; u < width; ++u) bits |= uint64_t{units[i * width + u]} << (16 * u);
    return bits;
  }
  uint16_t u16(uint32_t i = 0) const { return static_cast<uint16_t>(value(i)); }
  uint32_t u32(uint32_t i = 0) const { return static_cast<uint32_t>(value(i)); }
};

// One instruction in code. Holds pointers into the code.
struct Instruction {
  const OpcodeSpec* spec = nullptr;
  uint32_t length = 0;  // units
  std::array<Operand, kMaxOperands> operand_array;

  Opcode opcode() const { return spec->opcode; }
  std::span<const Operand> operands() const { return {operand_array.data(), spec->num_operands}; }
  const Operand& operator[](size_t i) const { return operand_array[i]; }
};

// Returns the instruction at unit `pc`; nullopt if there is no such opcode or it runs over the end.
std::optional<Instruction> ReadInstruction(std::span<const uint16_t> code, uint32_t pc);

// Returns the dtype operand: code << 8 | bits, one lane.
constexpr uint16_t PackDataType(DataType dtype) {
  return static_cast<uint16_t>(static_cast<uint16_t>(dtype.code) << 8 | dtype.bits);
}
// nullopt unless it is a storable dtype.
std::optional<DataType> UnpackDataType(uint16_t packed);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_ISA_ISA_H_
