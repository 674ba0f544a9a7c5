// Variables, and the keys of their values in the checkpoint: what the model's own restoring would give them. Those that
// a run changes are state: parameters of each entry behind the inputs, and results behind the outputs. @initial_state
// gives their values in the checkpoint.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/tensorflow/importer.h"
#include "compiler/import/tensorflow/saved_objects.h"

namespace rvm::tensorflow {
namespace {

constexpr int kMaxDepth = 8;                                 // of functions that restore
constexpr std::string_view kPrefix = "variables/variables";  // of the files of the checkpoint, beside saved_model.pb

bool IsVariable(const Node& node) {
  return node.op == "VarHandleOp" || node.op == "VariableV2" || node.op == "Variable";
}

bool IsAssignment(const Node& node) { return node.op.starts_with("Assign") || node.op.starts_with("ResourceScatter"); }

// Returns the names of the functions that a node runs.
std::vector<std::string_view> FunctionsOf(const Node& node) {
  std::vector<std::string_view> functions = {node.op};
  for (std::string_view attr : {"f", "then_branch", "else_branch", "cond", "body"}) {
    if (std::string_view name = node.attr(attr).Function(); !name.empty()) functions.push_back(name);
  }
  for (std::string_view name : node.attr("branches").Functions()) functions.push_back(name);
  return functions;
}

// Returns the number of the first input that is an argument of these functions.
size_t FirstArgument(const Node& node) {
  const bool chooses = node.op.ends_with("If") || node.op.ends_with("Case");
  return chooses ? 1 : 0;
}

// Follows nodes that pass a tensor on.
Source Origin(const Graph& graph, Source source) {
  for (size_t i = 0; i < graph.nodes.size() && source.node != Source::kNone; ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(source.node)];
    if (node.op != "Identity" || node.inputs.empty()) break;
    source = node.inputs[0];
  }
  return source;
}

// Returns the key under which a node assigns what it restores; "" if it does not.
std::string_view RestoredKey(const Graph& graph, const Node& assign) {
  const Source value = Origin(graph, assign.inputs[1]);
  if (value.node == Source::kNone) return {};
  const Node& restore = graph.nodes[static_cast<size_t>(value.node)];
  if (restore.op != "RestoreV2" || restore.inputs.size() < 2) return {};
  const Source names = Origin(graph, restore.inputs[1]);
  if (names.node == Source::kNone) return {};
  const std::optional<Bytes> tensor = graph.nodes[static_cast<size_t>(names.node)].attr("value").Tensor();
  const absl::StatusOr<std::vector<std::string_view>> texts =
      tensor ? ReadTexts(*tensor) : absl::NotFoundError("no constant");
  const auto index = static_cast<size_t>(value.index);
  return texts.ok() && index < texts->size() ? (*texts)[index] : std::string_view();
}

}  // namespace

void Importer::FindVariables() {
  for (const Node& node : model_.graph.nodes) {
    if (!IsVariable(node)) continue;
    const std::string_view shared = node.attr("shared_name").Text().value_or("");
    variable_numbers_.emplace(node.name, variables_.size());
    variables_.push_back({.name = std::string(shared.empty() ? node.name : shared), .key = {}});
  }
  // A function may name the variable by its shared name.
  for (size_t i = 0; i < variables_.size(); ++i) variable_numbers_.emplace(variables_[i].name, i);
  if (!variables_.empty()) FindRestored(model_.graph, {}, 0);
  if (std::ranges::any_of(variables_, [](const Variable& variable) { return variable.key.empty(); })) FindCaptured();
}

// Finds the keys of variables that functions capture, whatever the graph restores: TensorFlow loads them by their
// places in the program that saved them.
void Importer::FindCaptured() {
  if (model_.objects.empty()) return;
  if (!checkpoint_) checkpoint_ = Checkpoint::Open(kPrefix, options_.files);
  if (!checkpoint_->ok()) return;
  const absl::StatusOr<importing::FileBytes> stored = (*checkpoint_)->ReadText("_CHECKPOINTABLE_OBJECT_GRAPH");
  if (!stored.ok()) return;
  const auto captured = CapturedObjects(model_.objects);
  const auto keys = KeysOfObjects(model_.objects, stored->bytes);
  for (const Node& node : model_.graph.nodes) {
    auto function = captured.find(node.attr("f").Function());
    if (function == captured.end() || function->second.size() > node.inputs.size()) continue;
    const size_t first = node.inputs.size() - function->second.size();
    for (size_t i = 0; i < function->second.size(); ++i) {
      const std::optional<size_t> variable = VariableOf(model_.graph, {}, node.inputs[first + i]);
      auto key = keys.find(function->second[i]);
      if (!variable || key == keys.end() || !variables_[*variable].key.empty()) continue;
      variables_[*variable].key = std::string(key->second);
    }
  }
}

std::optional<size_t> Importer::VariableOf(const Graph& graph, const VariableNumbers& arguments,
                                           const Source& source) const {
  const Source origin = Origin(graph, source);
  if (origin.argument != Source::kNone) {
    const auto argument = static_cast<size_t>(origin.argument);
    return argument < arguments.size() ? arguments[argument] : std::nullopt;
  }
  const Node& node = graph.nodes[static_cast<size_t>(origin.node)];
  auto found = variable_numbers_.find(node.name);
  return IsVariable(node) && found != variable_numbers_.end() ? std::optional(found->second) : std::nullopt;
}

void Importer::FindRestored(const Graph& graph, const VariableNumbers& arguments, int depth) {
  for (const Node& node : graph.nodes) {
    if ((node.op == "AssignVariableOp" || node.op == "Assign") && node.inputs.size() >= 2) {
      const std::optional<size_t> variable = VariableOf(graph, arguments, node.inputs[0]);
      if (variable && variables_[*variable].key.empty()) variables_[*variable].key = RestoredKey(graph, node);
    }
    if (!node.op.ends_with("PartitionedCall") || depth == kMaxDepth || --restored_budget_ < 0) continue;
    auto function = model_.functions.find(node.attr("f").Function());
    if (function == model_.functions.end()) continue;
    VariableNumbers own;
    for (const Source& input : node.inputs) own.push_back(VariableOf(graph, arguments, input));
    FindRestored(function->second, own, depth + 1);
  }
}

std::optional<size_t> Importer::FindVariable(std::string_view name) const {
  auto found = variable_numbers_.find(name);
  return found == variable_numbers_.end() ? std::nullopt : std::optional(found->second);
}

// ---- values

absl::StatusOr<Literal> Importer::StoredValue(const Variable& variable) {
  if (!checkpoint_) checkpoint_ = Checkpoint::Open(kPrefix, options_.files);
  RVM_RETURN_IF_ERROR(checkpoint_->status());
  absl::StatusOr<Literal> value = (*checkpoint_)->Read(variable.key.empty() ? variable.name : variable.key);
  if (value.ok()) return value;
  return absl::Status(value.status().code(),
                      absl::StrCat("variable `", Abseil(variable.name), "` has no value: ", value.status().message()));
}

Operand Importer::ReadVariable(size_t number) {
  Variable& variable = variables_[number];
  if (variable.value != nullptr) return variable.value;
  absl::StatusOr<Literal> value = StoredValue(variable);
  if (value.ok()) return variable.value = emit_.Constant(*std::move(value), variable.name);
  emit_.Fail(value.status());
  return emit_.Placeholder();
}

// ---- state

// Returns the nodes of the graph that the outputs depend on.
std::vector<bool> Importer::ReachableNodes() const {
  const std::vector<Node>& nodes = model_.graph.nodes;
  std::vector<bool> is_reached(nodes.size(), false);
  std::vector<int32_t> open = model_.graph.controls;
  for (const Entry& entry : entries_) {
    for (const Port& port : entry.outputs) open.push_back(port.source.node);
  }
  while (!open.empty()) {
    const auto number = static_cast<size_t>(open.back());
    open.pop_back();
    if (is_reached[number]) continue;
    is_reached[number] = true;
    open.insert(open.end(), nodes[number].controls.begin(), nodes[number].controls.end());
    for (const Source& source : nodes[number].inputs) {
      if (source.node != Source::kNone) open.push_back(source.node);
    }
  }
  return is_reached;
}

// Adds the variables that these nodes write to, and those that the functions write to that they call. A variable that
// is not found may be any.
void Importer::FindWritten(const Graph& graph, const VariableNumbers& arguments, const std::vector<bool>& nodes,
                           int depth, std::set<size_t>& written) {
  auto add_all = [&] {
    for (size_t i = 0; i < variables_.size(); ++i) written.insert(i);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool is_reached = nodes.empty() || nodes[i];
    if (!is_reached || !HasEffect(node)) continue;
    if (IsAssignment(node) && !node.inputs.empty()) {
      const std::optional<size_t> variable = VariableOf(graph, arguments, node.inputs[0]);
      if (!variable) return add_all();
      written.insert(*variable);
      continue;
    }
    const size_t first = FirstArgument(node);
    VariableNumbers own;
    for (size_t k = first; k < node.inputs.size(); ++k) own.push_back(VariableOf(graph, arguments, node.inputs[k]));
    for (std::string_view name : FunctionsOf(node)) {
      auto function = model_.functions.find(name);
      if (function == model_.functions.end()) continue;
      if (depth == kMaxDepth || --written_budget_ < 0) return add_all();
      FindWritten(function->second, own, {}, depth + 1, written);
    }
  }
}

std::vector<size_t> Importer::WrittenBy(const Graph& function, const Operands& arguments) {
  if (variables_.empty()) return {};
  VariableNumbers own;
  for (Operand argument : arguments) {
    const bool is_number =
        argument->constant && argument->constant->dtype() == kInt64 && argument->constant->rank() == 0;
    const int64_t number = is_number ? argument->constant->IntAt(0) : -1;
    const bool is_variable = number >= 0 && std::cmp_less(number, variables_.size());
    own.push_back(is_variable ? std::optional(static_cast<size_t>(number)) : std::nullopt);
  }
  std::set<size_t> written;
  FindWritten(function, own, {}, 0, written);
  std::erase_if(written, [&](size_t number) { return !variables_[number].is_state; });
  return {written.begin(), written.end()};
}

void Importer::FindState() {
  std::set<size_t> written;
  if (!variables_.empty()) FindWritten(model_.graph, {}, ReachableNodes(), 0, written);
  for (size_t number : written) {
    Variable& variable = variables_[number];
    absl::StatusOr<Literal> first = StoredValue(variable);
    if (!first.ok()) {
      refusals_.Add("a variable", absl::StrCat("`", Abseil(ReadableText(variable.name)), "`"), first.status());
      variable.value = emit_.Placeholder();
      continue;
    }
    variable.first = *std::move(first);
    variable.is_state = true;
  }
}

void Importer::AddStateParams() {
  for (const Variable& variable : variables_) {
    if (!variable.is_state) continue;
    Dims dims;
    for (int64_t extent : variable.first->shape()) dims.emplace_back(extent);
    AddParam(variable.name, emit_.TensorType(std::move(dims), variable.first->dtype()));
  }
}

void Importer::DefineInitialState() {
  if (std::ranges::none_of(variables_, &Variable::is_state)) return;
  Frame::DefineInitialState([&] {
    Operands values;
    for (const Variable& variable : variables_) {
      if (variable.is_state) values.push_back(emit_.Constant(*variable.first, variable.name));
    }
    return values;
  });
}

}  // namespace rvm::tensorflow
