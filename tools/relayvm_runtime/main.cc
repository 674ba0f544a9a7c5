// relayvm-run: runs compiled executables. Contains neither compiler nor LLVM.
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "tools/arguments.h"
#include "tools/last_resort.h"
#include "tools/options.h"
#include "tools/run_command.h"
#include "vm/machine.h"

namespace {

constexpr std::string_view kUsage = R"(relayvm-run: run a compiled Relay program

  relayvm-run MODEL.rvm [options] VALUE...

Prints the value of the program's entry on these arguments.

A native executable holds machine code for one target or more, of which the best that this CPU supports runs; a
portable one holds none and runs on any machine. `relayvm inspect MODEL.rvm` shows class, targets and sections.

)";

constexpr std::string_view kExamples = R"(
Examples:
  relayvm-run fib.rvm 20
  relayvm-run mnist.rvm @image.npy --out scores.npy --repeat 100
  relayvm-run lists.rvm --entry sum '[1, 2, 3]'
  relayvm-run g2p.rvm --args words.txt

Exit status: 0, or 1 with a message on standard error.
)";

absl::Status Run(const std::vector<std::string>& args) {
  RVM_ASSIGN_OR_RETURN(rvm::tools::Options options, rvm::tools::ParseOptions(rvm::tools::RunOptionSpecs(), args));
  RVM_ASSIGN_OR_RETURN(rvm::tools::RunOptions run, rvm::tools::ReadRunOptions(options));
  if (options.positional().empty()) return absl::InvalidArgumentError("no executable given; --help says how");
  const std::string& path = options.positional()[0];
  if (path.ends_with(".relay")) {
    return absl::InvalidArgumentError("`" + path + "` is a program; `relayvm compile` makes an executable of it");
  }
  RVM_ASSIGN_OR_RETURN(auto program, rvm::vm::Program::LoadFile(path, run.load));
  return rvm::tools::RunProgram(std::move(program), run, std::cout);
}

}  // namespace

int main(int argc, char** argv) {
  rvm::tools::InstallLastResort("relayvm-run");
  std::vector<std::string> args(argv + 1, argv + argc);
  for (const std::string& arg : args) {
    if (arg == "--") break;
    if (arg == "--help" || arg == "-h") {
      std::cout << kUsage << rvm::tools::OptionsHelp(rvm::tools::RunOptionSpecs()) << rvm::tools::ValuesHelp()
                << kExamples;
      return 0;
    }
    if (arg == "--version") {
      std::cout << "relayvm-run " << rvm::kVersion << '\n';
      return 0;
    }
  }
  absl::Status status = Run(args);
  std::cout.flush();
  if (status.ok() && !std::cout) status = absl::UnavailableError("cannot write to standard output");
  if (status.ok()) return 0;
  std::cerr << "relayvm-run: error: " << std::string(status.message()) << '\n';
  return 1;
}
