// relayvm inspect: the contents of an executable file.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/decoder.h"
#include "serialization/disassembler.h"
#include "serialization/verifier.h"
#include "tools/relayvm/executable_text.h"
#include "tools/relayvm/file_sizes.h"
#include "tools/relayvm/foreseen_devices.h"
#include "tools/relayvm/memory_text.h"
#include "tools/relayvm/page/machine_peaks.h"
#include "tools/relayvm/program_graph.h"
#include "tools/relayvm/traffic_text.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--kernels", "", "list the kernels: symbols, shapes, checks, schedules"},
    {"--constants", "", "list the constants: types and sizes"},
    {"--sizes", "", "show where the bytes go: sections, functions, constants, kernels"},
    {"--code", "", "print everything as assembly, long constants cut"},
    {"--full", "", "print everything as assembly that reads back (implies --code)"},
    {"--memory", "", "foresee the memory that the entries take when they run"},
    {"--dims", "NAME=EXTENT,...", "extents that types leave open, for --memory: n=128 or, by axis, x.0=128"},
    {"--device", "NAME", "for --memory: the devices that are there (all that the file has code for): opencl, host"},
    {"--traffic", "",
     "show the bytes of weights that a call reads, and their time at the read bandwidth of this machine"},
    {"--graph", "FILE", "draw the program as a graph into FILE.svg, with Graphviz, or write its FILE.dot"},
    {"--entry", "NAME", "for --graph: only what this entry calls"},
    {"--check", "", "also compare the checksum of the constants"},
};

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, "a .rvm file"));
  RVM_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
  absl::StatusOr<Executable> decoded =
      Decode(file.bytes, {.owner = file.owner, .check_constants = options.Has("--check")});
  if (!decoded.ok()) return absl::Status(decoded.status().code(), absl::StrCat(path, ": ", decoded.status().message()));
  absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> verified = Verify(*std::move(decoded));
  if (!verified.ok())
    return absl::Status(verified.status().code(), absl::StrCat(path, ": ", verified.status().message()));
  const Executable& executable = ***verified;
  if (options.Has("--code") || options.Has("--full")) {
    DisassembleOptions disassemble;
    disassemble.full = options.Has("--full");
    std::cout << Disassemble(executable, disassemble);
    return absl::OkStatus();
  }
  if (options.Has("--graph")) {
    RVM_ASSIGN_OR_RETURN(ProgramGraph graph, MakeProgramGraph(**verified, options.Value("--entry")));
    return WriteGraph(graph, options.Value("--graph"));
  }
  std::cout << SummaryText(file.bytes, executable, path);
  if (options.Has("--kernels")) std::cout << KernelsText(executable);
  if (options.Has("--constants")) std::cout << ConstantsText(executable);
  if (options.Has("--sizes")) std::cout << FileSizesText(file.bytes, executable);
  if (options.Has("--traffic")) std::cout << TrafficText(executable, MeasurePeaks(1).memory_bytes);
  if (options.Has("--memory")) {
    RVM_ASSIGN_OR_RETURN(std::unique_ptr<const vm::DeviceProgram> devices,
                         ForeseeDevices(executable, absl::StrJoin(options.Values("--device"), ",")));
    RVM_ASSIGN_OR_RETURN(std::string memory, MemoryText(**verified, options.Values("--dims"), devices.get()));
    std::cout << memory;
  }
  return absl::OkStatus();
}

}  // namespace

const Verb kInspectVerb = {
    .name = "inspect",
    .summary = "show what is in an executable file",
    .usage = "FILE.rvm [options]",
    .options = kOptions,
    .more = R"(
Verifies the file; runs nothing of it.

Examples:
  relayvm inspect model.rvm --kernels
  relayvm inspect model.rvm --code
  relayvm inspect model.rvm --sizes
  relayvm inspect model.rvm --memory --dims n=128
  relayvm inspect step.rvm --traffic
  relayvm inspect model.rvm --graph model.svg
)",
    .run = Run,
};

}  // namespace rvm::tools
