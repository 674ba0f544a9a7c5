#include "tools/run_command.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/file.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "devices/plugin/accelerator_library.h"
#include "tools/key_file.h"
#include "vm/batch.h"
#include "vm/device/device.h"
#include "vm/limits/limit.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kRunOptions[] = {
    {"--entry", "NAME", "the function to call (main)"},
    kArgsOption,
    kArgsFileOption,
    {"--lanes", "N", "run the calls of --args-file together, so many at once; their results do not depend on it"},
    {"--out", "FILE.npy", "write the result, a tensor, to a file instead of printing it"},
    {"--repeat", "N", "run N times and report the times on standard error"},
    {"--stats", "", "report the memory of the run on standard error"},
    {"--memory-limit", "BYTES", "heap of the program (8G); K, M and G stand for 2^10, 2^20 and 2^30"},
    {"--stack-limit", "BYTES", "nesting of calls (512M: some ten million)"},
    {"--fuel", "N", "stop after N calls and backward jumps (no limit)"},
    {"--time-limit", "MS", "stop after so many milliseconds (no limit)"},
    {"--threads", "N", "threads for big kernels (1); the result does not depend on it"},
    {"--device", "NAME",
     "where kernels with code for a device run: one that `relayvm devices` lists (opencl:0), a kind of them (opencl), "
     "gpu (cuda or opencl), or host; several between commas"},
    {"--device-library", "FILE.so",
     "open an accelerator of another maker (relayvm/accelerator.h), which runs with all your rights; may be repeated"},
    {"--host-fallback", "", "run on the host what needs a device that is not there"},
    kControlOption,
    {"--allow-native", "", "run machine code of the executable; this is the default"},
    {"--no-allow-native", "", "refuse executables with machine code: they could do anything you may do"},
    {"--key", "FILE.pub", "refuse machine code unless this key signed it; may be repeated: one of them"},
};

std::string_view OptionOf(vm::Limit limit) {
  switch (limit) {
    case vm::Limit::kMemory: return "--memory-limit";
    case vm::Limit::kStack: return "--stack-limit";
    case vm::Limit::kFuel: return "--fuel";
    case vm::Limit::kTime: return "--time-limit";
  }
  RVM_UNREACHABLE("no such limit");
}

// CPU time of all threads of this process: on a busy machine more precise than wall-clock time.
double ProcessorMilliseconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// To the microsecond; short times to the nanosecond.
std::string MillisecondsText(double time) {
  return time < 1 ? absl::StrFormat("%.6f ms", time) : absl::StrFormat("%.3f ms", time);
}

std::string TimesText(std::vector<double> milliseconds, double least_of_processor) {
  std::sort(milliseconds.begin(), milliseconds.end());
  return absl::StrCat(milliseconds.size(), " runs: least ", MillisecondsText(milliseconds.front()), ", median ",
                      MillisecondsText(milliseconds[milliseconds.size() / 2]), ", most ",
                      MillisecondsText(milliseconds.back()), "; least of the processor ",
                      MillisecondsText(least_of_processor), "\n");
}

std::string StatsText(const vm::MachineStats& stats) {
  std::string devices;
  for (const device::DeviceUse& use : stats.devices) {
    std::string graphs;
    if (use.graphs.graphs > 0) graphs = absl::StrCat(" (", use.graphs.launches, " in ", use.graphs.graphs, " graphs)");
    std::string products = use.products == 0 ? "" : absl::StrCat(", ", use.products, " products by its library");
    if (use.graphs.products > 0) absl::StrAppend(&products, " (", use.graphs.products, " in graphs)");
    absl::StrAppend(&devices, "device ", use.device, ": ", use.launches, " launches", graphs, products, ", ",
                    use.copies_in, " tensors copied to it and ", use.copies_out, " from it, at most ", use.peak_bytes,
                    " bytes", use.code.empty() ? "" : "; code ", use.code,
                    use.library.empty() ? "" : "; library of products: ", use.library, "\n");
  }
  return absl::StrCat(devices, "cells and tensors: ", stats.allocations, " made, at most ", stats.peak_bytes,
                      " bytes at a time; from the system: ", stats.reserved_bytes, " bytes, of which ",
                      stats.pooled_bytes, " wait for use; given back ", stats.trims, " times\n");
}

absl::Status WithOption(const absl::Status& status) {
  std::optional<vm::Limit> limit = vm::ReachedLimit(status);
  if (!limit) return status;
  // The first line is the error; the backtrace follows.
  std::string message(status.message());
  message.insert(std::min(message.find('\n'), message.size()),
                 absl::StrCat(" (", std::string(OptionOf(*limit)), " sets another)"));
  return absl::Status(status.code(), message);
}

// Prints results in the order of their calls, as soon as those before are printed.
class ResultsInOrder {
 public:
  ResultsInOrder(size_t count, std::ostream& out) : results_(count), out_(out) {}

  void Add(size_t call, absl::StatusOr<Value> result) {
    results_[call] = std::move(result);
    for (; next_ < results_.size() && results_[next_]; ++next_) Print();
  }
  // The error of the first call that failed, and how many did.
  absl::Status Take() {
    if (failed_ == 0) return absl::OkStatus();
    return absl::Status(first_.code(),
                        absl::StrCat(failed_, " of ", results_.size(), " calls failed; ", first_.message()));
  }

 private:
  // A call that failed has an empty line, so that lines stay those of the file.
  void Print() {
    const absl::StatusOr<Value>& result = *results_[next_];
    out_ << absl::StrCat(result.ok() ? result->ToString() : "", "\n");
    if (!result.ok() && failed_++ == 0) {
      absl::Status status = WithOption(result.status());
      first_ = absl::Status(status.code(), absl::StrCat("call ", next_ + 1, ": ", status.message()));
    }
    results_[next_] = Value();
  }

  std::vector<std::optional<absl::StatusOr<Value>>> results_;
  std::ostream& out_;
  size_t next_ = 0;
  size_t failed_ = 0;
  absl::Status first_;
};

absl::Status RunCalls(const std::shared_ptr<const vm::Program>& program, const RunOptions& options, std::ostream& out) {
  if (!options.out.empty() || options.repeat != 1 || options.stats) {
    return absl::InvalidArgumentError("`--args-file` excludes `--out`, `--repeat` and `--stats`");
  }
  RVM_ASSIGN_OR_RETURN(auto calls, ReadArgumentLines(program->executable(), options.entry, options.args_file, &out));
  ResultsInOrder results(calls.size(), out);
  if (options.lanes == 0) {
    RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(program, options.machine));
    for (size_t i = 0; i < calls.size(); ++i) results.Add(i, machine->Invoke(options.entry, calls[i]));
    return results.Take();
  }
  RVM_ASSIGN_OR_RETURN(
      std::unique_ptr<vm::Batch> batch,
      vm::Batch::Create(program, {.lanes = static_cast<int>(options.lanes), .machine = options.machine}));
  for (size_t i = 0; i < calls.size(); ++i) {
    batch->Submit(options.entry, std::move(calls[i]), {},
                  [&results, i](absl::StatusOr<Value> result) { results.Add(i, std::move(result)); });
  }
  batch->Drive();
  return results.Take();
}

}  // namespace

absl::Status WriteNpy(const Value& value, const std::string& path) {
  if (value.kind() != ValueKind::kTensor) {
    return absl::InvalidArgumentError("--out needs a result that is one tensor; without it the value is printed");
  }
  return ReplaceFile(path, EncodeNpy(value.tensor()));
}

absl::StatusOr<std::optional<bool>> WantsNative(const Options& options) {
  if (!options.Has("--control")) return std::nullopt;
  std::string control = options.Value("--control");
  if (control == "bytecode") return false;
  if (control == "native") return true;
  return absl::InvalidArgumentError(absl::StrCat("saw `--control ", control, "`; expected `native` or `bytecode`"));
}

std::span<const OptionSpec> RunOptionSpecs() { return kRunOptions; }

absl::StatusOr<RunOptions> ReadRunOptions(const Options& options) {
  RunOptions run;
  run.entry = options.Value("--entry", run.entry);
  if (options.positional().size() > 1) {
    run.args.values.assign(options.positional().begin() + 1, options.positional().end());
  }
  run.args.file = options.Value("--args");
  run.args_file = options.Value("--args-file");
  if (!run.args_file.empty() && (!run.args.values.empty() || !run.args.file.empty())) {
    return absl::InvalidArgumentError("`--args-file` has the values; saw others as well");
  }
  RVM_ASSIGN_OR_RETURN(run.lanes, options.Integer("--lanes", 1, run.lanes));
  if (run.lanes > 1024)
    return absl::InvalidArgumentError(absl::StrCat("saw ", run.lanes, " lanes; expected 1 to 1024"));
  run.out = options.Value("--out");
  run.stats = options.Has("--stats");
  RVM_ASSIGN_OR_RETURN(run.repeat, options.Integer("--repeat", 1, run.repeat));
  vm::MachineOptions& machine = run.machine;
  RVM_ASSIGN_OR_RETURN(machine.memory_limit_bytes, options.Bytes("--memory-limit", machine.memory_limit_bytes));
  RVM_ASSIGN_OR_RETURN(machine.stack_limit_bytes, options.Bytes("--stack-limit", machine.stack_limit_bytes));
  RVM_ASSIGN_OR_RETURN(machine.fuel, options.Integer("--fuel", 0, machine.fuel));
  RVM_ASSIGN_OR_RETURN(machine.time_limit_ms, options.PositiveNumber("--time-limit", machine.time_limit_ms));
  RVM_ASSIGN_OR_RETURN(int64_t threads, options.Integer("--threads", 1, machine.threads));
  RVM_ASSIGN_OR_RETURN(std::optional<bool> wants_native, WantsNative(options));
  machine.runs_bytecode = !wants_native.value_or(true);
  machine.threads = static_cast<int>(std::min<int64_t>(threads, std::numeric_limits<int>::max()));
  for (const std::string& path : options.Values("--key")) {
    RVM_ASSIGN_OR_RETURN(PublicKey key, ReadPublicKey(path));
    run.load.trusted_keys.push_back(key);
  }
  bool refuses = options.Has("--no-allow-native") || options.Has("--key");
  if (refuses && options.Has("--allow-native")) {
    return absl::InvalidArgumentError("`--allow-native` excludes `--no-allow-native` and `--key`");
  }
  run.load.allow_native = !refuses;
  for (const std::string& path : options.Values("--device-library")) {
    RVM_RETURN_IF_ERROR(device::OpenAcceleratorLibrary(path));
  }
  run.load.device = absl::StrJoin(options.Values("--device"), ",");
  run.load.host_fallback = options.Has("--host-fallback");
  return run;
}

absl::StatusOr<Value> Invoke(vm::Machine& machine, const std::string& entry, std::span<const Value> args) {
  absl::StatusOr<Value> result = machine.Invoke(entry, args);
  if (result.ok()) return result;
  return WithOption(result.status());
}

absl::StatusOr<std::vector<Value>> ReadOneCall(const Executable& executable, const RunOptions& options,
                                               std::ostream* prints) {
  if (!options.args_file.empty()) {
    return absl::InvalidArgumentError(
        "`--args-file` has many calls, for `run` and `bench`; expected the values of one");
  }
  if (options.lanes > 0) return absl::InvalidArgumentError("`--lanes` is for the calls of an `--args-file`");
  return ReadArguments(executable, options.entry, options.args, prints);
}

absl::Status RunProgram(std::shared_ptr<const vm::Program> program, const RunOptions& options, std::ostream& out) {
  if (!options.args_file.empty()) return RunCalls(program, options, out);
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(program, options.machine));
  RVM_ASSIGN_OR_RETURN(std::vector<Value> args, ReadOneCall(program->executable(), options, &out));
  Value result;
  std::vector<double> times;
  double least_of_processor = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < options.repeat; ++i) {
    result = Value();  // its memory serves the next run
    auto start = std::chrono::steady_clock::now();
    double processor = ProcessorMilliseconds();
    RVM_ASSIGN_OR_RETURN(result, Invoke(*machine, options.entry, args));
    std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    times.push_back(elapsed.count());
    least_of_processor = std::min(least_of_processor, ProcessorMilliseconds() - processor);
  }
  if (options.out.empty()) {
    // One write: when memory is short, either everything or nothing is written.
    out << absl::StrCat(result.ToString(), "\n");
  } else {
    RVM_RETURN_IF_ERROR(WriteNpy(result, options.out));
  }
  if (options.stats) std::fputs(StatsText(machine->stats()).c_str(), stderr);
  if (options.repeat > 1) std::fputs(TimesText(std::move(times), least_of_processor).c_str(), stderr);
  return absl::OkStatus();
}

}  // namespace rvm::tools
