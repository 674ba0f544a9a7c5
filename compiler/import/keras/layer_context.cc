// Contexts of layers: their configs, arguments and weights.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/abseil.h"
#include "compiler/import/keras/importer.h"

namespace rvm::keras {
namespace {

// Returns the name of a dtype policy: a string, or an object with a config.
std::string PolicyOf(const JsonValue* config) {
  const JsonValue* dtype = Member(config, "dtype");
  if (dtype == nullptr) return "float32";
  if (dtype->AsString() != nullptr) return *dtype->AsString();
  return TextOf(Member(dtype, "config"), "name", "float32");
}

std::optional<double> NumberOf(const JsonValue& json) {
  if (json.AsInt() != nullptr) return static_cast<double>(*json.AsInt());
  if (json.AsDouble() != nullptr) return *json.AsDouble();
  return std::nullopt;
}

// Appends nested lists of numbers; returns false if they are no tensor.
bool AppendNumbers(const JsonValue& json, size_t depth, Shape& shape, std::vector<float>& values) {
  if (const JsonValue::Array* items = json.AsArray()) {
    const auto count = static_cast<int64_t>(items->size());
    if (depth == shape.size() && values.empty()) shape.push_back(count);
    if (depth >= shape.size() || shape[depth] != count) return false;
    for (const JsonValue& item : *items) {
      if (!AppendNumbers(item, depth + 1, shape, values)) return false;
    }
    return true;
  }
  const std::optional<double> number = NumberOf(json);
  if (number) values.push_back(static_cast<float>(*number));
  return number && depth == shape.size();
}

}  // namespace

LayerContext::LayerContext(Importer& importer, Emitter& emit, const Layer& layer, const LayerRow& row,
                           GivenArguments arguments)
    : Steps(emit), importer_(importer), layer_(layer), row_(row), arguments_(std::move(arguments)) {
  for (const GivenArgument& argument : arguments_) {
    if (argument.keyword.empty() || argument.keyword == "inputs" || argument.keyword == "sequences") {
      inputs_ = argument.values;
      break;
    }
  }
  const std::string policy = PolicyOf(layer.config);
  const std::optional<DataType> dtype = ParseDataType(std::string(absl::StripPrefix(policy, "mixed_")));
  if (dtype) {
    dtype_ = *dtype;
  } else {
    Unsupported(absl::StrCat("the dtype policy `", policy, "`"));
  }
  // A mask that the model computes takes the place of the one that the inputs carry.
  if (const GivenArgument* mask = layer.is_operation ? nullptr : Find("mask", SIZE_MAX)) {
    for (size_t i = 0; i < mask->values.size() && i < inputs_.size(); ++i) {
      if (mask->values[i].tensor != nullptr) inputs_[i].mask = mask->values[i].tensor;
    }
  }
}

// ---- the config

double LayerContext::Number(std::string_view name, double otherwise) {
  const JsonValue* member = Member(name);
  if (member == nullptr) return otherwise;
  if (std::optional<double> number = NumberOf(*member)) return *number;
  Fail(absl::StrCat("its `", Abseil(name), "` is no number"));
  return otherwise;
}

int64_t LayerContext::Int(std::string_view name, int64_t otherwise) {
  const JsonValue* member = Member(name);
  if (member == nullptr) return otherwise;
  if (member->AsInt() != nullptr) return *member->AsInt();
  const std::vector<int64_t> numbers = Ints(name);
  if (numbers.size() == 1) return numbers[0];
  if (!failed()) Fail(absl::StrCat("its `", Abseil(name), "` is no integer"));
  return otherwise;
}

std::vector<int64_t> LayerContext::Ints(std::string_view name) {
  const JsonValue* member = Member(name);
  if (member == nullptr) return {};
  // A tuple is an object of Keras 3 in some places.
  if (const JsonValue* items = keras::Member(member, "items")) member = items;
  std::vector<int64_t> numbers;
  const JsonValue::Array one = {*member};
  for (const JsonValue& item : member->AsArray() == nullptr ? one : *member->AsArray()) {
    if (item.AsInt() == nullptr) {
      Fail(absl::StrCat("its `", Abseil(name), "` is not made of integers"));
      return {};
    }
    numbers.push_back(*item.AsInt());
  }
  return numbers;
}

std::vector<int64_t> LayerContext::Extents(std::string_view name, size_t count, int64_t otherwise) {
  std::vector<int64_t> numbers = Ints(name);
  if (numbers.empty()) numbers.push_back(otherwise);
  if (numbers.size() == 1) numbers.resize(count, numbers[0]);
  constexpr int64_t kMaxExtent = int64_t{1} << 31;
  const bool is_in_range = std::ranges::all_of(numbers, [](int64_t n) { return n > 0 && n < kMaxExtent; });
  if (numbers.size() == count && is_in_range) return numbers;
  Fail(absl::StrCat("its `", Abseil(name), "` is not ", count, " positive numbers"));
  return std::vector<int64_t>(count, 1);
}

Operand LayerContext::Numbers(std::string_view name) {
  const JsonValue* member = Member(name);
  if (member == nullptr) return nullptr;
  // NumPy's arrays are objects with a value.
  if (const JsonValue* value = keras::Member(keras::Member(member, "config"), "value")) member = value;
  Shape shape;
  std::vector<float> values;
  if (!AppendNumbers(*member, 0, shape, values)) return Fail(absl::StrCat("its `", Abseil(name), "` is no tensor"));
  return emit().Constant(Literal::FromValues<float>(kFloat32, std::move(shape), values));
}

// ---- the arguments of the call

const GivenArgument* LayerContext::Find(std::string_view keyword, size_t position) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const GivenArgument& argument = arguments_[i];
    if (argument.keyword.empty() ? i == position : argument.keyword == keyword) return &argument;
  }
  return nullptr;
}

bool LayerContext::Flag(std::string_view keyword, bool otherwise) const {
  const GivenArgument* argument = Find(keyword, SIZE_MAX);
  const bool* flag = argument == nullptr || argument->value == nullptr ? nullptr : argument->value->AsBool();
  return flag == nullptr ? otherwise : *flag;
}

Operand LayerContext::In(size_t i) {
  if (i < inputs_.size() && inputs_[i].tensor != nullptr) return Computed(inputs_[i].tensor);
  return Fail(absl::StrCat("input ", i, " is missing"));
}

Operand LayerContext::Computed(Operand x) {
  return !failed() && DTypeOf(x).is_float() && dtype_.is_float() ? Cast(x, dtype_) : x;
}

Operand LayerContext::Wide(Operand x) {
  return x != nullptr && !failed() && DTypeOf(x).is_float() && DTypeOf(x).bytes() < 4 ? Cast(x, kFloat32) : x;
}

// ---- weights

Operand LayerContext::Weight(std::string_view name) {
  const std::vector<const VariableRow*> variables = VariablesOf(layer_);
  const auto row = std::ranges::find(variables, name, [](const VariableRow* one) { return one->name; });
  if (row == variables.end()) return nullptr;
  return WeightAt("", static_cast<size_t>(row - variables.begin()));
}

Operand LayerContext::WeightAt(std::string_view part, size_t number) {
  auto variable = [&](std::string_view own) {
    return importer_.Variable(absl::StrCat(layer_.path, own.empty() ? "" : "/", Abseil(own)), number);
  };
  absl::StatusOr<Operand> found = variable(part);
  // Some versions of Keras name parts by their private attributes.
  if (absl::IsNotFound(found.status()) && !part.empty()) {
    absl::StatusOr<Operand> hidden = variable(absl::StrCat("_", Abseil(part)));
    if (hidden.ok()) found = std::move(hidden);
  }
  if (found.ok()) return Computed(*found);
  emit().Fail(found.status());
  return emit().Placeholder();
}

Operand LayerContext::Activated(Operand x, std::string_view member) { return Activate(*this, x, Member(member)); }

Values LayerContext::CallPart(const JsonValue& json, std::string_view part, GivenArguments arguments) {
  if (failed()) return {};
  absl::StatusOr<Layer> inner = ReadLayer(json, absl::StrCat(layer_.path, "/", Abseil(part)));
  if (!inner.ok()) {
    emit().Fail(inner.status());
    return {};
  }
  return importer_.CallLayer(*inner, std::move(arguments));
}

}  // namespace rvm::keras
