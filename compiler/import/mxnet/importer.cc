#include "compiler/import/mxnet/importer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/weights_beside.h"

namespace rvm::mxnet {
namespace {

constexpr int64_t kMaxCopies = 4;  // of the bytes of the file of weights

// Operators that give a result of their first input; the second one is only for training.
constexpr std::string_view kLosses[] = {
    "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "SVMOutput", "Softmax",
    "SoftmaxOutput"};

const OperatorRow* FindRow(std::string_view name) {
  for (std::span<const OperatorRow> family :
       {ElementwiseOperators(), IndexOperators(), LayerOperators(), NormOperators(), RecurrentOperators(),
        ReduceOperators(), ShapeOperators()}) {
    for (const OperatorRow& row : family) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

std::string Quoted(std::string_view name) { return absl::StrCat("`", ReadableText(name), "`"); }

// Returns the dtype that a variable says it has; nullopt for an unknown number.
std::optional<DataType> DTypeOf(const Node& variable) {
  constexpr DataType kTypes[] = {kFloat32, kFloat64, kFloat16, kUInt8, kInt32, kInt8, kInt64, kBool};
  const std::string* text = variable.Find("__dtype__");
  size_t number = 0;
  if (text == nullptr || *text == "-1") return kFloat32;
  if (!absl::SimpleAtoi(*text, &number) || number >= std::size(kTypes)) return std::nullopt;
  return kTypes[number];
}

}  // namespace

// ---- nodes

Operand Importer::Value(const Entry& entry) {
  if (is_refused_[entry.node]) return emit_.Placeholder();
  const Operands& values = values_[entry.node];
  return entry.output < values.size() ? values[entry.output] : nullptr;
}

Operands Importer::Convert(const Node& node) {
  const OperatorRow* row = FindRow(node.op);
  if (row == nullptr) {
    emit_.Fail(absl::UnimplementedError("this operator is not supported"));
    return {};
  }
  Operands inputs;
  for (const Entry& input : node.inputs) {
    inputs.push_back(Value(input));
    if (inputs.back() != nullptr && inputs.back()->is_placeholder) return {};
    if (inputs.back() == nullptr && !graph_.nodes[input.node].is_variable()) {
      emit_.Fail(absl::InvalidArgumentError(absl::StrCat(
          "it reads output ", input.output, " of ", Quoted(graph_.nodes[input.node].name), ", which has not as many")));
      return {};
    }
  }
  NodeContext context(emit_, node, *row, std::move(inputs), copy_budget_);
  return row->convert(context);
}

void Importer::ImportNode(size_t number) {
  const Node& node = graph_.nodes[number];
  ir::Span outer = EnterOrigin(
      [&] { return absl::StrCat(ReadableText(node.op), " node ", Quoted(node.name), " of ", options_.name); });
  Operands results = WithStack([&] { return Convert(node); });
  LeaveOrigin(outer);
  const absl::Status status = emit_.TakeStatus();
  if (!status.ok()) refusals_.Add(node.op, Quoted(node.name), status);
  is_refused_[number] = !status.ok() || results.empty();
  values_[number] = std::move(results);
}

// ---- variables

Importer::Importer(const Graph& graph, Params params, const ImportOptions& options, size_t size)
    : Frame(options),
      graph_(graph),
      params_(std::move(params)),
      copy_budget_(kMaxCopies * static_cast<int64_t>(size)),
      values_(graph.nodes.size()),
      is_refused_(graph.nodes.size(), false) {
  for (const Node& node : graph.nodes) {
    if (!node.is_variable()) CountNode(node.op);
  }
}

std::vector<bool> Importer::FindUsed() const {
  std::vector<bool> used(graph_.nodes.size(), false);
  for (const Entry& head : graph_.heads) used[head.node] = true;
  for (const Node& node : graph_.nodes) {
    const bool is_loss = std::ranges::find(kLosses, node.op) != std::end(kLosses);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_loss || i != 1) used[node.inputs[i].node] = true;
    }
  }
  return used;
}

void Importer::RefuseVariable(size_t number, const absl::Status& status) {
  refusals_.Add("an input", Quoted(graph_.nodes[number].name), status);
  is_refused_[number] = true;
}

absl::Status Importer::ReadVariable(size_t number) {
  const Node& node = graph_.nodes[number];
  const std::optional<DataType> dtype = DTypeOf(node);
  if (!dtype) {
    RefuseVariable(number, absl::UnimplementedError("its `__dtype__` is not supported"));
    return absl::OkStatus();
  }
  // The extents that the user gives, else those in the graph, of which 0 is unknown.
  std::vector<std::string> extents;
  if (auto given = options_.shapes.find(node.name); given != options_.shapes.end()) {
    extents = given->second;
  } else if (const std::string* shape = node.Find("__shape__")) {
    const OperatorRow row = {"null", nullptr};
    const Node attribute = {.op = "null", .name = node.name, .attrs = {{"shape", *shape}}, .inputs = {}};
    int64_t budget = 0;
    NodeContext context(emit_, attribute, row, {}, budget);
    for (int64_t extent : context.Ints("shape")) extents.push_back(extent > 0 ? absl::StrCat(extent) : "?");
    if (const absl::Status status = emit_.TakeStatus(); !status.ok()) {
      RefuseVariable(number, status);
      return absl::OkStatus();
    }
  } else if (!options_.frozen.contains(node.name)) {
    RefuseVariable(number, absl::InvalidArgumentError(absl::StrCat(
                               params_.empty() ? "it has neither a value, for want of a file of weights, nor a shape"
                                               : "the file of weights has no value for it, and the graph no shape",
                               "; give the shape of an input: --shape NAME=EXTENT,...")));
    return absl::OkStatus();
  }
  Dims dims;
  for (size_t i = 0; i < extents.size(); ++i) dims.push_back(InputExtent(node.name, i, extents[i]));
  const bool has_shape = !extents.empty() || !options_.frozen.contains(node.name);
  RVM_ASSIGN_OR_RETURN(Operand frozen, FrozenInput(node.name, has_shape ? dtype : std::nullopt,
                                                   has_shape ? std::optional(dims) : std::nullopt));
  if (frozen != nullptr) {
    values_[number] = {frozen};
    return absl::OkStatus();
  }
  AddParam(node.name, emit_.TensorType(std::move(dims), *dtype));
  param_inputs_.push_back(number);
  return absl::OkStatus();
}

absl::Status Importer::ReadVariables() {
  const std::vector<bool> used = FindUsed();
  std::vector<size_t> numbers;
  std::vector<Input> inputs;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (!node.is_variable() || !used[i]) continue;
    auto param = params_.find(node.name);
    if (param == params_.end()) {
      numbers.push_back(i);
      inputs.push_back({node.name, std::nullopt});
      continue;
    }
    Operand& constant = constants_[node.name];
    if (constant == nullptr) constant = emit_.Constant(param->second, node.name);
    values_[i] = {constant};
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (const Input& input : inputs) {
    if (!options_.frozen.contains(input.name)) NoteExtentNames(input.name, {});
  }
  for (size_t number : numbers) RVM_RETURN_IF_ERROR(ReadVariable(number));
  AddSeed();
  return absl::OkStatus();
}

// ---- the program

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  RVM_RETURN_IF_ERROR(ReadVariables());
  EnterOrigin([&] { return options_.name; });
  ImportedModel result;
  DefineMain([&](const Operands& params) {
    for (size_t i = 0; i < params.size(); ++i) {
      const std::string& name = graph_.nodes[param_inputs_[i]].name;
      params[i]->name = name;
      values_[param_inputs_[i]] = {params[i]};
      result.inputs.push_back(name);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!graph_.nodes[i].is_variable()) ImportNode(i);
    }
    Operands outputs;
    for (const Entry& head : graph_.heads) {
      const std::string& name = graph_.nodes[head.node].name;
      Operand value = Value(head);
      if (value == nullptr) {
        refusals_.Add("an output", Quoted(name),
                      absl::InvalidArgumentError(absl::StrCat("its node has no output ", head.output)));
        value = emit_.Placeholder();
      }
      outputs.push_back(value);
      result.outputs.push_back(head.output == 0 ? name : absl::StrCat(name, "_", head.output));
    }
    return outputs;
  });
  RVM_RETURN_IF_ERROR(Finish(result));
  NameResults(result);
  return result;
}

absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(Graph graph, ReadGraph(bytes));
  RVM_ASSIGN_OR_RETURN(importing::FileBytes file, importing::WeightsBeside(options, "-symbol.json", "-0000.params"));
  Params params;
  if (!file.bytes.empty()) {
    RVM_ASSIGN_OR_RETURN(params, ReadParams(file));
  }
  return Importer(graph, std::move(params), options, file.bytes.size()).Import();
}

}  // namespace rvm::mxnet
