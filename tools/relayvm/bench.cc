// relayvm bench: latency and throughput of a program.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
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
#include "tools/relayvm/bench_runs.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--warmup", "N", "runs of each machine that are not counted (10)"},
    {"--runs", "N", "runs of each machine (100)"},
    {"--seconds", "S", "instead of --runs: run for so long"},
    {"--instances", "N", "machines, each on a thread of its own, that share the program (1)"},
    {"--rate", "R", "let R requests a second arrive at random, to run together in 8 lanes, or --lanes"},
    {"--json", "FILE", "also write the numbers as JSON"},
};

// ---- the command line

absl::StatusOr<BenchPlan> ReadPlan(const Options& options, const RunOptions& run) {
  BenchPlan plan;
  RVM_ASSIGN_OR_RETURN(plan.warmup, options.Integer("--warmup", 0, plan.warmup));
  RVM_ASSIGN_OR_RETURN(plan.runs, options.Integer("--runs", 1, plan.runs));
  RVM_ASSIGN_OR_RETURN(plan.instances, options.Integer("--instances", 1, plan.instances));
  if (plan.instances > 1024) {
    return absl::InvalidArgumentError(absl::StrCat("saw ", plan.instances, " instances; expected 1 to 1024"));
  }
  RVM_ASSIGN_OR_RETURN(plan.rate, options.PositiveNumber("--rate", plan.rate));
  plan.lanes = run.lanes > 0 ? run.lanes : plan.rate > 0 ? 8 : 0;
  if (plan.lanes > 0 && options.Has("--instances")) {
    return absl::InvalidArgumentError("`--instances` excludes `--lanes` and `--rate`: a batch has one thread");
  }
  if (options.Has("--seconds") && options.Has("--runs")) {
    return absl::InvalidArgumentError("`--runs` and `--seconds` exclude each other");
  }
  RVM_ASSIGN_OR_RETURN(plan.seconds, options.PositiveNumber("--seconds", plan.seconds));
  if (run.repeat != 1) return absl::InvalidArgumentError("`--repeat` is for `run` and `profile`; `bench` has `--runs`");
  if (!run.out.empty()) return absl::InvalidArgumentError("`--out` is for `run`; `bench` shows no results");
  return plan;
}

// ---- results

// Statistics of a set of runs, in nanoseconds.
struct Latency {
  int64_t runs = 0;
  double least = 0, p50 = 0, p90 = 0, p99 = 0, most = 0, mean = 0;
};

// Returns the smallest time that at least a fraction `share` of the runs do not exceed.
double Percentile(const std::vector<double>& sorted, double share) {
  auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

// Statistics of the runs with the arguments `args`, or of all runs if it is not given.
Latency LatencyOf(const BenchMeasured& measured, std::optional<size_t> args) {
  std::vector<double> sorted;
  double sum = 0;
  for (const BenchInstance& instance : measured.instances) {
    for (const BenchSample& sample : instance.samples) {
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
  const BenchPlan& plan;
  int threads;
  size_t lines;
  const BenchMeasured& measured;
  std::string cpu = CpuName();
  unsigned cores = std::thread::hardware_concurrency();

  Latency all() const { return LatencyOf(measured, std::nullopt); }
  double per_second() const { return static_cast<double>(all().runs) / measured.seconds; }
  int64_t peak_bytes() const {
    int64_t most = 0;
    for (const BenchInstance& instance : measured.instances) most = std::max(most, instance.peak_bytes);
    return most;
  }
};

std::string LatencyLine(const Latency& latency, const std::string& name) {
  return absl::StrFormat("%10d %12.4f %12.4f %12.4f %12.4f %12.4f %12.4f  %s\n", latency.runs, latency.least * 1e-6,
                         latency.p50 * 1e-6, latency.p90 * 1e-6, latency.p99 * 1e-6, latency.most * 1e-6,
                         latency.mean * 1e-6, name);
}

std::string RunnersText(const Report& report) {
  const BenchPlan& plan = report.plan;
  if (plan.lanes == 0) return absl::StrCat(plan.instances, " machines, ", report.threads, " threads each, ");
  std::string arrivals = plan.rate == 0 ? "" : absl::StrFormat("%g requests a second at random, ", plan.rate);
  return absl::StrCat("a batch of ", plan.lanes, " lanes, ", report.threads, " threads, ", arrivals);
}

std::string TextOf(const Report& report) {
  std::string text =
      absl::StrCat("@", report.entry, " of ", report.path, " on ", report.cpu, ", ", report.cores,
                   " processors: ", RunnersText(report), report.plan.warmup, " runs each to warm up\n\n");
  absl::StrAppendFormat(&text, "%10s %12s %12s %12s %12s %12s %12s\n", "runs", "ms least", "p50", "p90", "p99", "most",
                        "mean");
  text += LatencyLine(report.all(), report.lines > 1 ? "all" : "");
  for (size_t i = 0; report.lines > 1 && i < report.lines; ++i) {
    text += LatencyLine(LatencyOf(report.measured, i), absl::StrCat("line ", i + 1, " of values"));
  }
  absl::StrAppendFormat(&text, "\n%.1f runs per second for %.3f s", report.per_second(), report.measured.seconds);
  if (report.plan.lanes > 0) return absl::StrCat(text, "\n");
  absl::StrAppendFormat(&text, "; at most %d bytes of heap in a machine\n", report.peak_bytes());
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
  json.Field("lanes", report.plan.lanes).Field("rate", report.plan.rate);
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
  RVM_ASSIGN_OR_RETURN(BenchPlan plan, ReadPlan(options, loaded.run));
  const Executable& executable = loaded.program->executable();
  std::vector<BenchArgs> lines;
  if (!loaded.run.args_file.empty()) {
    RVM_ASSIGN_OR_RETURN(lines, ReadArgumentLines(executable, loaded.run.entry, loaded.run.args_file));
  } else {
    RVM_ASSIGN_OR_RETURN(BenchArgs values, ReadArguments(executable, loaded.run.entry, loaded.run.args));
    lines.push_back(std::move(values));
  }
  RVM_ASSIGN_OR_RETURN(BenchMeasured measured,
                       plan.lanes > 0 ? MeasureBatch(loaded, lines, plan) : MeasureMachines(loaded, lines, plan));
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
    .usage = "FILE.rvm|FILE.relay|" RVM_MODEL_FILES " [options] VALUE...",
    .options = kOptions,
    .more = R"(
Runs take the lines of --args-file in turn. With --lanes or --rate, runs are requests of a batch, and times count from the
arrival of a request, waiting included.

Examples:
  relayvm bench model.rvm --runs 1000 @image.npy
  relayvm bench model.rvm --instances 4 --seconds 10 --args-file mix.txt --json bench.json
  relayvm bench decoder.rvm --lanes 8 --rate 200 --seconds 30 --args-file prompts.txt
)",
    .run = Run,
    .runs_program = true,
};

}  // namespace rvm::tools
