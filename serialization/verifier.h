// Verification: the only way from an Executable to a VerifiedExecutable, which
// is the only thing the VM runs.
//
// One linear pass per function. It proves, and the VM's handlers rely on this
// list and nothing else:
//  - every index (register, constant, function, kernel, type, layout, tag,
//    field, label) is in range, and labels are starts of instructions;
//  - operands have the register classes that isa.def states; calls, closures,
//    fields, results and kernel arguments have assignable types;
//  - a register is read only when it is defined on every path to there;
//  - ownership: a pointer register owns one count from its definition until it is moved or
//    dropped; it is not overwritten while it owns, not used after it was moved, and at
//    `return` nothing is owned but the result, on every path. At a label all paths agree on what is owned.
//  - planned tensors lie inside the arena, aligned to 64, with room for header and elements, and
//    never flow anywhere but into kernel arguments and get_dim;
//  - static kernel calls have fully static shapes equal to the descriptor's;
//  - the last instruction of a function does not fall through;
//  - types, layouts, ADTs are well formed (acyclic except through ADTs; fields agree).
// Dynamic parts (constructor of a get_field/unpack on an ADT, shapes of dynamic calls, views) are
// checked by the VM as it runs.
#ifndef RVM_SERIALIZATION_VERIFIER_H_
#define RVM_SERIALIZATION_VERIFIER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/executable.h"

namespace rvm {

class VerifiedExecutable {
 public:
  const Executable& operator*() const { return executable_; }
  const Executable* operator->() const { return &executable_; }

 private:
  friend absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> Verify(Executable executable);
  explicit VerifiedExecutable(Executable executable) : executable_(std::move(executable)) {}
  Executable executable_;
};

// kInvalidArgument: "in `main` at +0x1c (call): register r9 out of range; frame has 8".
absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> Verify(Executable executable);

// Returns the pointer registers that own a count just before the instruction at `pc` of a verified function,
// by the verifier's own pass: what must be dropped when an error unwinds the frame.
// (MOVE operands of the instruction at `pc` are still owned; its OUT operands are not.)
std::vector<Reg> OwnedRegistersAt(const Executable& executable, FunctionId function, uint32_t pc);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_VERIFIER_H_
