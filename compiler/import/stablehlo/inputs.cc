// The arguments of `main`: their names, and the extents that JAX names.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {
namespace {

// The function that JAX puts `main` around where shapes are symbolic: its first arguments are the named extents.
constexpr std::string_view kWrapped = "_wrapped_jax_export_main";
constexpr std::string_view kPlatform = "_platform_index";

bool IsName(std::string_view text) {
  if (text.empty() || absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (unsigned char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

// Returns the name of the extent that JAX says a parameter of a function is; empty if it says nothing.
std::string_view GlobalConstant(const Operation& function, size_t argument) {
  const Attribute* attributes = function.Find("arg_attrs");
  if (attributes == nullptr || argument >= attributes->elements.size()) return "";
  const Attribute* name = attributes->elements[argument]->Find("jax.global_constant");
  return name == nullptr ? "" : name->text;
}

// Returns the first 100 bytes of the name of an argument; "" if it is unknown.
std::string_view KnownName(std::string_view name) { return name == "unknown" ? "" : name.substr(0, 100); }

}  // namespace

std::vector<std::string> Importer::InputNames() const {
  std::vector<std::string_view> found = main_.locations;
  for (const Operation& op : main_.operations) {
    const Attribute* callee = op.name == "call" ? op.Find("callee") : nullptr;
    const Operation* function = callee == nullptr ? nullptr : module_.FindFunction(callee->text);
    if (function == nullptr || callee->text != kWrapped) continue;
    const Block& body = function->regions[0];
    for (size_t i = 0; i < op.operands.size() && i < body.locations.size(); ++i) {
      for (size_t k = 0; k < found.size(); ++k) {
        if (main_.arguments[k] == op.operands[i] && found[k].empty()) found[k] = body.locations[i];
      }
    }
  }
  absl::flat_hash_set<std::string> taken;
  std::vector<std::string> names;
  for (size_t i = 0; i < found.size(); ++i) {
    std::string name = ReadableText(KnownName(found[i]));
    if (name.empty() || !taken.insert(name).second) {
      name = absl::StrCat("arg", i);
      while (!taken.insert(name).second) name += "_";
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> Importer::ExtentTexts(size_t input) const {
  const bool has_platform = exported_.shapes.size() + 1 == main_.arguments.size();
  const size_t at = input - (has_platform ? 1 : 0);
  const Type& type = *main_.types[input];
  const bool is_known = exported_.shapes.size() + (has_platform ? 1 : 0) == main_.arguments.size() &&
                        (input > 0 || !has_platform) && exported_.shapes[at].size() == type.shape.size();
  std::vector<std::string> texts;
  for (size_t axis = 0; axis < type.shape.size(); ++axis) {
    const bool is_number = type.shape[axis] >= 0;
    texts.push_back(is_number ? absl::StrCat(type.shape[axis])
                              : std::string(is_known ? exported_.shapes[at][axis] : "?"));
  }
  if (is_known || std::ranges::find(texts, "?") == texts.end()) return texts;
  // An artifact alone names the extents as arguments of a function that gets them.
  absl::flat_hash_map<int32_t, std::string_view> names;
  for (const Operation& op : main_.operations) {
    const Attribute* callee = op.name == "call" ? op.Find("callee") : nullptr;
    const Operation* function = callee == nullptr ? nullptr : module_.FindFunction(callee->text);
    for (size_t i = 0; function != nullptr && i < op.operands.size(); ++i) {
      const std::string_view name = GlobalConstant(*function, i);
      if (IsName(name)) names.try_emplace(op.operands[i], name);
    }
  }
  for (const Operation& op : main_.operations) {
    const Attribute* axis = op.name == "get_dimension_size" ? op.Find("dimension") : nullptr;
    if (axis == nullptr || op.operands.size() != 1 || op.operands[0] != main_.arguments[input]) continue;
    const auto name = op.results.empty() ? names.end() : names.find(op.results[0]);
    const auto place = static_cast<uint64_t>(axis->integer);
    if (name != names.end() && place < texts.size() && texts[place] == "?") texts[place] = std::string(name->second);
  }
  return texts;
}

absl::Status Importer::ReadInput(size_t i) {
  const Type& type = *main_.types[i];
  const std::string& name = input_names_[i];
  Operand& value = values_[static_cast<size_t>(main_.arguments[i])];
  if (GlobalConstant(*module_.FindFunction("main"), i) == kPlatform) {
    for (size_t k = 0; k < exported_.platforms.size(); ++k) {
      if (exported_.platforms[k] == "cpu") value = emit_.Integer(static_cast<int64_t>(k), kInt32);
    }
    if (value != nullptr) return absl::OkStatus();
    return absl::UnimplementedError("the program is for several platforms; export it for `cpu` alone");
  }
  if (type.kind != Type::Kind::kTensor || !type.dtype) {
    refusals_.Add("an input", absl::StrCat("`", name, "`"),
                  absl::UnimplementedError(absl::StrCat(type.name, ", which Relay does not have")));
    value = emit_.Placeholder();
    return absl::OkStatus();
  }
  Dims dims;
  const std::vector<std::string> texts = ExtentTexts(i);
  for (size_t axis = 0; axis < texts.size(); ++axis) {
    dims.push_back(InputExtent(name, axis, texts[axis]));
    if (type.shape[axis] >= 0 && dims.back() != Dim(type.shape[axis]) && !options_.all_extents_unknown) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the shape given to input `", name, "`: saw `", dims.back().ToString(), "`; expected ", type.shape[axis],
          ", which the program was exported for; other extents need an export with symbolic shapes"));
    }
    if (type.shape[axis] >= 0) dims.back() = type.shape[axis];
    if (IsName(texts[axis]) && !dims.back().is_any()) named_.try_emplace(texts[axis], dims.back());
  }
  if (type.is_complex) dims.push_back(2);
  RVM_ASSIGN_OR_RETURN(Operand frozen, FrozenInput(name, *type.dtype, dims));
  if (frozen != nullptr) {
    value = Argument(i, frozen);
    return absl::OkStatus();
  }
  AddParam(name, emit_.TensorType(std::move(dims), *type.dtype));
  param_inputs_.push_back(i);
  return absl::OkStatus();
}

absl::Status Importer::ReadInputs() {
  input_names_ = InputNames();
  std::vector<Input> inputs;
  for (size_t i = 0; i < input_names_.size(); ++i) inputs.push_back({input_names_[i], main_.types[i]->shape.size()});
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (size_t i = 0; i < input_names_.size(); ++i) {
    if (main_.types[i]->shape.size() > 64) return absl::InvalidArgumentError("an input has more than 64 axes");
    const std::vector<std::string> texts = ExtentTexts(i);
    std::vector<std::string_view> names;
    for (size_t axis = 0; axis < texts.size(); ++axis) {
      if (IsName(texts[axis])) names.push_back(texts[axis]);
      const std::string* given = GivenExtent(input_names_[i], axis);
      if (given != nullptr && IsName(texts[axis])) FixExtent(texts[axis], *given);
    }
    if (!options_.frozen.contains(input_names_[i])) NoteExtentNames(input_names_[i], names);
  }
  for (size_t i = 0; i < input_names_.size(); ++i) RVM_RETURN_IF_ERROR(ReadInput(i));
  AddSeed();
  return absl::OkStatus();
}

// ---- what operations see of that

std::optional<Dim> NodeContext::NamedExtent(std::string_view name) {
  auto found = importer_.named_.find(Abseil(name));
  return found == importer_.named_.end() ? std::nullopt : std::optional(found->second);
}

Operands NodeContext::CallFunction(std::string_view name, const Operands& arguments) {
  const Operation* function = module().FindFunction(name);
  if (function == nullptr) {
    Fail(absl::StrCat("there is no function `", Abseil(name), "`"));
    return {};
  }
  if (!importer_.running_.insert(function).second) {
    Fail(absl::StrCat("the function `", Abseil(name), "` calls itself"));
    return {};
  }
  Operands given = arguments;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string_view constant = GlobalConstant(*function, i);
    const std::optional<Dim> extent = constant.empty() ? std::nullopt : NamedExtent(constant);
    if (extent) given[i] = Cast(emit().FromDim(*extent), DTypeOf(given[i]));
  }
  Operands results = importer_.Run(function->regions[0], given);
  importer_.running_.erase(function);
  return results;
}

}  // namespace rvm::stablehlo
