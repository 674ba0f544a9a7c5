#include "vm/interpreter/operands.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "serialization/isa/isa.h"

namespace rvm::vm {
namespace {

// Returns the code of an instruction whose lists have `count` elements; the units behind each opcode and count are all
// different.
std::vector<uint16_t> Encode(Opcode opcode, uint16_t count) {
  std::vector<uint16_t> code = {static_cast<uint16_t>(opcode)};
  uint16_t next = 100;
  for (const OperandSpec& operand : SpecOf(opcode).operands()) {
    uint32_t elements = 1;
    if (IsList(operand.kind)) {
      code.push_back(count);
      elements = count;
    }
    for (uint32_t u = 0; u < elements * UnitsPerElement(operand.kind); ++u) code.push_back(next++);
  }
  return code;
}

Operand ReadOperand(const std::vector<uint16_t>& code, size_t index) {
  std::optional<Instruction> read = ReadInstruction(code, 0);
  EXPECT_TRUE(read.has_value());
  return (*read)[index];
}

TEST(OperandsTest, SingleOperands) {
  std::vector<uint16_t> get_field = Encode(Opcode::kGetField, 0);
  Operands<Opcode::kGetField> field(get_field.data());
  EXPECT_EQ(field.Get<"dst">(), ReadOperand(get_field, 0).u16());
  EXPECT_EQ(field.Get<"cell">(), ReadOperand(get_field, 1).u16());
  EXPECT_EQ(field.Get<"layout">(), ReadOperand(get_field, 2).u16());
  EXPECT_EQ(field.Get<"field">(), ReadOperand(get_field, 3).u16());
  EXPECT_EQ(field.End(), get_field.data() + get_field.size());

  std::vector<uint16_t> branch = Encode(Opcode::kBranchTag, 0);
  Operands<Opcode::kBranchTag> tag(branch.data());
  EXPECT_EQ(tag.Get<"target">(), ReadOperand(branch, 2).u32());
  EXPECT_EQ(tag.End(), branch.data() + branch.size());

  std::vector<uint16_t> load = Encode(Opcode::kLoadBits, 0);
  Operands<Opcode::kLoadBits> bits(load.data());
  EXPECT_EQ(bits.Get<"bits">(), ReadOperand(load, 1).value());
  EXPECT_EQ(bits.End(), load.data() + load.size());
}

TEST(OperandsTest, OperandsBehindLists) {
  for (uint16_t count : {0, 1, 3}) {
    std::vector<uint16_t> unpack = Encode(Opcode::kUnpackShell, count);
    Operands<Opcode::kUnpackShell> shell(unpack.data());
    EXPECT_EQ(shell.Count<"dsts">(), count);
    EXPECT_EQ(shell.Elements<"dsts">(), ReadOperand(unpack, 0).units);
    EXPECT_EQ(shell.Get<"shell">(), ReadOperand(unpack, 1).u16());
    EXPECT_EQ(shell.Get<"cell">(), ReadOperand(unpack, 2).u16());
    EXPECT_EQ(shell.Get<"layout">(), ReadOperand(unpack, 3).u16());
    EXPECT_EQ(shell.End(), unpack.data() + unpack.size());

    std::vector<uint16_t> planned = Encode(Opcode::kCallKernelPlanned, count);
    Operands<Opcode::kCallKernelPlanned> call(planned.data());
    EXPECT_EQ(call.Count<"offsets">(), count);
    EXPECT_EQ(call.Elements<"offsets">(), ReadOperand(planned, 1).units);
    EXPECT_EQ(call.Get<"kernel">(), ReadOperand(planned, 2).u32());
    EXPECT_EQ(call.Elements<"args">(), ReadOperand(planned, 3).units);
    EXPECT_EQ(call.End(), planned.data() + planned.size());
  }
}

// Templates of handlers read the operands of each of their opcodes as those of one (exec_scalar.h, exec_control.h).
TEST(OperandsTest, FunctionsOfScalarsHaveTheSameOperands) {
  auto is_same = [](Opcode a, Opcode b) {
    if (SpecOf(a).num_operands != SpecOf(b).num_operands) return false;
    for (size_t i = 0; i < SpecOf(a).num_operands; ++i) {
      const OperandSpec &one = SpecOf(a).operands()[i], &other = SpecOf(b).operands()[i];
      if (one.kind != other.kind || one.name != other.name) return false;
    }
    return true;
  };
  for (Opcode opcode : {Opcode::kSubInt, Opcode::kLtInt, Opcode::kDivF32, Opcode::kMaxF64, Opcode::kXorInt}) {
    EXPECT_TRUE(is_same(opcode, Opcode::kAddI32)) << SpecOf(opcode).name;
  }
  for (Opcode opcode : {Opcode::kNotBool, Opcode::kNegF32, Opcode::kSqrtF64}) {
    EXPECT_TRUE(is_same(opcode, Opcode::kNegInt)) << SpecOf(opcode).name;
  }
  for (Opcode opcode : {Opcode::kBranchNeInt, Opcode::kBranchLtInt, Opcode::kBranchLeInt}) {
    EXPECT_TRUE(is_same(opcode, Opcode::kBranchEqInt)) << SpecOf(opcode).name;
  }
  for (Opcode opcode : {Opcode::kBranchNeImm, Opcode::kBranchLtImm, Opcode::kBranchGeImm}) {
    EXPECT_TRUE(is_same(opcode, Opcode::kBranchEqImm)) << SpecOf(opcode).name;
  }
  EXPECT_TRUE(is_same(Opcode::kBranchUnless, Opcode::kBranchIf));
}

}  // namespace
}  // namespace rvm::vm
