#include "compiler/import/keras/importer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/json.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "base/zip.h"

namespace rvm::keras {
namespace {

constexpr int64_t kMaxRank = 32;
constexpr std::string_view kWayOut =
    "it is Python code: import the model with `relayvm.import_keras(model)`, which exports it by JAX";

const LayerRow* FindRow(std::span<const std::span<const LayerRow>> families, std::string_view name) {
  for (std::span<const LayerRow> family : families) {
    for (const LayerRow& row : family) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

const LayerRow* FindRow(const Layer& layer) {
  if (layer.is_operation) return FindRow({{Operations()}}, layer.kind);
  const std::span<const LayerRow> families[] = {
      ActivationLayers(),    AttentionLayers(), ConvolutionLayers(),   CoreLayers(),      MergingLayers(),
      NormalizationLayers(), PoolingLayers(),   PreprocessingLayers(), RecurrentLayers(), ReshapingLayers()};
  return FindRow(families, layer.kind);
}

std::string LabelOf(const Layer& layer) { return absl::StrCat("`", Abseil(ReadableText(layer.name)), "`"); }

// Returns the kind of a layer as messages name it: a function of keras.ops may be called like a layer.
std::string KindOf(const Layer& layer) { return absl::StrCat(layer.is_operation ? "ops." : "", layer.kind); }

// Returns the shape that an InputLayer has, or the first layer of a Sequential model; null if unknown.
const JsonValue* ShapeOf(const Layer& layer, const Graph& graph) {
  for (std::string_view name : {"batch_shape", "batch_input_shape"}) {
    if (const JsonValue* shape = Member(layer.config, name)) return shape;
  }
  if (graph.input_shape != nullptr) return graph.input_shape;
  // A model as the first layer has an InputLayer of its own.
  const Graph* inner = graph.layers.size() > 1 ? graph.layers[1].graph.get() : nullptr;
  return inner == nullptr || inner->layers.empty() ? nullptr : ShapeOf(inner->layers[0], *inner);
}

}  // namespace

// Runs the calls of a model's layers that its outputs need, each once.
class GraphRun {
 public:
  GraphRun(Importer& importer, Emitter& emit, const Graph& graph) : importer_(importer), emit_(emit), graph_(graph) {}

  void Give(const std::string& layer, Value value) { Store({layer}, {value}); }

  Value Find(const TensorRef& ref) {
    const Values& results = *WithStack([&] { return ResultsOf(ref); });
    if (results.empty()) return {emit_.Placeholder()};
    if (static_cast<size_t>(ref.result) < results.size()) return results[static_cast<size_t>(ref.result)];
    emit_.Fail(absl::InvalidArgumentError(absl::StrCat("layer `", ref.layer, "` has no result ", ref.result)));
    return {emit_.Placeholder()};
  }

 private:
  // Returns the results of a call; none if it could not be imported.
  const Values* ResultsOf(const TensorRef& ref) {
    auto [found, is_new] = results_.try_emplace({ref.layer, ref.call}, nullptr);
    if (!is_new && found->second != nullptr) return found->second.get();
    auto fail = [&](std::string_view what) -> const Values* {
      emit_.Fail(absl::InvalidArgumentError(absl::StrCat("layer `", ref.layer, "` ", Abseil(what))));
      return Store(ref, {});
    };
    if (!is_new) return fail("depends on itself");
    const auto number = graph_.numbers.find(ref.layer);
    if (number == graph_.numbers.end()) return fail("is used; the model has no such layer");
    const Layer& layer = graph_.layers[number->second];
    if (static_cast<size_t>(ref.call) >= layer.calls.size()) {
      return fail(absl::StrCat("is called ", layer.calls.size(), " times; call ", ref.call, " is used"));
    }
    GivenArguments arguments;
    for (const Argument& argument : layer.calls[static_cast<size_t>(ref.call)]) {
      GivenArgument given{.keyword = argument.keyword, .value = argument.value};
      for (const std::optional<TensorRef>& tensor : argument.tensors) {
        given.values.push_back(tensor ? Find(*tensor) : Value());
      }
      arguments.push_back(std::move(given));
    }
    return Store(ref, importer_.CallLayer(layer, std::move(arguments)));
  }

  const Values* Store(const TensorRef& ref, Values values) {
    std::unique_ptr<Values>& results = results_[{ref.layer, ref.call}];
    results = std::make_unique<Values>(std::move(values));
    return results.get();
  }

  Importer& importer_;
  Emitter& emit_;
  const Graph& graph_;
  // By layer and number of the call; null while the call is converted.
  absl::flat_hash_map<std::pair<std::string, int64_t>, std::unique_ptr<Values>> results_;
};

// ---- layers

absl::StatusOr<Operand> Importer::Variable(const std::string& path, size_t number) {
  Operand& variable = variables_[absl::StrCat(path, "/", number)];
  if (variable != nullptr) return variable;
  RVM_ASSIGN_OR_RETURN(Literal literal, weights_.Find(path, number));
  return variable = emit_.Constant(std::move(literal), absl::StrCat(path, "/", number));
}

Operand* Importer::FindState(std::string_view name) {
  const auto state = std::ranges::find(states_, name, &State::name);
  return state == states_.end() ? nullptr : &state->value;
}

Values Importer::Convert(const Layer& layer, GivenArguments arguments) {
  const LayerRow* row = FindRow(layer);
  if (layer.is_custom || layer.kind == "Lambda") {
    emit_.Fail(absl::UnimplementedError(std::string(kWayOut)));
    return {};
  }
  if (row == nullptr) {
    emit_.Fail(absl::UnimplementedError(
        absl::StrCat("this ", layer.is_operation ? "operation" : "layer",
                     " is not supported; `relayvm.import_keras(model)` with KERAS_BACKEND=jax exports it by JAX")));
    return {};
  }
  for (const GivenArgument& argument : arguments) {
    for (const Value& value : argument.values) {
      if (value.tensor != nullptr && value.tensor->is_placeholder) return {};
    }
  }
  LayerContext context(*this, emit_, layer, *row, std::move(arguments));
  if (emit_.failed()) return {};
  Values results = row->convert(context);
  if (emit_.failed() || results.empty() || results[0].tensor == nullptr) return {};
  if (row->passes_mask && results[0].mask == nullptr) results[0].mask = context.Mask();
  return results;
}

Values Importer::CallLayer(const Layer& layer, GivenArguments arguments) {
  auto refuse = [&](const absl::Status& status) { refusals_.Add(KindOf(layer), LabelOf(layer), status); };
  if (!Spend(refuse, "models in it")) return {};
  if (layer.graph != nullptr) {
    Values inputs;
    for (const GivenArgument& argument : arguments) {
      if (argument.keyword.empty() || argument.keyword == "inputs") {
        inputs.insert(inputs.end(), argument.values.begin(), argument.values.end());
      }
    }
    return RunGraph(*layer.graph, inputs);
  }
  ir::Span outer =
      EnterOrigin([&] { return absl::StrCat(KindOf(layer), " layer ", LabelOf(layer), " of ", options_.name); });
  Values results = WithStack([&] { return Convert(layer, std::move(arguments)); });
  LeaveOrigin(outer);
  const absl::Status status = emit_.TakeStatus();
  if (status.ok()) return results;
  refuse(status);
  return {};
}

Values Importer::RunGraph(const Graph& graph, const Values& inputs) {
  GraphRun run(*this, emit_, graph);
  if (inputs.size() != graph.inputs.size()) {
    emit_.Fail(absl::InvalidArgumentError(
        absl::StrCat("a model of ", graph.inputs.size(), " inputs is called with ", inputs.size())));
    return {};
  }
  for (size_t i = 0; i < inputs.size(); ++i) run.Give(graph.inputs[i].layer, inputs[i]);
  Values outputs;
  for (const TensorRef& output : graph.outputs) outputs.push_back(run.Find(output));
  return outputs;
}

// ---- inputs

Importer::Importer(const Layer& model, Weights& weights, int version, const ImportOptions& options)
    : Frame(options), model_(model), weights_(weights), version_(version) {
  CountLayers(*model.graph);
}

void Importer::CountLayers(const Graph& graph) {
  for (const Layer& layer : graph.layers) {
    if (layer.graph != nullptr) {
      CountLayers(*layer.graph);
    } else if (!layer.is_input()) {
      for (size_t i = 0; i < layer.calls.size(); ++i) CountNode(KindOf(layer));
    }
  }
}

absl::Status Importer::ReadInput(const Layer& layer) {
  const std::string& name = layer.name;
  const JsonValue* shape = ShapeOf(layer, *model_.graph);
  const JsonValue::Array* extents = shape == nullptr ? nullptr : shape->AsArray();
  if (extents == nullptr || extents->size() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", LabelOf(layer),
                     " has no shape; call the model once, or begin it with keras.Input, and "
                     "save it again"));
  }
  Dims dims;
  for (size_t i = 0; i < extents->size(); ++i) {
    const JsonValue& extent = (*extents)[i];
    const std::string own = i == 0 ? "batch" : absl::StrCat(name, "_", i);
    if (!extent.is_null() && (extent.AsInt() == nullptr || *extent.AsInt() < 0)) {
      return absl::InvalidArgumentError(absl::StrCat("input ", LabelOf(layer), " has an extent that is no number"));
    }
    dims.push_back(InputExtent(name, i, extent.is_null() ? own : absl::StrCat(*extent.AsInt())));
  }
  if (BoolOf(layer.config, "sparse", false) || BoolOf(layer.config, "ragged", false)) {
    refusals_.Add("an input", LabelOf(layer), absl::UnimplementedError("it is a sparse or ragged tensor"));
  }
  const std::string text = TextOf(layer.config, "dtype", "float32");
  const std::optional<DataType> dtype = ParseDataType(text);
  if (!dtype) {
    refusals_.Add("an input", LabelOf(layer),
                  absl::UnimplementedError(absl::StrCat("its dtype is ", ReadableText(text), ", which Relay has not")));
    given_[name] = emit_.Placeholder();
    return absl::OkStatus();
  }
  if (!dims.empty()) batch_ = dims[0];
  RVM_ASSIGN_OR_RETURN(Operand frozen, FrozenInput(name, *dtype, dims));
  if (frozen != nullptr) {
    given_[name] = frozen;
    return absl::OkStatus();
  }
  AddParam(name, emit_.TensorType(std::move(dims), *dtype));
  params_.push_back(name);
  return absl::OkStatus();
}

absl::Status Importer::ReadInputs() {
  const Graph& graph = *model_.graph;
  std::vector<const Layer*> layers;
  std::vector<Input> inputs;
  for (const TensorRef& ref : graph.inputs) {
    const auto number = graph.numbers.find(ref.layer);
    if (number == graph.numbers.end() || !graph.layers[number->second].is_input()) {
      return absl::InvalidArgumentError(absl::StrCat("input `", ref.layer, "` is no InputLayer of the model"));
    }
    layers.push_back(&graph.layers[number->second]);
    const JsonValue* shape = ShapeOf(*layers.back(), graph);
    const bool has_rank = shape != nullptr && shape->AsArray() != nullptr;
    inputs.push_back({layers.back()->name, has_rank ? std::optional(shape->AsArray()->size()) : std::nullopt});
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (const Layer* layer : layers) {
    if (options_.frozen.contains(layer->name)) continue;
    std::vector<std::string> names = {"batch"};
    for (int64_t i = 1; i < kMaxRank; ++i) names.push_back(absl::StrCat(layer->name, "_", i));
    const std::vector<std::string_view> views(names.begin(), names.end());
    NoteExtentNames(layer->name, views);
  }
  for (const Layer* layer : layers) RVM_RETURN_IF_ERROR(ReadInput(*layer));
  RVM_RETURN_IF_ERROR(AddStates(graph));
  for (const State& state : states_) AddParam(state.name, emit_.TensorType(state.dims, kFloat32));
  AddSeed();
  return absl::OkStatus();
}

absl::Status Importer::AddStates(const Graph& graph) {
  for (const Layer& layer : graph.layers) RVM_RETURN_IF_ERROR(AddStates(layer));
  return absl::OkStatus();
}

// Notes also the states of layers that cannot be imported: nothing reads them.
absl::Status Importer::AddStates(const Layer& layer) {
  if (layer.graph != nullptr) return AddStates(*layer.graph);
  for (const Part& part : PartsOf(layer)) {
    RVM_ASSIGN_OR_RETURN(Layer inner, ReadPart(layer, part));
    RVM_RETURN_IF_ERROR(AddStates(inner));
  }
  const bool is_lstm = layer.kind == "LSTM";
  if (!is_lstm && layer.kind != "GRU" && layer.kind != "SimpleRNN") return absl::OkStatus();
  const JsonValue* units = Member(layer.config, "units");
  if (!BoolOf(layer.config, "stateful", false) || units == nullptr || units->AsInt() == nullptr) {
    return absl::OkStatus();
  }
  for (int i = 0; i < (is_lstm ? 2 : 1); ++i) {
    states_.push_back({absl::StrCat(layer.path, "/state_", i), {batch_, Dim(*units->AsInt())}});
  }
  return absl::OkStatus();
}

// ---- the program

Operands Importer::Outputs(ImportedModel& result) {
  const Graph& graph = *model_.graph;
  GraphRun run(*this, emit_, graph);
  for (const TensorRef& input : graph.inputs) run.Give(input.layer, {given_[input.layer]});
  absl::flat_hash_set<std::string> names;
  Operands outputs;
  for (const TensorRef& output : graph.outputs) {
    outputs.push_back(run.Find(output).tensor);
    const absl::Status status = emit_.TakeStatus();
    if (!status.ok()) refusals_.Add("an output", absl::StrCat("`", Abseil(ReadableText(output.layer)), "`"), status);
    std::string name = output.layer;
    for (int i = 1; !names.insert(name).second; ++i) name = absl::StrCat(output.layer, "_", i);
    result.outputs.push_back(std::move(name));
  }
  for (const State& state : states_) {
    outputs.push_back(state.value);
    result.outputs.push_back(state.name);
  }
  return outputs;
}

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  RVM_RETURN_IF_ERROR(ReadInputs());
  EnterOrigin([&] { return options_.name; });
  ImportedModel result;
  DefineMain([&](const Operands& params) {
    for (size_t i = 0; i < params.size(); ++i) {
      const std::string& name = i < params_.size() ? params_[i] : states_[i - params_.size()].name;
      params[i]->name = name;
      if (i < params_.size()) {
        given_[name] = params[i];
      } else {
        states_[i - params_.size()].value = params[i];
      }
      result.inputs.push_back(name);
    }
    return Outputs(result);
  });
  if (!states_.empty() && batch_.is_const()) {
    DefineInitialState([&] {
      Operands zeros;
      for (const State& state : states_) {
        zeros.push_back(Steps(emit_).BroadcastTo(emit_.Number(0, kFloat32), state.dims));
      }
      return zeros;
    });
  }
  RVM_RETURN_IF_ERROR(Finish(result));
  NameResults(result);
  return result;
}

// ---- files

namespace {

struct Files {
  JsonValue config;
  FileBytes weights;
  int version = 3;  // of Keras
  bool is_old = false;
};

int VersionOf(std::string_view text) { return !text.empty() && text[0] >= '1' && text[0] <= '9' ? text[0] - '0' : 3; }

absl::StatusOr<FileBytes> ReadEntry(const FileBytes& file, const ZipEntry& entry) {
  auto unpacked = std::make_shared<std::vector<uint8_t>>();
  RVM_ASSIGN_OR_RETURN(importing::Bytes bytes, ReadZipEntry(entry, *unpacked));
  if (unpacked->empty()) return FileBytes{bytes, file.owner};
  return FileBytes{bytes, std::move(unpacked)};
}

absl::StatusOr<JsonValue> ReadJson(importing::Bytes bytes, std::string_view what) {
  absl::StatusOr<JsonValue> json = ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (json.ok()) return json;
  return absl::InvalidArgumentError(absl::StrCat("`", Abseil(what), "` in it: ", json.status().message()));
}

absl::StatusOr<Files> ReadArchive(const FileBytes& file) {
  Files files;
  RVM_ASSIGN_OR_RETURN(std::vector<ZipEntry> entries, ListZip(file.bytes));
  bool has_config = false, has_weights = false;
  for (const ZipEntry& entry : entries) {
    if (entry.name == "config.json" || entry.name == "metadata.json") {
      RVM_ASSIGN_OR_RETURN(FileBytes bytes, ReadEntry(file, entry));
      RVM_ASSIGN_OR_RETURN(JsonValue json, ReadJson(bytes.bytes, entry.name));
      if (entry.name == "metadata.json") {
        files.version = VersionOf(TextOf(&json, "keras_version", "3"));
      } else {
        files.config = std::move(json);
        has_config = true;
      }
    } else if (entry.name == "model.weights.h5") {
      RVM_ASSIGN_OR_RETURN(files.weights, ReadEntry(file, entry));
      has_weights = true;
    }
  }
  if (has_config && has_weights) return files;
  return absl::InvalidArgumentError(absl::StrCat("it has no `", has_config ? "model.weights.h5" : "config.json",
                                                 "`; expected what `model.save(\"model.keras\")` of Keras writes"));
}

// Reads a .h5 file, whose config is an attribute.
absl::StatusOr<Files> ReadHdf5(const FileBytes& file, hdf5::File& hdf5) {
  Files files{.weights = file, .is_old = true};
  RVM_ASSIGN_OR_RETURN(const hdf5::Object* root, hdf5.Find(""));
  auto text = [&](std::string_view name) -> absl::StatusOr<std::string> {
    const hdf5::Attribute* attribute = root->FindAttribute(name);
    if (attribute == nullptr) return "";
    RVM_ASSIGN_OR_RETURN(std::vector<std::string> texts, hdf5.Texts(*attribute));
    return texts.empty() ? "" : texts[0];
  };
  RVM_ASSIGN_OR_RETURN(const std::string config, text("model_config"));
  if (config.empty()) {
    return absl::InvalidArgumentError(
        "it has weights alone; expected a model: build it in Python, load these weights, and write both with "
        "`model.save(\"model.keras\")`");
  }
  RVM_ASSIGN_OR_RETURN(const std::string version, text("keras_version"));
  files.version = VersionOf(version);
  RVM_ASSIGN_OR_RETURN(files.config,
                       ReadJson({reinterpret_cast<const uint8_t*>(config.data()), config.size()}, "model_config"));
  return files;
}

}  // namespace

absl::StatusOr<ImportedModel> Import(const FileBytes& file, const ImportOptions& options) {
  Files files;
  if (file.bytes.size() > 1 && file.bytes[0] == 'P' && file.bytes[1] == 'K') {
    RVM_ASSIGN_OR_RETURN(files, ReadArchive(file));
  }
  RVM_ASSIGN_OR_RETURN(hdf5::File hdf5, hdf5::File::Open(files.weights.bytes.empty() ? file : files.weights));
  if (files.weights.bytes.empty()) {
    RVM_ASSIGN_OR_RETURN(files, ReadHdf5(file, hdf5));
  }
  RVM_ASSIGN_OR_RETURN(Layer model, ReadLayer(files.config, ""));
  if (model.graph == nullptr || model.is_custom) {
    return absl::UnimplementedError(absl::StrCat("the model is a `", ReadableText(model.kind),
                                                 "`, not Sequential or Functional: ", Abseil(kWayOut)));
  }
  Weights weights(std::move(hdf5), files.weights.bytes.size());
  if (files.is_old) RVM_RETURN_IF_ERROR(weights.ReadOldNames(*model.graph, "model_weights"));
  return Importer(model, weights, files.version, options).Import();
}

}  // namespace rvm::keras
