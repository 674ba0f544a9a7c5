#include "compiler/import/torch/script_runner.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/data_type.h"
#include "base/status_macros.h"
#include "compiler/import/torch/archive.h"

namespace rvm::torch {
namespace {

constexpr int32_t kFloat32Type = 7, kInt64Type = 5;
constexpr int kMaxNesting = 100;  // of values in the archive, and of calls
constexpr size_t kMaxNodes = 200'000;

struct StorageRow {
  std::string_view name;
  int32_t scalar_type;
};
constexpr StorageRow kStorages[] = {
    {"torch.ByteStorage", 1},  {"torch.CharStorage", 2},      {"torch.ShortStorage", 3}, {"torch.IntStorage", 4},
    {"torch.LongStorage", 5},  {"torch.HalfStorage", 6},      {"torch.FloatStorage", 7}, {"torch.DoubleStorage", 8},
    {"torch.BoolStorage", 12}, {"torch.BFloat16Storage", 13},
};

ScriptValue Of(ArgumentKind kind) {
  ScriptValue value;
  value.argument.kind = kind;
  return value;
}

void ForEachName(const Argument& argument, const std::function<void(const std::string&)>& visit) {
  if (argument.IsValue()) visit(argument.text);
  for (const Argument& element : argument.list) ForEachName(element, visit);
}

bool ReadExtents(const PickleValue& tuple, std::vector<TensorMeta::Extent>& extents) {
  if (tuple.kind != PickleKind::kTuple) return false;
  for (const PickleValue* item : tuple.items) {
    if (item->kind != PickleKind::kInt) return false;
    extents.push_back({item->integer, ""});
  }
  return true;
}

}  // namespace

ScriptValue ScriptNone() { return Of(ArgumentKind::kNone); }
ScriptValue ScriptInt(int64_t number) {
  ScriptValue value = Of(ArgumentKind::kInt);
  value.argument.integer = number;
  return value;
}
ScriptValue ScriptFloat(double number) {
  ScriptValue value = Of(ArgumentKind::kFloat);
  value.argument.number = number;
  return value;
}
ScriptValue ScriptBool(bool truth) {
  ScriptValue value = Of(ArgumentKind::kBool);
  value.argument.integer = truth ? 1 : 0;
  return value;
}
ScriptValue ScriptText(std::string text) {
  ScriptValue value = Of(ArgumentKind::kString);
  value.argument.text = std::move(text);
  return value;
}
ScriptValue ScriptTensorNamed(std::string name) {
  ScriptValue value = Of(ArgumentKind::kTensor);
  value.argument.text = std::move(name);
  return value;
}
ScriptValue ScriptSymbol(std::string name, NumberKind kind) {
  ScriptValue value = Of(ArgumentKind::kSymbol);
  value.argument.text = std::move(name);
  value.number = kind;
  return value;
}
ScriptValue ScriptListOf(ScriptValues items, ScriptKind kind, int depth) {
  ScriptValue value;
  value.kind = kind;
  value.list = std::make_shared<ScriptList>();
  value.list->items = std::move(items);
  value.list->depth = depth;
  return value;
}
ScriptValue ScriptUnset(std::string why) {
  ScriptValue value;
  value.kind = ScriptKind::kUnset;
  value.text = std::move(why);
  return value;
}

bool ScriptRunner::SameKnown(const ScriptValue& a, const ScriptValue& b) {
  if (a.kind != b.kind || a.object != b.object || a.text != b.text) return false;
  const Argument &x = a.argument, &y = b.argument;
  if (x.kind != y.kind || x.integer != y.integer || x.number != y.number || x.text != y.text) return false;
  if (a.list == b.list) return true;
  if (a.list == nullptr || b.list == nullptr || a.list->items.size() != b.list->items.size()) return false;
  return Spend(a.list->items.size()) &&
         std::equal(a.list->items.begin(), a.list->items.end(), b.list->items.begin(),
                    [this](const ScriptValue& one, const ScriptValue& other) { return SameKnown(one, other); });
}

bool ScriptRunner::Spend(size_t steps) {
  if (steps > budget_)
    Fail(0, "it runs too many statements, or copies too long lists; loops over known numbers are unrolled");
  budget_ -= std::min(steps, budget_);
  return !failed();
}

bool ScriptRunner::IsElementFor(const ScriptList* list, const ScriptValue& value, int levels) {
  if (value.list == nullptr) return true;
  const ScriptValues& items = value.list->items;
  return value.list.get() != list && levels > 0 && Spend(items.size()) &&
         std::all_of(items.begin(), items.end(),
                     [&](const ScriptValue& item) { return IsElementFor(list, item, levels - 1); });
}

ScriptValue ScriptRunner::NewList(ScriptValues items, ScriptKind kind, int line) {
  for (const ScriptValue& item : items) {
    if (!IsElementFor(nullptr, item)) Fail(line, "lists are nested too deep");
  }
  return ScriptListOf(std::move(items), kind, building_.depth);
}

std::optional<NumberKind> ScriptValue::ToNumberKind() const {
  if (kind != ScriptKind::kArgument) return std::nullopt;
  if (argument.kind == ArgumentKind::kSymbol) return number;
  if (argument.kind == ArgumentKind::kInt) return NumberKind::kInt;
  if (argument.kind == ArgumentKind::kFloat) return NumberKind::kFloat;
  if (argument.kind == ArgumentKind::kBool) return NumberKind::kBool;
  return std::nullopt;
}

bool ScriptValue::IsNumber() const { return ToNumberKind().has_value(); }

std::optional<double> ScriptValue::Known() const {
  if (!IsNumber() || argument.kind == ArgumentKind::kSymbol) return std::nullopt;
  return argument.kind == ArgumentKind::kFloat ? argument.number : static_cast<double>(argument.integer);
}

void ScriptRunner::Fail(int line, std::string_view message) {
  if (failed()) return;
  std::string where = modules_.empty() || modules_.back().empty()
                          ? "its code"
                          : absl::StrCat("the code of module `", modules_.back(), "`");
  std::string others;
  if (!unknown_.empty()) {
    others = absl::StrCat("; operators before it that are not supported: ", absl::StrJoin(unknown_, ", "));
  }
  status_ = absl::UnimplementedError(absl::StrCat(where, ", line ", line, ": ", Abseil(message), others));
}

std::string ScriptRunner::NewName(std::string_view stem) {
  std::string name(stem);
  for (char& c : name) c = c == '.' ? '_' : c;
  int count = names_[name]++;
  return count == 0 ? name : NewName(absl::StrCat(name, "_", count));
}

// ---- nodes

Node& ScriptRunner::Emit(std::string target, std::vector<std::pair<std::string, Argument>> inputs, Argument output) {
  Node node;
  node.target = std::move(target);
  node.inputs = std::move(inputs);
  node.module = modules_.empty() ? "" : modules_.back();
  if (output.kind != ArgumentKind::kNone) {
    ForEachName(output, [&](const std::string& name) {
      building_.defined.insert(name);
      if (node.name.empty()) node.name = name;
    });
    node.outputs.push_back(std::move(output));
  }
  if (building_.graph->nodes.size() > kMaxNodes) Fail(0, "it has too many operators; loops of it are unrolled");
  return building_.graph->nodes.emplace_back(std::move(node));
}

ScriptValue ScriptRunner::EmitNumber(std::string target, ScriptValues inputs, NumberKind kind) {
  std::vector<std::pair<std::string, Argument>> arguments;
  constexpr std::string_view kNames[] = {"self", "dim", "other"};
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.emplace_back(i < 3 ? std::string(kNames[i]) : "", inputs[i].argument);
  }
  ScriptValue result = ScriptSymbol(NewName("n"), kind);
  Emit(std::move(target), std::move(arguments), result.argument);
  return result;
}

ScriptRunner::Building ScriptRunner::Begin() {
  Building outer = std::move(building_);
  building_ = {};
  building_.graph = &model_.program.graphs.emplace_back();
  building_.graph->name = NewName("body");
  building_.depth = outer.depth + 1;
  return outer;
}

// Returns the names that a graph uses and does not define.
std::vector<std::string> ScriptRunner::Captured(const Building& building) const {
  std::vector<std::string> names;
  std::set<std::string> seen = building.defined;
  auto visit = [&](const std::string& name) {
    if (seen.insert(name).second) names.push_back(name);
  };
  for (const Node& node : building.graph->nodes) {
    for (const auto& [input, argument] : node.inputs) ForEachName(argument, visit);
  }
  for (const Argument& output : building.graph->outputs) ForEachName(output, visit);
  return names;
}

// ---- values of the archive

ScriptValue ScriptRunner::Weight(const PickleValue& value, const std::string& path, std::string_view folder) {
  auto known = weights_.find(&value);
  if (known != weights_.end()) return known->second;
  auto damaged = [&] {
    if (!failed()) status_ = absl::InvalidArgumentError(absl::StrCat("tensor `", path, "` is malformed"));
    return ScriptUnset("a malformed tensor");
  };
  const std::vector<PickleValue*>& args = value.items[1]->items;
  if (args.size() < 4 || args[0]->kind != PickleKind::kPersistent || args[1]->kind != PickleKind::kInt) {
    return damaged();
  }
  const PickleValue& id = *args[0]->items[0];
  if (id.kind != PickleKind::kTuple || id.items.size() < 3) return damaged();
  ScriptTensor tensor;
  for (const StorageRow& row : kStorages) {
    if (row.name == id.items[1]->text) tensor.meta.scalar_type = row.scalar_type;
  }
  if (tensor.meta.scalar_type == 0) {
    return ScriptUnset(absl::StrCat("tensor `", path, "` is in a `", id.items[1]->text, "`, which Relay has not"));
  }
  tensor.meta.offset.number = args[1]->integer;
  bool has_shape = ReadExtents(*args[2], tensor.meta.sizes) && ReadExtents(*args[3], tensor.meta.strides);
  if (!has_shape) return damaged();
  tensor.path = absl::StrCat(Abseil(folder), "/", id.items[2]->text);
  InputSpec input;
  input.role = folder == "constants" ? InputRole::kConstant : InputRole::kBuffer;
  input.target = path;
  ScriptValue result = ScriptTensorNamed(NewName(absl::StrCat("b_", path)));
  input.arg = result.argument;
  model_.program.inputs.push_back(input);
  main_->tensors[result.argument.text] = tensor.meta;
  model_.tensors[path] = std::move(tensor);
  return weights_[&value] = result;
}

ScriptValue ScriptRunner::FromPickle(const PickleValue& value, const std::string& path, std::string_view folder) {
  // Values may be shared, and then grow without bound when they are walked.
  if (calls_ > kMaxNesting || !Spend(1)) return ScriptUnset(absl::StrCat("`", path, "` has too many values"));
  ++calls_;
  ScriptValue result = FromPickleOf(value, path, folder);
  --calls_;
  return result;
}

ScriptValue ScriptRunner::FromPickleOf(const PickleValue& value, const std::string& path, std::string_view folder) {
  switch (value.kind) {
    case PickleKind::kNone: return ScriptNone();
    case PickleKind::kBool: return ScriptBool(value.integer != 0);
    case PickleKind::kInt: return ScriptInt(value.integer);
    case PickleKind::kFloat: return ScriptFloat(value.number);
    case PickleKind::kString: return ScriptText(value.text);
    case PickleKind::kTuple:
    case PickleKind::kList:
    case PickleKind::kDict: {
      ScriptValues items;
      for (size_t i = 0; i < value.items.size(); ++i) {
        // A list may hold itself.
        bool is_leaf = value.items[i]->items.empty() || value.items[i]->kind == PickleKind::kObject;
        items.push_back(is_leaf || value.items[i]->kind == PickleKind::kTuple
                            ? FromPickle(*value.items[i], absl::StrCat(path, ".", i), folder)
                            : ScriptUnset(absl::StrCat("`", path, "` is a list of lists")));
      }
      bool is_tuple = value.kind == PickleKind::kTuple, is_list = value.kind == PickleKind::kList;
      return ScriptListOf(std::move(items),
                          is_tuple  ? ScriptKind::kTuple
                          : is_list ? ScriptKind::kList
                                    : ScriptKind::kDict,
                          0);
    }
    case PickleKind::kObject: {
      std::string_view maker = value.maker();
      bool has_args = value.items[1]->kind == PickleKind::kTuple;
      const std::vector<PickleValue*>& args = value.items[1]->items;
      if (maker == "torch._utils._rebuild_tensor_v2" && has_args) return Weight(value, path, folder);
      bool wraps = maker == "torch._utils._rebuild_parameter" || maker.starts_with("torch.jit._pickle.");
      if (wraps && has_args && !args.empty() && args[0]->kind != PickleKind::kTuple) {
        // Their argument is made before them, and is no wrapper itself.
        bool is_plain = args[0]->maker().empty() || args[0]->maker() == "torch._utils._rebuild_tensor_v2";
        if (is_plain) return FromPickle(*args[0], path, folder);
      }
      if (!maker.starts_with("__torch__.")) {
        return ScriptUnset(absl::StrCat("`", path, "` is made by `", Abseil(maker), "`, which is not supported"));
      }
      ScriptValue object;
      object.kind = ScriptKind::kObject;
      object.object = &value;
      object.text = path;
      return object;
    }
    case PickleKind::kGlobal:
    case PickleKind::kPersistent: break;
  }
  return ScriptUnset(absl::StrCat("`", path, "` is no value that a model can use"));
}

// ---- inputs and outputs

ScriptValue ScriptRunner::AddInput(const std::string& given, bool is_tensor) {
  ScriptValue value = is_tensor ? ScriptTensorNamed(NewName(given)) : ScriptSymbol(NewName(given), NumberKind::kInt);
  const std::string& name = value.argument.text;
  InputSpec input;
  input.role = InputRole::kUser;
  input.arg = value.argument;
  model_.program.inputs.push_back(input);
  if (!is_tensor) return value;
  TensorMeta meta;
  meta.scalar_type = kFloat32Type;
  auto frozen = options_.frozen.find(name);
  auto shape = options_.shapes.find(name);
  if (frozen != options_.frozen.end()) {
    for (int64_t extent : frozen->second.shape()) meta.sizes.push_back({extent, ""});
    for (int32_t type = 1; type < 36; ++type) {
      if (ToDataType(type) == frozen->second.dtype()) meta.scalar_type = type;
    }
  } else if (shape == options_.shapes.end()) {
    shapeless_.push_back(name);
  } else {
    std::vector<std::string> extents = shape->second;
    std::optional<DataType> dtype = extents.empty() ? std::nullopt : ParseDataType(extents.back());
    if (dtype) extents.pop_back();
    if (!dtype) guessed_.insert(name);
    for (int32_t type = 1; dtype && type < 36; ++type) {
      if (ToDataType(type) == dtype) meta.scalar_type = type;
    }
    for (const std::string& extent : extents) {
      int64_t number = 0;
      bool is_number = absl::SimpleAtoi(extent, &number);
      meta.sizes.push_back({is_number ? std::optional(number) : std::nullopt, ""});
    }
  }
  main_->tensors[name] = meta;
  return value;
}

// Tuples of tensors are several inputs.
ScriptValue ScriptRunner::AddInputs(const std::string& name, const Expr& type) {
  if (type.kind == ExprKind::kName && type.text == "Tensor") return AddInput(name, true);
  if (type.kind == ExprKind::kName && type.text == "int") return AddInput(name, false);
  bool is_tuple = type.kind == ExprKind::kSubscript && type.items[0].text == "Tuple";
  bool is_optional = type.kind == ExprKind::kSubscript && type.items[0].text == "Optional";
  if (is_optional && type.items.size() == 2) return AddInputs(name, type.items[1]);
  if (!is_tuple) {
    Fail(type.line, absl::StrCat("input `", name, "` is neither a tensor, an int nor a tuple of these"));
    return {};
  }
  ScriptValues items;
  for (size_t i = 1; i < type.items.size(); ++i) {
    items.push_back(AddInputs(absl::StrCat(name, "_", i - 1), type.items[i]));
  }
  return ScriptListOf(std::move(items), ScriptKind::kTuple, 0);
}

void ScriptRunner::AddOutputs(const ScriptValue& value) {
  if (value.kind == ScriptKind::kUnset) return Fail(0, absl::StrCat("its result needs ", value.text));
  if (value.IsList() || value.kind == ScriptKind::kDict) {
    if (value.list->is_open) return Fail(0, "its result is a list whose length only the running model knows");
    if (!Spend(value.list->items.size())) return;
    for (const ScriptValue& item : value.list->items) {
      bool is_key = value.kind == ScriptKind::kDict && (&item - value.list->items.data()) % 2 == 0;
      if (!is_key) AddOutputs(item);
    }
    return;
  }
  if (value.IsNone()) return;
  if (!value.IsTensor() && !value.IsNumber()) return Fail(0, "its result is neither a tensor nor a number");
  OutputSpec output;
  output.role = OutputRole::kUser;
  output.arg = value.argument;
  main_->outputs.push_back(value.argument);
  model_.program.outputs.push_back(std::move(output));
}

void ScriptRunner::AddStates() {
  for (const auto& [key, value] : attributes_) {
    const PickleValue* initial = key.first->state == nullptr ? nullptr : key.first->state->Find(key.second);
    auto weight = initial == nullptr ? weights_.end() : weights_.find(initial);
    if (!value.IsTensor()) continue;
    if (weight == weights_.end()) {
      return Fail(0, absl::StrCat("attribute `", key.second, "` is assigned and is no tensor of the file"));
    }
    for (const InputSpec& input : model_.program.inputs) {
      if (input.arg.text != weight->second.argument.text) continue;
      OutputSpec output;
      output.role = OutputRole::kBufferMutation;
      output.arg = value.argument;
      output.target = input.target;
      main_->outputs.push_back(value.argument);
      model_.program.outputs.push_back(std::move(output));
      break;
    }
  }
}

// An input that an operator takes as indices is of integers.
void ScriptRunner::GuessDTypes() {
  for (const Graph& each : model_.program.graphs) {
    for (const Node& node : each.nodes) {
      for (const auto& [input, argument] : node.inputs) {
        bool is_index = input == "indices" || input == "index";
        if (is_index && argument.kind == ArgumentKind::kTensor && guessed_.contains(argument.text)) {
          main_->tensors[argument.text].scalar_type = kInt64Type;
        }
      }
    }
  }
}

absl::StatusOr<ScriptModel> ScriptRunner::Run() {
  Graph& graph = model_.program.graphs.emplace_back();
  model_.program.graph = main_ = &graph;
  building_.graph = &graph;
  ScriptValue self = FromPickle(module_, "", "data");
  const Class* type = self.kind == ScriptKind::kObject ? FindClass(self.object->maker()) : nullptr;
  auto forward = type == nullptr ? decltype(type->methods.end()){} : type->methods.find("forward");
  RVM_RETURN_IF_ERROR(status_);
  if (type == nullptr || forward == type->methods.end()) {
    return absl::InvalidArgumentError("its module has no method `forward`");
  }
  ScriptValues args;
  const std::vector<Parameter>& parameters = forward->second.parameters;
  for (size_t i = 1; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    bool is_given = options_.shapes.contains(parameter.name) || options_.frozen.contains(parameter.name);
    if (parameter.value && !is_given) break;
    args.push_back(AddInputs(parameter.name, parameter.type));
  }
  RVM_RETURN_IF_ERROR(status_);
  if (!shapeless_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TorchScript files do not have the shapes of inputs; saw none for `", absl::StrJoin(shapeless_, "`, `"),
        "`; give each its extents, and its dtype if that is not float32: --shape ", shapeless_[0],
        "=1,3,224,224 or --shape ", shapeless_[0], "=1,16,int64"));
  }
  for (const InputSpec& input : model_.program.inputs) {
    graph.inputs.push_back(input.arg);
    building_.defined.insert(input.arg.text);
  }
  ScriptValue result = CallMethod(self, "forward", std::move(args), {}, 0);
  AddOutputs(result);
  AddStates();
  RVM_RETURN_IF_ERROR(status_);
  graph.inputs.clear();
  for (const InputSpec& input : model_.program.inputs) graph.inputs.push_back(input.arg);
  GuessDTypes();
  return std::move(model_);
}

}  // namespace rvm::torch
