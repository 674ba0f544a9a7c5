#include "vm/machine.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/convert_value.h"
#include "vm/equal_extents.h"
#include "vm/interpreter/device_tensors.h"
#include "vm/interpreter/interpreter.h"
#include "vm/limit.h"
#include "vm/link_info.h"
#include "vm/profiler/profiler.h"

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
                    profiler) {}

  // True in the child of a fork, where the machine's threads are not.
  bool IsOfParent() const { return process != getpid(); }

  absl::StatusOr<std::vector<Slot>> ImportArgs(const Entry& entry, std::span<const Value> args);
  absl::StatusOr<Value> Run(const Entry& entry, std::span<const Value> args);

  // Nothing in the heap is reachable any more: frees it. After an error that is whatever the frames owned; after
  // success, what cycles of references kept.
  void CleanUp(bool succeeded);
  // Invoke's steps, one after the other, each within a phase of the profile.
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
  Interpreter interpreter;
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
  if (options.memory_limit_bytes < 0 || options.stack_limit_bytes < 0) {
    return absl::InvalidArgumentError("a limit of a machine is negative");
  }
  if (options.threads < 1 || options.threads > 1024) {
    return absl::InvalidArgumentError(absl::StrCat("saw ", options.threads, " threads; expected 1 to 1024"));
  }
  return std::unique_ptr<Machine>(new Machine(std::make_unique<Impl>(std::move(program), options, share)));
}

absl::StatusOr<std::vector<Slot>> Machine::Impl::ImportArgs(const Entry& entry, std::span<const Value> args) {
  const Executable& executable = program->executable();
  const FunctionDesc& function = executable.functions[entry.function.value];
  if (args.size() != function.num_params) {
    return absl::InvalidArgumentError(absl::StrCat("`", entry.name, "` takes ", function.num_params,
                                                   function.num_params == 1 ? " argument; saw " : " arguments; saw ",
                                                   args.size()));
  }
  std::vector<Slot> slots;
  for (size_t i = 0; i < args.size(); ++i) {
    absl::StatusOr<Slot> slot = ImportValue(executable, program->link_info(), interpreter.heap(), args[i],
                                            function.registers[i].type, [this] { return interpreter.Poll(); });
    if (!slot.ok()) {
      std::string name = i < entry.param_names.size() ? absl::StrCat(" (`%", entry.param_names[i], "`)") : "";
      return WithMessage(slot.status(),
                         absl::StrCat("argument ", i + 1, name, " of `", entry.name, "`: ", slot.status().message()));
    }
    slots.push_back(*slot);
  }
  // A wrong extent is the caller's fault; the program's own checks would call it the program's.
  auto index = static_cast<size_t>(&entry - executable.entries.data());
  RVM_RETURN_IF_ERROR(CheckEqualExtents(entry, program->link_info().equal_extents[index], args));
  return slots;
}

absl::StatusOr<Value> Machine::Impl::Run(const Entry& entry, std::span<const Value> args) {
  RVM_ASSIGN_OR_RETURN(std::vector<Slot> slots, During(ProfilePhase::kImport, [&] { return ImportArgs(entry, args); }));
  RVM_ASSIGN_OR_RETURN(Slot result, During(ProfilePhase::kRun, [&] { return interpreter.Run(entry.function, slots); }));
  const Executable& executable = program->executable();
  TypeId type = executable.functions[entry.function.value].result;
  auto poll = [&] {
    absl::Status status = interpreter.Poll();
    if (status.ok()) return status;
    return WithMessage(status, absl::StrCat("the result of `", entry.name, "`: ", status.message()));
  };
  auto fetch = [&](Tensor* tensor) { return interpreter.Fetch(tensor); };
  return During(ProfilePhase::kExport, [&] {
    Heap& heap = interpreter.heap();
    absl::StatusOr<Value> value =
        ExportValue(executable, program->link_info(), heap, result, type, poll, fetch, profiler);
    if (!value.ok() && IsDeviceFailure(value.status())) value = interpreter.InEntry(entry.function, value.status());
    if (value.ok() && IsPointerType(executable, type)) heap.Drop(result);
    return value;
  });
}

void Machine::Impl::CleanUp(bool succeeded) {
  Heap& heap = interpreter.heap();
  // Times are those of whole runs.
  if (profiler != nullptr && interpreter.device() != nullptr) interpreter.device()->EndWork();
  if (succeeded && heap.live_objects() != 0) heap.CollectCycles();
  if (!succeeded || heap.live_objects() != 0) interpreter.Reset();
  if (interpreter.device() != nullptr) interpreter.device()->EndRun();
}

absl::StatusOr<Value> Machine::Invoke(std::string_view entry_name, std::span<const Value> args,
                                      const RunOptions& options) {
  if (impl_->IsOfParent()) {
    return absl::InvalidArgumentError(
        "the machine belongs to the process that this one was forked from; create a machine in this process");
  }
  const Executable& executable = impl_->program->executable();
  const Entry* entry = executable.FindEntry(entry_name);
  if (entry == nullptr) {
    std::string names;
    for (const Entry& e : executable.entries) absl::StrAppend(&names, names.empty() ? "" : ", ", "`", e.name, "`");
    return absl::NotFoundError(
        absl::StrCat("no entry `", std::string(entry_name), "`; the executable has ", names.empty() ? "none" : names));
  }
  RVM_RETURN_IF_ERROR(impl_->interpreter.Begin(options.fuel < 0 ? impl_->fuel : options.fuel,
                                               options.time_limit_ms < 0 ? impl_->time_limit_ms : options.time_limit_ms,
                                               {options.poll, options.poll_context}));
  absl::StatusOr<Value> result = impl_->Run(*entry, args);
  impl_->During(ProfilePhase::kCleanup, [&] {
    impl_->CleanUp(result.ok());
    return true;
  });
  impl_->interpreter.End();
  return result;
}

void Machine::Cancel() { impl_->interpreter.Cancel(); }

void Machine::Trim() { impl_->interpreter.Trim(); }

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
  if (DeviceTensors* device = impl_->interpreter.device(); device != nullptr) {
    for (size_t lane = 0; lane < device->num_lanes(); ++lane) stats.devices.push_back(device->lane(lane).use());
  }
  return stats;
}

const Program& Machine::program() const { return *impl_->program; }

}  // namespace rvm::vm
