// relayvm report: everything about an executable on one HTML page.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/abseil.h"
#include "base/dim_postfix.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "serialization/encoder.h"
#include "tools/flame_graph.h"
#include "tools/relayvm/executable_text.h"
#include "tools/relayvm/file_sizes.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/memory_text.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/page/machine_peaks.h"
#include "tools/relayvm/page/page.h"
#include "tools/relayvm/page/roofline.h"
#include "tools/relayvm/page/time_line.h"
#include "tools/relayvm/program_graph.h"
#include "tools/relayvm/verb.h"
#include "tools/relayvm/watched_run.h"
#include "vm/link/link_info.h"
#include "vm/profiler/profile_report.h"

namespace rvm::tools {
namespace {

constexpr size_t kMaxRows = 200;             // of a table of sizes; the rest is one row
constexpr size_t kMaxGraphNodes = 1500;      // Graphviz takes minutes for larger ones
constexpr int64_t kTraceEvents = 1'000'000;  // of the flame graph
constexpr size_t kMaxIntervals = 20'000;     // of the time line
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

constexpr OptionSpec kOptions[] = {
    {"-o", "FILE.html", "the page (FILE with the ending .html)"},
    {"--dims", "NAME=EXTENT,...", "extents that types leave open, for the memory: n=128 or, by axis, x.0=128"},
    {"--against", "FILE", "compare with another program, which runs with the same values"},
};

// A program, and its run if there are values for one.
struct Subject {
  ProgramToRun loaded;
  std::vector<uint8_t> file;
  std::optional<WatchedRun> run;

  const Executable& executable() const { return loaded.program->executable(); }
  // Returns the row of a kernel in the profile; null if it did not run.
  const vm::Profile::KernelRow* KernelRow(size_t kernel) const {
    if (!run) return nullptr;
    for (const vm::Profile::KernelRow& row : run->profile.kernels) {
      if (row.kernel.value == kernel) return &row;
    }
    return nullptr;
  }
  double run_ns() const { return !run ? kNone : std::isfinite(run->plain_ns) ? run->plain_ns : run->watched_ns; }
};

// Returns whether the command line gives what the entry takes; `report` runs nothing otherwise.
bool HasArguments(const ProgramToRun& loaded) {
  if (!loaded.run.args.values.empty() || !loaded.run.args.file.empty()) return true;
  const Entry* entry = loaded.program->executable().FindEntry(loaded.run.entry);
  return entry != nullptr && loaded.program->executable().functions[entry->function.value].num_params == 0;
}

absl::StatusOr<Subject> RunSubject(ProgramToRun loaded) {
  Subject subject = {.loaded = std::move(loaded), .file = {}, .run = {}};
  subject.file = Encode(subject.executable());
  if (!HasArguments(subject.loaded)) return subject;
  RVM_ASSIGN_OR_RETURN(subject.run, RunWatched(subject.loaded, kTraceEvents));
  return subject;
}

// ---- kernels

// Returns the arithmetic operations of all calls of a kernel; NaN where the file does not say them.
double OperationsOf(const Executable& executable, const vm::Profile::KernelRow& row) {
  const KernelDesc& kernel = executable.kernels[row.kernel.value];
  std::string_view each = executable.FindMetadata(absl::StrCat("operations.", kernel.symbol));
  if (each.empty() || row.other_shapes > 0) return kNone;
  double sum = 0;
  for (const vm::Profile::ShapeRow& shape : row.shapes) {
    std::optional<int64_t> operations = EvaluatePostfix(each, shape.symbols);
    if (!operations) return kNone;
    sum += static_cast<double>(*operations) * static_cast<double>(shape.calls);
  }
  return sum;
}

// Returns the time of a kernel where it ran: on the host, or on its device.
double TimeOf(const vm::Profile::KernelRow& row) { return row.device.empty() ? row.ns : row.use.launches.ns; }

std::string KernelId(size_t kernel) { return absl::StrCat("kernel-", kernel); }

void AddKernels(Page& page, const Subject& subject, const std::optional<MachinePeaks>& peaks) {
  const Executable& executable = subject.executable();
  Table table("", {{"kernel", false},
                   {"time"},
                   {"share"},
                   {"calls"},
                   {"mean"},
                   {"bytes"},
                   {"arithmetic"},
                   {"of the peak"},
                   {"memory"},
                   {"of the peak"}});
  std::vector<RooflinePoint> points;
  for (size_t i = 0; i < executable.kernels.size(); ++i) {
    const KernelDesc& kernel = executable.kernels[i];
    std::vector<Cell> cells = {TextCell(kernel.name)};
    if (const vm::Profile::KernelRow* row = subject.KernelRow(i)) {
      double ns = TimeOf(*row), share = ns / subject.run->watched_ns;
      double operations = OperationsOf(executable, *row), bytes = static_cast<double>(row->bytes);
      double speed = operations / ns * 1e9, traffic = bytes / ns * 1e9;
      bool is_of_host = row->device.empty() && peaks;
      cells.insert(
          cells.end(),
          {TimeCell(ns), ShareCell(share), CountCell(row->calls), TimeCell(ns / static_cast<double>(row->calls)),
           BytesCell(row->bytes), RateCell(speed, "FLOP/s"), ShareCell(is_of_host ? speed / peaks->flops : kNone),
           RateCell(traffic, "B/s"), ShareCell(is_of_host ? traffic / peaks->memory_bytes : kNone)});
      if (is_of_host) points.push_back({absl::StrCat("point-", i), kernel.name, operations, bytes, ns, share});
    } else {
      cells.resize(10);
    }
    table.Row(cells, KernelId(i));
  }
  page.Heading("Kernels");
  if (peaks && !points.empty()) {
    page.Drawing(RooflineSvg(*peaks, points), "class=\"roofline\"");
    page.Note(absl::StrFormat(
        "Measured on this machine, %d thread%s: %s by fused multiply-adds of float32, %s from memory, %s from a cache. "
        "Bytes are those of arguments and results. Kernels whose tensors are in a cache exceed the roof of memory.",
        peaks->threads, peaks->threads == 1 ? "" : "s", RateText(peaks->flops, "FLOP/s"),
        RateText(peaks->memory_bytes, "B/s"), RateText(peaks->cache_bytes, "B/s")));
  }
  page.Add(table);
  Table code("what they compute", {{"kernel", false}, {"parameters", false}, {"results", false}, {"schedule", false}});
  for (const KernelDesc& kernel : executable.kernels) {
    code.Row({TextCell(kernel.name), TextCell(TensorsText(kernel.params)), TextCell(TensorsText(kernel.results)),
              TextCell(ScheduleText(executable, kernel))});
  }
  page.Add(code);
}

// ---- time

void AddParts(Page& page, const vm::Profile& profile) {
  std::vector<vm::TimePart> parts = vm::TimeParts(profile);
  double total = 0;
  for (const vm::TimePart& part : parts) total += part.ns;
  Table table("", {{"where the time goes", false}, {"time"}, {"share"}});
  for (const vm::TimePart& part : parts) {
    if (part.ns > 0) table.Row({TextCell(part.text), TimeCell(part.ns), ShareCell(part.ns / total)});
  }
  page.Add(table);
}

void AddFunctions(Page& page, const Subject& subject) {
  Table table("functions", {{"function", false}, {"itself"}, {"kernels"}, {"with all"}, {"calls"}, {"instructions"}});
  for (const vm::Profile::FunctionRow& row : subject.run->profile.functions) {
    table.Row({TextCell(absl::StrCat("@", subject.executable().functions[row.function.value].name)),
               TimeCell(row.self_ns), TimeCell(row.kernel_ns), TimeCell(row.inclusive_ns), CountCell(row.calls),
               CountCell(row.instructions)});
  }
  page.Add(table);
}

void AddInstructions(Page& page, const vm::Profile& profile) {
  Table table("instructions", {{"instruction", false}, {"time"}, {"executed"}, {"mean"}});
  for (const vm::Profile::OpcodeRow& row : profile.opcodes) {
    table.Row({TextCell(SpecOf(row.opcode).mnemonic), TimeCell(row.ns), CountCell(row.count),
               TimeCell(row.ns / static_cast<double>(row.count))});
  }
  page.Add(table);
}

// Returns the time line of the run.
TimeLine AddTime(Page& page, const Subject& subject) {
  page.Heading("Time");
  if (!subject.run) {
    page.Note(absl::StrCat("Not run: no values for @", subject.loaded.run.entry, " were given on the command line."));
    return {};
  }
  const WatchedRun& run = *subject.run;
  page.Note(absl::StrFormat("A run takes %s, and %s with the profiler, whose times these are (fastest of %d).",
                            DurationText(subject.run_ns()), DurationText(run.watched_ns), subject.loaded.run.repeat));
  AddParts(page, run.profile);
  TimeLine time_line = MakeTimeLine(subject.executable(), run.profile, run.trace, kMaxIntervals);
  page.TimeLine();
  if (time_line.is_cut) {
    page.Note(
        absl::StrCat("The time line has the first ", kMaxIntervals, " events; `relayvm profile --trace` has all."));
  }
  page.Drawing(FlameGraphSvg(FoldTrace(subject.executable(), run.trace)), "class=\"flame\"");
  if (run.dropped_trace_events > 0) {
    page.Note(absl::StrCat("The flame graph shows the first ", kTraceEvents, " events of the run."));
  }
  AddFunctions(page, subject);
  AddInstructions(page, run.profile);
  page.Details("The profile as text, with devices, shapes and memory",
               vm::ProfileTables(ReportOf(subject.loaded, run)));
  return time_line;
}

// ---- two programs

using Amounts = std::map<std::string, double>;

Amounts KernelTimes(const Subject& subject) {
  Amounts times;
  for (const vm::Profile::KernelRow& row : subject.run->profile.kernels) {
    times[subject.executable().kernels[row.kernel.value].name] += TimeOf(row);
  }
  return times;
}

Amounts FunctionTimes(const Subject& subject) {
  Amounts times;
  for (const vm::Profile::FunctionRow& row : subject.run->profile.functions) {
    times[absl::StrCat("@", subject.executable().functions[row.function.value].name)] += row.inclusive_ns;
  }
  return times;
}

Amounts PartTimes(const Subject& subject) {
  Amounts times;
  for (const vm::TimePart& part : vm::TimeParts(subject.run->profile)) {
    if (part.ns > 0) times[std::string(part.text)] = part.ns;
  }
  return times;
}

Amounts SectionBytes(const Subject& subject) {
  Amounts bytes;
  for (const SizeTable& table : FileSizes(subject.file, subject.executable())) {
    if (table.title != "sections") continue;
    for (const SizeTable::Row& row : table.rows) bytes[row.name] = static_cast<double>(row.bytes);
  }
  return bytes;
}

void AddBeside(Page& page, std::string title, Amounts before, Amounts now, Cell (*cell)(double)) {
  Table table(std::move(title), {{"", false}, {"old"}, {"new"}, {"new / old"}, {"difference"}});
  for (const auto& [name, amount] : now) before.try_emplace(name, kNone);
  for (const auto& [name, amount] : before) {
    double after = now.contains(name) ? now[name] : kNone;
    double difference = (std::isnan(after) ? 0 : after) - (std::isnan(amount) ? 0 : amount);
    Cell by = cell(std::abs(difference));
    by.text = absl::StrCat(difference < 0 ? "-" : "+", by.text);
    by.number = difference;
    table.Row({TextCell(name), cell(amount), cell(after), RatioCell(after, amount), by});
  }
  page.Add(table);
}

Cell BytesOrNone(double bytes) {
  return std::isnan(bytes) ? Cell{.text = "", .number = kNone} : BytesCell(static_cast<int64_t>(bytes));
}

void AddComparison(Page& page, const Subject& old_one, const Subject& subject) {
  page.Heading(absl::StrCat("Beside ", old_one.loaded.path));
  if (subject.run && old_one.run) {
    AddBeside(page, "the run", {{"the whole run, unwatched", old_one.run_ns()}},
              {{"the whole run, unwatched", subject.run_ns()}}, TimeCell);
    AddBeside(page, "where the time goes", PartTimes(old_one), PartTimes(subject), TimeCell);
    AddBeside(page, "kernels, by name", KernelTimes(old_one), KernelTimes(subject), TimeCell);
    AddBeside(page, "functions, with what they call", FunctionTimes(old_one), FunctionTimes(subject), TimeCell);
  }
  Amounts before = SectionBytes(old_one), now = SectionBytes(subject);
  if (subject.run && old_one.run) {
    before["most memory of the run"] = static_cast<double>(old_one.run->peak_bytes);
    now["most memory of the run"] = static_cast<double>(subject.run->peak_bytes);
  }
  AddBeside(page, "bytes", std::move(before), std::move(now), BytesOrNone);
}

// ---- the rest of the page

void AddSizes(Page& page, const SizeTable& sizes) {
  Table table(sizes.title, {{"", false}, {"bytes"}, {"share"}});
  auto row = [&](std::string_view name, int64_t bytes) {
    double share = sizes.bytes > 0 ? static_cast<double>(bytes) / static_cast<double>(sizes.bytes) : 0;
    table.Row({TextCell(name), CountCell(bytes), ShareCell(share)});
  };
  size_t shown = std::min(sizes.rows.size(), kMaxRows);
  for (size_t i = 0; i < shown; ++i) row(sizes.rows[i].name, sizes.rows[i].bytes);
  int64_t rest = 0;
  for (size_t i = shown; i < sizes.rows.size(); ++i) rest += sizes.rows[i].bytes;
  if (shown < sizes.rows.size()) row(absl::StrCat(sizes.rows.size() - shown, " more"), rest);
  page.Add(table);
}

// Returns the graph; without nodes, if it is not drawn.
absl::StatusOr<ProgramGraph> AddGraph(Page& page, const ProgramToRun& loaded) {
  page.Heading("Program");
  const Executable& executable = loaded.program->executable();
  std::string entry = executable.FindEntry(loaded.run.entry) != nullptr ? loaded.run.entry : "";
  RVM_ASSIGN_OR_RETURN(ProgramGraph graph, MakeProgramGraph(loaded.program->verified(), entry));
  if (graph.num_nodes > kMaxGraphNodes) {
    page.Note(
        absl::StrCat("Not drawn: the graph has ", graph.num_nodes, " nodes. `relayvm inspect --graph` draws it."));
    return ProgramGraph{};
  }
  absl::StatusOr<std::string> svg = DrawSvg(graph.dot);
  if (absl::IsFailedPrecondition(svg.status())) {
    page.Note("Not drawn: Graphviz's `dot` is not installed.");
    return ProgramGraph{};
  }
  RVM_RETURN_IF_ERROR(svg.status());
  page.Note("A click on a node shows its kernel and its place in the source. The wheel zooms with Ctrl.");
  page.Drawing(*svg, "class=\"wide\" id=\"graph\"");
  return graph;
}

// With the memory forecast, or why there is none.
void AddMemory(Page& page, const ProgramToRun& loaded, const std::vector<std::string>& dims) {
  page.Heading("Memory");
  absl::StatusOr<std::string> memory = MemoryText(loaded.program->verified(), dims, loaded.program->link_info().device);
  if (memory.ok()) {
    page.Preformatted(*memory);
  } else {
    page.Note(absl::StrCat("No forecast: ", memory.status().message()));
  }
}

// Returns the data of the script.
std::string DataOf(const Subject& subject, const ProgramGraph& graph, const TimeLine& time_line) {
  const Executable& executable = subject.executable();
  JsonWriter json;
  json.BeginObject().Key("kernels").BeginArray();
  for (size_t i = 0; i < executable.kernels.size(); ++i) {
    const KernelDesc& kernel = executable.kernels[i];
    const vm::Profile::KernelRow* row = subject.KernelRow(i);
    json.BeginObject().Field("name", kernel.name).Field("symbol", kernel.symbol);
    json.Field("params", TensorsText(kernel.params)).Field("results", TensorsText(kernel.results));
    json.Field("schedule", ScheduleText(executable, kernel));
    std::string time = row == nullptr ? "" : absl::StrCat(DurationText(TimeOf(*row)), " in ", row->calls, " calls");
    json.Field("time", time).EndObject();
  }
  json.EndArray().Key("nodes").BeginObject();
  for (const auto& [name, node] : graph.nodes) {
    json.Key(name).BeginObject().Field("function", absl::StrCat("@", node.function)).Field("place", node.place);
    json.Field("text", node.label);
    if (node.kernel) json.Field("kernel", int64_t{*node.kernel});
    json.EndObject();
  }
  json.EndObject();
  if (!time_line.intervals.empty()) {
    json.Key("timeline");
    time_line.Write(json);
  }
  json.EndObject();
  return std::move(json).Take();
}

std::string PagePath(const Options& options, const std::string& path) {
  if (options.Has("-o")) return options.Value("-o");
  size_t dot = path.rfind('.');
  size_t slash = path.rfind('/');
  bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  return absl::StrCat(path.substr(0, has_ending ? dot : path.size()), ".html");
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(WithProgramOptions(kOptions), args));
  RVM_ASSIGN_OR_RETURN(ProgramToRun loaded, LoadProgramToRun(options));
  RVM_ASSIGN_OR_RETURN(Subject subject, RunSubject(std::move(loaded)));
  const Executable& executable = subject.executable();
  Page page(subject.loaded.path);
  page.Preformatted(SummaryText(subject.file, executable, subject.loaded.path));
  if (options.Has("--against")) {
    ProgramToRun other = subject.loaded;
    other.path = options.Value("--against");
    RVM_ASSIGN_OR_RETURN(other.program, LoadProgram(other.path, options, other.run));
    RVM_ASSIGN_OR_RETURN(Subject old_one, RunSubject(std::move(other)));
    AddComparison(page, old_one, subject);
  }
  TimeLine time_line = AddTime(page, subject);
  std::optional<MachinePeaks> peaks;
  if (subject.run && !subject.run->profile.kernels.empty()) peaks = MeasurePeaks(subject.loaded.run.machine.threads);
  AddKernels(page, subject, peaks);
  RVM_ASSIGN_OR_RETURN(ProgramGraph graph, AddGraph(page, subject.loaded));
  AddMemory(page, subject.loaded, options.Values("--dims"));
  page.Heading("Sizes");
  for (const SizeTable& table : FileSizes(subject.file, executable)) AddSizes(page, table);
  std::string path = PagePath(options, subject.loaded.path);
  RVM_RETURN_IF_ERROR(ReplaceFile(path, page.Finish(DataOf(subject, graph, time_line))));
  std::cout << path << '\n';
  return absl::OkStatus();
}

}  // namespace

const Verb kReportVerb = {
    .name = "report",
    .summary = "write everything about a program to one HTML page",
    .usage = "FILE.rvm|FILE.relay|" RVM_MODEL_FILES " [-o FILE.html] [options] [VALUE...]",
    .options = kOptions,
    .more = R"(
The page has signatures, sizes, kernels with their schedules, the memory forecast and the graph of the program. If
values for the entry are given, it has the profile of a run, too: a time line and a flame graph that zoom, and each
kernel beside the limits of this machine, which are measured (a roofline). Tables sort by a click on a heading, and
search. A click on a node of the graph shows its kernel and its place in the source. The page needs no network. The graph
is drawn by Graphviz, if its `dot` is installed.

Examples:
  relayvm report model.rvm --dims n=128
  relayvm report model.rvm -o report.html --repeat 20 @x.npy
  relayvm report new.rvm --against old.rvm --repeat 20 @x.npy
)",
    .run = Run,
    .runs_program = true,
};

}  // namespace rvm::tools
