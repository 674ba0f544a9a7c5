// Variables, and the keys of their values in the checkpoint: what the model's own restoring would give them.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

constexpr int kMaxDepth = 8;                                 // of functions that restore
constexpr std::string_view kPrefix = "variables/variables";  // of the files of the checkpoint, beside saved_model.pb

bool IsVariable(const Node& node) {
  return node.op == "VarHandleOp" || node.op == "VariableV2" || node.op == "Variable";
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
}

void Importer::FindRestored(const Graph& graph, std::span<const std::optional<size_t>> arguments, int depth) {
  auto variable_of = [&](const Source& source) -> std::optional<size_t> {
    const Source origin = Origin(graph, source);
    if (origin.argument != Source::kNone) {
      const auto argument = static_cast<size_t>(origin.argument);
      return argument < arguments.size() ? arguments[argument] : std::nullopt;
    }
    const Node& node = graph.nodes[static_cast<size_t>(origin.node)];
    auto found = variable_numbers_.find(node.name);
    return IsVariable(node) && found != variable_numbers_.end() ? std::optional(found->second) : std::nullopt;
  };
  for (const Node& node : graph.nodes) {
    if ((node.op == "AssignVariableOp" || node.op == "Assign") && node.inputs.size() >= 2) {
      const std::optional<size_t> variable = variable_of(node.inputs[0]);
      if (variable && variables_[*variable].key.empty()) variables_[*variable].key = RestoredKey(graph, node);
    }
    if (!node.op.ends_with("PartitionedCall") || depth == kMaxDepth || --restored_budget_ < 0) continue;
    auto function = model_.functions.find(node.attr("f").Function());
    if (function == model_.functions.end()) continue;
    std::vector<std::optional<size_t>> own;
    for (const Source& input : node.inputs) own.push_back(variable_of(input));
    FindRestored(function->second, own, depth + 1);
  }
}

std::optional<size_t> Importer::FindVariable(std::string_view name) const {
  auto found = variable_numbers_.find(name);
  return found == variable_numbers_.end() ? std::nullopt : std::optional(found->second);
}

Operand Importer::ReadVariable(size_t number) {
  Variable& variable = variables_[number];
  if (variable.value != nullptr) return variable.value;
  if (!checkpoint_) checkpoint_ = Checkpoint::Open(kPrefix, options_.files);
  if (!checkpoint_->ok()) {
    emit_.Fail(checkpoint_->status());
    return emit_.Placeholder();
  }
  absl::StatusOr<Literal> value = (*checkpoint_)->Read(variable.key.empty() ? variable.name : variable.key);
  if (!value.ok()) {
    emit_.Fail(absl::Status(value.status().code(), absl::StrCat("variable `", Abseil(variable.name),
                                                                "` has no value: ", value.status().message())));
    return emit_.Placeholder();
  }
  return variable.value = emit_.Constant(*std::move(value), variable.name);
}

}  // namespace rvm::tensorflow
