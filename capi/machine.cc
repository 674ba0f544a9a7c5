// Machines of the C interface.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "capi/handles.h"
#include "capi/run_options.h"
#include "capi/sized_struct.h"
#include "vm/profiler/profile_report.h"

namespace rvm::capi {
namespace {

rvm_error* Busy() {
  return NewError(RVM_INVALID_ARGUMENT,
                  "the machine is running, in another thread or below the function of the host that uses it; expected "
                  "one run at a time: create a machine for each");
}

// Runs `run(state, values, options)` as the machine's one run.
template <typename F>
rvm_error* RunOn(rvm_machine* machine, rvm_value* const* args, size_t count, const rvm_run_options* given,
                 rvm_value** out, const F& run) {
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  vm::RunOptions options;
  if (rvm_error* error = ReadRunOptions(given, options)) return error;
  std::vector<Value> values;
  if (rvm_error* error = ReadArguments(args, count, values)) return error;
  std::shared_ptr<MachineState> state = machine->state;
  Turn turn(state->is_busy);
  if (!turn.is_mine()) return Busy();
  auto began = std::chrono::steady_clock::now();
  absl::StatusOr<Value> result = run(*state, values, options);
  std::chrono::nanoseconds time = std::chrono::steady_clock::now() - began;
  state->run_ns = static_cast<double>(time.count());
  rvm_error* error = result.ok() ? nullptr : ErrorOf(result.status(), RVM_INVALID_ARGUMENT);
  state->counts->Add(rvm_error_code(error), time.count(), state->machine->stats().peak_bytes);
  if (error != nullptr) return error;
  *out = new rvm_value(*std::move(result));
  return nullptr;
}

std::string ProfileText(const MachineState& state, rvm_profile_format format) {
  vm::Profile profile = state.profiler->Snapshot();
  const Executable& executable = state.machine->program().executable();
  vm::ProfileReport report = {.path = "the program",
                              .entry = state.entry,
                              .executable = executable,
                              .profile = profile,
                              .runs = profile.invokes,
                              .peak_bytes = state.machine->stats().peak_bytes,
                              .plain_ns = std::numeric_limits<double>::quiet_NaN(),
                              .watched_ns = state.run_ns};
  switch (format) {
    case RVM_PROFILE_TABLES: return vm::ProfileTables(report);
    case RVM_PROFILE_JSON: return vm::ProfileJson(report);
    case RVM_PROFILE_TRACE: return vm::ChromeTrace(executable, profile, state.profiler->Trace());
  }
  return "";  // another number: rvm_machine_profile refuses it
}

}  // namespace

void RunCounts::Add(rvm_code code, int64_t nanoseconds_of_run, int64_t peak_bytes_of_machine) {
  runs.fetch_add(1, std::memory_order_relaxed);
  nanoseconds.fetch_add(nanoseconds_of_run, std::memory_order_relaxed);
  if (code != RVM_OK && static_cast<size_t>(code) < kCodes) errors[code].fetch_add(1, std::memory_order_relaxed);
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (peak < peak_bytes_of_machine && !peak_bytes.compare_exchange_weak(peak, peak_bytes_of_machine)) {
  }
}

}  // namespace rvm::capi

using rvm::capi::NullArgument;

rvm_error* rvm_machine_create(rvm_program* program, const rvm_machine_options* given, rvm_machine** out) {
  if (rvm_error* error = rvm_program::Check(program, "program")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_machine*");
  rvm_machine_options read;
  rvm::vm::MachineOptions options;
  if (rvm_error* error = rvm::capi::ReadMachineOptions(given, read, options)) return error;
  auto state = std::make_shared<rvm::capi::MachineState>();
  if (read.profile != 0 || read.trace_events > 0) {
    state->profiler = std::make_unique<rvm::vm::Profiler>(read.trace_events);
    options.profiler = state->profiler.get();
  }
  auto machine = rvm::vm::Machine::Create(program->program, options);
  if (!machine.ok()) return rvm::capi::ErrorOf(machine.status(), RVM_INVALID_ARGUMENT);
  state->machine = *std::move(machine);
  state->counts = program->counts;
  auto* result = new rvm_machine();
  result->state = std::move(state);
  *out = result;
  return nullptr;
}

void rvm_machine_free(rvm_machine* machine) {
  if (!rvm_machine::Is(machine)) return;
  if (machine->state->is_busy) machine->state->machine->Cancel();
  rvm_machine::Release(machine);
}

rvm_error* rvm_machine_run(rvm_machine* machine, const char* entry, rvm_value* const* args, size_t count,
                           rvm_value** out) {
  return rvm_machine_run_with(machine, entry, args, count, nullptr, out);
}

rvm_error* rvm_machine_run_with(rvm_machine* machine, const char* entry, rvm_value* const* args, size_t count,
                                const rvm_run_options* given, rvm_value** out) {
  if (rvm_error* error = rvm_machine::Check(machine, "machine")) return error;
  if (entry == nullptr) return NullArgument("entry", "name of an entry");
  return rvm::capi::RunOn(machine, args, count, given, out, [&](rvm::capi::MachineState& state, const auto&... rest) {
    state.entry = entry;
    return state.machine->Invoke(entry, rest...);
  });
}

rvm_error* rvm_machine_call(rvm_machine* machine, const rvm_value* function, rvm_value* const* args, size_t count,
                            const rvm_run_options* given, rvm_value** out) {
  if (rvm_error* error = rvm_machine::Check(machine, "machine")) return error;
  if (rvm_error* error = rvm_value::Check(function, "function")) return error;
  return rvm::capi::RunOn(machine, args, count, given, out, [&](rvm::capi::MachineState& state, const auto&... rest) {
    return state.machine->Call(function->value, rest...);
  });
}

void rvm_machine_cancel(rvm_machine* machine) {
  if (rvm_machine::Is(machine)) machine->state->machine->Cancel();
}

rvm_error* rvm_machine_trim(rvm_machine* machine) {
  if (rvm_error* error = rvm_machine::Check(machine, "machine")) return error;
  rvm::capi::Turn turn(machine->state->is_busy);
  if (!turn.is_mine()) return rvm::capi::Busy();
  machine->state->machine->Trim();
  return nullptr;
}

rvm_error* rvm_machine_get_stats(rvm_machine* machine, rvm_machine_stats* out) {
  if (rvm_error* error = rvm_machine::Check(machine, "machine")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_machine_stats");
  absl::Status status = rvm::capi::CheckStructSize(out->struct_size, "rvm_machine_stats");
  if (!status.ok()) return rvm::capi::ErrorOf(status, RVM_INVALID_ARGUMENT);
  rvm::capi::Turn turn(machine->state->is_busy);
  if (!turn.is_mine()) return rvm::capi::Busy();
  rvm::vm::MachineStats stats = machine->state->machine->stats();
  rvm_machine_stats all = {.struct_size = sizeof(all),
                           .reserved = 0,
                           .live_bytes = stats.live_bytes,
                           .peak_bytes = stats.peak_bytes,
                           .reserved_bytes = stats.reserved_bytes,
                           .allocations = stats.allocations};
  rvm::capi::WriteStruct(all, out);
  return nullptr;
}

rvm_error* rvm_machine_profile(rvm_machine* machine, rvm_profile_format format, char** out) {
  if (rvm_error* error = rvm_machine::Check(machine, "machine")) return error;
  if (out == nullptr) return NullArgument("out", "char*");
  if (format < RVM_PROFILE_TABLES || format > RVM_PROFILE_TRACE) {
    return rvm::capi::NewError(RVM_INVALID_ARGUMENT, "argument `format`: saw a number that is no rvm_profile_format");
  }
  rvm::capi::Turn turn(machine->state->is_busy);
  if (!turn.is_mine()) return rvm::capi::Busy();
  if (machine->state->profiler == nullptr) {
    return rvm::capi::NewError(RVM_INVALID_ARGUMENT,
                               "the machine does not profile; set `profile` in its rvm_machine_options");
  }
  *out = strdup(rvm::capi::ProfileText(*machine->state, format).c_str());
  return nullptr;
}
