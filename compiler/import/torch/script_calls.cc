// Expressions: names, elements, calls of methods and functions. script_operators.cc has the operators.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "compiler/import/torch/script_runner.h"

namespace rvm::torch {
namespace {

constexpr int kMaxCalls = 100;  // of functions in each other

// Returns "torch.nn.f" of such a chain; "" for other expressions.
std::string PathOf(const Expr& expr) {
  if (expr.kind == ExprKind::kName) return expr.text;
  if (expr.kind != ExprKind::kAttribute) return "";
  std::string base = PathOf(expr.items[0]);
  return base.empty() ? "" : absl::StrCat(base, ".", expr.text);
}

std::string_view RootOf(std::string_view path) { return path.substr(0, path.find('.')); }

std::string FileOf(std::string_view path) {
  std::string file(path);
  for (char& c : file) c = c == '.' ? '/' : c;
  return file;
}

}  // namespace

const Class* ScriptRunner::FindClass(std::string_view path) {
  size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  const SourceFile* file = source_.File(FileOf(path.substr(0, dot)), status_);
  if (file == nullptr) return nullptr;
  auto found = file->classes.find(path.substr(dot + 1));
  return found == file->classes.end() ? nullptr : &found->second;
}

ScriptValue ScriptRunner::Evaluate(const Expr& expr, Env& env) {
  if (failed()) return {};
  auto all = [&](size_t from) {
    ScriptValues items;
    for (size_t i = from; i < expr.items.size(); ++i) items.push_back(Evaluate(expr.items[i], env));
    return items;
  };
  switch (expr.kind) {
    case ExprKind::kInt: return ScriptInt(expr.integer);
    case ExprKind::kFloat: return ScriptFloat(expr.number);
    case ExprKind::kString: return ScriptText(expr.text);
    case ExprKind::kList: return NewList(all(0), ScriptKind::kList, expr.line);
    case ExprKind::kTuple: return NewList(all(0), ScriptKind::kTuple, expr.line);
    case ExprKind::kDict: return NewList(all(0), ScriptKind::kDict, expr.line);
    case ExprKind::kAttribute: return EvaluateAttribute(expr, env);
    case ExprKind::kCall: return WithStack([&] { return EvaluateCall(expr, env); });
    case ExprKind::kSubscript: {
      if (expr.items.size() != 2) break;
      ScriptValue base = Evaluate(expr.items[0], env), index = Evaluate(expr.items[1], env);
      return failed() ? base : Subscript(base, index, expr.line);
    }
    case ExprKind::kNegative: return Operator("neg", all(0), {}, expr.line);
    case ExprKind::kName: {
      auto found = env.find(expr.text);
      if (found != env.end()) return found->second;
      if (expr.text == "None") return ScriptNone();
      if (expr.text == "True" || expr.text == "False") return ScriptBool(expr.text == "True");
      if (expr.text == "inf") return ScriptFloat(std::numeric_limits<double>::infinity());
      if (expr.text == "nan") return ScriptFloat(std::numeric_limits<double>::quiet_NaN());
      break;
    }
  }
  Fail(expr.line, absl::StrCat("`", expr.text, "` is no value that is supported"));
  return {};
}

ScriptValue ScriptRunner::EvaluateAttribute(const Expr& expr, Env& env) {
  std::string path = PathOf(expr);
  std::string root(RootOf(path));
  if (!path.empty() && !env.contains(root)) {
    if (root == "CONSTANTS" && constants_ != nullptr) {
      uint32_t index = 0;  // of "c12"
      bool is_constant = expr.text.starts_with('c') && absl::SimpleAtoi(Abseil(expr.text).substr(1), &index);
      if (is_constant && index < constants_->items.size()) {
        return FromPickle(*constants_->items[index], path, "constants");
      }
    }
    bool is_function = root == "torch" || root == "ops" || root == "__torch__";
    if (!is_function) Fail(expr.line, absl::StrCat("`", path, "` is undefined"));
    ScriptValue function;
    function.kind = ScriptKind::kFunction;
    function.text = std::move(path);
    return function;
  }
  ScriptValue base = Evaluate(expr.items[0], env);
  return failed() ? base : AttributeOf(base, expr.text, expr.line);
}

ScriptValue ScriptRunner::AttributeOf(const ScriptValue& base, const std::string& name, int line) {
  if (base.kind == ScriptKind::kObject) {
    auto assigned = attributes_.find({base.object, name});
    if (assigned != attributes_.end()) return assigned->second;
    const PickleValue* value = base.object->state == nullptr ? nullptr : base.object->state->Find(name);
    std::string path = base.text.empty() ? name : absl::StrCat(base.text, ".", name);
    if (value != nullptr) return FromPickle(*value, path, "data");
    Fail(line, absl::StrCat("the model has no attribute `", path, "`"));
    return {};
  }
  if (base.kind == ScriptKind::kTuple && !base.text.empty()) {
    const Class* type = FindClass(base.text);
    for (size_t i = 0; type != nullptr && i < type->fields.size() && i < base.list->items.size(); ++i) {
      if (type->fields[i].name == name) return base.list->items[i];
    }
  }
  constexpr std::pair<std::string_view, std::string_view> kProperties[] = {{"T", "t"}, {"shape", "size"}};
  for (const auto& [property, function] : kProperties) {
    if (name == property && base.IsTensor()) return Operator(std::string(function), {base}, {}, line);
  }
  bool is_known = base.IsTensor() && (name == "dtype" || name == "device" || name == "ndim");
  if (is_known) return Primitive(name, {base}, {}, line);
  Fail(line, absl::StrCat("attribute `", name, "` of such a value is not supported"));
  return {};
}

// ---- elements

// An extent of an input or of a weight may be known now.
ScriptValue ScriptRunner::Extent(const std::string& tensor, int64_t axis) {
  auto meta = main_->tensors.find(tensor);
  if (meta != main_->tensors.end()) {
    const std::vector<TensorMeta::Extent>& sizes = meta->second.sizes;
    size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(sizes.size()) : axis);
    if (at < sizes.size() && sizes[at].number) return ScriptInt(*sizes[at].number);
  }
  return EmitNumber("torch.ops.aten.sym_size.int", {ScriptTensorNamed(tensor), ScriptInt(axis)}, NumberKind::kInt);
}

ScriptValue ScriptRunner::Element(const ScriptValue& list, size_t index, int line) {
  if (list.kind == ScriptKind::kSizes) {
    return Extent(list.argument.text, static_cast<int64_t>(index));
  }
  ScriptList& values = *list.list;
  while (values.is_open && index >= values.items.size() && index < 10'000 && Spend(1)) {
    Node& node = values.graph->nodes[values.node];
    ScriptValue item = ScriptTensorNamed(NewName(absl::StrCat(node.name, "_part")));
    node.outputs[0].list.push_back(item.argument);
    // Names of a graph around this one are captured.
    if (values.graph == building_.graph) building_.defined.insert(item.argument.text);
    values.items.push_back(std::move(item));
  }
  if (index < values.items.size()) return values.items[index];
  Fail(line, absl::StrCat("element ", index, " of a list of ", values.items.size()));
  return {};
}

ScriptValue ScriptRunner::Subscript(const ScriptValue& base, const ScriptValue& index, int line) {
  if (base.kind == ScriptKind::kDict) {
    const ScriptValues& items = base.list->items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (SameKnown(items[i], index)) return items[i + 1];
    }
    Fail(line, "a key that the dict does not have, or that only the running model knows");
    return {};
  }
  bool is_known = index.Known() && index.argument.kind == ArgumentKind::kInt;
  if (!is_known || (!base.IsList() && base.kind != ScriptKind::kSizes)) {
    Fail(line, "an element at a place that only the running model knows, or of what is no list");
    return {};
  }
  int64_t at = index.argument.integer;
  if (base.kind == ScriptKind::kSizes) {
    return Extent(base.argument.text, at);
  }
  if (at < 0 && !base.list->is_open) at += static_cast<int64_t>(base.list->items.size());
  if (at < 0) {
    Fail(line, "an element from the end of a list whose length only the running model knows");
    return {};
  }
  return Element(base, static_cast<size_t>(at), line);
}

// ---- calls

ScriptValue ScriptRunner::Convert(const ScriptValue& value, NumberKind kind, int line) {
  if (std::optional<double> known = value.Known()) {
    if (kind == NumberKind::kFloat) return ScriptFloat(*known);
    if (kind == NumberKind::kBool) return ScriptBool(*known != 0);
    bool fits = *known > -9e18 && *known < 9e18;
    if (fits) {
      return value.argument.kind == ArgumentKind::kFloat ? ScriptInt(static_cast<int64_t>(*known))
                                                         : ScriptInt(value.argument.integer);
    }
  }
  if (value.IsTensor()) {
    ScriptValue item = EmitNumber("torch.ops.aten.item.default", {value}, kind);
    if (kind == NumberKind::kInt) return EmitNumber("torch.sym_int", {item}, kind);
    return kind == NumberKind::kFloat ? EmitNumber("torch.sym_float", {item}, kind) : item;
  }
  if (!value.IsNumber()) {
    Fail(line, "a conversion to a number of what is neither a tensor nor a number");
    return {};
  }
  if (kind == value.ToNumberKind()) return value;
  if (kind == NumberKind::kBool) return EmitNumber("_operator.ne", {value, ScriptInt(0)}, kind);
  return EmitNumber(kind == NumberKind::kInt ? "torch.sym_int" : "torch.sym_float", {value}, kind);
}

// Functions of Python, and what only says types.
std::optional<ScriptValue> ScriptRunner::Builtin(const std::string& name, const Expr& expr, Env& env) {
  auto argument = [&](size_t i) { return Evaluate(expr.items[i], env); };
  size_t count = expr.items.size() - 1;
  if ((name == "annotate" || name == "unchecked_cast") && count == 2) return argument(2);
  if (name == "uninitialized") return ScriptUnset("a value that is set in another branch");
  if (name == "int" && count == 1) return Convert(argument(1), NumberKind::kInt, expr.line);
  if (name == "float" && count == 1) return Convert(argument(1), NumberKind::kFloat, expr.line);
  if (name == "bool" && count == 1) return Convert(argument(1), NumberKind::kBool, expr.line);
  if (name == "str") return ScriptUnset("a text that is made from values");
  if (name == "getattr" && count == 2 && expr.items[2].kind == ExprKind::kString) {
    ScriptValue base = argument(1);
    return failed() ? base : AttributeOf(base, expr.items[2].text, expr.line);
  }
  return std::nullopt;
}

ScriptValue ScriptRunner::EvaluateCall(const Expr& expr, Env& env) {
  const Expr& callee = expr.items[0];
  if (callee.kind == ExprKind::kName && !env.contains(callee.text)) {
    std::optional<ScriptValue> result = Builtin(callee.text, expr, env);
    if (result) return *std::move(result);
    Fail(expr.line, absl::StrCat("function `", callee.text, "` is not supported"));
    return {};
  }
  std::string path = PathOf(callee);
  bool is_method = callee.kind == ExprKind::kAttribute && (path.empty() || env.contains(RootOf(path)));
  ScriptValue base = is_method ? Evaluate(callee.items[0], env) : Evaluate(callee, env);
  ScriptValues args;
  Keywords keywords;
  size_t positional = expr.items.size() - expr.keywords.size();
  for (size_t i = 1; i < expr.items.size() && !failed(); ++i) {
    ScriptValue value = Evaluate(expr.items[i], env);
    if (i < positional) {
      args.push_back(std::move(value));
    } else {
      keywords.emplace_back(expr.keywords[i - positional], std::move(value));
    }
  }
  if (failed()) return {};
  if (is_method) return CallMethod(base, callee.text, std::move(args), std::move(keywords), expr.line);
  if (base.kind == ScriptKind::kFunction) return CallPath(base.text, std::move(args), std::move(keywords), expr.line);
  Fail(expr.line, "a call of what is no function");
  return {};
}

ScriptValue ScriptRunner::CallPath(const std::string& path, ScriptValues args, Keywords keywords, int line) {
  constexpr std::string_view kPrimitive = "ops.prim.", kAten = "ops.aten.", kTorch = "torch.";
  if (path.starts_with(kPrimitive)) return Primitive(path.substr(kPrimitive.size()), args, keywords, line);
  for (std::string_view prefix : {kAten, kTorch}) {
    if (path.starts_with(prefix)) return Operator(path.substr(prefix.size()), args, keywords, line);
  }
  size_t dot = path.rfind('.');
  const SourceFile* file = dot == std::string::npos ? nullptr : source_.File(FileOf(path.substr(0, dot)), status_);
  if (file != nullptr) {
    auto function = file->functions.find(path.substr(dot + 1));
    if (function != file->functions.end()) {
      return Invoke(function->second, std::move(args), std::move(keywords), line);
    }
    auto type = file->classes.find(path.substr(dot + 1));
    bool is_named_tuple = type != file->classes.end() && type->second.base == "NamedTuple";
    if (is_named_tuple && keywords.empty()) {
      ScriptValue tuple = NewList(std::move(args), ScriptKind::kTuple, line);
      tuple.text = path;
      return tuple;
    }
  }
  Fail(line, absl::StrCat("`", path, "` is no function or named tuple that is supported"));
  return {};
}

ScriptValue ScriptRunner::CallMethod(const ScriptValue& object, const std::string& name, ScriptValues args,
                                     Keywords keywords, int line) {
  if (object.kind != ScriptKind::kObject) {
    Fail(line, absl::StrCat("method `", name, "` of what is no module"));
    return {};
  }
  const Class* type = FindClass(object.object->maker());
  auto method = type == nullptr ? decltype(type->methods.end()){} : type->methods.find(name);
  if (type == nullptr || method == type->methods.end()) {
    Fail(line, absl::StrCat("module `", object.text, "` has no method `", name, "`"));
    return {};
  }
  args.insert(args.begin(), object);
  modules_.push_back(object.text);
  ScriptValue result = Invoke(method->second, std::move(args), std::move(keywords), line);
  modules_.pop_back();
  return result;
}

ScriptValue ScriptRunner::Invoke(const Function& function, ScriptValues args, Keywords keywords, int line) {
  if (calls_ == kMaxCalls || args.size() > function.parameters.size()) {
    Fail(line, absl::StrCat("`", function.name, "` gets too many arguments, or functions call each other without end"));
    return {};
  }
  Env env;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    if (i < args.size()) {
      env[parameter.name] = std::move(args[i]);
    } else if (parameter.value) {
      Env none;
      env[parameter.name] = Evaluate(*parameter.value, none);
    }
  }
  for (auto& [name, value] : keywords) env[name] = std::move(value);
  for (const Parameter& parameter : function.parameters) {
    if (!env.contains(parameter.name)) {
      Fail(line, absl::StrCat("`", function.name, "` gets no argument `", parameter.name, "`"));
    }
  }
  if (failed()) return {};
  ++calls_;
  std::optional<ScriptValue> result = WithStack([&] { return Block(function.body, env); });
  --calls_;
  return result.value_or(ScriptNone());
}

}  // namespace rvm::torch
