#include "compiler/driver/compile.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/dim_postfix.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "compiler/bytecode/emit_program.h"
#include "compiler/driver/check_tensors.h"
#include "compiler/driver/constant_packing.h"
#include "compiler/driver/device_code.h"
#include "compiler/driver/program_files.h"
#include "compiler/lowering/kernel_recipe.h"
#include "compiler/passes/differentiate/has_transforms.h"
#include "compiler/passes/placement/device_rules.h"
#include "compiler/text/parser.h"
#include "compiler/typing/infer_type.h"
#include "devices/device_kinds.h"
#include "kernels/abi/kernel_abi.h"
#include "kernels/codegen/kernel_compiler.h"
#include "kernels/te/operations.h"
#include "native/control_compiler.h"
#include "serialization/device_contract.h"
#include "serialization/limits.h"

namespace rvm::driver {
namespace {

absl::StatusOr<std::vector<std::string>> ChooseEntries(const ir::Module& module, const std::vector<std::string>& wanted,
                                                       diagnostics::Diagnostics& diagnostics) {
  using diagnostics::DiagnosticKind;
  if (wanted.empty()) {
    std::vector<std::string> entries = DefaultEntries(module);
    if (entries.empty()) {
      diagnostics.Error({}, DiagnosticKind::kNoEntry,
                        "the program has no function to call; expected a `def @main` without type parameters");
    }
    RVM_RETURN_IF_ERROR(diagnostics.ToStatus());
    return entries;
  }
  std::vector<std::string_view> names;
  for (const ir::GlobalFunction& global : module.functions) names.push_back(global.name);
  for (const std::string& entry : wanted) {
    const ir::GlobalFunction* global = module.FindFunction(entry);
    if (global == nullptr) {
      diagnostics.Error({}, DiagnosticKind::kEntryNotFound,
                        absl::StrCat("the program has no function `@", entry, "`", DidYouMean(entry, names, "@")));
    } else if (const ir::TypeParam* open = OpenTypeParam(*global->function)) {
      diagnostics
          .Error(global->span, DiagnosticKind::kPolymorphicEntry,
                 absl::StrCat("entry `@", entry, "` has the type parameter `", open->name,
                              "`; expected a function of known types: define one that calls it"))
          .AddNote(open->span, "the type parameter is declared here");
    }
  }
  RVM_RETURN_IF_ERROR(diagnostics.ToStatus());
  std::vector<std::string> entries;  // each once
  for (const std::string& entry : wanted) {
    if (std::find(entries.begin(), entries.end(), entry) == entries.end()) entries.push_back(entry);
  }
  return entries;
}

void NameKernels(Executable& executable) {
  for (size_t i = 0; i < executable.kernels.size(); ++i) {
    KernelDesc& desc = executable.kernels[i];
    if (desc.symbol.empty()) desc.symbol = absl::StrCat("rvm_k", i, "_", desc.name);
  }
}

void NoteSchedule(Executable& executable, const KernelDesc& kernel, const schedule::Schedule& schedule) {
  executable.metadata.emplace_back(absl::StrCat("schedule.", kernel.symbol), schedule::Describe(schedule));
  std::optional<std::string> operations = DimToPostfix(te::NumOperations(schedule.computation));
  if (operations) executable.metadata.emplace_back(absl::StrCat("operations.", kernel.symbol), *operations);
}

// Records the names of the weights that constants were.
void NoteConstants(std::span<const std::string> names, Executable& executable) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) executable.metadata.emplace_back(absl::StrCat("constant.", i), names[i]);
  }
}

// Records the names of symbolic extents of entries, which the types of an executable do not keep.
void NoteShapes(const ir::Module& module, Executable& executable) {
  for (const Entry& entry : executable.entries) {
    const ir::GlobalFunction* function = module.FindFunction(entry.name);
    if (function == nullptr) continue;
    for (size_t i = 0; i < entry.param_names.size() && i < function->function->params.size(); ++i) {
      const auto* type = ir::DynCast<ir::TensorType>(function->function->params[i]->type);
      if (type == nullptr || StaticShape(type->shape.dims)) continue;
      executable.metadata.emplace_back(absl::StrCat("shape.", entry.name, ".", entry.param_names[i]),
                                       DimsToString(type->shape.dims));
    }
  }
}

// Adds the names of an entry's results to the metadata, one a line. They are its attribute `result_names`, which
// importers set.
absl::Status NoteResults(const ir::GlobalFunction& function, Executable& executable) {
  const ir::AttrValue* given = function.function->attrs.Find("result_names");
  if (given == nullptr) return absl::OkStatus();
  const auto* result = ir::DynCast<ir::FuncType>(function.function->type);
  const auto* tuple = result == nullptr ? nullptr : ir::DynCast<ir::TupleType>(result->result);
  size_t expected = tuple == nullptr ? 1 : tuple->fields.size();
  std::vector<std::string> names;
  bool is_right = given->AsList() != nullptr && given->AsList()->size() == expected;
  if (is_right) {
    for (const ir::AttrValue& name : *given->AsList()) {
      is_right = is_right && name.AsString() != nullptr && name.AsString()->find('\n') == std::string::npos;
      if (is_right) names.push_back(*name.AsString());
    }
  }
  if (!is_right) {
    return absl::InvalidArgumentError(absl::StrCat("`result_names` of `@", function.name, "` is ", given->ToString(),
                                                   "; expected a list of ", expected, " strings without line breaks"));
  }
  executable.metadata.emplace_back(absl::StrCat("results.", function.name), absl::StrJoin(names, "\n"));
  return absl::OkStatus();
}

// Recipes for the kernels of `program`.
absl::Status MakeRecipes(bytecode::EmittedProgram& program) {
  Executable& executable = program.executable;
  executable.executable_class = ExecutableClass::kPortable;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(lowering::PortableKernel kernel, lowering::MakePortableKernel(program.kernels[i]));
    executable.kernels[i].workspace = kernel.workspace;
    executable.recipes.push_back(std::move(kernel.recipe));
    NoteSchedule(executable, executable.kernels[i], program.kernels[i]);
  }
  return absl::OkStatus();
}

struct Targets {
  std::vector<codegen::HostTarget> hosts;  // none: portable
  std::vector<codegen::PtxTarget> ptx;     // the latest first
};

absl::Status AddPtxTarget(const std::string& text, const codegen::PtxTarget& target, Targets& targets) {
  for (const codegen::PtxTarget& other : targets.ptx) {
    if (other.capability == target.capability) {
      return absl::InvalidArgumentError(
          absl::StrCat("`--target ", text, "` names `sm_", target.capability, "` twice; expected it once"));
    }
  }
  targets.ptx.push_back(target);
  std::sort(targets.ptx.begin(), targets.ptx.end(),
            [](const auto& a, const auto& b) { return a.capability > b.capability; });
  return absl::OkStatus();
}

// Returns the CPUs and NVIDIA's GPUs that `text` names, between commas. Without a CPU it is the one of this machine.
absl::StatusOr<Targets> ParseTargets(const std::string& text) {
  Targets result;
  std::vector<codegen::HostTarget>& targets = result.hosts;
  if (text == "portable") return result;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(text, ','))) {
    if (name == "portable") {
      return absl::InvalidArgumentError(absl::StrCat(
          "`--target ", text, "` mixes `portable` with CPUs; expected `portable` alone: it runs on any machine"));
    }
    RVM_ASSIGN_OR_RETURN(std::optional<codegen::PtxTarget> ptx, codegen::ParsePtxTarget(name));
    if (ptx) {
      RVM_RETURN_IF_ERROR(AddPtxTarget(text, *ptx, result));
      continue;
    }
    RVM_ASSIGN_OR_RETURN(codegen::HostTarget target, codegen::ParseHostTarget(name));
    for (const codegen::HostTarget& other : targets) {
      if (other.triple == target.triple && other.features == target.features) {
        return absl::InvalidArgumentError(absl::StrCat("`--target ", text, "`: code for `", other.cpu, "` and `",
                                                       target.cpu, "` needs the same of a CPU; expected only one"));
      }
    }
    targets.push_back(std::move(target));
  }
  if (targets.empty()) {
    RVM_ASSIGN_OR_RETURN(codegen::HostTarget host, codegen::ParseHostTarget("host"));
    targets.push_back(std::move(host));
  }
  return result;
}

// Returns the targets of `options`, which must be possible together with its devices.
absl::StatusOr<Targets> ReadTargets(const CompileOptions& options, const passes::DeviceRules& devices) {
  if (options.host_fallback && devices.kinds().empty()) {
    return absl::InvalidArgumentError(
        "`--host-fallback` is for executables with code for a device: `--device` names it");
  }
  if (!devices.kinds().empty() && options.target == "portable") {
    return absl::InvalidArgumentError("a portable executable has no code for devices; expected another target");
  }
  if (options.batch && !devices.kinds().empty()) {
    return absl::InvalidArgumentError(
        "`--batch` is for kernels on the host, and `--device` is given, too; expected one of them");
  }
  RVM_ASSIGN_OR_RETURN(Targets targets, ParseTargets(options.target));
  bool uses_ptx = std::any_of(devices.kinds().begin(), devices.kinds().end(), [](const target::DeviceKind* kind) {
    return target::UsesTarget(*kind, device_contract::kPtxTarget);
  });
  if (!targets.ptx.empty() && !uses_ptx) {
    return absl::InvalidArgumentError(absl::StrCat("`--target ", options.target, "`: `sm_", targets.ptx[0].capability,
                                                   "` is for kernels on NVIDIA's GPUs; expected `--device cuda`, too"));
  }
  if (targets.ptx.empty()) targets.ptx = codegen::DefaultPtxTargets();
  return targets;
}

// Machine code for the kernels of `program`, which `requests` gets, for each target; their descriptors get what it
// decides.
absl::Status CompileKernels(bytecode::EmittedProgram& program, const std::vector<codegen::HostTarget>& targets,
                            const CompileOptions& options, std::vector<codegen::KernelRequest>& requests,
                            CompiledProgram& result) {
  Executable& executable = program.executable;
  RVM_RETURN_IF_ERROR(PackConstants(program.kernels, executable, program.constant_names));
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    NoteSchedule(executable, executable.kernels[i], program.kernels[i]);
    requests.push_back({executable.kernels[i].symbol, std::move(program.kernels[i])});
  }
  size_t done = 0, total = requests.size() * targets.size();
  auto report = [&] {
    if (options.progress) options.progress("kernels", done, total);
  };
  report();
  for (const codegen::HostTarget& target : targets) {
    RVM_ASSIGN_OR_RETURN(
        codegen::CompiledObject object,
        codegen::CompileKernels(target, requests, {options.opt_level, options.keep_ir, options.must_stop}));
    done += requests.size();
    report();
    executable.code_objects.push_back(
        {target.cpu, target.triple, target.features, RVM_KERNEL_ABI_VERSION, std::move(object.object)});
    result.llvm_ir += object.llvm_ir;
    result.assembly += object.assembly;
  }
  return absl::OkStatus();
}

// Machine code of the functions, for each target, in place of what the executable has.
absl::Status CompileFunctions(const std::vector<codegen::HostTarget>& targets, const CompileOptions& options,
                              std::span<const codegen::KernelRequest> kernels, CompiledProgram& result) {
  Executable executable = **result.executable;  // shares the constants
  executable.control_codes.clear();
  size_t done = 0;
  auto report = [&] {
    if (options.progress) options.progress("functions", done, targets.size());
  };
  report();
  for (const codegen::HostTarget& target : targets) {
    RVM_ASSIGN_OR_RETURN(native::CompiledControl control,
                         native::CompileControl(*result.executable, target,
                                                {options.opt_level, options.keep_ir, options.must_stop}, kernels));
    executable.control_codes.push_back(std::move(control.code));
    result.llvm_ir += control.llvm_ir;
    result.assembly += control.assembly;
    ++done;
    report();
  }
  RVM_ASSIGN_OR_RETURN(result.executable, Verify(std::move(executable)));
  return absl::OkStatus();
}

absl::Status NoControlInBatches(std::string_view seen) {
  return absl::UnimplementedError(absl::StrCat("functions of a program with batched kernels have no machine code yet; ",
                                               absl::string_view(seen.data(), seen.size()),
                                               "; compile without `--batch`, or with `--control bytecode`"));
}

// Tensors of a program with batched kernels are in no arena: without any, it is the program that has none.
absl::StatusOr<bytecode::EmittedProgram> Emit(const ir::Module& module, const std::vector<std::string>& entries,
                                              const diagnostics::Diagnostics& diagnostics,
                                              bytecode::EmitOptions options) {
  if (options.batch) {
    bytecode::EmitOptions batch = options;
    batch.plan_memory = false;
    RVM_ASSIGN_OR_RETURN(bytecode::EmittedProgram program,
                         bytecode::EmitProgram(module, entries, diagnostics.sources(), batch));
    if (!program.executable.batch_variants.empty()) return program;
    options.batch = false;
  }
  return bytecode::EmitProgram(module, entries, diagnostics.sources(), options);
}

// `devices`: the kinds that kernels are placed on.
absl::StatusOr<CompiledProgram> Finish(bytecode::EmittedProgram program, const Targets& targets,
                                       std::span<const target::DeviceKind* const> devices,
                                       const CompileOptions& options) {
  CompiledProgram result;
  Executable& executable = program.executable;
  NameKernels(executable);
  // Without kernels there is no machine code either.
  bool is_portable = targets.hosts.empty() || program.kernels.empty();
  for (const target::DeviceKind* device : devices) {
    if (!is_portable) RVM_RETURN_IF_ERROR(AddDeviceCode(*device, targets.ptx, !options.host_fallback, program));
  }
  std::vector<codegen::KernelRequest> kernels;  // with machine code
  RVM_RETURN_IF_ERROR(is_portable ? MakeRecipes(program)
                                  : CompileKernels(program, targets.hosts, options, kernels, result));
  DropUnusedConstants(executable, program.constant_names);
  NoteConstants(program.constant_names, executable);
  executable.metadata.emplace_back("compiler", absl::StrCat("relayvm ", std::string(kVersion)));
  executable.metadata.emplace_back("opt_level", absl::StrCat(options.opt_level));
  std::sort(executable.metadata.begin(), executable.metadata.end());
  // A file that is written is one that can be loaded.
  if (absl::Status status = CheckLimits(executable); !status.ok()) {
    return absl::ResourceExhaustedError(absl::StrCat("the program is too large for an executable: ", status.message()));
  }
  absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> verified = Verify(std::move(executable));
  if (!verified.ok()) {
    return absl::InternalError(
        absl::StrCat("internal error: the compiler made bytecode that does not verify: ", verified.status().message()));
  }
  result.executable = *std::move(verified);
  bool is_native = options.native_control.value_or(options.opt_level >= 2 && native::HasLoops(**result.executable) &&
                                                   (**result.executable).batch_variants.empty());
  if (is_native && !targets.hosts.empty()) {
    RVM_RETURN_IF_ERROR(CompileFunctions(targets.hosts, options, kernels, result));
  }
  return result;
}

// Types the module, binds its weights, chooses its entries, and saves the metadata and attributes that passes drop.
absl::StatusOr<PreparedProgram> Prepare(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                        const CompileOptions& options, BoundWeights& weights) {
  PreparedProgram program;
  RVM_ASSIGN_OR_RETURN(program.module,
                       TypeModule(std::move(module), diagnostics, options.params_files, &weights, options.weights));
  // Reports weights that are still missing.
  if (!BindParams(program.module, {}, diagnostics)) return diagnostics.ToStatus();
  CheckTensors(program.module, diagnostics);
  RVM_RETURN_IF_ERROR(diagnostics.ToStatus());
  RVM_ASSIGN_OR_RETURN(program.entries, ChooseEntries(program.module, options.entries, diagnostics));
  Executable named;
  for (const std::string& entry : program.entries) {
    const ir::GlobalFunction& function = *program.module.FindFunction(entry);
    RVM_RETURN_IF_ERROR(NoteResults(function, named));
    if (!function.function->attrs.empty()) program.entry_attrs[entry] = function.function->attrs;
  }
  program.metadata = std::move(named.metadata);
  return program;
}

// Returns the passes from `from` on (empty: all), and everything after them.
absl::StatusOr<CompiledProgram> CompileRest(PreparedProgram prepared, std::string_view from,
                                            const passes::DeviceRules& devices, const Targets& targets,
                                            diagnostics::Diagnostics& diagnostics, const CompileOptions& options) {
  const bool uses_devices = !devices.kinds().empty();
  ir::Module module = std::move(prepared.module);
  std::vector<passes::PassTime> pass_times;
  size_t passes_done = 0;
  auto observe = [&](const passes::Pass& pass, const ir::Module& after) {
    if (options.observer) options.observer(pass, after);
    // Passes that are repeated do not count twice.
    passes_done = std::min(passes_done + 1, passes::Pipeline().size());
    if (options.progress) options.progress("passes", passes_done, passes::Pipeline().size());
  };
  RVM_ASSIGN_OR_RETURN(module, passes::RunPasses(module, prepared.entries, diagnostics,
                                                 {.opt_level = options.opt_level,
                                                  .extra_passes = options.extra_passes,
                                                  .left_out = options.left_out_passes,
                                                  .devices = &devices,
                                                  .batch = options.batch,
                                                  .from = from,
                                                  .verify = options.verify_passes,
                                                  .observer = observe,
                                                  .must_stop = options.must_stop,
                                                  .times = &pass_times}));
  // Again: instances of polymorphic functions have new types.
  CheckTensors(module, diagnostics);
  RVM_RETURN_IF_ERROR(diagnostics.ToStatus());
  // Tensors on a device have no place in an arena, and it reads constants as they are.
  bytecode::EmitOptions emit{
      .plan_memory = options.opt_level > 0 && !uses_devices, .reuse_inputs = false, .pack_constants = !uses_devices};
  emit.batch = options.batch;
  emit.batch_all = options.batch_all;
  emit.target.has_updates = true;
  for (const codegen::HostTarget& target : targets.hosts) {
    emit.reuse_inputs = options.opt_level > 0;
    schedule::Target facts = codegen::ScheduleTarget(target);
    emit.target = &target == &targets.hosts[0] ? facts : schedule::Common(emit.target, facts);
  }
  RVM_ASSIGN_OR_RETURN(bytecode::EmittedProgram program, Emit(module, prepared.entries, diagnostics, emit));
  if (!program.executable.batch_variants.empty() && options.native_control.value_or(false)) {
    return NoControlInBatches("`--control` asks for it");
  }
  NoteShapes(module, program.executable);
  std::move(prepared.metadata.begin(), prepared.metadata.end(), std::back_inserter(program.executable.metadata));
  if (!uses_devices) module = {};  // code for devices is made from its functions
  RVM_ASSIGN_OR_RETURN(CompiledProgram result, Finish(std::move(program), targets, devices.kinds(), options));
  result.pass_times = std::move(pass_times);
  return result;
}

}  // namespace

absl::StatusOr<ir::Module> TypeModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                      const std::vector<std::string>& params_files, BoundWeights* weights,
                                      std::span<const ParamFile> read_files) {
  if (!params_files.empty() || !read_files.empty()) {
    std::vector<ParamFile> files(read_files.begin(), read_files.end());
    for (const std::string& path : params_files) {
      RVM_ASSIGN_OR_RETURN(ParamFile file, LoadParams(path));
      files.push_back(std::move(file));
    }
    if (!BindParams(module, files, diagnostics, weights)) return diagnostics.ToStatus();
  }
  if (!typing::InferTypes(module, diagnostics)) return diagnostics.ToStatus();
  return module;
}

absl::StatusOr<ir::Module> Parse(uint32_t source, diagnostics::Diagnostics& diagnostics,
                                 std::span<const std::string> params_files, ProgramFiles* program_files) {
  ir::Module module;
  bool has_placeholders = false;
  std::vector<ParamFile> files;  // read when the first variable is unknown
  auto note_of_unknown = [&](std::string_view name) {
    for (size_t i = files.size(); i < params_files.size(); ++i) {
      absl::StatusOr<ParamFile> file = LoadParams(params_files[i]);
      files.push_back(file.ok() ? *std::move(file) : ParamFile{.path = params_files[i]});
    }
    return HowToDeclare(name, files);
  };
  text::ParseOptions options{.has_placeholders = &has_placeholders, .note_of_unknown = note_of_unknown};
  if (program_files != nullptr) {
    options.importer = program_files;
    options.imports = program_files->given();
  }
  if (text::ParseModule(source, module, diagnostics, options)) return module;
  if (has_placeholders) typing::InferTypes(module, diagnostics);
  return diagnostics.ToStatus();
}

absl::StatusOr<ir::Module> ParseAndType(uint32_t source, diagnostics::Diagnostics& diagnostics,
                                        const std::vector<std::string>& params_files, BoundWeights* weights,
                                        std::span<const ParamFile> read_files, ProgramFiles* files) {
  RVM_ASSIGN_OR_RETURN(ir::Module module, Parse(source, diagnostics, params_files, files));
  std::vector<ParamFile> all(read_files.begin(), read_files.end());
  if (files != nullptr) {
    for (ParamFile& file : files->TakeWeights()) all.push_back(std::move(file));
  }
  return TypeModule(std::move(module), diagnostics, params_files, weights, all);
}

absl::StatusOr<ir::Module> PrepareEvaluation(const ir::Module& typed, const std::vector<std::string>& entries,
                                             diagnostics::Diagnostics& diagnostics) {
  passes::PassContext context{entries, 0, diagnostics};
  RVM_ASSIGN_OR_RETURN(ir::Module module,
                       passes::HasTransforms(typed)
                           ? passes::RunPasses(typed, entries, diagnostics, {.opt_level = 0, .until = "inline"})
                           : passes::kCheckExtents.run(typed, context));
  CheckTensors(module, diagnostics);
  RVM_RETURN_IF_ERROR(diagnostics.ToStatus());
  return module;
}

absl::Status CheckInstances(const ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  return passes::RunPasses(module, DefaultEntries(module), diagnostics, {.opt_level = 0, .until = "inline"}).status();
}

absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> AddControlCode(
    std::shared_ptr<const VerifiedExecutable> executable, const std::string& target) {
  RVM_ASSIGN_OR_RETURN(Targets targets, ParseTargets(target));
  if (targets.hosts.empty() || !targets.ptx.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("saw `--target ", target, "`; expected CPUs: functions run on the host"));
  }
  if (!(**executable).batch_variants.empty()) return NoControlInBatches("saw an executable with them");
  CompiledProgram result;
  result.executable = std::move(executable);
  RVM_RETURN_IF_ERROR(CompileFunctions(targets.hosts, {}, {}, result));
  return result.executable;
}

absl::StatusOr<CompiledProgram> Compile(uint32_t source, diagnostics::Diagnostics& diagnostics,
                                        CompileOptions options) {
  RVM_ASSIGN_OR_RETURN(ir::Module module, Parse(source, diagnostics, options.params_files, options.files));
  if (options.files != nullptr) {
    for (ParamFile& file : options.files->TakeWeights()) options.weights.push_back(std::move(file));
  }
  return CompileModule(std::move(module), diagnostics, std::move(options));
}

absl::StatusOr<CompiledProgram> CompileModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                              CompileOptions options) {
  RVM_ASSIGN_OR_RETURN(passes::DeviceRules devices, passes::DeviceRules::Parse(options.devices));
  RVM_ASSIGN_OR_RETURN(Targets targets, ReadTargets(options, devices));
  BoundWeights weights;
  RVM_ASSIGN_OR_RETURN(PreparedProgram program, Prepare(std::move(module), diagnostics, options, weights));
  options.weights.clear();
  RVM_ASSIGN_OR_RETURN(CompiledProgram result,
                       CompileRest(std::move(program), {}, devices, targets, diagnostics, options));
  result.weights = std::move(weights);
  return result;
}

absl::StatusOr<PreparedProgram> PrepareModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                              const CompileOptions& options, std::string_view until,
                                              BoundWeights& weights) {
  RVM_ASSIGN_OR_RETURN(PreparedProgram program, Prepare(std::move(module), diagnostics, options, weights));
  RVM_ASSIGN_OR_RETURN(program.module, passes::RunPasses(program.module, program.entries, diagnostics,
                                                         {.opt_level = options.opt_level,
                                                          .until = until,
                                                          .verify = options.verify_passes,
                                                          .must_stop = options.must_stop}));
  CheckTensors(program.module, diagnostics);
  RVM_RETURN_IF_ERROR(diagnostics.ToStatus());
  return program;
}

absl::StatusOr<CompiledProgram> CompilePrepared(PreparedProgram program, std::string_view from,
                                                diagnostics::Diagnostics& diagnostics, const CompileOptions& options) {
  RVM_ASSIGN_OR_RETURN(passes::DeviceRules devices, passes::DeviceRules::Parse(options.devices));
  RVM_ASSIGN_OR_RETURN(Targets targets, ReadTargets(options, devices));
  return CompileRest(std::move(program), from, devices, targets, diagnostics, options);
}

}  // namespace rvm::driver
