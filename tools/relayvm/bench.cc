// relayvm bench: latency and throughput of a program.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/status_macros.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr OptionSpec kOptions[] = {
    {"--warmup", "N", "runs of each machine that are not counted (10)"},
    {"--runs", "N", "runs of each machine (100)"},
    {"--seconds", "S", "instead of --runs: run for so long"},
    {"--instances", "N", "machines, each on a thread of its own, that share the program (1)"},
    {"--args-file", "FILE", "a line of values for each run, taken in turn, instead of VALUE..."},
    {"--json", "FILE", "also write the numbers as JSON"},
};

struct Plan {
  int64_t warmup = 10;
  int64_t runs = 100;
  double seconds = 0;  // more than 0: instead of `runs`
  int64_t instances = 1;
};

using Args = std::vector<Value>;

// Measurements of one machine: nanoseconds, and the index of the arguments.
struct Sample {
  double ns;
  size_t args;
};
struct Instance {
  std::vector<Sample> samples;
  absl::Status status;
  int64_t peak_bytes = 0;
  Clock::time_point began, ended;
};

// ---- the command line

absl::StatusOr<Plan> ReadPlan(const Options& options, const RunOptions& run) {
  Plan plan;
  RVM_ASSIGN_OR_RETURN(plan.warmup, options.Integer("--warmup", 0, plan.warmup));
  RVM_ASSIGN_OR_RETURN(plan.runs, options.Integer("--runs", 1, plan.runs));
  RVM_ASSIGN_OR_RETURN(plan.instances, options.Integer("--instances", 1, plan.instances));
  if (plan.instances > 1024) {
    return absl::InvalidArgumentError(absl::StrCat("saw ", plan.instances, " instances; expected 1 to 1024"));
  }
  if (options.Has("--seconds") && options.Has("--runs")) {
    return absl::InvalidArgumentError("`--runs` and `--seconds` exclude each other");
  }
  RVM_ASSIGN_OR_RETURN(plan.seconds, options.PositiveNumber("--seconds", plan.seconds));
  if (run.repeat != 1) return absl::InvalidArgumentError("`--repeat` is for `run` and `profile`; `bench` has `--runs`");
  if (!run.out.empty()) return absl::InvalidArgumentError("`--out` is for `run`; `bench` shows no results");
  return plan;
}

// Splits at blanks, as a shell does; quotes of either kind keep words together.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (char c : line) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        words.back() += c;
      }
      continue;
    }
    bool blank = c == ' ' || c == '\t' || c == '\r';
    if (!blank && !in_word) words.emplace_back();
    in_word = !blank;
    if (c == '\'' || c == '"') {
      quote = c;
    } else if (!blank) {
      words.back() += c;
    }
  }
  if (quote != 0) return absl::InvalidArgumentError("a quote has no end");
  return words;
}

absl::StatusOr<std::vector<Args>> ReadArgsFile(const Executable& executable, const std::string& entry,
                                               const std::string& path) {
  RVM_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::vector<Args> lines;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    absl::StatusOr<std::vector<std::string>> words = SplitWords(line);
    if (words.ok() && (words->empty() || words->front().starts_with("#"))) continue;
    absl::StatusOr<Args> args =
        words.ok() ? ReadArguments(executable, entry, {.values = *std::move(words), .file = ""}) : words.status();
    if (!args.ok()) {
      return absl::Status(args.status().code(), absl::StrCat(path, ":", number, ": ", args.status().message()));
    }
    lines.push_back(*std::move(args));
  }
  if (lines.empty()) return absl::InvalidArgumentError(absl::StrCat("`", path, "` has no line of values"));
  return lines;
}

// ---- measuring

// Each instance starts at another line, so that machines do not run in lockstep.
void RunInstance(vm::Machine& machine, const std::string& entry, const std::vector<Args>& lines, const Plan& plan,
                 size_t index, std::latch& start, Instance& instance) {
  size_t next = index;
  auto invoke = [&] {
    absl::Status status = Invoke(machine, entry, lines[next % lines.size()]).status();
    ++next;
    return status;
  };
  for (int64_t i = 0; i < plan.warmup && instance.status.ok(); ++i) instance.status = invoke();
  start.arrive_and_wait();
  instance.began = instance.ended = Clock::now();
  while (instance.status.ok()) {
    auto done = static_cast<int64_t>(instance.samples.size());
    bool enough =
        plan.seconds > 0
            ? done > 0 && std::chrono::duration<double>(instance.ended - instance.began).count() >= plan.seconds
            : done >= plan.runs;
    if (enough) break;
    Clock::time_point before = Clock::now();
    instance.status = invoke();
    instance.ended = Clock::now();
    instance.samples.push_back(
        {std::chrono::duration<double, std::nano>(instance.ended - before).count(), (next - 1) % lines.size()});
  }
  instance.peak_bytes = machine.stats().peak_bytes;
}

struct Measured {
  std::vector<Instance> instances;
  double seconds = 0;  // from the first begin to the last end
};

absl::StatusOr<Measured> Measure(const ProgramToRun& loaded, const std::vector<Args>& lines, const Plan& plan) {
  std::vector<std::unique_ptr<vm::Machine>> machines;
  for (int64_t i = 0; i < plan.instances; ++i) {
    RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(loaded.program, loaded.run.machine));
    machines.push_back(std::move(machine));
  }
  Measured measured;
  measured.instances.resize(machines.size());
  std::latch start(static_cast<ptrdiff_t>(machines.size()));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < machines.size(); ++i) {
    threads.emplace_back(
        [&, i] { RunInstance(*machines[i], loaded.run.entry, lines, plan, i, start, measured.instances[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  Clock::time_point began = Clock::time_point::max();
  Clock::time_point ended = Clock::time_point::min();
  for (const Instance& instance : measured.instances) {
    RVM_RETURN_IF_ERROR(instance.status);
    began = std::min(began, instance.began);
    ended = std::max(ended, instance.ended);
  }
  measured.seconds = std::chrono::duration<double>(ended - began).count();
  return measured;
}

// ---- results

// Statistics of a set of runs, in nanoseconds.
struct Latency {
  int64_t runs = 0;
  double least = 0, p50 = 0, p90 = 0, p99 = 0, most = 0, mean = 0;
};

// The smallest time that at least a fraction `share` of the runs do not exceed.
double Percentile(const std::vector<double>& sorted, double share) {
  auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

// Statistics of the runs with the arguments `args`, or of all runs if it is not given.
Latency LatencyOf(const Measured& measured, std::optional<size_t> args) {
  std::vector<double> sorted;
  double sum = 0;
  for (const Instance& instance : measured.instances) {
    for (const Sample& sample : instance.samples) {
      if (args.has_value() && sample.args != *args) continue;
      sorted.push_back(sample.ns);
      sum += sample.ns;
    }
  }
  if (sorted.empty()) return {};
  std::sort(sorted.begin(), sorted.end());
  return {static_cast<int64_t>(sorted.size()),
          sorted.front(),
          Percentile(sorted, 0.5),
          Percentile(sorted, 0.9),
          Percentile(sorted, 0.99),
          sorted.back(),
          sum / static_cast<double>(sorted.size())};
}

std::string CpuName() {
  absl::StatusOr<std::string> info = ReadFile("/proc/cpuinfo");
  if (!info.ok()) return "an unknown processor";
  size_t at = info->find("model name");
  size_t colon = at == std::string::npos ? at : info->find(": ", at);
  if (colon == std::string::npos) return "an unknown processor";
  return info->substr(colon + 2, info->find('\n', colon) - colon - 2);
}

struct Report {
  std::string path, entry;
  const Plan& plan;
  int threads;
  size_t lines;
  const Measured& measured;
  std::string cpu = CpuName();
  unsigned cores = std::thread::hardware_concurrency();

  Latency all() const { return LatencyOf(measured, std::nullopt); }
  double per_second() const { return static_cast<double>(all().runs) / measured.seconds; }
  int64_t peak_bytes() const {
    int64_t most = 0;
    for (const Instance& instance : measured.instances) most = std::max(most, instance.peak_bytes);
    return most;
  }
};

std::string LatencyLine(const Latency& latency, const std::string& name) {
  return absl::StrFormat("%10d %12.4f %12.4f %12.4f %12.4f %12.4f %12.4f  %s\n", latency.runs, latency.least * 1e-6,
                         latency.p50 * 1e-6, latency.p90 * 1e-6, latency.p99 * 1e-6, latency.most * 1e-6,
                         latency.mean * 1e-6, name);
}

std::string TextOf(const Report& report) {
  std::string text = absl::StrCat("@", report.entry, " of ", report.path, " on ", report.cpu, ", ", report.cores,
                                  " processors: ", report.plan.instances, " machines, ", report.threads,
                                  " threads each, ", report.plan.warmup, " runs each to warm up\n\n");
  absl::StrAppendFormat(&text, "%10s %12s %12s %12s %12s %12s %12s\n", "runs", "ms least", "p50", "p90", "p99", "most",
                        "mean");
  text += LatencyLine(report.all(), report.lines > 1 ? "all" : "");
  for (size_t i = 0; report.lines > 1 && i < report.lines; ++i) {
    text += LatencyLine(LatencyOf(report.measured, i), absl::StrCat("line ", i + 1, " of values"));
  }
  absl::StrAppendFormat(&text, "\n%.1f runs per second for %.3f s; at most %d bytes of heap in a machine\n",
                        report.per_second(), report.measured.seconds, report.peak_bytes());
  return text;
}

void LatencyJson(const Latency& latency, JsonWriter& json) {
  json.BeginObject().Field("runs", latency.runs).Field("least_ns", latency.least).Field("p50_ns", latency.p50);
  json.Field("p90_ns", latency.p90).Field("p99_ns", latency.p99).Field("most_ns", latency.most);
  json.Field("mean_ns", latency.mean).EndObject();
}

std::string JsonOf(const Report& report) {
  JsonWriter json;
  json.BeginObject().Field("file", report.path).Field("entry", report.entry).Field("cpu", report.cpu);
  json.Field("processors", int64_t{report.cores}).Field("instances", report.plan.instances);
  json.Field("threads", int64_t{report.threads}).Field("warmup", report.plan.warmup);
  json.Field("seconds", report.measured.seconds).Field("runs_per_second", report.per_second());
  json.Field("peak_bytes", report.peak_bytes());
  json.Key("latency");
  LatencyJson(report.all(), json);
  json.Key("lines").BeginArray();
  for (size_t i = 0; i < report.lines; ++i) LatencyJson(LatencyOf(report.measured, i), json);
  json.EndArray().EndObject();
  return std::move(json).Take();
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(WithProgramOptions(kOptions), args));
  RVM_ASSIGN_OR_RETURN(ProgramToRun loaded, LoadProgramToRun(options));
  RVM_ASSIGN_OR_RETURN(Plan plan, ReadPlan(options, loaded.run));
  const Executable& executable = loaded.program->executable();
  std::vector<Args> lines;
  if (options.Has("--args-file")) {
    if (!loaded.run.args.values.empty() || !loaded.run.args.file.empty()) {
      return absl::InvalidArgumentError("`--args-file` has the values; saw others as well");
    }
    RVM_ASSIGN_OR_RETURN(lines, ReadArgsFile(executable, loaded.run.entry, options.Value("--args-file")));
  } else {
    RVM_ASSIGN_OR_RETURN(Args values, ReadArguments(executable, loaded.run.entry, loaded.run.args));
    lines.push_back(std::move(values));
  }
  RVM_ASSIGN_OR_RETURN(Measured measured, Measure(loaded, lines, plan));
  Report report = {.path = loaded.path,
                   .entry = loaded.run.entry,
                   .plan = plan,
                   .threads = loaded.run.machine.threads,
                   .lines = lines.size(),
                   .measured = measured};
  std::cout << TextOf(report);
  if (options.Has("--json")) return ReplaceFile(options.Value("--json"), JsonOf(report));
  return absl::OkStatus();
}

}  // namespace

const Verb kBenchVerb = {
    .name = "bench",
    .summary = "run a program many times and show how long runs take",
    .usage = "FILE.rvm|FILE.relay|FILE.onnx|FILE.pt2 [options] VALUE...",
    .options = kOptions,
    .more = R"(
A line of --args-file is written as values are on a command line: blanks part them, quotes keep them together; lines
that are empty or begin with `#` do not count. Runs take the lines in turn.

Examples:
  relayvm bench model.rvm --runs 1000 @image.npy
  relayvm bench model.rvm --instances 4 --seconds 10 --args-file mix.txt --json bench.json
)",
    .run = Run,
    .runs_program = true,
};

}  // namespace rvm::tools
