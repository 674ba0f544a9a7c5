#include "compiler/import/checkpoint/expressions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/abseil.h"

namespace rvm::checkpoint {

std::string FloatText(double value) { return absl::StrFormat("%.9gf", value); }

std::string FloatTensor(std::string_view extents, DataType dtype) {
  return absl::StrCat("Tensor[(", Abseil(extents), "), ", dtype.ToString(), "]");
}

std::string EmptyCache(int64_t heads, int64_t size, DataType dtype) {
  return absl::StrCat("zeros(shape=[0, ", heads, ", ", size, "], dtype=\"", dtype.ToString(), "\")");
}

std::string Product(Weights& weights, std::string_view x, const std::string& name, int64_t outputs, int64_t inputs) {
  const std::string weight = name + ".weight", rows = weights.RowsFor(weight, x, inputs);
  return absl::StrCat("nn.dense(", rows, ", ", weights.Value(weight, {outputs, inputs}), ")");
}

std::string Dense(Weights& weights, std::string_view x, const std::string& name, int64_t outputs, int64_t inputs) {
  return WithBias(weights, Product(weights, x, name, outputs, inputs), name, outputs);
}

std::string WithBias(Weights& weights, std::string y, const std::string& name, int64_t outputs) {
  if (weights.Has(name + ".bias")) absl::StrAppend(&y, " + ", weights.Value(name + ".bias", {outputs}));
  return y;
}

std::string LayerNorm(Weights& weights, std::string_view x, const std::string& name, int64_t width, double epsilon) {
  const bool is_old = weights.Has(name + ".gamma");
  return absl::StrCat("nn.layer_norm(", Abseil(x), ", ", weights.Value(name + (is_old ? ".gamma" : ".weight"), {width}),
                      ", ", weights.Value(name + (is_old ? ".beta" : ".bias"), {width}),
                      ", epsilon=", FloatText(epsilon), ")");
}

}  // namespace rvm::checkpoint
