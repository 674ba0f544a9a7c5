#include "tools/relayvm/executable_text.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/abseil.h"
#include "serialization/decoder.h"

namespace rvm::tools {
namespace {

std::string TensorText(DataType dtype, const Dims& dims) {
  if (dims.empty()) return dtype.ToString();
  return absl::StrCat("Tensor[", DimsToString(dims), ", ", dtype.ToString(), "]");
}

std::string SectionNames(std::span<const uint8_t> file) {
  std::string text;
  for (const SectionInfo& section : ListSections(file)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", section.is_known ? "" : "unknown ", section.name);
  }
  return text;
}

// Metadata about kernels, entries and constants, which stands beside those.
bool IsOfAnotherTable(std::string_view key) {
  constexpr std::string_view kPrefixes[] = {"schedule.", "operations.", "shape.", "constant."};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [key](std::string_view prefix) { return key.starts_with(prefix); });
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

}  // namespace

std::string SignatureText(const Executable& executable, const Entry& entry) {
  const FunctionDesc& function = executable.functions[entry.function.value];
  std::string text = absl::StrCat("@", entry.name, "(");
  for (size_t i = 0; i < function.num_params; ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "");
    if (i < entry.param_names.size()) absl::StrAppend(&text, "%", entry.param_names[i], ": ");
    absl::StrAppend(&text, TypeToString(executable, function.registers[i].type));
  }
  return absl::StrCat(text, ") -> ", TypeToString(executable, function.result));
}

std::string SummaryText(std::span<const uint8_t> file, const Executable& executable, const std::string& path) {
  int64_t code = 0, constants = 0, native = 0;
  for (const FunctionDesc& function : executable.functions) code += static_cast<int64_t>(function.code.size()) * 2;
  for (const Literal& constant : executable.constants) constants += constant.bytes();
  for (const CodeObject& object : executable.code_objects) native += static_cast<int64_t>(object.bytes.size());
  std::string text =
      absl::StrCat(path, ": ", executable.is_native() ? "native" : "portable", " executable, format ", format::kMajor,
                   ".", executable.format_minor, "\n  bytecode   ", code, " bytes in ", executable.functions.size(),
                   " functions\n  constants  ", constants, " bytes in ", executable.constants.size(),
                   " tensors\n  kernels    ", native, " bytes in ", executable.kernels.size(), " kernels\n");
  for (const CodeObject& object : executable.code_objects) {
    absl::StrAppend(&text, "  target     ", object.target, " (", object.triple, ", kernel ABI ", object.abi_version,
                    "), ", object.bytes.size(), " bytes", object.features.empty() ? "" : ", needs ", object.features,
                    "\n");
  }
  for (const ControlCode& code : executable.control_codes) {
    absl::StrAppend(&text, "  control    ", code.target, " (", code.triple, ", machine ABI ", code.abi_version, "), ",
                    code.bytes.size(), " bytes", code.features.empty() ? "" : ", needs ", code.features, "\n");
  }
  for (const DeviceCode& code : executable.device_codes) {
    absl::StrAppend(&text, "  device     ", code.target, ", ", code.kernels.size(), " of ", executable.kernels.size(),
                    " kernels, ", code.bytes.size(), " bytes", code.features.empty() ? "" : ", needs ", code.features,
                    code.is_required ? ", required" : "", "\n");
  }
  if (!executable.batch_variants.empty()) {
    absl::StrAppend(&text, "  batch      ", executable.batch_variants.size(), " of ", executable.kernels.size(),
                    " kernels have a variant for many calls\n");
  }
  absl::StrAppend(&text, "  sections   ", SectionNames(file), "\n");
  for (const auto& [key, value] : executable.metadata) {
    if (IsOfAnotherTable(key)) continue;
    absl::StrAppend(&text, "  ", key, std::string(11 - std::min<size_t>(key.size(), 10), ' '),
                    absl::StrReplaceAll(value, {{"\n", ", "}}), "\n");
  }
  text += "entries\n";
  for (const Entry& entry : executable.entries) absl::StrAppend(&text, "  ", SignatureText(executable, entry), "\n");
  return text;
}

std::string TensorsText(const std::vector<KernelTensor>& tensors) {
  std::string text;
  for (const KernelTensor& tensor : tensors) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", TensorText(tensor.dtype, tensor.dims));
  }
  return text;
}

std::string ScheduleText(const Executable& executable, const KernelDesc& kernel) {
  return std::string(executable.FindMetadata(absl::StrCat("schedule.", kernel.symbol)));
}

std::string_view WeightName(const Executable& executable, size_t constant) {
  return executable.FindMetadata(absl::StrCat("constant.", constant));
}

std::string PlaceText(const Executable& executable, const FunctionDesc& function, uint32_t pc) {
  auto after = std::upper_bound(function.lines.begin(), function.lines.end(), pc,
                                [](uint32_t at, const SourceLine& line) { return at < line.pc; });
  if (after == function.lines.begin()) return "";
  return PlaceText(executable, *std::prev(after));
}

std::string PlaceText(const Executable& executable, const SourceLine& line) {
  if (line.line == 0 || line.file >= executable.files.size()) return "";
  std::string place = executable.files[line.file];
  if (line.column != 0) absl::StrAppend(&place, ":", line.line, ":", line.column);
  return place;
}

std::string KernelsText(const Executable& executable) {
  std::string text = "kernels\n";
  for (const KernelDesc& kernel : executable.kernels) {
    absl::StrAppend(&text, "  ", kernel.symbol, "(", TensorsText(kernel.params), ") -> (", TensorsText(kernel.results),
                    ")\n");
    std::string schedule = ScheduleText(executable, kernel);
    if (!schedule.empty()) absl::StrAppend(&text, "    ", schedule, "\n");
    if (kernel.workspace.AsConst() != 0) {
      absl::StrAppend(&text, "    workspace ", kernel.workspace.ToString(), " bytes\n");
    }
    for (const KernelDesc::ValueSymbol& value : kernel.values) {
      absl::StrAppend(&text, "    dim ", value.symbol, " is element ", value.element, " of parameter ", value.param,
                      "\n");
    }
    for (const KernelDesc::Check& check : kernel.checks) {
      absl::StrAppend(&text, "    checks ", RelationText(check), " (", check.what, ")\n");
    }
  }
  return text;
}

std::string ConstantsText(const Executable& executable) {
  std::string text = "constants\n";
  for (size_t i = 0; i < executable.constants.size(); ++i) {
    const Literal& constant = executable.constants[i];
    std::string_view weight = WeightName(executable, i);
    absl::StrAppend(&text, "  ", i, "  ", TensorText(constant.dtype(), ToDims(constant.shape())), "  ",
                    constant.bytes(), " bytes", weight.empty() ? "" : "  ", Abseil(weight), "\n");
  }
  return text;
}

}  // namespace rvm::tools
