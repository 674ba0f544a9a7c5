// relayvm compile: from a program to an executable file.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "compiler/passes/rewriter.h"
#include "compiler/text/printer.h"
#include "devices/plugin/accelerator_library.h"
#include "serialization/encoder.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/import.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/verb.h"
#include "tools/run_command.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"-o", "FILE.rvm", "where the executable goes (the source's name with .rvm)"},
    kParamsOption,
    kImportOption,
    kFreezeOption,
    kShapeOption,
    kSignatureOption,
    kCacheDTypeOption,
    kActivationDTypeOption,
    kLevelOption,
    kTargetOption,
    kCompileDeviceOption,
    kDeviceLibraryOption,
    kHostFallbackOption,
    kControlOption,
    kBatchOption,
    {"--entry", "NAME", "a function callable from outside (main, and functions that nothing calls); may be repeated"},
    {"--print-after", "PASS", "print the program after a pass, or after each: `all`"},
    {"--print-types", "", "with --print-after: declare every variable with its type"},
    kWithPassOption,
    kWithoutPassOption,
    {"--verify-passes", "", "check the program after each pass, to find bugs of the compiler"},
    {"--print-llvm", "", "print the LLVM IR of kernels and functions, not yet optimised"},
    {"--print-assembly", "", "print the assembly of kernels and functions"},
    {"--verbose", "",
     "say what was made, which weights were not used, which loops -O3 could not unroll, and how long each pass took"},
};

// The names of the passes that `fits` returns true for, each once, in the pipeline's order.
std::vector<std::string> PassNames(absl::FunctionRef<bool(const passes::Pass&)> fits) {
  std::vector<std::string> names;
  for (const passes::Step& step : passes::Pipeline()) {
    bool is_new = std::find(names.begin(), names.end(), step.pass.name) == names.end();
    if (is_new && fits(step.pass)) names.emplace_back(step.pass.name);
  }
  return names;
}

absl::Status CheckMayBeLeftOut(std::string_view name) {
  RVM_RETURN_IF_ERROR(CheckPassName(name));
  if (!passes::IsRequired(*passes::FindPass(name))) return absl::OkStatus();
  std::vector<std::string> optional = PassNames([](const passes::Pass& pass) { return !IsRequired(pass); });
  return absl::InvalidArgumentError(
      absl::StrCat("the pass `", Abseil(name), "` runs at every level, because what follows relies on it; those that ",
                   "may be left out are ", absl::StrJoin(optional, " ")));
}

absl::Status ObservePasses(const Options& options, driver::CompileOptions& compile) {
  std::vector<std::string> wanted = options.Values("--print-after");
  for (const std::string& name : wanted) {
    if (name != "all") RVM_RETURN_IF_ERROR(CheckPassName(name));
  }
  compile.verify_passes = options.Has("--verify-passes");
  if (wanted.empty()) return absl::OkStatus();
  bool shows_types = options.Has("--print-types");
  compile.observer = [wanted, shows_types](const passes::Pass& pass, const ir::Module& module) {
    for (const std::string& name : wanted) {
      if (name != "all" && name != pass.name) continue;
      std::cout << "// after " << pass.name << '\n'
                << text::PrintModule(shows_types ? passes::WithTypesShown(module) : module) << '\n';
      return;
    }
  };
  return absl::OkStatus();
}

// A line for each pass, in the order of their first runs, and for the whole compilation.
void DescribeTimes(const driver::CompiledProgram& program, std::chrono::nanoseconds total) {
  auto print = [](std::string_view what, std::chrono::nanoseconds time) {
    std::cerr << absl::StrFormat("%-44s %9.2f ms\n", what, std::chrono::duration<double, std::milli>(time).count());
  };
  std::chrono::nanoseconds passes{0};
  for (const passes::PassTime& entry : program.pass_times) {
    std::string runs = entry.runs == 1 ? "" : absl::StrCat(", ", entry.runs, " runs");
    print(absl::StrCat("pass ", Abseil(entry.pass->name), runs), entry.time);
    passes += entry.time;
  }
  print("all passes", passes);
  print("the whole compilation, with kernels", total);
}

void Describe(const driver::CompiledProgram& program, const std::string& output, uint64_t bytes) {
  const Executable& executable = **program.executable;
  std::cerr << output << ": " << bytes << " bytes, " << executable.entries.size() << " entries, "
            << executable.functions.size() << " functions, " << executable.kernels.size() << " kernels, "
            << executable.constants.size() << " constants\n";
  for (const DeviceCode& code : executable.device_codes) {
    std::cerr << code.target << ": " << code.kernels.size() << " of " << executable.kernels.size() << " kernels\n";
  }
  for (const auto& [key, value] : executable.metadata) {
    if (key.starts_with("device.")) std::cerr << key << ": " << value << '\n';
  }
  for (const std::string& name : program.weights.unused) std::cerr << "not used: tensor `" << name << "`\n";
}

// Notes the passes of `--print-after` that did not run, so that nothing was printed after them.
void NotePassesThatDidNotRun(const Options& options, const driver::CompiledProgram& program) {
  for (const std::string& name : options.Values("--print-after")) {
    bool ran = std::any_of(program.pass_times.begin(), program.pass_times.end(),
                           [&](const passes::PassTime& entry) { return entry.pass->name == name; });
    if (ran || name == "all") continue;
    std::cerr << "relayvm: note: the pass `" << name << "` did not run at this level; `--with-pass " << name
              << "` runs it\n";
  }
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, kProgramFiles));
  RVM_ASSIGN_OR_RETURN(driver::CompileOptions compile, ReadCompileOptions(options));
  compile.entries = options.Values("--entry");
  compile.keep_ir = options.Has("--print-llvm") || options.Has("--print-assembly");
  if (compile.keep_ir && compile.target == "portable") {
    return absl::InvalidArgumentError(
        "a portable executable has no machine code to print; `inspect` shows its recipes");
  }
  RVM_RETURN_IF_ERROR(ObservePasses(options, compile));
  RVM_ASSIGN_OR_RETURN(ProgramFile file, ReadProgram(path, options, compile));
  if (options.Has("--verbose")) file.file.diagnostics().KeepRemarks();
  const std::vector<std::string> params_files = compile.params_files;
  auto begin = std::chrono::steady_clock::now();
  RVM_ASSIGN_OR_RETURN(driver::CompiledProgram program, CompileProgram(std::move(file), std::move(compile)));
  std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begin;
  NotePassesThatDidNotRun(options, program);
  ShowWeights(program.weights, params_files);
  if (options.Has("--print-llvm")) std::cout << program.llvm_ir;
  if (options.Has("--print-assembly")) std::cout << program.assembly;
  std::string output = options.Value("-o", absl::StrCat(ProgramStem(path), ".rvm"));
  RVM_ASSIGN_OR_RETURN(uint64_t bytes, EncodeFile(**program.executable, output));
  if (options.Has("--verbose")) {
    Describe(program, output, bytes);
    DescribeTimes(program, time);
  }
  return absl::OkStatus();
}

// "%a, %b and 3 more"
std::string ListVars(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string list;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) absl::StrAppend(&list, i == 0 ? "%" : ", %", names[i]);
  if (names.size() > kShown) absl::StrAppend(&list, " and ", names.size() - kShown, " more");
  return list;
}

}  // namespace

absl::Status CheckPassName(std::string_view name) {
  if (passes::FindPass(name) != nullptr) return absl::OkStatus();
  std::vector<std::string> names = PassNames([](const passes::Pass&) { return true; });
  std::string near = DidYouMean(name, std::vector<std::string_view>(names.begin(), names.end()));
  return absl::InvalidArgumentError(
      absl::StrCat("there is no pass `", Abseil(name), "`",
                   near.empty() ? absl::StrCat("; the passes are ", absl::StrJoin(names, " ")) : near));
}

void ShowWeights(const driver::BoundWeights& weights, std::span<const std::string> params_files) {
  if (weights.main_is_called) {
    std::cerr << "relayvm: note: `@main` is called by the program itself, so its parameters stay arguments\n";
  } else if (!weights.bound.empty()) {
    std::cerr << "relayvm: note: bound " << ListVars(weights.bound) << " of `@main`; "
              << (weights.arguments.empty() ? "no parameters are left"
                                            : absl::StrCat("left as arguments: ", ListVars(weights.arguments)))
              << '\n';
  } else if (!params_files.empty() && !weights.any_used) {
    std::cerr << "relayvm: note: no tensor of " << params_files[0] << (params_files.size() > 1 ? " and the others" : "")
              << " is named like a free variable or a parameter of `@main`"
              << (weights.declaration.empty() ? "" : absl::StrCat("; `", weights.declaration, "` declares one"))
              << '\n';
  }
}

absl::StatusOr<driver::CompileOptions> ReadCompileOptions(const Options& options) {
  driver::CompileOptions compile;
  compile.params_files = options.Values("--params");
  compile.target = options.Value("--target", "host");
  std::string level = options.Value("-O", "2");
  if (level.size() != 1 || level[0] < '0' || level[0] > '3') {
    return absl::InvalidArgumentError(absl::StrCat("saw `-O", level, "`; expected -O0, -O1, -O2 or -O3"));
  }
  compile.opt_level = level[0] - '0';
  RVM_ASSIGN_OR_RETURN(std::optional<bool> wants_native, WantsNative(options));
  compile.native_control = wants_native;
  for (const std::string& path : options.Values("--device-library")) {
    RVM_RETURN_IF_ERROR(device::OpenAcceleratorLibrary(path));
  }
  compile.devices = options.Values("--device");
  compile.host_fallback = options.Has("--host-fallback");
  compile.batch = options.Has("--batch");
  compile.extra_passes = options.Values("--with-pass");
  for (const std::string& name : compile.extra_passes) RVM_RETURN_IF_ERROR(CheckPassName(name));
  compile.left_out_passes = options.Values("--without-pass");
  for (const std::string& name : compile.left_out_passes) {
    RVM_RETURN_IF_ERROR(CheckMayBeLeftOut(name));
    const std::vector<std::string>& extra = compile.extra_passes;
    if (std::find(extra.begin(), extra.end(), name) == extra.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("`--with-pass ", name, "` and `--without-pass ", name, "` are given; expected one of them"));
  }
  return compile;
}

const Verb kCompileVerb = {
    .name = "compile",
    .summary = "compile a program to an executable file",
    .usage = "FILE.relay|" RVM_MODEL_FILES "|FILE.json [-o FILE.rvm] [options]",
    .options = kOptions,
    .more = R"(
The file holds everything: bytecode, weights, and machine code of the kernels for the target CPU (a native executable).
`relayvm-run` runs it without compiler and LLVM. With several targets, between commas, it holds code for each, and the
best that the CPU supports runs; they share one schedule, that of the narrowest vectors. With `--target portable` it
holds recipes instead of machine code: slower, but it runs on any machine, and is safe to load whoever made it.
A .json file is a module as the predecessor's `save_json` writes it, a .params file what its `save_param_dict` writes.

Examples:
  relayvm compile model.relay --params weights.npz -o model.rvm
  relayvm compile model.json --params model.params
  relayvm compile model.relay -O3 --target x86-64-v3 --entry encode --entry decode
  relayvm compile model.relay --target portable
  relayvm compile model.relay --device opencl
  relayvm compile model.relay --device host:take,opencl
  relayvm compile model.relay --target x86-64,x86-64-v3,x86-64-v4
  relayvm compile model.relay --print-after fuse_ops
)",
    .run = Run,
};

}  // namespace rvm::tools
