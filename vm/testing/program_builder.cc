#include "vm/testing/program_builder.h"

#include <gtest/gtest.h>

#include <span>

namespace rvm::vm::testing {

Code& Code::Unit(uint32_t value) {
  units_.push_back(static_cast<uint16_t>(value));
  return *this;
}
Code& Code::Unit32(uint32_t value) { return Unit(value).Unit(value >> 16); }
Code& Code::List(Regs registers) {
  Unit(static_cast<uint32_t>(registers.size()));
  for (int r : registers) Unit(static_cast<uint32_t>(r));
  return *this;
}

Code& Code::Op(Opcode opcode, Regs operands) {
  Unit(static_cast<uint16_t>(opcode));
  for (int operand : operands) Unit(static_cast<uint32_t>(operand));
  return *this;
}
Code& Code::LoadInt(int dst, int32_t value) { return Op(Opcode::kLoadInt, {dst}).Unit32(static_cast<uint32_t>(value)); }
Code& Code::LoadBits(int dst, uint64_t bits) {
  return Op(Opcode::kLoadBits, {dst}).Unit32(static_cast<uint32_t>(bits)).Unit32(static_cast<uint32_t>(bits >> 32));
}
Code& Code::LoadConst(int dst, uint32_t constant) { return Op(Opcode::kLoadConst, {dst}).Unit32(constant); }
Code& Code::Call(int dst, FunctionId callee, Regs args) {
  return Op(Opcode::kCall, {dst}).Unit32(callee.value).List(args);
}
Code& Code::CallClosure(int dst, int closure, Regs args) { return Op(Opcode::kCallClosure, {dst, closure}).List(args); }
Code& Code::TailCall(FunctionId callee, Regs args) { return Op(Opcode::kTailCall).Unit32(callee.value).List(args); }
Code& Code::TailCallClosure(int closure, Regs args) { return Op(Opcode::kTailCallClosure, {closure}).List(args); }
Code& Code::MakeCell(int dst, LayoutId layout, Regs fields) {
  return Op(Opcode::kMakeCell, {dst, static_cast<int>(layout.value)}).List(fields);
}
Code& Code::Unpack(Regs dsts, int cell, LayoutId layout) {
  return Op(Opcode::kUnpack).List(dsts).Unit(static_cast<uint32_t>(cell)).Unit(layout.value);
}
Code& Code::MakeCellIn(int dst, int shell, LayoutId layout, Regs fields) {
  return Op(Opcode::kMakeCellIn, {dst, shell, static_cast<int>(layout.value)}).List(fields);
}
Code& Code::UnpackShell(Regs dsts, int shell, int cell, LayoutId layout) {
  return Op(Opcode::kUnpackShell)
      .List(dsts)
      .Unit(static_cast<uint32_t>(shell))
      .Unit(static_cast<uint32_t>(cell))
      .Unit(layout.value);
}
Code& Code::CallKernel(Regs dsts, uint32_t kernel, Regs args, Opcode opcode) {
  return Op(opcode).List(dsts).Unit32(kernel).List(args);
}
Code& Code::CallKernelPlanned(Regs dsts, std::initializer_list<uint32_t> offsets, uint32_t kernel, Regs args) {
  Op(Opcode::kCallKernelPlanned).List(dsts).Unit(static_cast<uint32_t>(offsets.size()));
  for (uint32_t offset : offsets) Unit32(offset);
  return Unit32(kernel).List(args);
}
Code& Code::View(int dst, int src, TypeId type, Regs dims) {
  return Op(Opcode::kView, {dst, src}).Unit32(type.value).List(dims);
}
Code& Code::CheckShape(int dst, int src, TypeId type) { return Op(Opcode::kCheckShape, {dst, src}).Unit32(type.value); }

int Code::NewLabel() {
  labels_.push_back(0);
  return static_cast<int>(labels_.size()) - 1;
}
Code& Code::Place(int label) {
  labels_[static_cast<size_t>(label)] = pc();
  return *this;
}
Code& Code::Branch(Opcode opcode, Regs operands, int label) {
  Op(opcode, operands);
  uses_.push_back({units_.size(), label});
  return Unit32(0);
}
Code& Code::Switch(int adt, std::initializer_list<int> labels) {
  Op(Opcode::kSwitch, {adt, static_cast<int>(labels.size())});
  for (int label : labels) {
    uses_.push_back({units_.size(), label});
    Unit32(0);
  }
  return *this;
}

std::vector<uint16_t> Code::Finish() {
  for (auto [at, label] : uses_) {
    uint32_t target = labels_[static_cast<size_t>(label)];
    units_[at] = static_cast<uint16_t>(target);
    units_[at + 1] = static_cast<uint16_t>(target >> 16);
  }
  return units_;
}

TypeId ProgramBuilder::AddType(TypeDesc type) {
  for (uint32_t i = 0; i < executable_.types.size(); ++i) {
    if (executable_.types[i] == type) return TypeId(i);
  }
  executable_.types.push_back(std::move(type));
  return TypeId(static_cast<uint32_t>(executable_.types.size() - 1));
}
TypeId ProgramBuilder::Scalar(DataType dtype) { return AddType({TypeDescKind::kScalar, dtype, {}, {}, {}, {}}); }
TypeId ProgramBuilder::TensorOf(DataType dtype, std::vector<int64_t> dims) {
  return AddType({TypeDescKind::kTensor, dtype, std::move(dims), {}, {}, {}});
}
TypeId ProgramBuilder::TupleOf(std::vector<TypeId> fields) {
  return AddType({TypeDescKind::kTuple, {}, {}, std::move(fields), {}, {}});
}
TypeId ProgramBuilder::ShellOf(int64_t fields) { return AddType({TypeDescKind::kShell, {}, {fields}, {}, {}, {}}); }
TypeId ProgramBuilder::RefOf(TypeId contents) { return AddType({TypeDescKind::kRef, {}, {}, {contents}, {}, {}}); }
TypeId ProgramBuilder::ClosureOf(std::vector<TypeId> params, TypeId result) {
  return AddType({TypeDescKind::kClosure, {}, {}, std::move(params), result, {}});
}
TypeId ProgramBuilder::NewAdt(const std::string& name) {
  executable_.adts.push_back({name, {}});
  return AddType({TypeDescKind::kAdt, {}, {}, {}, {}, AdtId(static_cast<uint32_t>(executable_.adts.size() - 1))});
}
LayoutId ProgramBuilder::AddConstructor(TypeId adt, const std::string& name, std::vector<TypeId> fields) {
  AdtDesc& desc = executable_.adts[executable_.types[adt.value].adt.value];
  LayoutId layout;
  if (!fields.empty()) {
    layout = Layout(CellKind::kAdt, adt, fields);
    executable_.layouts[layout.value].tag = static_cast<uint16_t>(desc.constructors.size());
  }
  desc.constructors.push_back({name, std::move(fields), layout});
  return layout;
}
LayoutId ProgramBuilder::Layout(CellKind kind, TypeId type, std::vector<TypeId> fields, FunctionId function) {
  executable_.layouts.push_back({kind, type, 0, function, std::move(fields)});
  return LayoutId(static_cast<uint32_t>(executable_.layouts.size() - 1));
}
std::pair<TypeId, LayoutId> ProgramBuilder::IntList() {
  TypeId list = NewAdt("List[int32]");
  AddConstructor(list, "Nil", {});
  return {list, AddConstructor(list, "Cons", {Scalar(kInt32), list})};
}

FunctionId ProgramBuilder::Declare(const std::string& name, std::vector<TypeId> params, TypeId result) {
  FunctionDesc function;
  function.name = name;
  function.num_params = static_cast<uint16_t>(params.size());
  function.result = result;
  for (TypeId type : params) function.registers.push_back({type, false});
  executable_.functions.push_back(std::move(function));
  return FunctionId(static_cast<uint32_t>(executable_.functions.size() - 1));
}
void ProgramBuilder::Define(FunctionId id, std::vector<TypeId> locals, Code& code, uint32_t arena_bytes,
                            std::vector<int> planned) {
  FunctionDesc& function = executable_.functions[id.value];
  for (TypeId type : locals) function.registers.push_back({type, false});
  for (int r : planned) function.registers[static_cast<size_t>(r)].planned = true;
  function.arena_bytes = arena_bytes;
  function.code = code.Finish();
}
void ProgramBuilder::Export(FunctionId function) {
  const FunctionDesc& desc = executable_.functions[function.value];
  Entry entry = {desc.name, function, {}};
  for (int i = 0; i < desc.num_params; ++i) entry.param_names.push_back("p" + std::to_string(i));
  executable_.entries.push_back(std::move(entry));
}

std::shared_ptr<const Program> ProgramBuilder::Build(std::vector<RvmKernel> kernels) {
  auto verified = Verify(executable_);
  EXPECT_TRUE(verified.ok()) << verified.status();
  if (!verified.ok()) return nullptr;
  auto program = Program::LinkWithKernels(*verified, std::move(kernels));
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : nullptr;
}

Value Int(int64_t value) { return Value::Tensor(Literal::ScalarInt(kInt32, value)); }
Value Int64(int64_t value) { return Value::Tensor(Literal::ScalarInt(kInt64, value)); }
Value Floats(std::vector<float> values) {
  return Value::Tensor(
      Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(values.size())}, std::span<const float>(values)));
}

}  // namespace rvm::vm::testing
