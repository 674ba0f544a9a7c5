#include "compiler/import/torch/importer.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/torch/script.h"

namespace rvm::torch {
namespace {

constexpr int kMaxDepth = 64;  // of bodies in bodies

// "aten.add.Tensor" of "torch.ops.aten.add.Tensor".
std::string_view OperatorLabel(std::string_view target) {
  for (std::string_view prefix : {"torch.ops.", "torch."}) {
    if (target.starts_with(prefix)) return target.substr(prefix.size());
  }
  return target;
}

struct OperatorName {
  std::string base, overload;  // "add", "Tensor"; of others than aten with their module
  bool writes = false;         // to its first argument: "add_"
};

OperatorName Split(std::string_view target) {
  std::string_view label = OperatorLabel(target);
  OperatorName name;
  bool is_ours = label.starts_with("relayvm.");  // what import_torch of Python puts in place of recurrent functions
  if (is_ours || label.starts_with("aten.")) {
    label.remove_prefix(label.find('.') + 1);
    size_t dot = label.find('.');
    name.base = std::string(label.substr(0, dot));
    if (dot != std::string_view::npos) name.overload = std::string(label.substr(dot + 1));
    name.writes = name.base.size() > 1 && name.base.ends_with('_') && !name.base.ends_with("__");
    if (name.writes) name.base.pop_back();
  } else {
    name.base = std::string(label);
  }
  return name;
}

const OperatorRow* FindExactly(std::string_view name) {
  static const auto* const kRows = [] {
    auto* rows = new absl::flat_hash_map<std::string_view, const OperatorRow*>();
    for (std::span<const OperatorRow> family : OperatorFamilies()) {
      for (const OperatorRow& row : family) rows->emplace(row.name, &row);
    }
    return rows;
  }();
  auto found = kRows->find(name);
  return found == kRows->end() ? nullptr : found->second;
}

// Returns the row of an operator, or of the one that computes the same: `narrow` for `narrow_copy`, `acos` for
// `arccos`.
const OperatorRow* FindRow(const std::string& name) {
  if (const OperatorRow* row = FindExactly(name)) return row;
  constexpr std::string_view kCopy = "_copy", kArc = "arc";
  if (name.ends_with(kCopy)) return FindExactly(name.substr(0, name.size() - kCopy.size()));
  for (std::string_view prefix : {"special_", "_unsafe_", "unsafe_"}) {
    if (name.starts_with(prefix)) return FindExactly(name.substr(prefix.size()));
  }
  return name.starts_with(kArc) ? FindExactly("a" + name.substr(kArc.size())) : nullptr;
}

void ForEachName(const Argument& argument, const std::function<void(const std::string&)>& visit) {
  if (argument.IsValue()) visit(argument.text);
  for (const Argument& element : argument.list) ForEachName(element, visit);
}

void FindUses(Scope& scope) {
  auto use = [&](const Argument& argument) {
    ForEachName(argument, [&](const std::string& name) { scope.used.insert(name); });
  };
  for (const Node& node : scope.graph->nodes) {
    for (const auto& [name, argument] : node.inputs) use(argument);
  }
  for (const Argument& output : scope.graph->outputs) use(output);
}

// Returns true if the node is a conversion (`to`) that is asked for a copy.
bool AsksForCopy(const Node& node) {
  const Argument* copy = node.Find("copy");
  return copy != nullptr && copy->kind == ArgumentKind::kBool && copy->integer != 0;
}

}  // namespace

std::string Scope::Canonical(std::string name) const {
  for (auto found = same.find(name); found != same.end(); found = same.find(name)) name = found->second;
  return name;
}

std::string Scope::Root(const std::string& name) const {
  std::string root = Canonical(name);
  for (auto found = views.find(root); found != views.end(); found = views.find(root)) {
    root = Canonical(found->second.node->inputs[0].second.text);
  }
  return root;
}

bool Writes(std::string_view target) { return Split(target).writes; }

const OperatorRow* FindRow(const Node& node) { return FindRow(Split(node.target).base); }

bool IsView(const Node& node) {
  const OperatorName name = Split(node.target);
  const OperatorRow* row = FindRow(name.base);
  return row != nullptr && row->is_view && row->name == name.base && !AsksForCopy(node) && !node.inputs.empty() &&
         node.inputs[0].second.kind == ArgumentKind::kTensor;
}

std::optional<DataType> PartDTypeOf(const Graph& graph, const std::string& tensor) {
  auto found = graph.tensors.find(tensor);
  return found == graph.tensors.end() ? std::nullopt : ToPartDType(found->second.scalar_type);
}

std::vector<const Argument*> OutputsOf(const Node& node) {
  std::vector<const Argument*> outputs;
  for (const Argument& output : node.outputs) {
    if (output.kind != ArgumentKind::kList) outputs.push_back(&output);
    for (const Argument& element : output.list) outputs.push_back(&element);
  }
  return outputs;
}

Importer::Importer(const Archive& archive, const ImportOptions& options)
    : Frame(options), archive_(archive), program_(archive.program()) {
  for (const Graph& graph : program_.graphs) {
    for (const Node& node : graph.nodes) CountNode(OperatorLabel(node.target));
  }
}

// ---- values

Operand Importer::Value(const Argument& argument, const Scope& scope) {
  switch (argument.kind) {
    case ArgumentKind::kTensor:
    case ArgumentKind::kSymbol: {
      auto found = scope.values.find(scope.Canonical(argument.text));
      if (found != scope.values.end()) return found->second;
      emit_.Fail(absl::InvalidArgumentError(
          absl::StrCat("its input `", argument.text, "` is undefined; expected a name that stands before it")));
      return emit_.Placeholder();
    }
    case ArgumentKind::kInt: return emit_.Integer(argument.integer);
    case ArgumentKind::kFloat: return emit_.Number(argument.number, kFloat64);
    case ArgumentKind::kComplex: {
      Operand real = emit_.Number(argument.number, kFloat64);
      return emit_.Tuple({real, emit_.Number(argument.imaginary, kFloat64)});
    }
    case ArgumentKind::kBool: return emit_.Constant(Literal::ScalarInt(kBool, argument.integer));
    case ArgumentKind::kNone:
    case ArgumentKind::kString:
    case ArgumentKind::kDType:
    case ArgumentKind::kList:
    case ArgumentKind::kGraph:
    case ArgumentKind::kOther: break;
  }
  emit_.Fail(absl::UnimplementedError("an argument that is neither a tensor nor a number"));
  return emit_.Placeholder();
}

// ---- nodes

std::string Importer::Origin(const Node& node) const {
  std::string origin = absl::StrCat(Abseil(OperatorLabel(node.target)), " node");
  if (!node.name.empty()) absl::StrAppend(&origin, " `", node.name, "`");
  if (!node.module.empty()) absl::StrAppend(&origin, " of module `", node.module, "`");
  absl::StrAppend(&origin, " of ", options_.name);
  return ReadableText(origin);
}

void Importer::Refuse(const Node& node, const absl::Status& status) {
  std::string label = node.name.empty() ? "a node without a name" : absl::StrCat("`", node.name, "`");
  refusals_.Add(OperatorLabel(node.target), std::move(label), status);
}

// A write is seen through every name of that memory, and only the names of that very tensor get the new value here.
namespace {

// Returns true if the result of a conversion is its input, not a view: a write to one is one to the other.
bool GivesItsInput(const Node& node, std::string_view base, const Operands& results, NodeContext& context) {
  if ((base != "to" && base != "type_as") || results.size() != 1) return false;
  return results[0] == context.In(node.inputs[0].second);
}

}  // namespace

const OperatorRow* Importer::RowOf(const Node& node, Scope& scope) {
  const OperatorName name = Split(node.target);
  const OperatorRow* row = FindRow(name.base);
  const bool has_out = node.Find("out") != nullptr || name.overload == "out";
  if (row == nullptr || has_out) {
    emit_.Fail(absl::UnimplementedError(
        program_.is_traced && name.base.find('.') == std::string::npos
            ? "this operator is not supported; `exported.run_decompositions()` may give a program without it"
            : "this operator is not supported"));
    return nullptr;
  }
  const std::vector<const Argument*> outputs = OutputsOf(node);
  const bool gives_complex = !outputs.empty() && PartDTypeOf(*scope.graph, outputs[0]->text);
  const bool has_complex = !NodeContext(*this, node, scope, *row, name.overload).ComplexInputs().empty();
  const OperatorRow* complex = has_complex || gives_complex ? FindComplexRow(node) : nullptr;
  if (has_complex && complex == nullptr) {
    emit_.Fail(absl::UnimplementedError("this operator on complex numbers is not supported"));
    return nullptr;
  }
  return complex != nullptr ? complex : row;
}

Operands Importer::Convert(const Node& node, Scope& scope) {
  OperatorName name = Split(node.target);
  const OperatorRow* row = RowOf(node, scope);
  if (row == nullptr) return {};
  bool is_complete = true;
  for (const auto& [input, argument] : node.inputs) {
    ForEachName(argument, [&](const std::string& used) {
      auto found = scope.values.find(scope.Canonical(used));
      is_complete = is_complete && (found == scope.values.end() || !found->second->is_placeholder);
    });
  }
  if (!is_complete) return {};
  if (name.writes) CheckWrite(node, scope);
  if (emit_.failed()) return {};
  NodeContext context(*this, node, scope, *row, name.overload);
  Operands results = row->convert(context);
  bool has_result = !emit_.failed() && !results.empty() && results[0] != nullptr;
  const std::vector<const Argument*> outputs = OutputsOf(node);
  const bool redefines = !name.writes && std::ranges::any_of(outputs, [&](const Argument* output) {
    return output->IsValue() && (scope.values.contains(output->text) || scope.same.contains(output->text));
  });
  if (redefines && has_result) {
    emit_.Fail(absl::InvalidArgumentError("a name that it defines is defined before it"));
    return {};
  }
  if (IsView(node) && has_result) {
    if (GivesItsInput(node, name.base, results, context)) {
      for (const Argument* output : outputs) scope.same[output->text] = node.inputs[0].second.text;
    } else if (MemoryOf(node, *scope.graph) != Memory::kCopied) {
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i]->IsValue()) scope.views[outputs[i]->text] = {&node, i};
      }
      scope.viewing.push_back(&node);
    }
  }
  if (name.writes && has_result && !node.outputs.empty()) {
    // The tensor keeps its type, and has the result as its value from now on.
    const std::string& target = node.inputs[0].second.text;
    Operand self = context.In(node.inputs[0].second);
    auto fitted = [&](Operand from, Operand like) {
      return context.BroadcastTo(context.Cast(from, context.DTypeOf(like)), context.DimsOf(like));
    };
    auto fitted_part = [&](bool is_imaginary) {
      return fitted(PartOf(context, results[0], is_imaginary), PartOf(context, self, is_imaginary));
    };
    Operand value =
        IsComplex(self) ? MakeComplex(context, fitted_part(false), fitted_part(true)) : fitted(results[0], self);
    if (emit_.failed()) return {};
    Write(target, value, scope);
    if (node.outputs[0].text != scope.Canonical(target)) scope.same[node.outputs[0].text] = target;
    return {value};
  }
  return results;
}

bool Importer::IsNamed(const Dim& dim) const {
  return IsArithmeticOf(dim, [&](const Dim& leaf) { return leaf.kind() == DimKind::kVar && emit_.IsNamed(leaf); });
}

// Returns the value as the file says it is: of that dtype, and with extents of which it knows more.
Operand Importer::Completed(Operand result, const Argument& output, const Scope& scope) {
  if (output.kind != ArgumentKind::kTensor || result->is_placeholder) return result;
  auto found = scope.graph->tensors.find(output.text);
  if (found == scope.graph->tensors.end()) return result;
  const TensorMeta& meta = found->second;
  if (IsComplex(result)) {
    Steps steps(emit_);
    auto part = [&](bool is_imaginary) {
      Operand value = PartOf(steps, result, is_imaginary);
      return CompletedTensor(value, meta, ToPartDType(meta.scalar_type).value_or(emit_.DTypeOf(value)));
    };
    return MakeComplex(steps, part(false), part(true));
  }
  return CompletedTensor(result, meta, ToDataType(meta.scalar_type).value_or(emit_.DTypeOf(result)));
}

Operand Importer::CompletedTensor(Operand result, const TensorMeta& meta, DataType dtype) {
  result = Steps(emit_).Cast(result, dtype);
  Dims dims = emit_.DimsOf(result);
  if (dims.size() != meta.sizes.size() || emit_.failed()) return result;
  bool changes = false, all_named = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (IsNamed(dims[i])) continue;
    std::optional<Dim> known =
        meta.sizes[i].number ? Dim(*meta.sizes[i].number) : DimOfExpression(meta.sizes[i].expression);
    if (!known || importing::IsLongDim(*known)) {
      all_named = false;
      continue;
    }
    dims[i] = *known;
    changes = true;
  }
  const ir::Type* type = emit_.TensorType(dims, emit_.DTypeOf(result));
  if (all_named && !IsInferred(result, dims)) return emit_.Widened(result, type);
  return changes ? emit_.Retyped(result, type) : result;
}

// Returns whether inference finds these extents itself. Where it does not, it would drag along ever longer expressions
// of them.
bool Importer::IsInferred(Operand operand, const Dims& dims) {
  if (!operand->step || emit_.is_dry()) return true;
  const auto* known = ir::DynCast<ir::TensorType>(builder_.TypeOf(*operand->step));
  if (known == nullptr || known->shape.dims.size() != dims.size()) return true;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (CompareDims(known->shape.dims[i], dims[i]) != DimEquality::kEqual) return false;
  }
  return true;
}

void Importer::ImportNode(const Node& node, Scope& scope) {
  const std::vector<const Argument*> outputs = OutputsOf(node);
  auto bind = [&](const Argument& output, Operand value) {
    if (output.IsValue() && !scope.same.contains(output.text)) scope.values[output.text] = value;
  };
  if (!Spend([&](const absl::Status& status) { Refuse(node, status); }, "bodies of loops")) {
    for (const Argument* output : outputs) bind(*output, emit_.Placeholder());
    return;
  }
  ir::Span outer = EnterOrigin([&] { return Origin(node); });
  Operands results = WithStack([&] { return Convert(node, scope); });
  if (emit_.failed()) results.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Operand result = i < results.size() ? results[i] : nullptr;
    if (result != nullptr) result = Completed(result, *outputs[i], scope);
    bool is_used = scope.used.contains(outputs[i]->text);
    if (result == nullptr && is_used && !results.empty() && !emit_.failed()) {
      emit_.Fail(absl::UnimplementedError(absl::StrCat("its output ", i, " is not supported")));
    }
    bind(*outputs[i], result == nullptr || emit_.failed() ? emit_.Placeholder() : result);
  }
  LeaveOrigin(outer);
  absl::Status status = emit_.TakeStatus();
  if (!status.ok()) Refuse(node, status);
}

void Importer::ImportNodes(const Graph& graph, Scope& scope) {
  for (const Node& node : graph.nodes) ImportNode(node, scope);
}

Operands Importer::Body(const Graph& graph, const Operands& inputs, bool is_block) {
  if (graph.inputs.size() != inputs.size() || depth_ == kMaxDepth) {
    emit_.Fail(absl::InvalidArgumentError(absl::StrCat("graph `", graph.name, "` has ", graph.inputs.size(),
                                                       " inputs and gets ", inputs.size(), ", or calls itself")));
    return {};
  }
  Scope scope;
  scope.graph = &graph;
  FindUses(scope);
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[graph.inputs[i].text] = inputs[i];
  std::vector<Assertion> outer = std::exchange(assertions_, {});
  ++depth_;
  block_depth_ += is_block ? 1 : 0;
  ImportNodes(graph, scope);
  block_depth_ -= is_block ? 1 : 0;
  --depth_;
  Operands outputs;
  for (const Argument& output : graph.outputs) outputs.push_back(Value(output, scope));
  CheckAssertions(outputs);
  assertions_ = std::move(outer);
  return outputs;
}

void Importer::CheckAssertions(Operands& outputs) {
  for (const Assertion& assertion : assertions_) {
    if (outputs.empty() || emit_.failed() || outputs[0]->is_placeholder) return;
    Steps steps(emit_);
    // `check_extent` of an extent that a condition that fails makes impossible.
    Operand x = outputs[0];
    bool is_scalar = steps.RankOf(x) == 0;
    if (is_scalar) x = steps.Reshape(x, {1});
    Operand extent = steps.Where(assertion.condition, emit_.FromDim(steps.ExtentOf(x, 0)), steps.Integer(-1));
    x = steps.Op("check_extent", {x, extent}, {{"axis", 0}, {"what", assertion.what}});
    outputs[0] = is_scalar ? steps.Scalar(x) : x;
  }
}

// ---- the program

Operands Importer::Outputs(const Scope& scope, ImportedModel& result) {
  Operands values, states;
  std::vector<std::string> state_names;
  absl::flat_hash_set<std::string> done;
  auto use = [&](const Argument& argument) {
    Operand operand = Value(argument, scope);
    Steps steps(emit_);
    if (IsComplex(operand)) operand = importing::ToPairs(steps, operand);
    absl::Status status = emit_.TakeStatus();
    if (!status.ok()) refusals_.Add("an output", absl::StrCat("`", argument.text, "`"), status);
    return operand;
  };
  for (const OutputSpec& output : program_.outputs) {
    switch (output.role) {
      case OutputRole::kUser:
        if (output.arg.kind == ArgumentKind::kNone) break;
        values.push_back(use(output.arg));
        result.outputs.push_back(output.arg.text);
        break;
      case OutputRole::kBufferMutation:
      case OutputRole::kInputMutation:
        states.push_back(use(output.arg));
        state_names.push_back(output.target);
        done.insert(output.target);
        break;
      case OutputRole::kOther:
        refusals_.Add(
            "an output", absl::StrCat("`", output.arg.text, "`"),
            absl::UnimplementedError(absl::StrCat("an output of kind `", output.target, "` is not supported")));
        break;
    }
  }
  // Buffers and inputs that nodes write to are no outputs of their own.
  for (const InputSpec& input : program_.inputs) {
    std::string name = input.role == InputRole::kBuffer ? input.target : input.arg.text;
    if (!mutated_.contains(input.arg.text) || done.contains(name)) continue;
    states.push_back(use(input.arg));
    state_names.push_back(name);
  }
  values.insert(values.end(), states.begin(), states.end());
  result.outputs.insert(result.outputs.end(), state_names.begin(), state_names.end());
  return values;
}

// The first values of the buffers that the model writes to, in the order of @main's parameters.
void Importer::DefineInitialState() {
  Operands values;
  for (const InputSpec* input : param_inputs_) {
    if (input->role == InputRole::kBuffer) values.push_back(Weight(*input));
  }
  if (values.empty()) return;
  Frame::DefineInitialState([&] { return values; });
}

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  Scope scope;
  scope.graph = program_.graph;
  FindUses(scope);
  EnterOrigin([&] { return options_.name; });
  FindMutations();
  RVM_RETURN_IF_ERROR(ReadInputs(scope));
  AddSeed();
  ImportedModel result;
  DefineMain([&](const Operands& params) {
    for (size_t i = 0; i < params.size(); ++i) {
      const InputSpec& input = *param_inputs_[i];
      scope.values[input.arg.text] = params[i];
      result.inputs.push_back(input.role == InputRole::kBuffer ? input.target : input.arg.text);
    }
    CheckRanges(scope);
    CheckGuards(scope);
    Steps steps(emit_);
    for (const InputSpec* input : param_inputs_) {
      Operand& value = scope.values[input->arg.text];
      if (PartDTypeOf(*program_.graph, input->arg.text)) value = importing::FromPairs(steps, value);
    }
    ImportNodes(*program_.graph, scope);
    Operands results = Outputs(scope, result);
    CheckAssertions(results);
    return results;
  });
  DefineInitialState();
  RVM_RETURN_IF_ERROR(Finish(result));
  result.warnings = std::move(warnings_);
  return result;
}

absl::StatusOr<ImportedModel> Import(const importing::FileBytes& file, const ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(Archive archive, Archive::Read(file, options));
  if (!archive.is_script()) return Importer(archive, options).Import();
  ImportOptions without_dtypes = options;
  DropDTypes(without_dtypes);
  return Importer(archive, without_dtypes).Import();
}

}  // namespace rvm::torch
