// Relay expressions that programs of models have in common.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_EXPRESSIONS_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_EXPRESSIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/import/checkpoint/weights.h"

namespace rvm::checkpoint {

// "0.5f"
std::string FloatText(double value);
// Returns the type of a tensor with those extents, of float32 unless told otherwise.
std::string FloatTensor(std::string_view extents, DataType dtype = kFloat32);

// Returns the keys or the values of no tokens, of `heads` heads of `size` elements.
std::string EmptyCache(int64_t heads, int64_t size, DataType dtype);

// Returns the rows `x` times the weight of the projection `name`, [outputs, inputs].
std::string Product(Weights& weights, std::string_view x, const std::string& name, int64_t outputs, int64_t inputs);
// Applies the projection `name`, with a bias if the model has one.
std::string Dense(Weights& weights, std::string_view x, const std::string& name, int64_t outputs, int64_t inputs);
// Adds the bias of the projection `name` to `y` if the model has one.
std::string WithBias(Weights& weights, std::string y, const std::string& name, int64_t outputs);
// Applies the norm `name`, which has a weight and a bias: `.weight` and `.bias`, in old models `.gamma` and `.beta`.
std::string LayerNorm(Weights& weights, std::string_view x, const std::string& name, int64_t width, double epsilon);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_EXPRESSIONS_H_
