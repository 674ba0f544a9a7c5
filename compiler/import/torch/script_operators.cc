// Operators: those on lists and known numbers are computed, others become nodes with the names of ATen's schemas.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/torch/script_runner.h"

namespace rvm::torch {
namespace {

constexpr size_t kMaxItems = 10'000;  // of a list that is repeated

struct NumberRow {
  std::string_view name, target;
  // Returns the result on known operands, both the same for an operator of one; nullopt where Python raises an
  // exception.
  std::optional<double> (*compute)(double a, double b);
  NumberKind kind = NumberKind::kInt;  // of the result; kInt: that of the operands
};
using Result = std::optional<double>;
Result Quotient(double a, double b) { return b == 0 ? std::nullopt : Result(a / b); }
constexpr NumberRow kNumbers[] = {
    {"add", "_operator.add", [](double a, double b) -> Result { return a + b; }},
    {"sub", "_operator.sub", [](double a, double b) -> Result { return a - b; }},
    {"mul", "_operator.mul", [](double a, double b) -> Result { return a * b; }},
    {"div", "_operator.truediv", Quotient, NumberKind::kFloat},
    {"truediv", "_operator.truediv", Quotient, NumberKind::kFloat},
    {"floordiv", "_operator.floordiv",
     [](double a, double b) { return b == 0 ? std::nullopt : Result(std::floor(a / b)); }},
    {"remainder", "_operator.mod",
     [](double a, double b) { return b == 0 ? std::nullopt : Result(a - std::floor(a / b) * b); }},
    {"pow", "_operator.pow", [](double a, double b) -> Result { return std::pow(a, b); }},
    {"neg", "_operator.neg", [](double a, double) -> Result { return -a; }},
    {"min", "torch.sym_min", [](double a, double b) -> Result { return std::min(a, b); }},
    {"max", "torch.sym_max", [](double a, double b) -> Result { return std::max(a, b); }},
    {"eq", "_operator.eq", [](double a, double b) -> Result { return a == b ? 1 : 0; }, NumberKind::kBool},
    {"ne", "_operator.ne", [](double a, double b) -> Result { return a != b ? 1 : 0; }, NumberKind::kBool},
    {"lt", "_operator.lt", [](double a, double b) -> Result { return a < b ? 1 : 0; }, NumberKind::kBool},
    {"le", "_operator.le", [](double a, double b) -> Result { return a <= b ? 1 : 0; }, NumberKind::kBool},
    {"gt", "_operator.gt", [](double a, double b) -> Result { return a > b ? 1 : 0; }, NumberKind::kBool},
    {"ge", "_operator.ge", [](double a, double b) -> Result { return a >= b ? 1 : 0; }, NumberKind::kBool},
    {"__not__", "torch.sym_not", [](double a, double) -> Result { return a == 0 ? 1 : 0; }, NumberKind::kBool},
};

NumberKind KindOf(const NumberRow& row, const ScriptValues& args) {
  if (row.kind != NumberKind::kInt) return row.kind;
  for (const ScriptValue& arg : args) {
    if (arg.ToNumberKind() == NumberKind::kFloat) return NumberKind::kFloat;
  }
  return NumberKind::kInt;
}

bool IsTensorList(const ScriptValue& value) {
  return value.IsList() && std::any_of(value.list->items.begin(), value.list->items.end(),
                                       [](const ScriptValue& item) { return item.IsTensor(); });
}

}  // namespace

// Returns `and` and `or` of truths, which half of them may decide, and of the bits of known integers.
ScriptValue ScriptRunner::OnTruths(const std::string& name, const ScriptValues& args, int line) {
  const bool is_or = name == "__or__";
  const Argument &a = args[0].argument, &b = args[1].argument;
  if (a.kind == ArgumentKind::kInt && b.kind == ArgumentKind::kInt) {
    return ScriptInt(is_or ? a.integer | b.integer : a.integer & b.integer);
  }
  for (const ScriptValue& arg : args) {
    if (arg.ToNumberKind() == NumberKind::kBool) continue;
    Fail(line, absl::StrCat("`", name, "` of numbers that only the running model knows"));
    return {};
  }
  for (const ScriptValue& arg : args) {
    if (arg.Known() && (*arg.Known() != 0) == is_or) return ScriptBool(is_or);
  }
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].Known()) return args[1 - i];
  }
  return EmitNumber(is_or ? "_operator.or_" : "_operator.and_", args, NumberKind::kBool);
}

std::optional<ScriptValue> ScriptRunner::OnNumbers(const std::string& name, const ScriptValues& args, int line) {
  if (args.empty() || args.size() > 2) return std::nullopt;
  if (!std::all_of(args.begin(), args.end(), [](const ScriptValue& arg) { return arg.IsNumber(); })) {
    return std::nullopt;
  }
  bool is_of_truths = (name == "__and__" || name == "__or__") && args.size() == 2;
  if (is_of_truths) return OnTruths(name, args, line);
  auto row = std::find_if(std::begin(kNumbers), std::end(kNumbers), [&](const NumberRow& r) { return r.name == name; });
  if (row == std::end(kNumbers)) return std::nullopt;
  NumberKind kind = KindOf(*row, args);
  std::optional<double> a = args[0].Known(), b = args.back().Known();
  if (a && b) {
    std::optional<double> result = row->compute(*a, *b);
    // Integers that a double does not hold are not computed here.
    bool is_exact = result && (kind == NumberKind::kFloat || std::fabs(*result) < 9e15);
    if (!is_exact) {
      Fail(line, absl::StrCat("`", name, "` of numbers without a result"));
      return ScriptNone();
    }
    if (kind == NumberKind::kFloat) return ScriptFloat(*result);
    return kind == NumberKind::kBool ? ScriptBool(*result != 0) : ScriptInt(static_cast<int64_t>(*result));
  }
  return EmitNumber(std::string(row->target), args, kind);
}

// Returns results that need no node: identity, and comparisons of texts and dtypes.
std::optional<ScriptValue> ScriptRunner::OnKnown(const std::string& name, const ScriptValues& args) {
  if ((name == "__is__" || name == "__isnot__") && args.size() == 2) {
    bool is_same = (args[0].IsNone() && args[1].IsNone()) || SameKnown(args[0], args[1]);
    return ScriptBool(is_same == (name == "__is__"));
  }
  if ((name == "eq" || name == "ne") && args.size() == 2) {
    bool are_known = (args[0].IsText() && args[1].IsText()) || args[0].kind == ScriptKind::kDTypeOf;
    if (are_known) return ScriptBool(SameKnown(args[0], args[1]) == (name == "eq"));
  }
  if (name == "format") return ScriptUnset("a text that is made from values");
  if (name == "device") return ScriptText("");
  return std::nullopt;
}

std::optional<ScriptValue> ScriptRunner::OnLists(const std::string& name, ScriptValues& args, int line) {
  if (args.empty()) return std::nullopt;
  const ScriptValue& first = args[0];
  if (name == "len" && first.kind == ScriptKind::kSizes)
    return Operator("dim", {ScriptTensorNamed(first.argument.text)}, {}, line);
  if (name == "len" && first.IsTensor()) return Operator("size", {first, ScriptInt(0)}, {}, line);
  if (first.kind == ScriptKind::kDict && name == "len") {
    return ScriptInt(static_cast<int64_t>(first.list->items.size() / 2));
  }
  if (!first.IsList() || first.list->is_open) return std::nullopt;
  ScriptValues& items = first.list->items;
  if (name == "len") return ScriptInt(static_cast<int64_t>(items.size()));
  if (name == "__getitem__" && args.size() == 2) return Subscript(first, args[1], line);
  auto copy = [&](ScriptValues values) {
    if (!Spend(values.size())) values.clear();
    return ScriptListOf(std::move(values), ScriptKind::kList, building_.depth);
  };
  if (name == "list") return copy(items);
  bool extends = (name == "extend" || name == "add_") && args.size() == 2 && args[1].IsList() && !args[1].list->is_open;
  if (extends || (name == "append" && args.size() == 2)) {
    ScriptValues more = extends ? args[1].list->items : ScriptValues{args[1]};
    if (first.list->depth != building_.depth) {
      Fail(line, "a list grows in a branch or loop that only the running model decides");
    }
    for (ScriptValue& item : more) {
      if (!Spend(1)) break;
      if (!IsElementFor(first.list.get(), item)) Fail(line, "lists are nested too deep, or one holds itself");
      if (!failed()) items.push_back(std::move(item));
    }
    return first;
  }
  if (name == "__contains__" && args.size() == 2) {
    ScriptValue found = ScriptBool(false);
    for (const ScriptValue& item : items) {
      std::optional<ScriptValue> same = OnKnown("eq", {item, args[1]});
      if (!same) same = OnNumbers("eq", {item, args[1]}, line);
      if (!same) return std::nullopt;
      found = *OnNumbers("__or__", {found, *same}, line);
    }
    return found;
  }
  bool joins = name == "add" && args.size() == 2 && args[1].IsList() && !args[1].list->is_open;
  if (joins) {
    ScriptValues joined = items;
    joined.insert(joined.end(), args[1].list->items.begin(), args[1].list->items.end());
    return copy(std::move(joined));
  }
  bool repeats = name == "mul" && args.size() == 2 && args[1].argument.kind == ArgumentKind::kInt &&
                 args[1].argument.integer <= int64_t{kMaxItems} && items.size() <= kMaxItems;
  if (repeats) {
    ScriptValues repeated;
    for (int64_t i = 0; i < args[1].argument.integer && repeated.size() <= kMaxItems; ++i) {
      repeated.insert(repeated.end(), items.begin(), items.end());
    }
    if (repeated.size() > kMaxItems) Fail(line, "a list of more than 10000 elements");
    return copy(std::move(repeated));
  }
  bool is_slice = name == "slice" && args.size() >= 3 && (args.size() == 3 || args[3].Known() == 1) &&
                  (args[1].IsNone() || args[1].Known()) && (args[2].IsNone() || args[2].Known());
  if (is_slice) {
    int64_t size = static_cast<int64_t>(items.size());
    auto bound = [&](size_t i, int64_t otherwise) {
      std::optional<double> known = i < args.size() ? args[i].Known() : std::nullopt;
      int64_t at = known ? static_cast<int64_t>(std::clamp(*known, -1e9, 1e9)) : otherwise;
      return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    };
    int64_t begin = bound(1, 0), end = bound(2, size);
    ScriptValues part;
    for (int64_t i = begin; i < end; ++i) part.push_back(items[static_cast<size_t>(i)]);
    return copy(std::move(part));
  }
  return std::nullopt;
}

ScriptValue ScriptRunner::Primitive(const std::string& name, ScriptValues args, Keywords keywords, int line) {
  if (name == "NumToTensor" && args.size() == 1) {
    if (args[0].Known()) return Operator("scalar_tensor", args, {}, line);
    if (args[0].IsNumber()) return ScriptTensorNamed(args[0].argument.text);
  }
  if (name == "RaiseException") {
    Fail(line, "its code raises an exception for the shapes and values that are given");
    return {};
  }
  if (name == "dtype" && args.size() == 1 && args[0].IsTensor()) {
    ScriptValue dtype = args[0];
    dtype.kind = ScriptKind::kDTypeOf;
    return dtype;
  }
  if (name == "device" || name == "layout") return ScriptText(name);
  if (name == "is_cuda" || name == "requires_grad" || name == "is_mkldnn" || name == "is_quantized") {
    return ScriptBool(false);
  }
  if (name == "shape") return Operator("size", args, keywords, line);
  if (name == "ndim") return Operator("dim", args, keywords, line);
  if (name == "data") return Operator("detach", args, keywords, line);
  if ((name == "min" || name == "max") && args.size() == 1 && args[0].IsList() && !args[0].list->is_open) {
    ScriptValues items = args[0].list->items;
    for (size_t i = 1; i < items.size() && !failed(); ++i) {
      items[0] = Operator(name, {items[0], items[i]}, {}, line);
    }
    if (!items.empty()) return items[0];
  }
  if (name == "TupleIndex" && args.size() == 2) return Subscript(args[0], args[1], line);
  return Operator(name, std::move(args), std::move(keywords), line);
}

// Returns the value as an argument of that type; nullopt if it has another.
std::optional<Argument> ScriptRunner::ToArgument(const ScriptValue& value, const SchemaArgument& schema) {
  if (schema.type == "O") return Argument();
  if (value.IsNone()) return schema.is_optional ? std::optional(Argument()) : std::nullopt;
  if (schema.is_list) {
    Argument list;
    list.kind = ArgumentKind::kList;
    SchemaArgument element = schema;
    element.is_list = false;
    if (value.IsNumber() && schema.type != "T") {
      list.list.push_back(value.argument);
      return list;
    }
    if (!value.IsList() || value.list->is_open || !Spend(value.list->items.size())) return std::nullopt;
    element.is_optional = schema.type == "T";
    for (const ScriptValue& item : value.list->items) {
      std::optional<Argument> one = ToArgument(item, element);
      if (!one) return std::nullopt;
      list.list.push_back(*std::move(one));
    }
    return list;
  }
  if (schema.type == "D" && value.kind == ScriptKind::kDTypeOf) return Argument();  // see EmitOperator
  if (value.kind != ScriptKind::kArgument) return std::nullopt;
  if (schema.type == "T") return value.IsTensor() ? std::optional(value.argument) : std::nullopt;
  if (schema.type == "X") return value.IsText() ? std::optional(value.argument) : std::nullopt;
  std::optional<NumberKind> kind = value.ToNumberKind();
  if (schema.type == "D") {
    // Dtypes are numbers in the code, one less than those in exported programs.
    if (value.argument.kind != ArgumentKind::kInt || value.argument.integer < 0 || value.argument.integer > 100) {
      return std::nullopt;
    }
    Argument dtype;
    dtype.kind = ArgumentKind::kDType;
    dtype.integer = value.argument.integer + 1;
    return dtype;
  }
  if (schema.type == "I" && kind == NumberKind::kFloat) return std::nullopt;
  if (schema.type == "B" && kind != NumberKind::kBool) return std::nullopt;
  if (schema.type == "F" && kind == NumberKind::kBool) return std::nullopt;
  return kind ? std::optional(value.argument) : std::nullopt;
}

ScriptValue ScriptRunner::Operator(const std::string& name, ScriptValues args, Keywords keywords, int line) {
  if (failed()) return {};
  if (name == "warn") return ScriptNone();
  for (const ScriptValue& arg : args) {
    if (arg.kind != ScriptKind::kUnset) continue;
    Fail(line, absl::StrCat("`", name, "` needs ", arg.text));
    return {};
  }
  if (std::optional<ScriptValue> known = OnKnown(name, args)) return *known;
  if (std::optional<ScriptValue> result = OnLists(name, args, line)) return *result;
  if (std::optional<ScriptValue> number = OnNumbers(name, args, line)) return *number;
  bool is_of_tensor = !args.empty() && args[0].IsTensor();
  if (name == "size" && is_of_tensor) {
    if (args.size() == 2 && args[1].Known()) return Extent(args[0].argument.text, args[1].argument.integer);
    if (args.size() == 2) return EmitNumber("torch.ops.aten.sym_size.int", args, NumberKind::kInt);
    args[0].kind = ScriptKind::kSizes;
    return args[0];
  }
  if (name == "dim" && is_of_tensor) return EmitNumber("torch.ops.aten.dim.default", args, NumberKind::kInt);
  if (name == "numel" && is_of_tensor) return EmitNumber("torch.ops.aten.sym_numel.default", args, NumberKind::kInt);
  if ((name == "IntImplicit" || name == "ScalarImplicit") && is_of_tensor)
    return Convert(args[0], NumberKind::kInt, line);
  if (name == "FloatImplicit" && is_of_tensor) return Convert(args[0], NumberKind::kFloat, line);
  // A shape that is another tensor's.
  for (std::string_view shaped : {"view", "reshape", "expand"}) {
    if (name == shaped && args.size() == 2 && args[1].kind == ScriptKind::kSizes) {
      return Operator(absl::StrCat(name == "reshape" ? "view" : name, "_as"),
                      {args[0], ScriptTensorNamed(args[1].argument.text)}, {}, line);
    }
  }
  for (const Schema& schema : FindSchemas(name)) {
    std::vector<std::pair<std::string, Argument>> inputs;
    bool fits = true;
    size_t position = 0, used = 0;
    Keywords given;
    for (const SchemaArgument& argument : schema.arguments) {
      const ScriptValue* value = nullptr;
      if (!argument.is_keyword && position < args.size()) value = &args[position++];
      for (const auto& [key, keyword] : keywords) {
        if (value == nullptr && key == argument.name && ++used > 0) value = &keyword;
      }
      fits = fits && (value != nullptr || argument.has_default || argument.type == "O");
      if (!fits) break;
      if (value == nullptr) continue;
      std::optional<Argument> input = ToArgument(*value, argument);
      fits = input.has_value();
      if (!fits) break;
      given.emplace_back(std::string(argument.name), *value);
      if (input->kind != ArgumentKind::kNone) inputs.emplace_back(std::string(argument.name), *std::move(input));
    }
    fits = fits && position == args.size() && used == keywords.size();
    if (fits) return EmitOperator(name, schema, std::move(inputs), given, line);
  }
  return Unknown(name, args, keywords);
}

ScriptValue ScriptRunner::EmitOperator(const std::string& name, const Schema& schema,
                                       std::vector<std::pair<std::string, Argument>> inputs, const Keywords& given,
                                       int line) {
  const Argument* written =
      name.ends_with('_') && !name.ends_with("__") && !inputs.empty() ? &inputs[0].second : nullptr;
  if (written != nullptr && building_.depth > 0 && !building_.defined.contains(written->text)) {
    Fail(line, absl::StrCat("`", name,
                            "` writes to a tensor from outside of a branch or loop that only the running "
                            "model decides"));
    return {};
  }
  std::string target =
      absl::StrCat("torch.ops.aten.", name, ".", schema.overload.empty() ? "default" : Abseil(schema.overload));
  const ScriptValue *dtype = nullptr, *fill = nullptr;
  std::optional<int64_t> scalar_type;
  for (const auto& [key, value] : given) {
    if (key == "dtype" && !value.IsNone()) dtype = &value;
    if (key == "fill_value") fill = &value;
  }
  if (dtype != nullptr && dtype->Known()) scalar_type = static_cast<int64_t>(*dtype->Known()) + 1;
  constexpr int64_t kFloat32Type = 7, kInt64Type = 5, kBoolType = 12;
  if (dtype == nullptr && name == "arange") {
    bool has_float = std::any_of(given.begin(), given.end(),
                                 [](const auto& one) { return one.second.ToNumberKind() == NumberKind::kFloat; });
    scalar_type = has_float ? kFloat32Type : kInt64Type;
  }
  if (dtype == nullptr && name == "full" && fill != nullptr) {
    std::optional<NumberKind> kind = fill->ToNumberKind();
    scalar_type = kind == NumberKind::kFloat ? kFloat32Type : kind == NumberKind::kBool ? kBoolType : kInt64Type;
  }
  if (schema.results.size() == 1 && schema.results[0] == "T[]") {
    Argument list;
    list.kind = ArgumentKind::kList;
    Node& node = Emit(std::move(target), inputs, list);
    node.name = NewName(name);
    if (!node.outputs.empty()) node.outputs[0].kind = ArgumentKind::kList;
    ScriptValue result = ScriptListOf({}, ScriptKind::kList, building_.depth);
    result.list->graph = building_.graph;
    result.list->node = building_.graph->nodes.size() - 1;
    result.list->is_open = true;
    for (const auto& [key, value] : given) {
      // The length is what the node is asked for, or gets.
      bool is_count = key == "chunks" && value.Known();
      bool is_list = value.IsList() && (key == "split_sizes" || IsTensorList(value));
      bool is_sizes = value.IsList() && key == "split_size";
      if (!is_count && !is_list && !is_sizes) continue;
      size_t count = is_count ? static_cast<size_t>(std::clamp(*value.Known(), 0.0, 9999.0)) : value.list->items.size();
      if (count > 0) Element(result, count - 1, line);
      result.list->is_open = false;
    }
    return result;
  }
  ScriptValues results;
  std::vector<Argument> outputs;
  for (std::string_view letter : schema.results) {
    bool is_tensor = letter == "T";
    NumberKind kind = letter == "F" ? NumberKind::kFloat : letter == "B" ? NumberKind::kBool : NumberKind::kInt;
    results.push_back(is_tensor ? ScriptTensorNamed(NewName(name)) : ScriptSymbol(NewName(name), kind));
    outputs.push_back(results.back().argument);
    if (is_tensor && scalar_type) {
      building_.graph->tensors[results.back().argument.text].scalar_type = static_cast<int32_t>(*scalar_type);
    }
    building_.defined.insert(outputs.back().text);
  }
  Node& node = Emit(std::move(target), std::move(inputs), {});
  node.name = outputs.empty() ? "" : outputs[0].text;
  node.outputs = std::move(outputs);
  if (dtype != nullptr && dtype->kind == ScriptKind::kDTypeOf && results.size() == 1) {
    return Operator("type_as", {results[0], ScriptTensorNamed(dtype->argument.text)}, {}, line);
  }
  if (results.size() == 1) return results[0];
  return ScriptListOf(std::move(results), ScriptKind::kTuple, building_.depth);
}

// An operator without a row, or on arguments of other types: a node that is refused with all others.
ScriptValue ScriptRunner::Unknown(const std::string& name, const ScriptValues& args, const Keywords& keywords) {
  std::vector<std::pair<std::string, Argument>> inputs;
  for (const ScriptValue& arg : args) {
    if (arg.IsTensor()) inputs.emplace_back(absl::StrCat("argument_", inputs.size()), arg.argument);
  }
  for (const auto& [key, value] : keywords) {
    if (value.IsTensor()) inputs.emplace_back(key, value.argument);
  }
  ScriptValue result = ScriptTensorNamed(NewName(name));
  bool has_schema = !FindSchemas(name).empty();
  unknown_.insert(absl::StrCat("aten.", name));
  Emit(absl::StrCat("torch.ops.aten.", name, has_schema ? "(arguments of other types)" : ""), std::move(inputs),
       result.argument);
  return result;
}

}  // namespace rvm::torch
