// relayvm-run: runs compiled executables, and can do nothing else: no compiler, no LLVM.
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "tools/run_command.h"
#include "vm/machine.h"

namespace {

constexpr std::string_view kUsage = R"(relayvm-run: run a compiled Relay program

  relayvm-run MODEL.rvm [flags] VALUE...

Prints the value of the program's entry on these arguments.

)";

constexpr std::string_view kExamples = R"(
Examples:
  relayvm-run fib.rvm 20
  relayvm-run mnist.rvm @image.npy --out scores.npy --repeat 100
  relayvm-run lists.rvm --entry sum '[1, 2, 3]'

Exit status: 0, or 1 with a message on standard error.
)";

absl::Status Run(const std::vector<std::string>& args) {
  std::vector<std::string> rest;
  absl::StatusOr<rvm::tools::RunOptions> options = rvm::tools::ParseRunOptions(args, rest);
  if (!options.ok()) return options.status();
  if (rest.empty()) return absl::InvalidArgumentError("no executable given; --help says how");
  auto program = rvm::vm::Program::LoadFile(rest[0], options->load);
  if (!program.ok()) return program.status();
  options->args.assign(rest.begin() + 1, rest.end());
  return rvm::tools::RunProgram(*program, *options, std::cout);
}

// Where the tables of an executable, arguments or a message find no memory: what they hold so far cannot be
// told apart from garbage, so this ends the process without looking at anything.
void StopOutOfMemory() {
  constexpr char kMessage[] = "relayvm-run: error: out of memory\n";
  if (write(STDERR_FILENO, kMessage, std::strlen(kMessage)) < 0) _exit(2);
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(StopOutOfMemory);
  std::vector<std::string> args(argv + 1, argv + argc);
  for (const std::string& arg : args) {
    if (arg == "--") break;
    if (arg == "--help" || arg == "-h") {
      std::cout << kUsage << rvm::tools::RunOptionsHelp() << kExamples;
      return 0;
    }
  }
  absl::Status status = Run(args);
  if (status.ok()) return 0;
  std::cerr << "relayvm-run: error: " << std::string(status.message()) << '\n';
  return 1;
}
