#include "vm/values/host_functions.h"

#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "vm/limits/limit.h"

namespace rvm::vm {

struct HostFunctions::Keeper {
  std::mutex mutex;
  HostFunctions* functions = nullptr;  // null: the machine is gone
  uint64_t generation = 0;             // of the heap: a reset begins another one
  int64_t held = 0;                    // closures of this generation that the host holds
  std::vector<Slot> returned;          // closures of this generation that it no longer holds
};

HostFunctions::HostFunctions(const Executable& executable, const LinkInfo& link, Interpreter& interpreter,
                             Profiler* profiler, Runner runner)
    : executable_(executable),
      link_(link),
      interpreter_(interpreter),
      profiler_(profiler),
      runner_(std::move(runner)),
      keeper_(std::make_shared<Keeper>()) {
  keeper_->functions = this;
}

HostFunctions::~HostFunctions() {
  std::lock_guard<std::mutex> lock(keeper_->mutex);
  keeper_->functions = nullptr;
  ++keeper_->generation;
}

absl::StatusOr<Slot> HostFunctions::Call(int64_t number, TypeId type, std::span<const Slot> args) {
  bool is_known = number >= 0 && static_cast<size_t>(number) < functions_.size();
  // Bytecode makes the cells of functions itself if it wants to.
  if (!is_known || functions_[static_cast<size_t>(number)].type != type) {
    return absl::InvalidArgumentError("the program calls a function of the host that it was not given");
  }
  const TypeDesc& signature = executable_.types[type.value];
  auto poll = [this] { return interpreter_.Poll(); };
  auto fetch = [this](Tensor* tensor) { return interpreter_.Fetch(tensor); };
  Heap& heap = interpreter_.heap();
  std::vector<Value> values;
  for (size_t i = 0; i < args.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(Value value, ExportValue(executable_, heap, args[i], signature.fields[i], poll, fetch, *this,
                                                  /*is_shared=*/true, profiler_));
    if (IsPointerType(executable_, signature.fields[i])) heap.Drop(args[i]);
    values.push_back(std::move(value));
  }
  // A share of its own: the function may be the last that calls it.
  std::shared_ptr<FunctionObject> function = functions_[static_cast<size_t>(number)].object;
  RVM_ASSIGN_OR_RETURN(Value result, function->Call(values));
  RVM_RETURN_IF_ERROR(interpreter_.Poll());
  absl::StatusOr<Slot> slot =
      ImportValue(executable_, link_, heap, result, signature.result, poll, *this, /*copies=*/true);
  if (slot.ok() || slot.status().code() != absl::StatusCode::kInvalidArgument) return slot;
  return absl::AbortedError(absl::StrCat("the result of a function of the host: ", slot.status().message()));
}

absl::StatusOr<Slot> HostFunctions::Import(const Value& value, TypeId type) {
  auto error = [&](std::string_view saw) {
    return absl::InvalidArgumentError(absl::StrCat(Abseil(saw), "; expected ", TypeToString(executable_, type)));
  };
  const std::shared_ptr<FunctionObject>& function = value.function();
  if (function == nullptr) return error("saw the text of a closure, which cannot be called");
  if (function->owner() == keeper_.get()) {
    RVM_ASSIGN_OR_RETURN(const HeldClosure* closure, Find(value));
    RVM_RETURN_IF_ERROR(CheckAlive(*closure));
    if (closure->type() != type) return error(absl::StrCat("saw ", TypeToString(executable_, closure->type())));
    Retain(closure->slot());
    return closure->slot();
  }
  uint16_t layout = link_.host_layout_of_type[type.value];
  if (layout == 0) return error("the file was not compiled for functions of this type from outside");
  size_t number = 0;
  while (number < functions_.size() && (functions_[number].object != function || functions_[number].type != type)) {
    ++number;
  }
  Object* cell = interpreter_.heap().NewCell(layout);
  if (cell == nullptr) return interpreter_.heap().OutOfMemory();
  if (number == functions_.size()) functions_.push_back({function, type});
  cell->fields()[0] = number;
  return AsSlot(cell);
}

Value HostFunctions::Export(Slot closure, TypeId type) {
  const Object* cell = AsObject(closure);
  const std::string& name = executable_.functions[link_.layouts[cell->layout].function].name;
  // A function of the host goes back as what it came in as.
  if (cell->layout == link_.host_layout_of_type[type.value]) {
    auto number = static_cast<size_t>(cell->fields()[0]);
    if (number < functions_.size()) return Value::Function(name, functions_[number].object);
  }
  Retain(closure);
  std::lock_guard<std::mutex> lock(keeper_->mutex);
  ++keeper_->held;
  return Value::Function(name, std::make_shared<HeldClosure>(keeper_, closure, type, keeper_->generation));
}

absl::StatusOr<const HeldClosure*> HostFunctions::Find(const Value& value) const {
  if (value.kind() != ValueKind::kClosure || value.function() == nullptr ||
      value.function()->owner() != keeper_.get()) {
    return absl::InvalidArgumentError("the value is no function that a run of this machine gave");
  }
  return static_cast<const HeldClosure*>(value.function().get());
}

absl::Status HostFunctions::CheckAlive(const HeldClosure& closure) const {
  std::lock_guard<std::mutex> lock(keeper_->mutex);
  if (closure.generation_ == keeper_->generation) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the function is gone: a later run of its machine ended with an error, which frees all that the machine holds");
}

bool HostFunctions::HoldsClosures() const {
  std::lock_guard<std::mutex> lock(keeper_->mutex);
  return keeper_->held > 0;
}

void HostFunctions::DropReturned() {
  std::vector<Slot> returned;
  {
    std::lock_guard<std::mutex> lock(keeper_->mutex);
    returned = std::exchange(keeper_->returned, {});
  }
  for (Slot closure : returned) interpreter_.heap().Drop(closure);
}

void HostFunctions::Forget() {
  functions_.clear();
  std::lock_guard<std::mutex> lock(keeper_->mutex);
  ++keeper_->generation;
  keeper_->held = 0;
  keeper_->returned.clear();
}

HeldClosure::~HeldClosure() {
  std::lock_guard<std::mutex> lock(keeper_->mutex);
  if (keeper_->generation != generation_) return;
  --keeper_->held;
  keeper_->returned.push_back(slot_);
}

absl::StatusOr<Value> HeldClosure::Call(std::span<const Value> args) {
  HostFunctions* functions = nullptr;
  {
    std::lock_guard<std::mutex> lock(keeper_->mutex);
    functions = keeper_->functions;
  }
  if (functions == nullptr) return absl::InvalidArgumentError("the machine of the function was freed");
  return functions->runner_(*this, args);
}

}  // namespace rvm::vm
