// Inputs and outputs: those of signatures of a SavedModel; of a GraphDef, placeholders and nodes that no other
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
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/frame/signatures.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

constexpr std::string_view kInitialisation = "__saved_model_init_op";

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

absl::StatusOr<std::vector<const Signature*>> Importer::ChooseSignatures() const {
  std::vector<const Signature*> known, chosen;
  std::vector<std::string_view> names;
  for (const Signature& signature : model_.signatures) {
    if (signature.name == kInitialisation) continue;
    known.push_back(&signature);
    names.push_back(signature.name);
  }
  if (known.empty()) {
    return absl::InvalidArgumentError(
        "the SavedModel has no signature; save it with `signatures=`, or a Keras model by `model.export`");
  }
  RVM_ASSIGN_OR_RETURN(const std::vector<size_t> numbers,
                       importing::ChooseSignatures(names, options_.signatures, "the SavedModel"));
  for (size_t number : numbers) chosen.push_back(known[number]);
  return chosen;
}

absl::Status Importer::AddSignature(const Signature& signature, std::string function) {
  Entry& entry = entries_.emplace_back();
  entry.name = std::move(function);
  auto add = [&](const std::vector<Endpoint>& endpoints, std::vector<Port>& ports) -> absl::Status {
    for (const Endpoint& endpoint : endpoints) {
      const std::optional<Source> source = FindSource(model_.graph, endpoint.tensor);
      if (!source || source->node == Source::kNone) {
        return absl::InvalidArgumentError(absl::StrCat("signature `", Abseil(signature.name), "` names the tensor `",
                                                       Abseil(endpoint.tensor), "`, which no node gives"));
      }
      ports.push_back({endpoint.name, *source});
    }
    return absl::OkStatus();
  };
  RVM_RETURN_IF_ERROR(add(signature.inputs, entry.inputs));
  return add(signature.outputs, entry.outputs);
}

void Importer::AddGraph() {
  Entry& entry = entries_.emplace_back(Entry{.name = std::string(kMain), .inputs = {}, .outputs = {}});
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
    entry.outputs.push_back({nodes[i].name, Source{.node = ends.back()}});
  }
  const std::vector<bool> is_needed = Reached(ends, before);
  for (int32_t node : placeholders) {
    const auto number = static_cast<size_t>(node);
    if (is_needed[number]) entry.inputs.push_back({nodes[number].name, Source{.node = node}});
  }
}

absl::Status Importer::ChooseEntries() {
  if (model_.is_saved_model) {
    RVM_ASSIGN_OR_RETURN(const std::vector<const Signature*> signatures, ChooseSignatures());
    std::vector<std::string_view> chosen;
    for (const Signature* signature : signatures) chosen.push_back(signature->name);
    const std::vector<std::string> functions = NamesOfEntries(chosen);
    for (size_t i = 0; i < signatures.size(); ++i) RVM_RETURN_IF_ERROR(AddSignature(*signatures[i], functions[i]));
  } else if (!options_.signatures.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "signature `", options_.signatures[0], "`: a graph has no signatures; those of a SavedModel may be chosen"));
  } else {
    AddGraph();
  }
  for (const Entry& entry : entries_) {
    if (entry.outputs.empty()) return absl::InvalidArgumentError("the model has no outputs");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Importer::ReadInput(const Port& port, Scope& scope) {
  const Node& node = model_.graph.nodes[static_cast<size_t>(port.source.node)];
  auto refuse = [&](const absl::Status& status) {
    refusals_.Add("an input", absl::StrCat("`", Abseil(ReadableText(port.name)), "`"), status);
    scope.values[port.source.node] = {emit_.Placeholder()};
    return false;
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
    return false;
  }
  if (!dims) return refuse(absl::InvalidArgumentError("its rank is unknown; give its shape by --shape"));
  AddParam(port.name, emit_.TensorType(*std::move(dims), *dtype));
  return true;
}

absl::Status Importer::CheckInputs() {
  std::vector<Input> inputs;
  for (const Entry& entry : entries_) {
    for (const Port& port : entry.inputs) {
      const Node& node = model_.graph.nodes[static_cast<size_t>(port.source.node)];
      const std::optional<Bytes> given = node.attr("shape").Shape();
      const std::optional<std::vector<int64_t>> shape = given ? tensorflow::ReadShape(*given) : std::nullopt;
      inputs.push_back({port.name, shape ? std::optional(shape->size()) : std::nullopt});
    }
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (const Input& input : inputs) {
    if (!options_.frozen.contains(input.name)) NoteExtentNames(input.name, {});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const Importer::Port*>> Importer::ReadInputs(const Entry& entry, Scope& scope) {
  std::vector<const Port*> params;
  for (const Port& port : entry.inputs) {
    RVM_ASSIGN_OR_RETURN(const bool is_param, ReadInput(port, scope));
    if (is_param) params.push_back(&port);
  }
  return params;
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
      for (const Entry& entry : entries_) {
        for (const Port& port : entry.outputs) nodes.push_back(port.source.node);
      }
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
