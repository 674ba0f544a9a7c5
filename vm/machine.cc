#include "vm/machine.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "vm/interpreter/device_tensors.h"
#include "vm/interpreter/interpreter.h"
#include "vm/limits/limit.h"
#include "vm/link/equal_extents.h"
#include "vm/link/link_info.h"
#include "vm/profiler/profiler.h"
#include "vm/values/convert_value.h"
#include "vm/values/host_functions.h"

namespace rvm::vm {

struct Machine::Impl {
  Impl(std::shared_ptr<const Program> p, const MachineOptions& options, const QueueShare& share)
      : program(std::move(p)),
        profiler(options.profiler),
        fuel(options.fuel),
        time_limit_ms(options.time_limit_ms),
        interpreter(program->executable(), program->link_info(),
                    {options.memory_limit_bytes,
                     options.stack_limit_bytes,
                     options.fail_allocation,
                     options.threads,
                     !options.runs_bytecode,
                     {share.queue, share.waiter, share.pool, options.defers_calls}},
                    profiler),
        is_lane(share.waiter != nullptr),
        functions(program->executable(), program->link_info(), interpreter, profiler,
                  [this](const HeldClosure& closure, std::span<const Value> args) { return Call(closure, args, {}); }) {
    interpreter.SetHostCalls(&functions);
  }

  // True in the child of a fork, where the machine's threads are not.
  bool IsOfParent() const { return process != getpid(); }

  // A function of the program that the host calls.
  struct Callee {
    FunctionId function;
    std::string_view name;          // of the entry, or the type of the closure
    std::span<const TypeId> types;  // of the parameters
    TypeId result;
    const Entry* entry;  // null: a closure
  };

  // Runs `step` as the machine's one run.
  template <typename F>
  absl::StatusOr<Value> Do(const RunOptions& options, F&& step);
  absl::StatusOr<Value> Call(const HeldClosure& closure, std::span<const Value> args, const RunOptions& options);
  absl::StatusOr<Value> Run(const Entry& entry, std::span<const Value> args);
  absl::StatusOr<Value> Run(const HeldClosure& closure, std::span<const Value> args);
  // `first`: slots before the arguments.
  absl::StatusOr<Value> Run(const Callee& callee, std::vector<Slot> slots, std::span<const Value> args);
  absl::Status ImportArgs(const Callee& callee, std::span<const Value> args, bool copies, std::vector<Slot>& slots);

  // Frees what nothing reaches any more: unless the host holds functions, the whole heap. After an error that is
  // whatever the frames owned; after success, what cycles of references kept.
  void CleanUp(bool succeeded);
  void Trim();
  // A run's steps, one after the other, each within a phase of the profile.
  template <typename F>
  auto During(ProfilePhase phase, F&& step) {
    if (profiler == nullptr) return step();
    profiler->BeginPhase(phase);
    auto result = step();
    profiler->EndPhase(phase);
    return result;
  }

  std::shared_ptr<const Program> program;
  Profiler* profiler;  // null: none
  int64_t fuel;
  double time_limit_ms;
  pid_t process = getpid();
  std::atomic<bool> is_running = false;
  bool has_begun = false;  // the latest run executed code
  Interpreter interpreter;
  int64_t leaked = 0;  // objects that runs with a result left behind
  bool is_lane;        // of a batch, which alone runs it
  HostFunctions functions;
};

Machine::Machine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Machine::~Machine() {
  // Destructors would wait for threads that a child of fork has not.
  if (impl_ != nullptr && impl_->IsOfParent()) static_cast<void>(impl_.release());
}

absl::StatusOr<std::unique_ptr<Machine>> Machine::Create(std::shared_ptr<const Program> program,
                                                         const MachineOptions& options) {
  return Create(std::move(program), options, {});
}

absl::StatusOr<std::unique_ptr<Machine>> Machine::Create(std::shared_ptr<const Program> program,
                                                         const MachineOptions& options, const QueueShare& share) {
  RVM_RETURN_IF_ERROR(Check(options));
  return std::unique_ptr<Machine>(new Machine(std::make_unique<Impl>(std::move(program), options, share)));
}

absl::Status Machine::Check(const MachineOptions& options) {
  if (options.memory_limit_bytes < 0 || options.stack_limit_bytes < 0) {
    return absl::InvalidArgumentError("a limit of a machine is negative");
  }
  if (options.threads < 1 || options.threads > 1024) {
    return absl::InvalidArgumentError(absl::StrCat("saw ", options.threads, " threads; expected 1 to 1024"));
  }
  return absl::OkStatus();
}

absl::Status Machine::Impl::ImportArgs(const Callee& callee, std::span<const Value> args, bool copies,
                                       std::vector<Slot>& slots) {
  const Executable& executable = program->executable();
  if (args.size() != callee.types.size()) {
    return absl::InvalidArgumentError(absl::StrCat("`", Abseil(callee.name), "` takes ", callee.types.size(),
                                                   callee.types.size() == 1 ? " argument; saw " : " arguments; saw ",
                                                   args.size()));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    absl::StatusOr<Slot> slot = ImportValue(
        executable, program->link_info(), interpreter.heap(), args[i], callee.types[i],
        [this] { return interpreter.Poll(); }, functions, copies);
    if (!slot.ok()) {
      bool has_name = callee.entry != nullptr && i < callee.entry->param_names.size();
      std::string name = has_name ? absl::StrCat(" (`%", callee.entry->param_names[i], "`)") : "";
      return WithMessage(slot.status(), absl::StrCat("argument ", i + 1, name, " of `", Abseil(callee.name),
                                                     "`: ", slot.status().message()));
    }
    slots.push_back(*slot);
  }
  if (callee.entry == nullptr) return absl::OkStatus();
  // A wrong extent is the caller's fault; the program's own checks would call it the program's.
  auto index = static_cast<size_t>(callee.entry - executable.entries.data());
  return CheckEqualExtents(*callee.entry, program->link_info().equal_extents[index], args);
}

absl::StatusOr<Value> Machine::Impl::Run(const Entry& entry, std::span<const Value> args) {
  const Executable& executable = program->executable();
  const FunctionDesc& function = executable.functions[entry.function.value];
  std::vector<TypeId> types;
  for (size_t p = 0; p < function.num_params; ++p) types.push_back(function.registers[p].type);
  return Run({entry.function, entry.name, types, function.result, &entry}, {}, args);
}

absl::StatusOr<Value> Machine::Impl::Run(const HeldClosure& closure, std::span<const Value> args) {
  const Executable& executable = program->executable();
  FunctionId function(program->link_info().layouts[AsObject(closure.slot())->layout].function);
  const TypeDesc& type = executable.types[closure.type().value];
  std::string name = TypeToString(executable, closure.type());
  Retain(closure.slot());
  return Run({function, name, type.fields, type.result, nullptr}, {closure.slot()}, args);
}

absl::StatusOr<Value> Machine::Impl::Run(const Callee& callee, std::vector<Slot> slots, std::span<const Value> args) {
  // Tensors that functions of the program keep must not lie in the caller's memory, nor leave the heap.
  bool is_shared = program->link_info().gives_functions;
  absl::Status imported =
      During(ProfilePhase::kImport, [&] { return ImportArgs(callee, args, /*copies=*/is_shared, slots); });
  RVM_RETURN_IF_ERROR(imported);
  has_begun = true;
  RVM_ASSIGN_OR_RETURN(Slot result,
                       During(ProfilePhase::kRun, [&] { return interpreter.Run(callee.function, slots); }));
  auto poll = [&] {
    absl::Status status = interpreter.Poll();
    if (status.ok()) return status;
    return WithMessage(status, absl::StrCat("the result of `", Abseil(callee.name), "`: ", status.message()));
  };
  auto fetch = [&](Tensor* tensor) { return interpreter.Fetch(tensor); };
  return During(ProfilePhase::kExport, [&] {
    Heap& heap = interpreter.heap();
    const Executable& executable = program->executable();
    absl::StatusOr<Value> value =
        ExportValue(executable, heap, result, callee.result, poll, fetch, functions, is_shared, profiler);
    if (!value.ok() && IsDeviceFailure(value.status())) value = interpreter.InEntry(callee.function, value.status());
    if (value.ok() && IsPointerType(executable, callee.result)) heap.Drop(result);
    return value;
  });
}

void Machine::Impl::CleanUp(bool succeeded) {
  Heap& heap = interpreter.heap();
  // Times are those of whole runs.
  if (profiler != nullptr && interpreter.device() != nullptr) interpreter.device()->EndWork();
  functions.DropReturned();
  bool is_intact = !succeeded || heap.live_objects() == 0 || heap.CollectCycles();
  // A run that did not begin only leaves what it made of its arguments.
  bool keeps = functions.HoldsClosures() && is_intact && (succeeded || !has_begun);
  if (!keeps) {
    if (succeeded && is_intact && heap.finds_cycles()) leaked += heap.live_objects();
    if (!succeeded || heap.live_objects() != 0) interpreter.Reset();
    functions.Forget();
  }
  if (interpreter.device() != nullptr) interpreter.device()->EndRun();
}

void Machine::Impl::Trim() {
  if (is_running) return;
  functions.DropReturned();
  if (functions.HoldsClosures()) return interpreter.heap().Trim();
  interpreter.Trim();
  functions.Forget();
}

template <typename F>
absl::StatusOr<Value> Machine::Impl::Do(const RunOptions& options, F&& step) {
  if (IsOfParent()) {
    return absl::InvalidArgumentError(
        "the machine belongs to the process that this one was forked from; create a machine in this process");
  }
  if (is_running.exchange(true)) {
    return absl::InvalidArgumentError(
        "the machine is running, in another thread or below the function of the host that uses it; expected one run "
        "at a time: create a machine for each");
  }
  absl::Status begun = interpreter.Begin(options.fuel < 0 ? fuel : options.fuel,
                                         options.time_limit_ms < 0 ? time_limit_ms : options.time_limit_ms,
                                         {options.poll, options.poll_context});
  absl::StatusOr<Value> result = Value();
  if (!begun.ok()) {
    result = begun;
  } else {
    functions.DropReturned();
    has_begun = false;
    result = step();
    During(ProfilePhase::kCleanup, [&] {
      CleanUp(result.ok());
      return true;
    });
    interpreter.End();
  }
  is_running = false;
  return result;
}

absl::StatusOr<Value> Machine::Impl::Call(const HeldClosure& closure, std::span<const Value> args,
                                          const RunOptions& options) {
  if (is_lane) {
    return absl::InvalidArgumentError(
        "the function is part of a result of a batch, and cannot be called; run its entry in a machine");
  }
  return Do(options, [&]() -> absl::StatusOr<Value> {
    RVM_RETURN_IF_ERROR(functions.CheckAlive(closure));
    return Run(closure, args);
  });
}

absl::StatusOr<Value> Machine::Invoke(std::string_view entry_name, std::span<const Value> args,
                                      const RunOptions& options) {
  const Executable& executable = impl_->program->executable();
  const Entry* entry = executable.FindEntry(entry_name);
  if (entry == nullptr) {
    std::string names;
    for (const Entry& e : executable.entries) absl::StrAppend(&names, names.empty() ? "" : ", ", "`", e.name, "`");
    return absl::NotFoundError(
        absl::StrCat("no entry `", std::string(entry_name), "`; the executable has ", names.empty() ? "none" : names));
  }
  return impl_->Do(options, [&] { return impl_->Run(*entry, args); });
}

absl::StatusOr<Value> Machine::Call(const Value& function, std::span<const Value> args, const RunOptions& options) {
  RVM_ASSIGN_OR_RETURN(const HeldClosure* closure, impl_->functions.Find(function));
  return impl_->Call(*closure, args, options);
}

void Machine::Cancel() { impl_->interpreter.Cancel(); }

void Machine::Trim() { impl_->Trim(); }

MachineStats Machine::stats() const {
  const Heap& heap = impl_->interpreter.heap();
  MachineStats stats;
  stats.live_bytes = heap.live_bytes();
  stats.peak_bytes = heap.peak_bytes();
  stats.reserved_bytes = heap.reserved_bytes();
  stats.pooled_bytes = heap.pooled_bytes();
  stats.trims = heap.trims();
  stats.live_objects = heap.live_objects();
  stats.allocations = heap.allocations();
  stats.cyclic_objects = heap.collected();
  stats.leaked_objects = impl_->leaked;
  if (DeviceTensors* device = impl_->interpreter.device(); device != nullptr) {
    for (size_t lane = 0; lane < device->num_lanes(); ++lane) stats.devices.push_back(device->lane(lane).use());
  }
  return stats;
}

const Program& Machine::program() const { return *impl_->program; }

}  // namespace rvm::vm
