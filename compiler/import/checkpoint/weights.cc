#include "compiler/import/checkpoint/weights.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/utf8.h"
#include "compiler/import/checkpoint/weight_form.h"

namespace rvm::checkpoint {
namespace {

// "model.norm.weight" -> "model_norm_weight"
std::string AsIdentifier(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return result;
}

std::string Quoted(std::string_view name) { return absl::StrCat("`", Abseil(ReadableText(name)), "`"); }

}  // namespace

Weights::Weights(const StoredTensors& tensors, importing::Refusals& refusals,
                 std::function<void(importing::Bytes part)> release, bool rounds_rows)
    : tensors_(tensors), refusals_(refusals), release_(std::move(release)), rounds_rows_(rounds_rows) {
  for (const auto& [name, tensor] : tensors) {
    if (IsSupportedType(tensor.type)) continue;
    refusals_.Add(
        tensor.type, Quoted(name),
        absl::UnimplementedError(absl::StrCat("tensors of this type are not supported; expected ", SupportedTypes())));
  }
}

const StoredTensor* Weights::Find(std::string_view name, const Shape& shape) {
  auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    refusals_.Add("tensor", Quoted(name),
                  absl::InvalidArgumentError(absl::StrCat("it is missing; expected one of ", ShapeToString(shape))));
    return nullptr;
  }
  if (!IsSupportedType(it->second.type)) return nullptr;
  if (it->second.shape == shape) return &it->second;
  refusals_.Add("tensor", Quoted(name),
                absl::InvalidArgumentError(
                    absl::StrCat("it has ", ShapeToString(it->second.shape), "; expected ", ShapeToString(shape))));
  return nullptr;
}

std::string Weights::Declare(std::string_view name, Literal value) {
  std::string variable = AsIdentifier(name);
  while (values_.contains(variable)) variable += "_";
  absl::StrAppend(&declarations_, "free_var %", variable, ": Tensor[(", absl::StrJoin(value.shape(), ", "), "), ",
                  value.dtype().ToString(), "];\n");
  values_.emplace(variable, std::move(value));
  return absl::StrCat("%", variable);
}

const std::string& Weights::VariableOf(const std::string& name, const StoredTensor& tensor, std::string_view suffix) {
  auto& variables = variables_[name];
  if (variables.empty()) {
    std::vector<WeightPart> parts = PartsOf(tensor);
    const bool is_copied = parts.front().value.data() != reinterpret_cast<const std::byte*>(tensor.data.bytes.data());
    if (is_copied && release_ != nullptr) release_(tensor.data.bytes);
    for (WeightPart& part : parts) {
      variables[part.suffix] = Declare(absl::StrCat(name, part.suffix), std::move(part.value));
    }
  }
  return variables.find(suffix)->second;
}

std::string Weights::Elements(std::string_view name, const Shape& shape,
                              absl::FunctionRef<std::string(const std::string& variable)> part) {
  const StoredTensor* tensor = Find(name, shape);
  if (tensor == nullptr) return "0f";
  std::string elements = ElementsOf(tensor->type, shape.size(), [&](std::string_view suffix) {
    return part(VariableOf(std::string(name), *tensor, suffix));
  });
  return absl::StrCat("(", elements, ")");
}

std::string Weights::Value(std::string_view name, const Shape& shape) {
  return Elements(name, shape, [](const std::string& variable) { return variable; });
}

std::string Weights::RowsFor(std::string_view name, std::string_view x, int64_t size) {
  const auto tensor = tensors_.find(name);
  const int64_t block = rounds_rows_ && tensor != tensors_.end() ? RoundedBlock(tensor->second.type) : 0;
  if (block == 0 || size % block != 0) return std::string(x);
  std::string function = absl::StrCat("@rounded_", size, "_by_", block);
  if (functions_.insert(function).second) absl::StrAppend(&declarations_, RoundedRows(function, size, block));
  return absl::StrCat(Abseil(function), "(", Abseil(x), ")");
}

std::string Weights::Rows(std::string_view name, const Shape& shape, std::string_view index) {
  return Elements(name, shape, [&](const std::string& variable) {
    return absl::StrCat("take(", variable, ", ", Abseil(index), ", axis=0)");
  });
}

DataType Weights::CacheDType(const std::string& projection) const {
  const auto found = tensors_.find(projection + ".weight");
  return found == tensors_.end() || found->second.type == "F32" ? kFloat32 : kFloat16;
}

std::vector<std::string> Weights::Unused() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (!variables_.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace rvm::checkpoint
