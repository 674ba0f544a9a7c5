// Variables of a model: resources, which nodes name, and tensors that keep their value between runs. Those that a run
// changes are state: parameters of @main behind the inputs, and results behind the outputs. @initial_state gives their
// first values.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/utf8.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

// Fields of the options of VAR_HANDLE.
struct HandleField {
  static constexpr int kContainer = 0, kName = 1;
};

std::pair<std::string, std::string> KeyOf(const Node& handle) {
  return {std::string(handle.options.Text(HandleField::kContainer)),
          std::string(handle.options.Text(HandleField::kName))};
}

// Returns the graphs that a node runs in a run of the model; CALL_ONCE runs one before.
std::vector<size_t> GraphsOf(const Node& node) {
  std::vector<size_t> graphs;
  const bool has_two = node.op == "IF" || node.op == "WHILE" || node.op == "STABLEHLO_WHILE";
  const size_t count = has_two ? 2 : node.op == "CALL" ? 1 : 0;
  for (size_t i = 0; i < count; ++i) {
    graphs.push_back(static_cast<size_t>(node.options.Number<uint32_t>(static_cast<int>(i), 0)));
  }
  return graphs;
}

const Tensor* TensorAt(const Graph& graph, const std::vector<int32_t>& numbers, size_t i) {
  return i < numbers.size() && numbers[i] >= 0 ? &graph.tensors[static_cast<size_t>(numbers[i])] : nullptr;
}

}  // namespace

void Importer::Walk(size_t graph, std::set<size_t>& seen) const {
  std::vector<size_t> open = {graph};
  while (!open.empty()) {
    const size_t next = open.back();
    open.pop_back();
    if (next >= model_.graphs.size() || !seen.insert(next).second) continue;
    for (const Node& node : model_.graphs[next].nodes) {
      const std::vector<size_t> graphs = GraphsOf(node);
      open.insert(open.end(), graphs.begin(), graphs.end());
    }
  }
}

std::optional<size_t> Importer::FindResource(const Node& handle) const {
  auto found = resources_.find(KeyOf(handle));
  return found == resources_.end() ? std::nullopt : std::optional(found->second);
}

void Importer::AddResource(const Graph& graph, const Node& handle) {
  auto [place, is_new] = resources_.try_emplace(KeyOf(handle), variables_.size());
  if (is_new) {
    const std::string& name = place->first.second;
    variables_.push_back({.name = name.empty() ? absl::StrCat("variable_", variables_.size()) : name});
  }
  Variable& variable = variables_[place->second];
  for (const Node& node : graph.nodes) {
    if (handle.outputs.empty() || node.inputs.empty() || node.inputs[0] != handle.outputs[0]) continue;
    const Tensor* like = node.op == "READ_VARIABLE"     ? TensorAt(graph, node.outputs, 0)
                         : node.op == "ASSIGN_VARIABLE" ? TensorAt(graph, node.inputs, 1)
                                                        : nullptr;
    if (like != nullptr) variable.like = like;
  }
}

std::vector<size_t> Importer::WrittenBy(std::span<const size_t> graphs) const {
  std::set<size_t> seen, written;
  for (size_t graph : graphs) Walk(graph, seen);
  for (size_t number : seen) {
    const Graph& graph = model_.graphs[number];
    for (const Node& node : graph.nodes) {
      if (node.op != "ASSIGN_VARIABLE" || node.inputs.empty()) continue;
      auto handle = std::ranges::find_if(graph.nodes, [&](const Node& other) {
        return other.op == "VAR_HANDLE" && !other.outputs.empty() && other.outputs[0] == node.inputs[0];
      });
      const std::optional<size_t> resource = handle == graph.nodes.end() ? std::nullopt : FindResource(*handle);
      if (resource) {
        written.insert(*resource);
      } else {
        // The graph gets the resource as an input, or its name cannot be read: it may be any.
        for (const auto& [key, variable] : resources_) written.insert(variable);
      }
    }
  }
  return {written.begin(), written.end()};
}

void Importer::FindVariables() {
  for (const Graph& graph : model_.graphs) {
    for (const Node& node : graph.nodes) {
      if (node.op == "VAR_HANDLE") AddResource(graph, node);
    }
  }
  std::vector<size_t> graphs;
  for (const Entry& entry : entries_) {
    if (std::ranges::find(graphs, entry.graph) == graphs.end()) graphs.push_back(entry.graph);
  }
  for (size_t number : WrittenBy(graphs)) variables_[number].is_state = variables_[number].like != nullptr;
  for (size_t number : graphs) FindKept(model_.graphs[number]);
  for (const Variable& variable : variables_) {
    if (!variable.is_state || ToDataType(variable.like->type)) continue;
    refusals_.Add("a variable", absl::StrCat("`", Abseil(ReadableText(variable.name)), "`"),
                  absl::UnimplementedError(absl::StrCat(TypeName(variable.like->type), ", which Relay has not")));
  }
}

// Finds the graphs that give first values, and the tensors that keep their values between runs, of an entry.
void Importer::FindKept(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const size_t once = node.op == "CALL_ONCE" ? node.options.Number<uint32_t>(0, 0) : 0;
    const bool is_known = std::ranges::find(initialisers_, once) != initialisers_.end();
    if (node.op == "CALL_ONCE" && !is_known) initialisers_.push_back(once);
  }
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const bool is_used = graph.tensors[i].is_variable && std::ranges::any_of(graph.nodes, [&](const Node& node) {
                           return std::ranges::find(node.inputs, static_cast<int32_t>(i)) != node.inputs.end();
                         });
    if (!is_used) continue;
    tensor_variables_[&graph.tensors[i]] = variables_.size();
    variables_.push_back({.name = std::string(graph.tensors[i].name), .like = &graph.tensors[i], .is_state = true});
  }
}

void Importer::AddStateParams() {
  for (const Variable& variable : variables_) {
    if (!variable.is_state) continue;
    Dims dims;
    for (int64_t extent : variable.like->shape) dims.push_back(extent < 0 ? Dim::Any() : Dim(extent));
    AddParam(variable.name, emit_.TensorType(std::move(dims), ToDataType(variable.like->type).value_or(kFloat32)));
  }
}

// Returns what the model gives to a variable before its first run; else zeros, with an extent of 1 where it is unknown.
Operand Importer::FirstValue(const Variable& variable) {
  if (variable.value != nullptr) return variable.value;
  Dims dims;
  for (int64_t extent : variable.like->shape) dims.emplace_back(extent < 0 ? 1 : extent);
  const DataType dtype = ToDataType(variable.like->type).value_or(kFloat32);
  const bool is_code = dtype == kInt8 && variable.like->zero_points.size() == 1;
  Operand zero = emit_.Number(is_code ? static_cast<double>(variable.like->zero_points[0]) : 0, dtype);
  return Steps(emit_).BroadcastTo(zero, dims);
}

void Importer::DefineInitialState() {
  if (std::ranges::none_of(variables_, &Variable::is_state)) return;
  for (Variable& variable : variables_) variable.value = nullptr;
  Frame::DefineInitialState([&] {
    for (size_t graph : initialisers_) Body(graph, {});
    Operands values;
    for (const Variable& variable : variables_) {
      if (variable.is_state) values.push_back(FirstValue(variable));
    }
    const absl::Status status = emit_.TakeStatus();
    if (!status.ok()) refusals_.Add("a variable", "`@initial_state`", status);
    return values;
  });
}

}  // namespace rvm::tflite
