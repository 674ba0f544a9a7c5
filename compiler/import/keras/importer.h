// Importer: Keras layers as Relay, call by call. Internal to this folder; import.h is for others.
#ifndef RVM_COMPILER_IMPORT_KERAS_IMPORTER_H_
#define RVM_COMPILER_IMPORT_KERAS_IMPORTER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/frame/frame.h"
#include "compiler/import/keras/import.h"
#include "compiler/import/keras/model.h"
#include "compiler/import/keras/weights.h"

namespace rvm::keras {

using importing::Emitter;
using importing::Operand;
using importing::Operands;
using importing::Steps;

// A tensor, and which of its steps count. Null tensor: None. Null mask: all steps count.
struct Value {
  Operand tensor = nullptr;
  Operand mask = nullptr;
};
using Values = std::vector<Value>;

class Importer;
class LayerContext;

struct LayerRow {
  std::string_view name;  // "Conv2D"
  Values (*convert)(LayerContext&);
  std::string_view variant = "";  // of a converter of several layers: an operator of Relay, or a mode
  bool passes_mask = false;       // the first result has the mask of the first input, unless the converter gave one
};
// Return the layers that can be imported, by family: one file each, with a table at its end.
std::span<const LayerRow> ActivationLayers();
std::span<const LayerRow> AttentionLayers();
std::span<const LayerRow> ConvolutionLayers();
std::span<const LayerRow> CoreLayers();
std::span<const LayerRow> MergingLayers();
std::span<const LayerRow> NormalizationLayers();
std::span<const LayerRow> PoolingLayers();
std::span<const LayerRow> PreprocessingLayers();
std::span<const LayerRow> RecurrentLayers();
std::span<const LayerRow> ReshapingLayers();
// Returns the functions of keras.ops that a model may have between its layers.
std::span<const LayerRow> Operations();

// An argument of a call with the values of its tensors.
struct GivenArgument {
  std::string keyword;
  Values values;  // empty if it is no tensor
  const JsonValue* value = nullptr;

  // Returns the first tensor; null if it is None, or no tensor.
  Operand tensor() const { return values.empty() ? nullptr : values[0].tensor; }
};
using GivenArguments = std::vector<GivenArgument>;

// One call of a layer while it is converted, and the steps that it becomes.
class LayerContext : public Steps {
 public:
  LayerContext(Importer& importer, Emitter& emit, const Layer& layer, const LayerRow& row, GivenArguments arguments);

  Importer& importer() const { return importer_; }
  const Layer& layer() const { return layer_; }
  const LayerRow& row() const { return row_; }
  // Returns the dtype that the layer computes in.
  DataType dtype() const { return dtype_; }

  // ---- the config
  const JsonValue* Member(std::string_view name) const { return keras::Member(layer_.config, name); }
  bool Bool(std::string_view name, bool otherwise) const { return BoolOf(layer_.config, name, otherwise); }
  std::string Text(std::string_view name, std::string_view otherwise) const {
    return TextOf(layer_.config, name, otherwise);
  }
  // Returns a number; a mistake for others.
  double Number(std::string_view name, double otherwise);
  using Steps::Number;
  // Returns an integer; a mistake for others.
  int64_t Int(std::string_view name, int64_t otherwise);
  // Returns the integers of a list, or one alone; a mistake if it is neither.
  std::vector<int64_t> Ints(std::string_view name);
  // Returns `count` positive integers; one alone stands for all. A mistake for others.
  std::vector<int64_t> Extents(std::string_view name, size_t count, int64_t otherwise = 1);
  // Returns numbers nested in lists as a constant; null if the config has none.
  Operand Numbers(std::string_view name);

  // ---- the arguments of the call
  // Returns argument `position`, or the one with that keyword; null if it is not given.
  const GivenArgument* Find(std::string_view keyword, size_t position) const;
  bool Flag(std::string_view keyword, bool otherwise = false) const;
  // Returns the tensors of the first argument: the inputs.
  const Values& inputs() const { return inputs_; }
  // Returns input `i`, cast to the layer's dtype if it is a float; a mistake where there is none.
  Operand In(size_t i = 0);
  // Casts integers to the layer's dtype, too.
  Operand Real(size_t i = 0) { return Cast(In(i), dtype_); }
  Operand Mask(size_t i = 0) const { return i < inputs_.size() ? inputs_[i].mask : nullptr; }
  // Casts a float to the layer's dtype.
  Operand Computed(Operand x);
  // Casts a float of less than 32 bits to float32, in which Keras computes normalisations. Null stays null.
  Operand Wide(Operand x);
  // Returns whether channels are the last axis, not axis 1.
  bool has_channels_last() const { return Text("data_format", "channels_last") != "channels_first"; }
  int64_t first_space_axis() const { return has_channels_last() ? 1 : 2; }
  // Returns how many axes of space the layer has: the digit at the end of its row's variant, 0 without one.
  size_t space_axes() const { return row_.variant.empty() ? 0 : static_cast<size_t>(row_.variant.back() - '0'); }

  // ---- weights
  // Returns a variable by its name, in the layer's dtype; null if the config says that there is none.
  Operand Weight(std::string_view name);
  // Returns variable `number` at a path below the layer's.
  Operand WeightAt(std::string_view part, size_t number);

  // Returns `x` after the activation that a member of the config names.
  Operand Activated(Operand x, std::string_view member = "activation");
  // Calls a layer that is a part of this one.
  Values CallPart(const JsonValue& json, std::string_view part, GivenArguments arguments);

 private:
  Importer& importer_;
  const Layer& layer_;
  const LayerRow& row_;
  GivenArguments arguments_;
  Values inputs_;
  DataType dtype_ = kFloat32;
};

// Returns x after an activation: a name, or an object of a class with a config. A mistake for one that is not known.
Operand Activate(LayerContext& c, Operand x, const JsonValue* activation);

class Importer final : public importing::Frame {
 public:
  // `version` is that of Keras which wrote the file.
  Importer(const Layer& model, Weights& weights, int version, const ImportOptions& options);

  int version() const { return version_; }
  // Returns variable `number` of the layer with that path.
  absl::StatusOr<Operand> Variable(const std::string& path, size_t number);
  // Converts a call of a layer; a refusal gives placeholders.
  Values CallLayer(const Layer& layer, GivenArguments arguments);
  // Returns the results of a model whose inputs have those values.
  Values RunGraph(const Graph& graph, const Values& inputs);
  // Returns the value of a tensor that stays between runs, a further parameter and result; null if there is none.
  Operand* FindState(std::string_view name);

 private:
  // A state of a stateful recurrent layer.
  struct State {
    std::string name;
    Dims dims;
    Operand value = nullptr;
  };

  absl::StatusOr<ImportedModel> ImportModel() override;
  absl::Status ReadInputs();
  absl::Status ReadInput(const Layer& layer);
  // Notes the states of the stateful layers of a model.
  absl::Status AddStates(const Graph& graph);
  absl::Status AddStates(const Layer& layer);
  void CountLayers(const Graph& graph);
  Values Convert(const Layer& layer, GivenArguments arguments);
  Operands Outputs(ImportedModel& result);

  const Layer& model_;
  Weights& weights_;
  const int version_;
  Dim batch_ = 1;
  std::vector<std::string> params_;                      // names of inputs that are parameters, in order
  absl::flat_hash_map<std::string, Operand> given_;      // values of the model's inputs, by name
  absl::flat_hash_map<std::string, Operand> variables_;  // by path and number
  std::vector<State> states_;
};

}  // namespace rvm::keras

#endif  // RVM_COMPILER_IMPORT_KERAS_IMPORTER_H_
