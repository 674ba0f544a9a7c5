// The layers of a Keras model and how they are called, as a config of Keras 2 or 3 says it.
#ifndef RVM_COMPILER_IMPORT_KERAS_MODEL_H_
#define RVM_COMPILER_IMPORT_KERAS_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/json.h"

namespace rvm::keras {

// A result of one call of a layer.
struct TensorRef {
  std::string layer;
  int64_t call = 0, result = 0;
};

// An argument of a call: tensors, or a value.
struct Argument {
  std::string keyword;                            // "" if given by position
  std::vector<std::optional<TensorRef>> tensors;  // one, or those of a list; nullopt: None. Empty for a value
  const JsonValue* value = nullptr;
};
using Call = std::vector<Argument>;

struct Graph;

struct Layer {
  std::string kind;           // "Dense"
  std::string name;           // "dense_1"
  std::string path;           // of its weights in a .keras file: "layers/dense_1"
  bool is_operation = false;  // a function of keras.ops, not a layer
  bool is_custom = false;     // a class of the user's
  const JsonValue* config = nullptr;
  std::vector<Call> calls;
  std::unique_ptr<Graph> graph;  // of a model that is a layer

  bool is_input() const { return kind == "InputLayer"; }
};

struct Graph {
  std::vector<Layer> layers;
  std::vector<TensorRef> inputs, outputs;
  absl::flat_hash_map<std::string, size_t> numbers;  // of layers, by name
  // The shape that a Sequential model without an InputLayer has; null if unknown.
  const JsonValue* input_shape = nullptr;
};

// Returns the layer that `json` describes: an object with `class_name` and `config`. `json` must outlive it. `path` is
// that of its weights.
absl::StatusOr<Layer> ReadLayer(const JsonValue& json, std::string path);

// Returns the name of a layer's weights among those of a list: "conv2d_transpose" for the first "Conv2DTranspose",
// "conv2d_transpose_1" for the second. `used` counts the layers before it by that name.
std::string NameOfWeights(std::string_view kind, absl::flat_hash_map<std::string, int>& used);

// Members of a config.
const JsonValue* Member(const JsonValue* config, std::string_view name);
bool BoolOf(const JsonValue* config, std::string_view name, bool otherwise);
std::string TextOf(const JsonValue* config, std::string_view name, std::string_view otherwise);

}  // namespace rvm::keras

#endif  // RVM_COMPILER_IMPORT_KERAS_MODEL_H_
