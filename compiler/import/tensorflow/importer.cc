#include "compiler/import/tensorflow/importer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/blocks/complex.h"

namespace rvm::tensorflow {
namespace {

constexpr int kMaxDepth = 64;  // of functions that call functions

absl::Status Unsupported(std::string why) { return absl::UnimplementedError(std::move(why)); }

// Returns the number of an output of an operator.
std::optional<size_t> OutputNumber(const Source& source, const OperatorRow* row) {
  const auto index = static_cast<size_t>(source.index);
  std::string_view names = row == nullptr ? "" : row->outputs;
  if (source.output.empty() || names.empty()) return index;
  for (size_t number = index; !names.empty(); ++number) {
    const size_t space = names.find(' ');
    if (names.substr(0, space) == source.output) return number;
    names.remove_prefix(space == std::string_view::npos ? names.size() : space + 1);
  }
  return std::nullopt;
}

}  // namespace

const OperatorRow* FindOperator(std::string_view name) {
#define RVM_TENSORFLOW_FAMILY(family)                  \
  for (const OperatorRow& row : family##Operators()) { \
    if (row.name == name) return &row;                 \
  }
#include "compiler/import/tensorflow/families.def"
#undef RVM_TENSORFLOW_FAMILY
  return nullptr;
}

Operands ConvertByParts(Emitter& emit, const OperatorRow& row, Operands inputs,
                        absl::FunctionRef<Operands(Operands)> convert) {
  if (!importing::HasComplex(inputs) || row.takes_complex) return convert(std::move(inputs));
  Steps steps(emit);
  if (!WorksByParts(row.name)) return {steps.Unsupported("complex numbers")};
  return importing::ByParts(steps, inputs, convert);
}

// ---- nodes

bool Importer::HasEffect(const Node& node) {
  if (node.op.starts_with("Assign") || node.op.starts_with("ResourceScatter")) return true;
  for (const auto& [name, value] : node.attrs) {
    std::vector<std::string_view> functions = Attr(value).Functions();
    if (std::string_view one = Attr(value).Function(); !one.empty()) functions.push_back(one);
    for (std::string_view function : functions) {
      auto [known, is_new] = effects_.try_emplace(function, false);
      if (!is_new) {
        if (known->second) return true;
        continue;
      }
      auto graph = model_.functions.find(function);
      if (graph == model_.functions.end()) continue;
      const bool has = WithStack([&] {
        return std::ranges::any_of(graph->second.nodes, [&](const Node& inner) { return HasEffect(inner); });
      });
      effects_[function] = has;
      if (has) return true;
    }
  }
  return false;
}

const Flow& Importer::FlowOf(const Graph& graph) {
  std::unique_ptr<const Flow>& flow = flows_[&graph];
  if (flow == nullptr) flow = std::make_unique<const Flow>(graph);
  return *flow;
}

// Returns the nodes that `wanted` depend on and that have no value yet, each behind those that it depends on: of those
// that run before them by controls alone, nodes with effects. nullopt if they depend on themselves.
std::optional<std::vector<int32_t>> Importer::OrderOf(const Scope& scope, std::span<const Source> wanted,
                                                      bool with_controls) {
  const Graph& graph = *scope.graph;
  const Flow& flow = FlowOf(graph);
  std::vector<bool> is_seen(graph.nodes.size(), false), needed(graph.nodes.size(), false);
  auto has_value = [&](int32_t node) {
    for (const Scope* around = &scope; around != nullptr; around = around->outer) {
      if (around->values.contains(node)) return true;
    }
    return false;
  };
  struct Visit {
    int32_t node;
    std::vector<int32_t> before;
    size_t next = 0;
  };
  std::vector<Visit> open;
  std::vector<int32_t> order;
  auto enter = [&](int32_t node) {
    Visit visit{.node = node, .before = {}};
    is_seen[static_cast<size_t>(node)] = true;
    for (const Source& source : flow.Dependencies(node)) {
      if (source.node != Source::kNone) visit.before.push_back(source.node);
    }
    const std::vector<int32_t>& controls = graph.nodes[static_cast<size_t>(node)].controls;
    if (with_controls) visit.before.insert(visit.before.end(), controls.begin(), controls.end());
    open.push_back(std::move(visit));
  };
  auto visit_from = [&](int32_t root) {
    if (is_seen[static_cast<size_t>(root)] || has_value(root)) return;
    enter(root);
    while (!open.empty()) {
      Visit& visit = open.back();
      if (visit.next == visit.before.size()) {
        order.push_back(visit.node);
        open.pop_back();
        continue;
      }
      const int32_t before = visit.before[visit.next++];
      if (!is_seen[static_cast<size_t>(before)] && !has_value(before)) enter(before);
    }
  };
  for (const Source& source : wanted) {
    if (source.node == Source::kNone) continue;
    visit_from(source.node);
    needed[static_cast<size_t>(source.node)] = true;
  }
  if (with_controls) {
    for (int32_t node : graph.controls) visit_from(node);
  }
  std::vector<size_t> places(graph.nodes.size(), order.size());
  for (size_t i = 0; i < order.size(); ++i) places[static_cast<size_t>(order[i])] = i;
  for (size_t i = order.size(); i-- > 0;) {
    const auto node = static_cast<size_t>(order[i]);
    needed[node] = needed[node] || HasEffect(graph.nodes[node]);
    if (!needed[node]) continue;
    for (const Source& source : flow.Dependencies(order[i])) {
      if (source.node == Source::kNone || has_value(source.node)) continue;
      if (places[static_cast<size_t>(source.node)] >= i) return std::nullopt;
      needed[static_cast<size_t>(source.node)] = true;
    }
  }
  std::erase_if(order, [&](int32_t node) { return !needed[static_cast<size_t>(node)]; });
  return order;
}

Operands Importer::Evaluate(Scope& scope, std::span<const Source> wanted, bool with_controls) {
  const std::optional<std::vector<int32_t>> order = OrderOf(scope, wanted, with_controls);
  Operands results;
  const int own_frames = scope.outer == nullptr ? 0 : 1;
  frames_ += own_frames;
  if (!order) emit_.Fail(absl::InvalidArgumentError("a node depends on itself"));
  for (int32_t node : order.value_or(std::vector<int32_t>())) ImportNode(node, scope);
  for (const Source& source : wanted) {
    Operand value = order ? Value(source, scope) : nullptr;
    results.push_back(value == nullptr ? emit_.Placeholder() : value);
  }
  frames_ -= own_frames;
  return results;
}

Operand Importer::Value(const Source& source, const Scope& scope) {
  if (source.argument != Source::kNone) {
    const auto argument = static_cast<size_t>(source.argument);
    return argument < scope.arguments.size() ? scope.arguments[argument] : nullptr;
  }
  const Node& node = scope.graph->nodes[static_cast<size_t>(source.node)];
  for (const Scope* around = &scope; around != nullptr; around = around->outer) {
    auto found = around->values.find(source.node);
    if (found == around->values.end()) continue;
    const Operands& values = found->second;
    // A node that was refused has one placeholder for all of its outputs.
    if (values.size() == 1 && values[0] != nullptr && values[0]->is_placeholder) return values[0];
    const std::optional<size_t> number = OutputNumber(source, FindOperator(node.op));
    if (number && *number < values.size() && values[*number] != nullptr) return values[*number];
    break;
  }
  emit_.Fail(Unsupported(absl::StrCat("output ", source.index, " of the ", Abseil(node.op), " node `",
                                      Abseil(node.name), "` is used, which is not supported")));
  return nullptr;
}

Operands Importer::Convert(int32_t number, Scope& scope) {
  const Node& node = scope.graph->nodes[static_cast<size_t>(number)];
  const OperatorRow* row = FindOperator(node.op);
  if (row == nullptr && model_.functions.contains(node.op)) row = FindOperator("PartitionedCall");
  if (row == nullptr) {
    emit_.Fail(Unsupported("this operator is not supported"));
    return {};
  }
  Operands inputs;
  const bool takes_sources = row->variant == "sources";
  for (const Source& source : node.inputs) {
    if (takes_sources) break;
    inputs.push_back(Value(source, scope));
    if (emit_.failed() || inputs.back() == nullptr || inputs.back()->is_placeholder) return {};
  }
  const auto key = [this](Steps& c) { return Key(c); };
  const NodeContext::Place place{.importer = *this, .scope = scope, .number = number};
  return ConvertByParts(emit_, *row, std::move(inputs), [&](Operands of) {
    NodeContext context(emit_, node, *row, std::move(of), key, place);
    return row->convert(context);
  });
}

void Importer::ImportNode(int32_t number, Scope& scope) {
  const Node& node = scope.graph->nodes[static_cast<size_t>(number)];
  if (scope.values.contains(number)) return;
  auto label = [&] { return absl::StrCat("`", Abseil(ReadableText(node.name)), "`"); };
  auto refuse = [&](const absl::Status& status) { refusals_.Add(node.op, label(), status); };
  Operands results;
  if (Spend(refuse, "functions and bodies of loops")) {
    ir::Span outer =
        EnterOrigin([&] { return absl::StrCat(Abseil(node.op), " node ", label(), " of ", options_.name); });
    results = WithStack([&] { return Convert(number, scope); });
    LeaveOrigin(outer);
    const absl::Status status = emit_.TakeStatus();
    if (!status.ok()) {
      refuse(status);
      results.clear();
    }
  }
  if (results.empty()) results.push_back(emit_.Placeholder());
  scope.values[number] = std::move(results);
}

const Graph* Importer::FunctionNamed(std::string_view name) {
  auto found = model_.functions.find(name);
  if (found != model_.functions.end()) return &found->second;
  emit_.Fail(absl::InvalidArgumentError(absl::StrCat("the model has no function `", Abseil(name), "`")));
  return nullptr;
}

Operands Importer::Call(const Graph& function, const Operands& arguments) {
  if (function.arguments.size() != arguments.size() || depth_ == kMaxDepth) {
    emit_.Fail(absl::InvalidArgumentError(absl::StrCat("function `", Abseil(function.name),
                                                       "` takes another number of arguments than ", arguments.size(),
                                                       ", or calls itself")));
    return {};
  }
  Scope scope{.graph = &function, .arguments = arguments, .values = {}};
  ++depth_;
  Operands results = Evaluate(scope, function.results, true);
  --depth_;
  return results;
}

Operand Importer::Key(Steps& c) {
  if (emit_.is_dry() || !emit_.loop_reads().empty()) return c.Unsupported("random numbers inside of a loop or branch");
  return SplitKey(c);
}

// ---- the program

Operands Importer::Outputs(const Entry& entry, Scope& scope) {
  std::vector<Source> wanted;
  for (const Port& port : entry.outputs) wanted.push_back(port.source);
  Operands outputs = Evaluate(scope, wanted, true);
  Steps steps(emit_);
  for (Operand& output : outputs) output = importing::IsComplex(output) ? importing::ToPairs(steps, output) : output;
  const absl::Status status = emit_.TakeStatus();
  if (!status.ok()) {
    refusals_.Add("an output", absl::StrCat("`", Abseil(ReadableText(entry.outputs[0].name)), "`"), status);
  }
  return outputs;
}

absl::Status Importer::ImportEntry(const Entry& entry, ImportedModel& result) {
  Scope scope{.graph = &model_.graph, .arguments = {}, .values = {}};
  RVM_ASSIGN_OR_RETURN(const std::vector<const Port*> inputs, ReadInputs(entry, scope));
  AddStateParams();
  AddSeed();
  DefineEntry(entry.name, [&](const Operands& params) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Port& port = *inputs[i];
      params[i]->name = std::string(port.name);
      Operands& values = scope.values[port.source.node];
      values.resize(std::max(values.size(), static_cast<size_t>(port.source.index) + 1));
      values[static_cast<size_t>(port.source.index)] = params[i];
    }
    size_t next = inputs.size();
    for (Variable& variable : variables_) {
      if (variable.is_state) variable.value = params[next++];
    }
    Operands outputs = Outputs(entry, scope);
    for (const Variable& variable : variables_) {
      if (variable.is_state) outputs.push_back(variable.value);
    }
    return outputs;
  });
  if (entry.name != kMain) return absl::OkStatus();
  for (const Port* port : inputs) result.inputs.emplace_back(port->name);
  for (const Variable& variable : variables_) {
    if (variable.is_state) result.inputs.push_back(variable.name);
  }
  return absl::OkStatus();
}

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  RVM_RETURN_IF_ERROR(ChooseEntries());
  CountReachable();
  FindVariables();
  RVM_RETURN_IF_ERROR(CheckInputs());
  FindState();
  EnterOrigin([&] { return options_.name; });
  ImportedModel result;
  for (const Entry& entry : entries_) RVM_RETURN_IF_ERROR(ImportEntry(entry, result));
  DefineInitialState();
  RVM_RETURN_IF_ERROR(Finish(result));
  for (const Entry& entry : entries_) {
    std::vector<std::string> outputs;
    for (const Port& port : entry.outputs) outputs.emplace_back(port.name);
    for (const Variable& variable : variables_) {
      if (variable.is_state) outputs.push_back(variable.name);
    }
    NameResults(result, entry.name, outputs);
    if (entry.name == kMain) result.outputs = std::move(outputs);
  }
  return result;
}

absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(Model model, ReadModel(bytes));
  return Importer(model, options).Import();
}

}  // namespace rvm::tensorflow
