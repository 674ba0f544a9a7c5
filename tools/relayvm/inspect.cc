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
#include "base/status_macros.h"
#include "serialization/decoder.h"
#include "serialization/disassembler.h"
#include "serialization/verifier.h"
#include "tools/relayvm/file_sizes.h"
#include "tools/relayvm/inspect_memory.h"
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
    {"--check", "", "also compare the checksum of the constants"},
};

std::string TensorText(DataType dtype, const Dims& dims) {
  if (dims.empty()) return dtype.ToString();
  return absl::StrCat("Tensor[", DimsToString(dims), ", ", dtype.ToString(), "]");
}

std::string Signature(const Executable& executable, const Entry& entry) {
  const FunctionDesc& function = executable.functions[entry.function.value];
  std::string text = absl::StrCat("@", entry.name, "(");
  for (size_t i = 0; i < function.num_params; ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "");
    if (i < entry.param_names.size()) absl::StrAppend(&text, "%", entry.param_names[i], ": ");
    absl::StrAppend(&text, TypeToString(executable, function.registers[i].type));
  }
  return absl::StrCat(text, ") -> ", TypeToString(executable, function.result));
}

std::string SectionNames(std::span<const uint8_t> file) {
  std::string text;
  for (const SectionInfo& section : ListSections(file)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", section.is_known ? "" : "unknown ", section.name);
  }
  return text;
}

void PrintSummary(std::span<const uint8_t> file, const Executable& executable, const std::string& path) {
  int64_t code = 0, constants = 0, native = 0;
  for (const FunctionDesc& function : executable.functions) code += static_cast<int64_t>(function.code.size()) * 2;
  for (const Literal& constant : executable.constants) constants += constant.bytes();
  for (const CodeObject& object : executable.code_objects) native += static_cast<int64_t>(object.bytes.size());
  std::cout << path << ": " << (executable.is_native() ? "native" : "portable") << " executable, format "
            << format::kMajor << '.' << executable.format_minor << '\n'
            << "  bytecode   " << code << " bytes in " << executable.functions.size() << " functions\n"
            << "  constants  " << constants << " bytes in " << executable.constants.size() << " tensors\n"
            << "  kernels    " << native << " bytes in " << executable.kernels.size() << " kernels\n";
  for (const CodeObject& object : executable.code_objects) {
    std::cout << "  target     " << object.target << " (" << object.triple << ", kernel ABI " << object.abi_version
              << "), " << object.bytes.size() << " bytes" << (object.features.empty() ? "" : ", needs ")
              << object.features << '\n';
  }
  std::cout << "  sections   " << SectionNames(file) << '\n';
  for (const auto& [key, value] : executable.metadata) {
    if (!key.starts_with("schedule.") && !key.starts_with("shape."))
      std::cout << "  " << key << std::string(11 - std::min<size_t>(key.size(), 10), ' ') << value << '\n';
  }
  std::cout << "entries\n";
  for (const Entry& entry : executable.entries) std::cout << "  " << Signature(executable, entry) << '\n';
}

std::string ScheduleOf(const Executable& executable, const std::string& symbol) {
  for (const auto& [key, value] : executable.metadata) {
    if (key == absl::StrCat("schedule.", symbol)) return value;
  }
  return "";
}

std::string TensorsText(const std::vector<KernelTensor>& tensors) {
  std::string text;
  for (const KernelTensor& tensor : tensors) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", TensorText(tensor.dtype, tensor.dims));
  }
  return text;
}

std::string RelationText(const KernelDesc::Check& check) {
  std::string a = check.a.ToString(), b = check.b.ToString();
  switch (check.relation) {
    case DimRelation::kEqual: return absl::StrCat(a, " = ", b);
    case DimRelation::kBroadcast: return absl::StrCat(a, " = ", b, ", or either is 1");
    case DimRelation::kAtLeast: return absl::StrCat(a, " >= ", b);
  }
  return "";
}

void PrintKernels(const Executable& executable) {
  std::cout << "kernels\n";
  for (const KernelDesc& kernel : executable.kernels) {
    std::cout << "  " << kernel.symbol << "(" << TensorsText(kernel.params) << ") -> (" << TensorsText(kernel.results)
              << ")\n";
    std::string schedule = ScheduleOf(executable, kernel.symbol);
    if (!schedule.empty()) std::cout << "    " << schedule << '\n';
    if (kernel.workspace.AsConst() != 0) std::cout << "    workspace " << kernel.workspace.ToString() << " bytes\n";
    for (const KernelDesc::ValueSymbol& value : kernel.values) {
      std::cout << "    dim " << value.symbol << " is element " << value.element << " of parameter " << value.param
                << '\n';
    }
    for (const KernelDesc::Check& check : kernel.checks) {
      std::cout << "    checks " << RelationText(check) << " (" << check.what << ")\n";
    }
  }
}

void PrintConstants(const Executable& executable) {
  std::cout << "constants\n";
  for (size_t i = 0; i < executable.constants.size(); ++i) {
    const Literal& constant = executable.constants[i];
    std::cout << "  " << i << "  " << TensorText(constant.dtype(), ToDims(constant.shape())) << "  " << constant.bytes()
              << " bytes\n";
  }
}

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
  PrintSummary(file.bytes, executable, path);
  if (options.Has("--kernels")) PrintKernels(executable);
  if (options.Has("--constants")) PrintConstants(executable);
  if (options.Has("--sizes")) std::cout << FileSizesText(file.bytes, executable);
  return options.Has("--memory") ? PrintMemory(**verified, options.Values("--dims")) : absl::OkStatus();
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
)",
    .run = Run,
};

}  // namespace rvm::tools
