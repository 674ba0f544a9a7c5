#include "compiler/import/keras/weights.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"

namespace rvm::keras {
namespace {

#define RVM_KERNEL_AND_BIAS(kind) {kind, "kernel", ""}, {kind, "bias", "use_bias"}
#define RVM_CELL(kind) {kind, "kernel", ""}, {kind, "recurrent_kernel", ""}, {kind, "bias", "use_bias"}
#define RVM_SEPARABLE(kind) {kind, "depthwise_kernel", ""}, {kind, "pointwise_kernel", ""}, {kind, "bias", "use_bias"}

constexpr VariableRow kVariables[] = {
    RVM_KERNEL_AND_BIAS("Dense"),
    RVM_KERNEL_AND_BIAS("Conv1D"),
    RVM_KERNEL_AND_BIAS("Conv2D"),
    RVM_KERNEL_AND_BIAS("Conv3D"),
    RVM_KERNEL_AND_BIAS("Conv1DTranspose"),
    RVM_KERNEL_AND_BIAS("Conv2DTranspose"),
    RVM_KERNEL_AND_BIAS("Conv3DTranspose"),
    RVM_KERNEL_AND_BIAS("DepthwiseConv1D"),
    RVM_KERNEL_AND_BIAS("DepthwiseConv2D"),
    {"EinsumDense", "kernel", ""},
    {"EinsumDense", "bias", "bias_axes"},
    RVM_SEPARABLE("SeparableConv1D"),
    RVM_SEPARABLE("SeparableConv2D"),
    {"Embedding", "embeddings", ""},
    {"BatchNormalization", "gamma", "scale"},
    {"BatchNormalization", "beta", "center"},
    {"BatchNormalization", "moving_mean", "", false},
    {"BatchNormalization", "moving_variance", "", false},
    {"LayerNormalization", "gamma", "scale"},
    {"LayerNormalization", "beta", "center"},
    {"GroupNormalization", "gamma", "scale"},
    {"GroupNormalization", "beta", "center"},
    {"LayerScale", "gamma", ""},
    {"RMSNormalization", "scale", ""},
    {"SpectralNormalization", "vector_u", "", false},
    {"Normalization", "mean", "!mean", false},
    {"Normalization", "variance", "!mean", false},
    {"Normalization", "count", "!mean", false},
    {"PReLU", "alpha", ""},
    {"Attention", "scale", "use_scale"},
    {"Attention", "concat_score_weight", "score_mode=concat"},
    {"AdditiveAttention", "scale", "use_scale"},
    RVM_CELL("LSTMCell"),
    RVM_CELL("GRUCell"),
    RVM_CELL("SimpleRNNCell"),
    RVM_CELL("ConvLSTMCell"),
};
#undef RVM_KERNEL_AND_BIAS
#undef RVM_CELL
#undef RVM_SEPARABLE

bool Holds(std::string_view condition, const JsonValue* config) {
  if (condition.empty()) return true;
  if (condition[0] == '!') return Member(config, condition.substr(1)) == nullptr;
  if (const size_t at = condition.find('='); at != std::string_view::npos) {
    return TextOf(config, condition.substr(0, at), "") == condition.substr(at + 1);
  }
  const JsonValue* member = config->Find(condition);
  if (member == nullptr) return condition != "use_scale" && condition != "bias_axes";
  return !member->is_null() && (member->AsBool() == nullptr || *member->AsBool());
}

// Returns the kind of the cell of a recurrent layer, whose variables are at the cell's path; "" for others.
std::string_view CellOf(std::string_view kind) {
  if (kind == "LSTM") return "LSTMCell";
  if (kind == "GRU") return "GRUCell";
  if (kind == "SimpleRNN") return "SimpleRNNCell";
  if (kind == "ConvLSTM1D" || kind == "ConvLSTM2D" || kind == "ConvLSTM3D") return "ConvLSTMCell";
  return "";
}

// Returns true for a description of a recurrent layer.
bool IsRecurrent(const JsonValue* layer) {
  const std::string kind = TextOf(layer, "class_name", "");
  return kind == "RNN" || !CellOf(kind).empty();
}

struct Variable {
  std::string path;
  size_t number;
  bool is_trainable;
};

void AddVariables(const Graph& graph, bool is_trainable, std::vector<Variable>& variables);

// Adds a layer's variables in the order of `Layer.weights` of Keras.
absl::Status AddVariables(const Layer& layer, bool is_trainable, std::vector<Variable>& variables) {
  is_trainable = is_trainable && BoolOf(layer.config, "trainable", true);
  if (layer.graph != nullptr) {
    AddVariables(*layer.graph, is_trainable, variables);
    return absl::OkStatus();
  }
  Layer cell;
  const Layer* owner = &layer;
  if (const std::string_view kind = CellOf(layer.kind); !kind.empty()) {
    cell.kind = std::string(kind);
    cell.config = layer.config;
    cell.path = absl::StrCat(layer.path, "/cell");
    owner = &cell;
  }
  size_t number = 0;
  for (const VariableRow* row : VariablesOf(*owner)) {
    variables.push_back({owner->path, number++, is_trainable && row->is_trainable});
  }
  if (layer.kind == "MultiHeadAttention" || layer.kind == "GroupQueryAttention") {
    for (std::string_view part : {"query_dense", "key_dense", "value_dense", "output_dense"}) {
      const size_t count = BoolOf(layer.config, "use_bias", true) ? 2 : 1;
      for (size_t i = 0; i < count; ++i) {
        variables.push_back({absl::StrCat(layer.path, "/", Abseil(part)), i, is_trainable});
      }
    }
  }
  for (const Part& part : PartsOf(layer)) {
    RVM_ASSIGN_OR_RETURN(Layer inner, ReadPart(layer, part));
    RVM_RETURN_IF_ERROR(AddVariables(inner, is_trainable, variables));
  }
  return absl::OkStatus();
}

void AddVariables(const Graph& graph, bool is_trainable, std::vector<Variable>& variables) {
  // A layer that cannot be read has been refused before.
  for (const Layer& layer : graph.layers) AddVariables(layer, is_trainable, variables).IgnoreError();
}

// Returns the strings of an attribute, which Keras splits into several with numbers where it is long.
absl::StatusOr<std::vector<std::string>> NamesOf(const hdf5::File& file, const hdf5::Object& group,
                                                 std::string_view attribute) {
  if (const hdf5::Attribute* found = group.FindAttribute(attribute)) return file.Texts(*found);
  std::vector<std::string> names;
  for (int i = 0;; ++i) {
    const hdf5::Attribute* found = group.FindAttribute(absl::StrCat(Abseil(attribute), i));
    if (found == nullptr) return names;
    RVM_ASSIGN_OR_RETURN(std::vector<std::string> more, file.Texts(*found));
    names.insert(names.end(), more.begin(), more.end());
  }
}

}  // namespace

std::vector<const VariableRow*> VariablesOf(const Layer& layer) {
  std::vector<const VariableRow*> variables;
  if (layer.is_operation) return variables;
  for (const VariableRow& row : kVariables) {
    if (row.kind == layer.kind && Holds(row.condition, layer.config)) variables.push_back(&row);
  }
  return variables;
}

std::vector<Part> PartsOf(const Layer& layer) {
  std::vector<Part> parts;
  const JsonValue* inner = Member(layer.config, "layer");
  if (layer.kind == "Bidirectional") {
    const JsonValue* backward = Member(layer.config, "backward_layer");
    if (backward == nullptr) backward = inner;
    if (IsRecurrent(inner) && IsRecurrent(backward)) parts = {{"forward_layer", inner}, {"backward_layer", backward}};
  } else if ((layer.kind == "TimeDistributed" || layer.kind == "SpectralNormalization") && inner != nullptr) {
    parts.push_back({"layer", inner});
  } else if (layer.kind == "RNN") {
    if (const JsonValue* cell = Member(layer.config, "cell")) parts.push_back({"cell", cell});
  } else if (layer.kind == "StackedRNNCells") {
    const JsonValue* cells = Member(layer.config, "cells");
    if (cells == nullptr || cells->AsArray() == nullptr) return parts;
    absl::flat_hash_map<std::string, int> used;
    for (const JsonValue& cell : *cells->AsArray()) {
      parts.push_back({absl::StrCat("cells/", NameOfWeights(TextOf(&cell, "class_name", ""), used)), &cell});
    }
  }
  return parts;
}

absl::StatusOr<Layer> ReadPart(const Layer& layer, const Part& part) {
  return ReadLayer(*part.json, absl::StrCat(layer.path, "/", part.path));
}

absl::Status Weights::ReadOldNames(const Graph& graph, std::string_view group) {
  has_old_names_ = true;
  for (const Layer& layer : graph.layers) {
    std::vector<Variable> variables;
    RVM_RETURN_IF_ERROR(AddVariables(layer, true, variables));
    // Keras writes what training changes first.
    std::ranges::stable_partition(variables, &Variable::is_trainable);
    if (variables.empty()) continue;
    const std::string path = absl::StrCat(Abseil(group), "/", layer.name);
    if (!file_->Has(path)) continue;  // found missing where a variable is wanted
    RVM_ASSIGN_OR_RETURN(const hdf5::Object* object, file_->Find(path));
    RVM_ASSIGN_OR_RETURN(std::vector<std::string> names, NamesOf(*file_, *object, "weight_names"));
    if (names.size() != variables.size()) {
      return absl::InvalidArgumentError(absl::StrCat("layer `", layer.name, "` has ", names.size(),
                                                     " weights in the file; its config has ", variables.size()));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      datasets_[absl::StrCat(variables[i].path, "/", variables[i].number)] = absl::StrCat(path, "/", names[i]);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Literal> Weights::Find(std::string_view path, size_t number) {
  std::string place = absl::StrCat(Abseil(path), "/vars/", number);
  if (has_old_names_) {
    const auto found = datasets_.find(absl::StrCat(Abseil(path), "/", number));
    if (found == datasets_.end()) {
      return absl::NotFoundError(absl::StrCat("the file has no weights for `", Abseil(path), "`"));
    }
    place = found->second;
  } else if (!file_->Has(place) && path.starts_with("layers/")) {
    // The first .keras files had another name for the layers of a model.
    const std::string old = absl::StrCat("_layer_checkpoint_dependencies/", Abseil(path.substr(7)), "/vars/", number);
    if (file_->Has(old)) place = old;
  }
  RVM_ASSIGN_OR_RETURN(const hdf5::Object* dataset, file_->Find(place));
  RVM_ASSIGN_OR_RETURN(Literal tensor, file_->Tensor(*dataset));
  budget_ -= tensor.num_elements() * tensor.dtype().bytes();
  if (budget_ < 0) return absl::InvalidArgumentError("its weights share datasets too often");
  return tensor;
}

}  // namespace rvm::keras
