// Generates input for passes over graphs of operators: layers with constant weights and scales, several of one operand;
// and loop invariants of recursive functions.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {

// `text` times a constant, which varies along axis 1, the channels, or along none; or `text`.
std::string Generator::Scaled(const std::string& text, const TypeRef& type) {
  int form = dice_.Pick(8);
  if (form < 4) return text;
  if (form == 4) return absl::StrCat("(", text, " * ", Number(type->dtype), ")");
  if (form == 5) return absl::StrCat("(", text, " / cast(4f, dtype=\"", type->dtype.ToString(), "\"))");
  std::vector<std::string> dims(type->dims.begin() + 1, type->dims.end());
  for (size_t i = 1; i < dims.size(); ++i) dims[i] = "1";
  std::string scale = TensorConstant(Tensor(type->dtype, dims));
  if (form == 6) scale = absl::StrCat("abs(", scale, ")");
  return absl::StrCat("(", text, " * ", scale, ")");
}

// Returns a layer from `data` of the type `from`. REQUIRES: types of rank 2 or 3 that differ in axis 1 only.
std::string Generator::Layer(const std::string& data, const TypeRef& from, const TypeRef& type) {
  const std::string &inner = from->dims[1], &channels = type->dims[1];
  const bool is_dense = type->dims.size() == 2;
  auto vector = [&] { return TensorConstant(Tensor(type->dtype, {channels})); };
  std::string operand = Scaled(data, from);
  if (!differentiable_ && dice_.Chance(20)) operand = absl::StrCat("nn.relu(", operand, ")");
  int taps = is_dense ? 1 : 1 + 2 * dice_.Pick(2);
  std::vector<std::string> weight = {channels, inner};
  if (!is_dense) weight.push_back(absl::StrCat(taps));
  std::string made =
      absl::StrCat(is_dense ? "nn.dense(" : "nn.conv1d(", operand, ", ", TensorConstant(Tensor(type->dtype, weight)));
  absl::StrAppend(&made, is_dense ? ")" : absl::StrCat(", padding=[", taps / 2, "])"));
  if (dice_.Chance(40)) made = absl::StrCat("nn.bias_add(", made, ", ", vector(), ")");
  if (dice_.Chance(20)) made = absl::StrCat("(", Number(type->dtype), " + ", made, ")");
  if (!differentiable_ && dice_.Chance(30)) made = absl::StrCat("nn.relu(", made, ")");
  made = Scaled(made, type);
  if (differentiable_ || !dice_.Chance(15)) return made;
  std::string variances = absl::StrCat("exp(", vector(), ")");
  return absl::StrCat("nn.batch_norm(", made, ", ", vector(), ", ", vector(), ", ", vector(), ", ", variances, ").0");
}

// One layer or two of one operand, side by side. REQUIRES: a static type of floats of rank 2 or 3.
std::string Generator::Layers(const TypeRef& type, int depth) {
  std::vector<int64_t> shape = StaticShape(type), from_shape = shape;
  from_shape[1] = 1 + dice_.Pick(3);
  TypeRef from = WithDims(type, from_shape);
  std::string value = Expr(from, depth - 1), data = NewName("x"), made;
  if (shape[1] == 1 || dice_.Chance(30)) {
    made = Layer(data, from, type);
  } else {
    std::vector<int64_t> first = shape, rest = shape;
    first[1] = 1;
    rest[1] -= 1;
    std::string one = Layer(data, from, WithDims(type, first));
    made = absl::StrCat("concatenate((", one, ", ", Layer(data, from, WithDims(type, rest)), "), axis=1)");
  }
  return absl::StrCat("{ let ", data, " = ", value, "; tanh(", made, ") }");
}

// Made of one parameter of the function whose body begins.
Generator::Invariant Generator::MakeInvariant(const Signature& signature) {
  std::vector<Variable> params;
  for (size_t i = scope_.size() - signature.params.size(); i < scope_.size(); ++i) {
    const TypeRef& type = scope_[i].type;
    if (IsStaticTensor(type) && !IsScalar(type) && !type->dtype.is_bool()) params.push_back(scope_[i]);
  }
  if (params.empty()) return {};
  Variable param = dice_.Of(params);
  const bool is_smooth = smooth_ && param.type->dtype.is_float();
  if (is_smooth && dice_.Chance(30)) return {{NewName("h"), param.type}, absl::StrCat("tanh(", param.name, ")")};
  std::vector<int64_t> shape = StaticShape(param.type);
  int axis = dice_.Pick(static_cast<int>(shape.size()));
  shape.erase(shape.begin() + axis);
  const char* op = is_smooth ? "mean" : dice_.Chance(50) ? "max" : "min";
  return {{NewName("h"), WithDims(param.type, shape)}, absl::StrCat(op, "(", param.name, ", axis=[", axis, "])")};
}

// `step` behind the let of an invariant, whose value decides what is done or is added, where it may.
std::string Generator::WithInvariant(const Invariant& invariant, const std::string& step, const std::string& end,
                                     const TypeRef& result) {
  const auto& [name, type] = invariant.variable;
  const bool is_smooth = smooth_ && type->dtype.is_float();
  std::string value = IsScalar(type) ? name : absl::StrCat(is_smooth ? "mean(" : "max(", name, ")");
  std::string body = step;
  if (!is_smooth) {
    body = absl::StrCat("if (", value, " <= ", Number(type->dtype), ") { ", step, " } else { ", end, " }");
  } else if (IsStaticTensor(result) && result->dtype == type->dtype) {
    body = absl::StrCat("tanh((", step, " + ", value, "))");
  }
  return absl::StrCat("{ let ", name, " = ", invariant.text, "; ", body, " }");
}

// Extends the result of an entry by what is computed.
Generator::GraphWork Generator::AddGraphWork(Signature& signature) {
  GraphWork work;
  std::vector<TypeRef> results = {signature.result};
  for (const Signature& function : functions_) {
    bool is_open = false;
    for (const TypeRef& param : function.params) is_open |= HasOpenDims(param);
    if (function.has_invariant && !is_open && function.type_params.empty() && IsData(function.result)) {
      work.loop = function;
    }
  }
  if (work.loop.result != nullptr) results.push_back(work.loop.result);
  DataType dtype = dice_.Of(dtypes_);
  if (smooth_ && dtype.is_float()) {
    std::vector<std::string> dims;
    for (int i = 2 + dice_.Pick(2); i > 0; --i) dims.push_back(absl::StrCat(1 + dice_.Pick(3)));
    work.layers = Tensor(dtype, std::move(dims));
    results.push_back(work.layers);
  }
  if (results.size() > 1) signature.result = TupleOf(std::move(results));
  return work;
}

std::string Generator::WithGraphWork(const GraphWork& work, std::string body) {
  if (work.loop.result == nullptr && work.layers == nullptr) return body;
  budget_ = 40;
  if (work.loop.result != nullptr) absl::StrAppend(&body, ", ", CallWith(work.loop, {}, 3));
  if (work.layers != nullptr) absl::StrAppend(&body, ", ", Layers(work.layers, 3));
  return absl::StrCat("(", body, ")");
}

}  // namespace rvm::random_programs
