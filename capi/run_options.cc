#include "capi/run_options.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "capi/handles.h"
#include "capi/sized_struct.h"

namespace rvm::capi {
namespace {

template <typename T>  // a number; NaN is none that may be given
rvm_error* CheckLimit(const char* name, T value) {
  if (value >= 0) return nullptr;
  return NewError(RVM_INVALID_ARGUMENT, absl::StrCat("`", name, "` is ", value, "; expected 0 or more"));
}

}  // namespace

rvm_error* ReadMachineOptions(const rvm_machine_options* given, rvm_machine_options& read,
                              vm::MachineOptions& options) {
  absl::Status status = ReadStruct(given, "rvm_machine_options", read);
  if (!status.ok()) return ErrorOf(status, RVM_INVALID_ARGUMENT);
  if (rvm_error* error = CheckLimit("memory_limit", read.memory_limit)) return error;
  if (rvm_error* error = CheckLimit("stack_limit", read.stack_limit)) return error;
  if (rvm_error* error = CheckLimit("fuel", read.fuel)) return error;
  if (rvm_error* error = CheckLimit("time_limit_ms", read.time_limit_ms)) return error;
  if (read.threads > 1024) {
    return NewError(RVM_INVALID_ARGUMENT, absl::StrCat("`threads` is ", read.threads, "; expected 1024 at most"));
  }
  if (read.memory_limit > 0) options.memory_limit_bytes = read.memory_limit;
  if (read.stack_limit > 0) options.stack_limit_bytes = read.stack_limit;
  if (read.fuel > 0) options.fuel = read.fuel;
  if (read.time_limit_ms > 0) options.time_limit_ms = read.time_limit_ms;
  if (read.threads > 0) options.threads = static_cast<int>(read.threads);
  options.runs_bytecode = read.bytecode != 0;
  return nullptr;
}

rvm_error* ReadRunOptions(const rvm_run_options* given, vm::RunOptions& options) {
  rvm_run_options read;
  absl::Status status = ReadStruct(given, "rvm_run_options", read);
  if (!status.ok()) return ErrorOf(status, RVM_INVALID_ARGUMENT);
  if (rvm_error* error = CheckLimit("fuel", read.fuel)) return error;
  if (rvm_error* error = CheckLimit("time_limit_ms", read.time_limit_ms)) return error;
  if (read.fuel > 0) options.fuel = read.fuel;
  if (read.time_limit_ms > 0) options.time_limit_ms = read.time_limit_ms;
  options.poll = read.poll;
  options.poll_context = read.poll_context;
  return nullptr;
}

rvm_error* ReadArguments(rvm_value* const* args, size_t count, std::vector<Value>& values) {
  if (args == nullptr && count > 0) return NullArgument("args", "array of rvm_value*");
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (!rvm_value::Is(args[i])) return rvm_value::Check(args[i], absl::StrCat("args[", i, "]"));
    values.push_back(args[i]->value);
  }
  return nullptr;
}

}  // namespace rvm::capi
