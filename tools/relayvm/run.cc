// relayvm run: an executable, or a program compiled on the spot.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/verb.h"
#include "tools/run_command.h"

namespace rvm::tools {
namespace {

// Those of running are in run_command.cc; its help is shown behind these.
constexpr OptionSpec kOptions[] = {kParamsOption, kLevelOption, kTargetOption};

absl::StatusOr<std::shared_ptr<const vm::Program>> Load(const std::string& path, const Options& options,
                                                        const RunOptions& run) {
  vm::LoadOptions load = run.load;
  if (!path.ends_with(".relay")) {
    for (const OptionSpec& option : kOptions) {
      if (!options.Has(option.name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("`", std::string(option.name), "` is for compiling; `", path, "` is compiled already"));
    }
    return vm::Program::LoadFile(path, load);
  }
  RVM_ASSIGN_OR_RETURN(driver::CompileOptions compile, ReadCompileOptions(options));
  compile.entries = {run.entry};
  RVM_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Read(path));
  absl::StatusOr<driver::CompiledProgram> program = driver::Compile(file.id(), file.diagnostics(), compile);
  RVM_RETURN_IF_ERROR(file.Report(program.status()));
  load.allow_native = true;  // we made it
  return vm::Program::Link(program->executable, load);
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args, /*keep_unknown=*/true));
  std::vector<std::string> rest;
  RVM_ASSIGN_OR_RETURN(RunOptions run, ParseRunOptions(options.positional(), rest));
  if (rest.empty()) return absl::InvalidArgumentError("no file given; expected a .rvm or .relay file");
  run.args.assign(rest.begin() + 1, rest.end());
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const vm::Program> program, Load(rest[0], options, run));
  return RunProgram(std::move(program), run, std::cout);
}

}  // namespace

const Verb kRunVerb = {
    .name = "run",
    .summary = "run an executable or a program",
    .usage = "FILE.rvm|FILE.relay [options] VALUE...",
    .options = kOptions,
    .more = R"(
Examples:
  relayvm run fib.relay 20
  relayvm run model.rvm @image.npy --out scores.npy
)",
    .run = Run,
    .more_options = RunOptionsHelp,
};

}  // namespace rvm::tools
