// ProgramBuilder: small executables, written by hand, for tests of the VM.
#ifndef RVM_VM_TESTING_PROGRAM_BUILDER_H_
#define RVM_VM_TESTING_PROGRAM_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serialization/executable.h"
#include "serialization/isa/isa.h"
#include "vm/machine.h"

namespace rvm::vm::testing {

// The units of one function. Labels are made before they are placed.
class Code {
 public:
  using Regs = std::initializer_list<int>;

  // Returns an instruction of 16-bit operands.
  Code& Op(Opcode opcode, Regs operands = {});
  Code& LoadInt(int dst, int32_t value);
  Code& LoadBits(int dst, uint64_t bits);
  Code& LoadConst(int dst, uint32_t constant);
  Code& Call(int dst, FunctionId callee, Regs args);
  Code& CallClosure(int dst, int closure, Regs args);
  Code& TailCall(FunctionId callee, Regs args);
  Code& TailCallClosure(int closure, Regs args);
  Code& MakeCell(int dst, LayoutId layout, Regs fields);
  Code& Unpack(Regs dsts, int cell, LayoutId layout);
  Code& MakeCellIn(int dst, int shell, LayoutId layout, Regs fields);
  Code& UnpackShell(Regs dsts, int shell, int cell, LayoutId layout);
  Code& CallKernel(Regs dsts, uint32_t kernel, Regs args, Opcode opcode = Opcode::kCallKernel);
  Code& CallKernelPlanned(Regs dsts, std::initializer_list<uint32_t> offsets, uint32_t kernel, Regs args);
  Code& View(int dst, int src, TypeId type, Regs dims);
  Code& CheckShape(int dst, int src, TypeId type);
  Code& Return(int reg) { return Op(Opcode::kReturn, {reg}); }

  int NewLabel();
  Code& Place(int label);
  // Returns a jump or branch: its 16-bit operands, then the label.
  Code& Branch(Opcode opcode, Regs operands, int label);
  Code& Switch(int adt, std::initializer_list<int> labels);
  uint32_t pc() const { return static_cast<uint32_t>(units_.size()); }

  std::vector<uint16_t> Finish();

 private:
  Code& Unit(uint32_t value);
  Code& Unit32(uint32_t value);
  Code& List(Regs registers);

  std::vector<uint16_t> units_;
  std::vector<uint32_t> labels_;
  std::vector<std::pair<size_t, int>> uses_;
};

class ProgramBuilder {
 public:
  TypeId Scalar(DataType dtype);
  TypeId TensorOf(DataType dtype, std::vector<int64_t> dims);
  TypeId TupleOf(std::vector<TypeId> fields);
  TypeId RefOf(TypeId contents);
  TypeId ShellOf(int64_t fields);
  TypeId ClosureOf(std::vector<TypeId> params, TypeId result);
  // Returns an ADT type whose constructors are added afterwards, so that they can mention it.
  TypeId NewAdt(const std::string& name);
  // kTensor without fields: no layout.
  LayoutId AddConstructor(TypeId adt, const std::string& name, std::vector<TypeId> fields);
  LayoutId Layout(CellKind kind, TypeId type, std::vector<TypeId> fields, FunctionId function = FunctionId());

  // `List[int32]`: Nil (tag 0), Cons (tag 1).
  std::pair<TypeId, LayoutId> IntList();

  // Declares a function, so that code can call it; Define gives it code and the types of its registers, parameters
  // first.
  FunctionId Declare(const std::string& name, std::vector<TypeId> params, TypeId result);
  void Define(FunctionId function, std::vector<TypeId> locals, Code& code, uint32_t arena_bytes = 0,
              std::vector<int> planned = {});
  // The entry `name` runs `function`.
  void Export(FunctionId function);

  Executable& executable() { return executable_; }
  // Verifies and links; fails the test and gives null otherwise.
  std::shared_ptr<const Program> Build(std::vector<RvmKernel> kernels = {});

 private:
  TypeId AddType(TypeDesc type);
  Executable executable_;
};

Value Int(int64_t value);
Value Int64(int64_t value);
Value Floats(std::vector<float> values);

}  // namespace rvm::vm::testing

#endif  // RVM_VM_TESTING_PROGRAM_BUILDER_H_
