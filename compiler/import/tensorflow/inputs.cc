// Inputs and outputs: those of the signature of a SavedModel; of a GraphDef, placeholders and nodes that no other
// reads.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

constexpr std::string_view kServing = "serving_default", kInitialisation = "__saved_model_init_op";

// Returns whether a node without readers is an output: those that only check, print or order others are none.
bool GivesOutput(const Node& node) {
  constexpr std::string_view kOthers[] = {"NoOp",  "Assert", "Print",     "PrintV2",     "Placeholder",
                                          "Const", "SaveV2", "RestoreV2", "VarHandleOp", "CheckNumerics"};
  return std::ranges::find(kOthers, node.op) == std::end(kOthers) && !node.op.starts_with("Assign") &&
         !node.op.ends_with("Initialize");
}

// Returns which nodes are among `from`, or next to such a node, and so on.
std::vector<bool> Reached(std::vector<int32_t> from, const std::vector<std::vector<int32_t>>& next) {
  std::vector<bool> reached(next.size(), false);
  while (!from.empty()) {
    const auto node = static_cast<size_t>(from.back());
    from.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    from.insert(from.end(), next[node].begin(), next[node].end());
  }
  return reached;
}

}  // namespace

Importer::Importer(const Model& model, const ImportOptions& options) : Frame(options), model_(model) {}

absl::Status Importer::ChooseSignature() {
  const Signature* chosen = nullptr;
  std::vector<std::string_view> names;
  for (const Signature& signature : model_.signatures) {
    if (signature.name == kInitialisation) continue;
    names.push_back(signature.name);
    if (chosen == nullptr || signature.name == kServing) chosen = &signature;
  }
  if (chosen == nullptr) {
    return absl::InvalidArgumentError(
        "the SavedModel has no signature; save it with `signatures=`, or a Keras model by `model.export`");
  }
  if (names.size() > 1 && chosen->name != kServing) {
    return absl::InvalidArgumentError(
        absl::StrCat("the SavedModel has the signatures `",
                     absl::StrJoin(std::vector<std::string>(names.begin(), names.end()), "`, `"),
                     "`; expected one, or one called `", Abseil(kServing), "`"));
  }
  auto add = [&](const std::vector<Endpoint>& endpoints, std::vector<Port>& ports) -> absl::Status {
    for (const Endpoint& endpoint : endpoints) {
      const std::optional<Source> source = FindSource(model_.graph, endpoint.tensor);
      if (!source || source->node == Source::kNone) {
        return absl::InvalidArgumentError(absl::StrCat("signature `", Abseil(chosen->name), "` names the tensor `",
                                                       Abseil(endpoint.tensor), "`, which no node gives"));
      }
      ports.push_back({endpoint.name, *source});
    }
    return absl::OkStatus();
  };
  RVM_RETURN_IF_ERROR(add(chosen->inputs, inputs_));
  return add(chosen->outputs, outputs_);
}

absl::Status Importer::ChooseByNodes() {
  const std::vector<Node>& nodes = model_.graph.nodes;
  std::vector<std::vector<int32_t>> before(nodes.size()), behind(nodes.size());
  std::vector<int32_t> placeholders, ends;
  for (size_t i = 0; i < nodes.size(); ++i) {
    // A constant in a branch depends on the condition by its controls alone.
    before[i] = nodes[i].controls;
    for (const Source& source : nodes[i].inputs) before[i].push_back(source.node);
    for (int32_t node : before[i]) behind[static_cast<size_t>(node)].push_back(static_cast<int32_t>(i));
    if (nodes[i].op == "Placeholder") placeholders.push_back(static_cast<int32_t>(i));
  }
  // Converters leave constants behind that nothing reads.
  const std::vector<bool> depends = Reached(placeholders, behind);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool is_last = behind[i].empty() && (depends[i] || placeholders.empty());
    if (!is_last || !GivesOutput(nodes[i])) continue;
    ends.push_back(static_cast<int32_t>(i));
    outputs_.push_back({nodes[i].name, Source{.node = ends.back()}});
  }
  const std::vector<bool> is_needed = Reached(ends, before);
  for (int32_t node : placeholders) {
    const auto number = static_cast<size_t>(node);
    if (is_needed[number]) inputs_.push_back({nodes[number].name, Source{.node = node}});
  }
  return absl::OkStatus();
}

absl::Status Importer::ChooseEndpoints() {
  RVM_RETURN_IF_ERROR(model_.is_saved_model ? ChooseSignature() : ChooseByNodes());
  if (outputs_.empty()) return absl::InvalidArgumentError("the model has no outputs");
  return absl::OkStatus();
}

absl::Status Importer::ReadInput(const Port& port, Scope& scope) {
  const Node& node = model_.graph.nodes[static_cast<size_t>(port.source.node)];
  auto refuse = [&](const absl::Status& status) {
    refusals_.Add("an input", absl::StrCat("`", Abseil(ReadableText(port.name)), "`"), status);
    scope.values[port.source.node] = {emit_.Placeholder()};
    return absl::OkStatus();
  };
  const uint64_t type = node.attr("dtype").Type().value_or(0);
  const std::optional<DataType> dtype = ToDataType(type);
  if (!dtype) return refuse(absl::UnimplementedError(absl::StrCat(TypeName(type), ", which Relay has not")));
  std::optional<std::vector<int64_t>> shape;
  if (const std::optional<Bytes> given = node.attr("shape").Shape()) shape = tensorflow::ReadShape(*given);
  if (auto given = options_.shapes.find(port.name); !shape && given != options_.shapes.end()) {
    shape.emplace(given->second.size(), -1);
  }
  std::optional<Dims> dims;
  if (shape) {
    dims.emplace();
    for (size_t i = 0; i < shape->size(); ++i) {
      dims->push_back(InputExtent(port.name, i, (*shape)[i] < 0 ? "?" : absl::StrCat((*shape)[i])));
    }
  }
  RVM_ASSIGN_OR_RETURN(Operand frozen, FrozenInput(port.name, *dtype, dims));
  if (frozen != nullptr) {
    scope.values[port.source.node] = {frozen};
    return absl::OkStatus();
  }
  if (!dims) return refuse(absl::InvalidArgumentError("its rank is unknown; give its shape by --shape"));
  AddParam(port.name, emit_.TensorType(*std::move(dims), *dtype));
  param_inputs_.push_back(static_cast<size_t>(&port - inputs_.data()));
  return absl::OkStatus();
}

absl::Status Importer::ReadInputs(Scope& scope) {
  std::vector<Input> inputs;
  for (const Port& port : inputs_) {
    const Node& node = model_.graph.nodes[static_cast<size_t>(port.source.node)];
    const std::optional<Bytes> given = node.attr("shape").Shape();
    const std::optional<std::vector<int64_t>> shape = given ? tensorflow::ReadShape(*given) : std::nullopt;
    inputs.push_back({port.name, shape ? std::optional(shape->size()) : std::nullopt});
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (const Input& input : inputs) {
    if (!options_.frozen.contains(input.name)) NoteExtentNames(input.name, {});
  }
  for (const Port& port : inputs_) RVM_RETURN_IF_ERROR(ReadInput(port, scope));
  return absl::OkStatus();
}

// Counts the nodes that the outputs depend on, and those of the functions that they call.
void Importer::CountReachable() {
  absl::flat_hash_set<const Graph*> seen = {&model_.graph};
  std::vector<const Graph*> open = {&model_.graph};
  while (!open.empty()) {
    const Graph& graph = *open.back();
    open.pop_back();
    std::vector<bool> is_counted(graph.nodes.size(), false);
    std::vector<int32_t> nodes = graph.controls;
    auto add = [&](const std::vector<Source>& sources) {
      for (const Source& source : sources) {
        if (source.node != Source::kNone) nodes.push_back(source.node);
      }
    };
    add(graph.results);
    if (&graph == &model_.graph) {
      for (const Port& port : outputs_) nodes.push_back(port.source.node);
    }
    while (!nodes.empty()) {
      const auto number = static_cast<size_t>(nodes.back());
      nodes.pop_back();
      if (is_counted[number]) continue;
      is_counted[number] = true;
      const Node& node = graph.nodes[number];
      CountNode(node.op);
      add(node.inputs);
      for (const auto& [name, value] : node.attrs) {
        std::vector<std::string_view> functions = Attr(value).Functions();
        functions.push_back(Attr(value).Function());
        for (std::string_view function : functions) {
          auto called = model_.functions.find(function);
          if (called != model_.functions.end() && seen.insert(&called->second).second) open.push_back(&called->second);
        }
      }
    }
  }
}

}  // namespace rvm::tensorflow
