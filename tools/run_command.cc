#include "tools/run_command.h"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "tools/key_file.h"
#include "vm/value_text.h"

namespace rvm::tools {
namespace {

absl::StatusOr<int64_t> ReadBytes(const std::string& flag, const std::string& text) {
  size_t unit = std::string("KMG").find(text.empty() ? '?' : text.back());
  int shift = unit == std::string::npos ? 0 : 10 * static_cast<int>(unit + 1);
  absl::StatusOr<int64_t> value = ReadInteger(flag, shift == 0 ? text : text.substr(0, text.size() - 1), 0);
  if (value.ok() && *value <= std::numeric_limits<int64_t>::max() >> shift) return *value << shift;
  return absl::InvalidArgumentError(
      absl::StrCat("saw `", text, "` for ", flag, "; expected a number of bytes, such as 4096, 64M or 2G"));
}

absl::StatusOr<Value> ReadNpyFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open `", path, "`"));
  std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  RVM_ASSIGN_OR_RETURN(Literal literal, DecodeNpy(bytes));
  return Value::Tensor(std::move(literal));
}

// Of this process, all threads. On a busy machine it says more than the time on the clock.
double ProcessorMilliseconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

std::string TimesText(std::vector<double> milliseconds, double least_of_processor) {
  std::sort(milliseconds.begin(), milliseconds.end());
  return absl::StrFormat("%d runs: least %.3f ms, median %.3f ms, most %.3f ms; least of the processor %.3f ms\n",
                         milliseconds.size(), milliseconds.front(), milliseconds[milliseconds.size() / 2],
                         milliseconds.back(), least_of_processor);
}

std::string StatsText(const vm::MachineStats& stats) {
  return absl::StrCat("cells and tensors: ", stats.allocations, " made, at most ", stats.peak_bytes,
                      " bytes at a time; from the system: ", stats.reserved_bytes, " bytes, of which ",
                      stats.pooled_bytes, " wait for use; given back ", stats.trims, " times\n");
}

}  // namespace

absl::StatusOr<int64_t> ReadInteger(const std::string& flag, const std::string& text, int64_t least) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("saw `", text, "` for ", flag, "; expected a whole number from ", least));
  }
  return value;
}

absl::StatusOr<std::vector<Value>> ReadArgs(const Executable& executable, const std::string& entry_name,
                                            const std::vector<std::string>& texts) {
  const Entry* found = executable.FindEntry(entry_name);
  if (found == nullptr) return std::vector<Value>();
  const Entry& entry = *found;
  const FunctionDesc& function = executable.functions[entry.function.value];
  if (texts.size() != function.num_params) {
    std::string params;
    for (size_t i = 0; i < function.num_params; ++i) {
      absl::StrAppend(&params, i > 0 ? ", " : "", i < entry.param_names.size() ? "%" + entry.param_names[i] + ": " : "",
                      TypeToString(executable, function.registers[i].type));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("saw ", texts.size(), " arguments; expected `", entry.name, "(", params, ")`"));
  }
  std::vector<Value> values;
  for (size_t i = 0; i < texts.size(); ++i) {
    absl::StatusOr<Value> value = texts[i].starts_with("@")
                                      ? ReadNpyFile(texts[i].substr(1))
                                      : vm::ParseValueText(executable, function.registers[i].type, texts[i]);
    if (!value.ok()) {
      return absl::Status(value.status().code(), absl::StrCat("argument ", i + 1, ", ", value.status().message()));
    }
    values.push_back(*std::move(value));
  }
  return values;
}

absl::Status WriteNpy(const Value& value, const std::string& path) {
  if (value.kind() != ValueKind::kTensor) {
    return absl::InvalidArgumentError("--out needs a result that is one tensor; without it the value is printed");
  }
  std::vector<uint8_t> bytes = EncodeNpy(value.tensor());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write `", path, "`"));
  return absl::OkStatus();
}

std::string_view RunOptionsHelp() {
  return R"(  --entry NAME          the function to call (main)
  --out FILE.npy        write the result, a tensor, to a file instead of printing it
  --repeat N            run N times and report the times on standard error
  --stats               report the memory of the run on standard error
  --memory-limit BYTES  heap of the program (8G); K, M and G stand for 2^10, 2^20 and 2^30
  --stack-limit BYTES   nesting of calls (4G)
  --fuel N              stop after N calls and backward jumps (no limit)
  --time-limit MS       stop after so many milliseconds (no limit)
  --threads N           threads for big kernels (1); the result does not depend on it
  --allow-native        run machine code of the executable; this is the default
  --no-allow-native     refuse executables with machine code: they could do anything you may do
  --key FILE.pub        refuse machine code unless this key signed it; may be repeated: one of them

A VALUE is written as in Relay, or is @FILE.npy:
  1   -2.5   1i64   True      scalars; a number without suffix takes the parameter's dtype
  '[[1, 2], [3, 4]]'          a tensor
  '(1, True)'                 a tuple
  'Cons(1, Nil)'  '[1, 2]'    a constructor; brackets make a List
  'ref(3)'                    a reference
)";
}

absl::StatusOr<RunOptions> ParseRunOptions(std::span<const std::string> args, std::vector<std::string>& rest) {
  RunOptions options;
  bool only_values = false;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string flag = args[i];
    bool is_flag = flag.size() > 1 && flag[0] == '-' && !(flag[1] >= '0' && flag[1] <= '9') && flag[1] != '.' &&
                   !flag.starts_with("-inf") && !flag.starts_with("-nan");
    if (only_values || !is_flag) {
      rest.push_back(flag);
      continue;
    }
    if (flag == "--") {
      only_values = true;
      continue;
    }
    if (flag == "--stats") {
      options.stats = true;
      continue;
    }
    if (flag == "--allow-native" || flag == "--no-allow-native") {
      options.load.allow_native = flag == "--allow-native";
      continue;
    }
    // "--flag value" or "--flag=value"
    std::string value;
    size_t equals = flag.find('=');
    bool known = false;
    for (std::string_view name : {"--entry", "--out", "--repeat", "--memory-limit", "--stack-limit", "--fuel",
                                  "--time-limit", "--threads", "--key"}) {
      known |= flag.substr(0, equals) == name;
    }
    if (!known) return absl::InvalidArgumentError(absl::StrCat("unknown flag `", flag, "`; --help lists the flags"));
    if (equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (++i < args.size()) {
      value = args[i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat("flag `", flag, "` needs a value"));
    }
    if (flag == "--entry") {
      options.entry = value;
    } else if (flag == "--key") {
      RVM_ASSIGN_OR_RETURN(PublicKey key, ReadPublicKey(value));
      options.load.trusted_keys.push_back(key);
      options.load.allow_native = false;
    } else if (flag == "--out") {
      options.out = value;
    } else if (flag == "--repeat") {
      RVM_ASSIGN_OR_RETURN(options.repeat, ReadInteger(flag, value, 1));
    } else if (flag == "--memory-limit") {
      RVM_ASSIGN_OR_RETURN(options.machine.memory_limit_bytes, ReadBytes(flag, value));
    } else if (flag == "--stack-limit") {
      RVM_ASSIGN_OR_RETURN(options.machine.stack_limit_bytes, ReadBytes(flag, value));
    } else if (flag == "--time-limit") {
      RVM_ASSIGN_OR_RETURN(options.machine.time_limit_ms, ReadInteger(flag, value, 1));
    } else if (flag == "--threads") {
      RVM_ASSIGN_OR_RETURN(int64_t threads, ReadInteger(flag, value, 1));
      options.machine.threads = static_cast<int>(std::min<int64_t>(threads, std::numeric_limits<int>::max()));
    } else {
      RVM_ASSIGN_OR_RETURN(options.machine.fuel, ReadInteger(flag, value, 0));
    }
  }
  return options;
}

absl::Status RunProgram(std::shared_ptr<const vm::Program> program, const RunOptions& options, std::ostream& out) {
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(program, options.machine));
  RVM_ASSIGN_OR_RETURN(std::vector<Value> args, ReadArgs(program->executable(), options.entry, options.args));
  Value result;
  std::vector<double> times;
  double least_of_processor = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < options.repeat; ++i) {
    auto start = std::chrono::steady_clock::now();
    double processor = ProcessorMilliseconds();
    RVM_ASSIGN_OR_RETURN(result, machine->Invoke(options.entry, args));
    std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    times.push_back(elapsed.count());
    least_of_processor = std::min(least_of_processor, ProcessorMilliseconds() - processor);
  }
  if (options.out.empty()) {
    // In one piece: when memory is short, everything or nothing is written.
    out << absl::StrCat(result.ToString(), "\n");
  } else {
    RVM_RETURN_IF_ERROR(WriteNpy(result, options.out));
  }
  if (options.stats) std::fputs(StatsText(machine->stats()).c_str(), stderr);
  if (options.repeat > 1) std::fputs(TimesText(std::move(times), least_of_processor).c_str(), stderr);
  return absl::OkStatus();
}

}  // namespace rvm::tools
