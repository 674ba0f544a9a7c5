// The inputs of an exported program: parameters with symbolic extents, weights, state. checks.cc has their checks.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch {

using importing::Expression;

namespace {

// Returns the elements `index` of the last axis, of extent 2.
Literal PartOfPairs(const Literal& pairs, int64_t index) {
  Shape shape = pairs.shape();
  shape.pop_back();
  const auto size = static_cast<size_t>(pairs.dtype().bytes());
  std::vector<std::byte> part(static_cast<size_t>(pairs.num_elements() / 2) * size);
  for (size_t i = 0; i * size < part.size(); ++i) {
    std::memcpy(&part[i * size], pairs.data() + (2 * i + static_cast<size_t>(index)) * size, size);
  }
  return Literal::FromBytes(pairs.dtype(), std::move(shape), part);
}

}  // namespace

std::string PlainSymbol(std::string_view extent) {
  std::optional<Expression> expression = importing::ParseExpression(extent, importing::Syntax::kSympy);
  return expression && expression->kind == Expression::Kind::kName ? expression->name : "";
}

std::optional<Dim> Importer::DimOfExpression(std::string_view text) {
  std::optional<Expression> expression = importing::ParseExpression(text, importing::Syntax::kSympy);
  if (!expression) return std::nullopt;
  return importing::ToDim(*expression, [&](std::string_view symbol) -> std::optional<Dim> {
    auto found = dims_.find(Abseil(symbol));
    if (found == dims_.end() || found->second.is_any()) return std::nullopt;
    return found->second;
  });
}

Dim Importer::DimOf(const TensorMeta::Extent& extent, std::string_view input, size_t axis) {
  const Dim dim = InputExtent(input, axis, extent.number ? absl::StrCat(*extent.number) : "?");
  if (options_.all_extents_unknown || dim.is_const()) return dim;
  if (GivenExtent(input, axis) == nullptr) return DimOfExpression(extent.expression).value_or(Dim::Any());
  // The first name that the options give to a symbol stands for it everywhere.
  const std::string symbol = PlainSymbol(extent.expression);
  return dim.is_any() || symbol.empty() ? dim : dims_[symbol];
}

absl::Status Importer::ReadShapes() {
  auto meta_of = [&](std::string_view name) -> const TensorMeta* {
    auto found = program_.graph->tensors.find(Abseil(name));
    return found == program_.graph->tensors.end() ? nullptr : &found->second;
  };
  std::vector<Input> inputs;
  for (const InputSpec& input : program_.inputs) {
    if (input.role != InputRole::kUser) continue;
    const TensorMeta* meta = meta_of(input.arg.text);
    inputs.push_back({input.arg.text, meta == nullptr ? 0 : meta->sizes.size()});
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (const Input& input : inputs) {
    if (!options_.frozen.contains(input.name)) NoteExtentNames(input.name, {});
  }
  // A symbol is known where an input has it as an extent, alone. Extents that the options give come first.
  for (bool is_given : {true, false}) {
    for (const Input& input : inputs) {
      if (!is_given && (options_.frozen.contains(input.name) || options_.all_extents_unknown)) continue;
      for (size_t i = 0; i < *input.rank; ++i) {
        const std::string symbol = PlainSymbol(meta_of(input.name)->sizes[i].expression);
        const std::string* given = GivenExtent(input.name, i);
        if (symbol.empty() || dims_.contains(symbol)) continue;
        if (!is_given) {
          dims_[symbol] = emit_.NameDim(symbol);
        } else if (given != nullptr && *given != "?") {
          dims_[symbol] = InputExtent(input.name, i, "");
        }
      }
    }
  }
  return absl::OkStatus();
}

Operand Importer::Weight(const InputSpec& input) {
  // Parameters that are tied are the same memory: one weight.
  std::string place = archive_.PlaceOf(input.target);
  auto known = place.empty() ? weight_at_.end() : weight_at_.find(place);
  if (known != weight_at_.end()) return known->second;
  absl::StatusOr<Literal> literal = archive_.Tensor(input.target);
  if (literal.ok()) {
    if (!PartDTypeOf(*program_.graph, input.arg.text))
      return weight_at_[place] = emit_.Constant(*std::move(literal), input.target);
    Operand real = emit_.Constant(PartOfPairs(*literal, 0), input.target + ".real");
    Operand imaginary = emit_.Constant(PartOfPairs(*literal, 1), input.target + ".imag");
    return weight_at_[place] = emit_.Tuple({real, imaginary});
  }
  refusals_.Add("a weight", absl::StrCat("`", input.target, "`"), literal.status());
  return emit_.Placeholder();
}

absl::Status Importer::AddParam(const InputSpec& input) {
  const std::string& name = input.arg.text;
  const ir::Type* type = nullptr;
  if (input.arg.kind == ArgumentKind::kSymbol) {
    type = emit_.TensorType({}, kInt64);
  } else {
    auto found = program_.graph->tensors.find(name);
    if (found == program_.graph->tensors.end() || found->second.sizes.size() > 64) {
      return absl::InvalidArgumentError(absl::StrCat("input `", name, "` has no type, or too many axes"));
    }
    const TensorMeta& meta = found->second;
    const std::optional<DataType> part = ToPartDType(meta.scalar_type);
    const std::optional<DataType> dtype = part ? part : ToDataType(meta.scalar_type);
    if (!dtype) {
      return absl::UnimplementedError(
          absl::StrCat("input `", name, "` is of dtype ", ScalarTypeName(meta.scalar_type), ", which Relay has not"));
    }
    Dims dims;
    for (size_t i = 0; i < meta.sizes.size(); ++i) dims.push_back(DimOf(meta.sizes[i], name, i));
    if (part) dims.emplace_back(2);
    type = emit_.TensorType(std::move(dims), *dtype);
  }
  Frame::AddParam(name, type);
  param_inputs_.push_back(&input);
  return absl::OkStatus();
}

absl::StatusOr<Operand> Importer::Frozen(const std::string& name) {
  if (!options_.frozen.contains(name)) return nullptr;
  auto found = program_.graph->tensors.find(name);
  if (found == program_.graph->tensors.end()) return FrozenInput(name, kInt64, Dims());  // a symbol
  Dims dims;
  for (size_t i = 0; i < found->second.sizes.size(); ++i) dims.push_back(DimOf(found->second.sizes[i], name, i));
  return FrozenInput(name, ToDataType(found->second.scalar_type), dims);
}

void Importer::FindMutations() {
  for (const OutputSpec& output : program_.outputs) {
    for (const InputSpec& input : program_.inputs) {
      bool is_buffer = output.role == OutputRole::kBufferMutation && input.role == InputRole::kBuffer &&
                       input.target == output.target;
      bool is_input = output.role == OutputRole::kInputMutation && input.arg.text == output.target;
      if (is_buffer || is_input) mutated_.insert(input.arg.text);
    }
  }
  absl::flat_hash_map<std::string, std::string> roots;  // of names that share memory with an input
  for (const Node& node : program_.graph->nodes) {
    if (node.inputs.empty() || (!Writes(node.target) && !IsView(node))) continue;
    if (IsView(node) && MemoryOf(node, *program_.graph) == Memory::kCopied) continue;
    const std::string& first = node.inputs[0].second.text;
    auto found = roots.find(first);
    const std::string root = found == roots.end() ? first : found->second;
    for (const Argument* output : OutputsOf(node)) roots[output->text] = root;
    for (const InputSpec& input : program_.inputs) {
      bool can_change = input.role == InputRole::kUser || input.role == InputRole::kBuffer;
      if (Writes(node.target) && can_change && input.arg.text == root) mutated_.insert(root);
    }
  }
}

absl::Status Importer::ReadInputs(Scope& scope) {
  RVM_RETURN_IF_ERROR(ReadShapes());
  for (const InputSpec& input : program_.inputs) {
    const std::string& name = input.arg.text;
    switch (input.role) {
      case InputRole::kUser: {
        RVM_ASSIGN_OR_RETURN(Operand frozen, Frozen(name));
        if (frozen != nullptr) {
          scope.values[name] = frozen;
        } else {
          RVM_RETURN_IF_ERROR(AddParam(input));
        }
        break;
      }
      case InputRole::kBuffer:
        if (mutated_.contains(name)) break;  // a parameter, behind those of the user
        scope.values[name] = Weight(input);
        break;
      case InputRole::kParameter:
      case InputRole::kConstant: scope.values[name] = Weight(input); break;
      case InputRole::kFixed: break;
      case InputRole::kOther:
        return absl::UnimplementedError(
            absl::StrCat("input `", name, "` is of kind `", input.target, "`; expected a tensor"));
    }
  }
  for (const InputSpec& input : program_.inputs) {
    bool is_state = input.role == InputRole::kBuffer && mutated_.contains(input.arg.text);
    if (is_state) RVM_RETURN_IF_ERROR(AddParam(input));
  }
  return absl::OkStatus();
}

}  // namespace rvm::torch
