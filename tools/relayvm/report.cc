// relayvm report: everything about an executable on one HTML page.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/abseil.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "serialization/decoder.h"
#include "serialization/encoder.h"
#include "tools/flame_graph.h"
#include "tools/markup.h"
#include "tools/relayvm/executable_text.h"
#include "tools/relayvm/file_sizes.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/memory_text.h"
#include "tools/relayvm/program_graph.h"
#include "tools/relayvm/verb.h"
#include "tools/relayvm/watched_run.h"
#include "vm/link_info.h"
#include "vm/profiler/profile_report.h"

namespace rvm::tools {
namespace {

constexpr size_t kMaxRows = 200;             // of a table; the rest is one row
constexpr size_t kMaxGraphNodes = 1500;      // Graphviz takes minutes for larger ones
constexpr int64_t kTraceEvents = 1'000'000;  // of the flame graph

constexpr OptionSpec kOptions[] = {
    {"-o", "FILE.html", "the page (FILE with the ending .html)"},
    {"--dims", "NAME=EXTENT,...", "extents that types leave open, for the memory: n=128 or, by axis, x.0=128"},
};

constexpr std::string_view kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1240px; padding: 0 1em; color: #212529; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #dee2e6; }
pre { background: #f8f9fa; padding: 0.8em; overflow-x: auto; font-size: 12px; line-height: 1.4; }
table { border-collapse: collapse; font-size: 13px; margin: 0.5em 0 1.2em; }
th, td { text-align: left; padding: 0.15em 0.8em 0.15em 0; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { font-family: monospace; } .bar { background: #9ec5fe; height: 0.8em; display: block; }
.wide { overflow-x: auto; } .note { color: #6c757d; }
)";

class Page {
 public:
  explicit Page(const std::string& title) : html_(PageHead(title, kStyle)) {}
  void Heading(std::string_view text) { absl::StrAppend(&html_, "<h2>", EscapeMarkup(text), "</h2>\n"); }
  void Preformatted(std::string_view text) { absl::StrAppend(&html_, "<pre>", EscapeMarkup(text), "</pre>\n"); }
  void Note(std::string_view text) { absl::StrAppend(&html_, "<p class=\"note\">", EscapeMarkup(text), "</p>\n"); }
  // A drawing, with what stands before its root element cut off.
  void Drawing(std::string_view svg) {
    size_t root = svg.find("<svg");
    if (root == std::string_view::npos) return;
    absl::StrAppend(&html_, "<div class=\"wide\">", Abseil(svg.substr(root)), "</div>\n");
  }
  void Raw(std::string_view html) { absl::StrAppend(&html_, Abseil(html)); }
  std::string Finish() { return html_ + "</body>\n</html>\n"; }

 private:
  std::string html_;
};

void AddSizes(Page& page, const SizeTable& table) {
  std::string html = absl::StrCat("<table><tr><th colspan=\"4\">", EscapeMarkup(table.title), "</th></tr>\n");
  auto row = [&](std::string_view name, int64_t bytes) {
    double share = table.bytes > 0 ? 100.0 * static_cast<double>(bytes) / static_cast<double>(table.bytes) : 0;
    absl::StrAppendFormat(&html,
                          "<tr><td class=\"number\">%d</td><td class=\"number\">%.1f%%</td><td><span class=\"bar\" "
                          "style=\"width:%.0fpx\"></span></td><td class=\"name\">%s</td></tr>\n",
                          bytes, share, 2 * share, EscapeMarkup(name));
  };
  size_t shown = std::min(table.rows.size(), kMaxRows);
  for (size_t i = 0; i < shown; ++i) row(table.rows[i].name, table.rows[i].bytes);
  int64_t rest = 0;
  for (size_t i = shown; i < table.rows.size(); ++i) rest += table.rows[i].bytes;
  if (shown < table.rows.size()) row(absl::StrCat(table.rows.size() - shown, " more"), rest);
  page.Raw(html + "</table>\n");
}

void AddKernels(Page& page, const Executable& executable) {
  std::string html = "<table><tr><th>kernel</th><th>parameters</th><th>results</th><th>schedule</th></tr>\n";
  for (const KernelDesc& kernel : executable.kernels) {
    absl::StrAppend(&html, "<tr><td class=\"name\">", EscapeMarkup(kernel.name), "</td><td>",
                    EscapeMarkup(TensorsText(kernel.params)), "</td><td>", EscapeMarkup(TensorsText(kernel.results)),
                    "</td><td>", EscapeMarkup(ScheduleText(executable, kernel)), "</td></tr>\n");
  }
  page.Raw(html + "</table>\n");
}

// Whether the command line gives what the entry takes; `report` runs nothing otherwise.
bool HasArguments(const ProgramToRun& loaded) {
  if (!loaded.run.args.values.empty() || !loaded.run.args.file.empty()) return true;
  const Entry* entry = loaded.program->executable().FindEntry(loaded.run.entry);
  return entry != nullptr && loaded.program->executable().functions[entry->function.value].num_params == 0;
}

absl::Status AddProfile(Page& page, const ProgramToRun& loaded) {
  page.Heading("Time");
  if (!HasArguments(loaded)) {
    page.Note(absl::StrCat("Not run: no values for @", loaded.run.entry, " were given on the command line."));
    return absl::OkStatus();
  }
  RVM_ASSIGN_OR_RETURN(WatchedRun watched, RunWatched(loaded, kTraceEvents));
  page.Drawing(FlameGraphSvg(FoldTrace(loaded.program->executable(), watched.trace)));
  if (watched.dropped_trace_events > 0) {
    page.Note(absl::StrCat("The graph shows the first ", kTraceEvents, " events of the run."));
  }
  page.Preformatted(vm::ProfileTables(ReportOf(loaded, watched)));
  return absl::OkStatus();
}

absl::Status AddGraph(Page& page, const ProgramToRun& loaded) {
  page.Heading("Program");
  const Executable& executable = loaded.program->executable();
  std::string entry = executable.FindEntry(loaded.run.entry) != nullptr ? loaded.run.entry : "";
  RVM_ASSIGN_OR_RETURN(ProgramGraph graph, MakeProgramGraph(loaded.program->verified(), entry));
  if (graph.num_nodes > kMaxGraphNodes) {
    page.Note(
        absl::StrCat("Not drawn: the graph has ", graph.num_nodes, " nodes. `relayvm inspect --graph` draws it."));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> svg = DrawSvg(graph.dot);
  if (absl::IsFailedPrecondition(svg.status())) {
    page.Note("Not drawn: Graphviz's `dot` is not installed.");
    return absl::OkStatus();
  }
  RVM_RETURN_IF_ERROR(svg.status());
  page.Drawing(*svg);
  return absl::OkStatus();
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
  const Executable& executable = loaded.program->executable();
  std::vector<uint8_t> file = Encode(executable);
  Page page(loaded.path);
  page.Preformatted(SummaryText(file, executable, loaded.path));
  RVM_RETURN_IF_ERROR(AddProfile(page, loaded));
  AddMemory(page, loaded, options.Values("--dims"));
  page.Heading("Sizes");
  for (const SizeTable& table : FileSizes(file, executable)) AddSizes(page, table);
  page.Heading("Kernels");
  AddKernels(page, executable);
  RVM_RETURN_IF_ERROR(AddGraph(page, loaded));
  std::string path = PagePath(options, loaded.path);
  RVM_RETURN_IF_ERROR(ReplaceFile(path, page.Finish()));
  std::cout << path << '\n';
  return absl::OkStatus();
}

}  // namespace

const Verb kReportVerb = {
    .name = "report",
    .summary = "write everything about a program to one HTML page",
    .usage = "FILE.rvm|FILE.relay|FILE.onnx|FILE.pt2|FILE.tflite|FILE.gguf|FOLDER [-o FILE.html] [options] [VALUE...]",
    .options = kOptions,
    .more = R"(
The page has signatures, sizes, kernels with their schedules, the memory forecast and the graph of the program, and,
if values for the entry are given, the profile of a run with a flame graph. It needs no network and no script. The
graph is drawn by Graphviz, if its `dot` is installed.

Examples:
  relayvm report model.rvm --dims n=128
  relayvm report model.rvm -o report.html --repeat 20 @x.npy
)",
    .run = Run,
    .runs_program = true,
};

}  // namespace rvm::tools
