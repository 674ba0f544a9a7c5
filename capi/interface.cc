#include "capi/interface.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rvm::capi {
namespace {

std::vector<uint32_t> Numbers(const std::vector<TypeId>& types) {
  std::vector<uint32_t> numbers;
  for (TypeId type : types) numbers.push_back(type.value);
  return numbers;
}

std::vector<NamedType> ParametersOf(const Executable& executable, const Entry& entry) {
  const FunctionDesc& function = executable.functions[entry.function.value];
  std::vector<NamedType> parameters;
  for (size_t i = 0; i < function.num_params; ++i) {
    std::string name = i < entry.param_names.size() ? entry.param_names[i] : absl::StrCat("argument", i + 1);
    TypeId id = function.registers[i].type;
    const TypeDesc& type = executable.types[id.value];
    std::vector<std::string> extents = NamedExtents(executable, entry, i);
    bool has_names = !extents.empty() && type.kind == TypeDescKind::kTensor;
    std::string text = has_names
                           ? absl::StrCat("Tensor[(", absl::StrJoin(extents, ", "), "), ", type.dtype.ToString(), "]")
                           : TypeToString(executable, id);
    parameters.push_back({std::move(name), id, std::move(text)});
  }
  return parameters;
}

// The compiler notes the names of results as metadata "results.ENTRY", one a line.
std::vector<NamedType> ResultsOf(const Executable& executable, const Entry& entry) {
  TypeId result = executable.functions[entry.function.value].result;
  const TypeDesc& type = executable.types[result.value];
  bool is_tuple = type.kind == TypeDescKind::kTuple;
  std::vector<TypeId> types = is_tuple ? type.fields : std::vector<TypeId>{result};
  std::string_view noted = executable.FindMetadata(absl::StrCat("results.", entry.name));
  std::vector<std::string> names;
  if (!noted.empty()) names = absl::StrSplit(std::string(noted), '\n');
  std::vector<NamedType> results;
  for (size_t i = 0; i < types.size(); ++i) {
    std::string own = is_tuple ? absl::StrCat("result", i + 1) : "result";
    results.push_back({names.size() == types.size() ? names[i] : own, types[i], TypeToString(executable, types[i])});
  }
  return results;
}

}  // namespace

Interface InterfaceOf(const Executable& executable) {
  Interface interface;
  for (uint32_t i = 0; i < executable.types.size(); ++i) {
    const TypeDesc& type = executable.types[i];
    bool is_internal = type.kind == TypeDescKind::kShell;
    interface.types.push_back({is_internal ? "" : TypeToString(executable, TypeId(i)), Numbers(type.fields)});
  }
  for (const AdtDesc& adt : executable.adts) {
    std::vector<std::vector<uint32_t>>& constructors = interface.constructors.emplace_back();
    for (const AdtDesc::Constructor& constructor : adt.constructors) {
      constructors.push_back(Numbers(constructor.fields));
    }
  }
  for (const Entry& entry : executable.entries) {
    interface.entries.push_back({ParametersOf(executable, entry), ResultsOf(executable, entry)});
  }
  return interface;
}

std::string EntryType(const Executable& executable, const Entry& entry, const EntryInterface& interface) {
  std::string text = "fn (";
  for (const NamedType& parameter : interface.parameters) {
    absl::StrAppend(&text, &parameter == interface.parameters.data() ? "" : ", ", "%", parameter.name, ": ",
                    parameter.text);
  }
  absl::StrAppend(&text, ") -> ", TypeToString(executable, executable.functions[entry.function.value].result));
  return text;
}

}  // namespace rvm::capi
