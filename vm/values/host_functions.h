// HostFunctions: the functions that cross the border of a machine: those of the host that its program calls, and the
// closures of its heap that the host holds.
#ifndef RVM_VM_VALUES_HOST_FUNCTIONS_H_
#define RVM_VM_VALUES_HOST_FUNCTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/value.h"
#include "serialization/executable.h"
#include "vm/interpreter/interpreter.h"
#include "vm/link/link_info.h"
#include "vm/profiler/profiler.h"
#include "vm/values/convert_value.h"

namespace rvm::vm {

class HeldClosure;

class HostFunctions : public HostCalls, public FunctionConverter {
 public:
  // Runs a closure on arguments: what FunctionObject::Call of a closure does.
  using Runner = std::function<absl::StatusOr<Value>(const HeldClosure& closure, std::span<const Value> args)>;

  // All of these outlive the object. `profiler` may be null.
  HostFunctions(const Executable& executable, const LinkInfo& link, Interpreter& interpreter, Profiler* profiler,
                Runner runner);
  // The closures that the host still holds can no longer be called.
  ~HostFunctions() override;
  HostFunctions(const HostFunctions&) = delete;
  HostFunctions& operator=(const HostFunctions&) = delete;

  // ---- for runs
  absl::StatusOr<Slot> Call(int64_t number, TypeId type, std::span<const Slot> args) override;
  absl::StatusOr<Slot> Import(const Value& function, TypeId type) override;
  Value Export(Slot closure, TypeId type) override;

  // ---- for the machine
  // The closure of this machine. kInvalidArgument for any other value.
  absl::StatusOr<const HeldClosure*> Find(const Value& function) const;
  // kInvalidArgument: the heap with the closure is gone.
  absl::Status CheckAlive(const HeldClosure& closure) const;
  // Returns whether the host holds closures.
  bool HoldsClosures() const;
  // Drops the closures that the host no longer holds.
  void DropReturned();
  // Forgets all functions: the heap was reset, or is empty.
  void Forget();

 private:
  friend class HeldClosure;
  // State that closures share with the machine, which either may outlive.
  struct Keeper;
  struct Function {
    std::shared_ptr<FunctionObject> object;
    TypeId type;
  };

  const Executable& executable_;
  const LinkInfo& link_;
  Interpreter& interpreter_;
  Profiler* profiler_;
  Runner runner_;
  std::vector<Function> functions_;  // by number
  std::shared_ptr<Keeper> keeper_;
};

// A closure that the host holds. It owns a count of the closure's cell.
class HeldClosure : public FunctionObject {
 public:
  HeldClosure(std::shared_ptr<HostFunctions::Keeper> keeper, Slot slot, TypeId type, uint64_t generation)
      : keeper_(std::move(keeper)), slot_(slot), type_(type), generation_(generation) {}
  ~HeldClosure() override;

  absl::StatusOr<Value> Call(std::span<const Value> args) override;
  int64_t type_index() const override { return type_.value; }
  const void* owner() const override { return keeper_.get(); }

  Slot slot() const { return slot_; }
  TypeId type() const { return type_; }

 private:
  friend class HostFunctions;
  std::shared_ptr<HostFunctions::Keeper> keeper_;
  Slot slot_;
  TypeId type_;
  uint64_t generation_;  // of the heap that has the cell
};

}  // namespace rvm::vm

#endif  // RVM_VM_VALUES_HOST_FUNCTIONS_H_
