#include "tools/relayvm/load_program.h"

#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/import.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kCompileOptions[] = {
    kParamsOption,          kImportOption, kFreezeOption, kShapeOption, kSignatureOption, kCacheDTypeOption,
    kActivationDTypeOption, kLevelOption,  kTargetOption, kBatchOption, kWithPassOption,  kWithoutPassOption};

}  // namespace

absl::StatusOr<std::shared_ptr<const vm::Program>> LoadProgram(const std::string& path, const Options& options,
                                                               const RunOptions& run) {
  vm::LoadOptions load = run.load;
  if (!path.ends_with(".relay") && !path.ends_with(".json") && !importing::IsModelPath(path)) {
    for (const OptionSpec& option : kCompileOptions) {
      if (!options.Has(option.name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("`", std::string(option.name), "` is for compiling; `", path, "` is compiled already"));
    }
    return vm::Program::LoadFile(path, load);
  }
  RVM_ASSIGN_OR_RETURN(driver::CompileOptions compile, ReadCompileOptions(options));
  compile.entries = {run.entry};
  RVM_ASSIGN_OR_RETURN(ProgramFile file, ReadProgram(path, options, compile));
  const std::vector<std::string> params_files = compile.params_files;
  RVM_ASSIGN_OR_RETURN(driver::CompiledProgram program, CompileProgram(std::move(file), std::move(compile)));
  ShowWeights(program.weights, params_files);
  load.allow_native = true;  // we made it
  return vm::Program::Link(program.executable, load);
}

std::vector<OptionSpec> WithProgramOptions(std::span<const OptionSpec> own) {
  return JoinOptions(JoinOptions(own, kCompileOptions), RunOptionSpecs());
}

absl::StatusOr<ProgramToRun> LoadProgramToRun(const Options& options) {
  ProgramToRun result;
  RVM_ASSIGN_OR_RETURN(result.run, ReadRunOptions(options));
  if (options.positional().empty()) {
    return absl::InvalidArgumentError("no file given; expected a .rvm, .relay, " RVM_MODEL_ENDINGS
                                      ", .gguf or .json file");
  }
  result.path = options.positional()[0];
  RVM_ASSIGN_OR_RETURN(result.program, LoadProgram(result.path, options, result.run));
  return result;
}

}  // namespace rvm::tools
