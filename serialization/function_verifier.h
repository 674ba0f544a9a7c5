// The pass over the code of one function; verifier.h says what it proves.
//
// Code is read once, from front to back. The state at a label is known when the pass arrives there:
// all forward jumps to it and the instruction before it have been seen. A backward jump must arrive
// with at least what the label's state assumes. So the pass is linear, and code that only later code
// jumps to counts as unreachable and is rejected.
#ifndef RVM_SERIALIZATION_FUNCTION_VERIFIER_H_
#define RVM_SERIALIZATION_FUNCTION_VERIFIER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "serialization/executable.h"
#include "serialization/isa/isa.h"
#include "serialization/register_state.h"

namespace rvm {

class FunctionVerifier {
 public:
  // `closure_layouts` by function. REQUIRES: VerifyTables accepts the executable.
  FunctionVerifier(const Executable& executable, const std::vector<LayoutId>& closure_layouts, FunctionId id);

  absl::Status Run();
  // Runs until the instruction at `pc`; the pointers that are owned before it. REQUIRES: Run accepts.
  std::vector<Reg> OwnedAt(uint32_t pc);

 private:
  struct Label {
    RegisterState state;
    uint32_t references_left = 0;  // jumps not seen yet
    bool has_state = false;
  };

  // ---- function_verifier.cc: flow and ownership
  absl::Status Scan();
  absl::Status RunUntil(uint32_t stop);
  absl::Status Arrive();
  absl::Status Step(const Instruction& instruction);
  absl::Status CheckOperand(const Operand& operand);
  absl::Status CheckRegister(const Operand& operand, uint16_t reg);
  absl::Status Read(const Operand& operand);
  absl::Status ReadRegister(uint16_t reg, bool moves);
  absl::Status Write(const Operand& operand);
  absl::Status JumpTo(uint32_t target);
  absl::Status CheckNothingOwned();
  absl::Status Hold(size_t bytes);

  // ---- verifier_rules.cc: what an opcode needs beyond the classes of its operands
  absl::Status CheckRules(const Instruction& i);
  absl::Status CheckLoadBits(uint16_t dst, uint64_t bits);
  absl::Status CheckLoadConst(const Instruction& i);
  absl::Status CheckTag(uint16_t adt, uint16_t tag, bool no_fields);
  absl::Status CheckCall(FunctionId callee, const Operand& args, TypeId destination, std::string_view destination_name);
  absl::Status ExpectConvention(const FunctionDesc& function, bool returns_fields);
  absl::Status CheckReturnFields(const Operand& fields);
  absl::Status CheckCallFields(const Operand& dsts, FunctionId callee, const Operand& args);
  absl::Status CheckCallHost(const Instruction& i);
  absl::Status CheckCallClosure(uint16_t closure, const Operand& args, TypeId destination, std::string_view name);
  absl::Status CheckMakeCell(uint16_t dst, LayoutId layout_id, const Operand& fields);
  absl::Status CheckGetField(const Instruction& i);
  absl::Status CheckUnpack(const Operand& dsts, uint16_t cell, LayoutId layout_id);
  absl::Status CheckShell(uint16_t shell, LayoutId layout);
  absl::Status CheckGetElement(const Instruction& i);
  absl::Status CheckShapeChange(const Instruction& i);
  absl::Status CheckDTypes(const Instruction& i);
  absl::Status CheckArgs(std::span<const TypeId> params, const Operand& args);

  // ---- verifier_kernel_calls.cc
  struct KernelArg;
  absl::Status CheckKernelCall(const Instruction& i);
  absl::Status CheckKernelArg(const Operand& args, uint32_t index, const KernelTensor& param, bool is_static,
                              std::vector<std::optional<int64_t>>& symbols);
  absl::Status CheckKernelResult(uint16_t reg, uint32_t index, const KernelTensor& result,
                                 const std::vector<std::optional<int64_t>>& symbols);
  absl::Status CheckMovedArgs(const Operand& args);
  absl::Status PlaceOutputs(const Instruction& i);
  absl::Status PlaceOutput(uint16_t reg, uint32_t offset, const absl::flat_hash_set<uint16_t>& busy);

  // "in `main` at +0x1c (call): <what>"
  absl::Status Error(std::string_view what) const;
  absl::Status Expect(bool condition, std::string_view what) const {
    if (condition) [[likely]]
      return absl::OkStatus();
    return Error(what);
  }
  absl::Status ExpectAssignable(TypeId from, TypeId to, std::string_view what) const;
  std::string Text(TypeId type) const;
  TypeId type_id(uint16_t reg) const { return function_.registers[reg].type; }
  const TypeDesc& type(uint16_t reg) const { return executable_.types[type_id(reg).value]; }
  bool is_planned(uint16_t reg) const { return function_.registers[reg].planned; }

  const Executable& executable_;
  const std::vector<LayoutId>& closure_layouts_;
  const FunctionId id_;
  const FunctionDesc& function_;
  RegisterSet pointers_;                         // registers that own what they point to
  std::vector<bool> starts_;                     // by unit: an instruction begins here
  absl::flat_hash_map<uint32_t, Label> labels_;  // by unit; erased when no longer needed
  size_t held_bytes_ = 0;                        // by the states of labels_

  uint32_t pc_ = 0;
  const OpcodeSpec* spec_ = nullptr;
  bool reachable_ = true;  // by falling through
  RegisterState state_;
  // By register: its place in state_.arena, if it is a live planned tensor.
  std::vector<uint32_t> places_;
};

}  // namespace rvm

#endif  // RVM_SERIALIZATION_FUNCTION_VERIFIER_H_
