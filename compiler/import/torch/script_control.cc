// Statements: assignments, branches, loops.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "compiler/import/torch/script_runner.h"

namespace rvm::torch {
namespace {

constexpr int64_t kMaxSteps = 10'000;  // of a loop that is unrolled
constexpr std::string_view kLateEnd =
    "a branch whose condition only the running model knows gives values of two kinds, or ends the function";
constexpr std::string_view kLateReturn = "a return in a branch or loop that only the running model decides";
constexpr std::string_view kTooLong = "a loop of more than 10000 steps, which are unrolled";

bool Raises(const std::vector<Statement>& body) {
  return std::any_of(body.begin(), body.end(), [](const Statement& statement) {
    if (statement.kind != StatementKind::kExpression) return false;
    const Expr& call = statement.value;
    return call.kind == ExprKind::kCall && call.items[0].kind == ExprKind::kAttribute &&
           call.items[0].text == "RaiseException";
  });
}

void FindTargets(const std::vector<Statement>& body, std::set<std::string>& names) {
  for (const Statement& statement : body) {
    for (const Expr& target : statement.targets) {
      if (target.kind == ExprKind::kName) names.insert(target.text);
    }
    FindTargets(statement.body, names);
    FindTargets(statement.otherwise, names);
  }
}

Argument GraphArgument(const Graph* graph) {
  Argument argument;
  argument.kind = ArgumentKind::kGraph;
  argument.graph = graph;
  return argument;
}

Argument ListArgument(std::vector<Argument> items) {
  Argument argument;
  argument.kind = ArgumentKind::kList;
  argument.list = std::move(items);
  return argument;
}

Argument TensorArgument(const std::string& name) { return ScriptTensorNamed(name).argument; }

bool IsLeaf(const ScriptValue& value) { return value.IsTensor() || value.IsNumber(); }

}  // namespace

std::optional<ScriptValue> ScriptRunner::Block(const std::vector<Statement>& body, Env& env) {
  for (const Statement& statement : body) {
    if (failed() || !Spend(1)) return std::nullopt;
    std::optional<ScriptValue> result = WithStack([&] { return One(statement, env); });
    if (result) return result;
  }
  return std::nullopt;
}

std::optional<ScriptValue> ScriptRunner::One(const Statement& statement, Env& env) {
  switch (statement.kind) {
    case StatementKind::kPass: break;
    case StatementKind::kExpression: Evaluate(statement.value, env); break;
    case StatementKind::kAssign: Assign(statement, Evaluate(statement.value, env), env); break;
    case StatementKind::kReturn: return Evaluate(statement.value, env);
    case StatementKind::kIf: return If(statement, env);
    case StatementKind::kFor: return For(statement, env);
    case StatementKind::kWhile: return While(statement, env);
  }
  return std::nullopt;
}

void ScriptRunner::SetAttribute(const Expr& target, const ScriptValue& value, Env& env) {
  if (target.kind != ExprKind::kAttribute) return Fail(target.line, "an assignment to an element is not supported");
  ScriptValue object = Evaluate(target.items[0], env);
  if (failed()) return;
  if (object.kind != ScriptKind::kObject) return Fail(target.line, "an assignment to what is no module");
  if (building_.depth > 0) {
    return Fail(target.line, absl::StrCat("attribute `", target.text,
                                          "` is assigned in a branch or loop that only the running model decides"));
  }
  ScriptValue before = AttributeOf(object, target.text, target.line);
  bool fits = (before.IsTensor() && value.IsTensor()) || SameKnown(before, value);
  if (!fits) {
    return Fail(target.line, absl::StrCat("attribute `", target.text,
                                          "` is assigned and no tensor before and after; state has to be a tensor"));
  }
  attributes_[{object.object, target.text}] = value;
}

void ScriptRunner::Assign(const Statement& statement, const ScriptValue& value, Env& env) {
  if (failed()) return;
  auto set = [&](const Expr& target, const ScriptValue& part) {
    if (target.kind == ExprKind::kName) {
      env[target.text] = part;
    } else {
      SetAttribute(target, part, env);
    }
  };
  if (!statement.unpacks) return set(statement.targets[0], value);
  bool is_open = value.kind == ScriptKind::kSizes || (value.IsList() && value.list->is_open);
  bool fits = is_open || (value.IsList() && value.list->items.size() == statement.targets.size());
  if (!fits) {
    return Fail(statement.line, absl::StrCat("what is unpacked are no ", statement.targets.size(), " values"));
  }
  for (size_t i = 0; i < statement.targets.size() && !failed(); ++i) {
    set(statement.targets[i], Element(value, i, statement.line));
  }
}

// ---- branches

std::optional<ScriptValue> ScriptRunner::If(const Statement& statement, Env& env) {
  ScriptValue condition = Evaluate(statement.value, env);
  if (failed()) return std::nullopt;
  if (std::optional<double> known = condition.Known()) {
    return Block(*known != 0 ? statement.body : statement.otherwise, env);
  }
  bool then_raises = Raises(statement.body), else_raises = Raises(statement.otherwise);
  if (!IsLeaf(condition)) {
    Fail(statement.line, "a condition that is neither a truth nor a number");
    return std::nullopt;
  }
  if (!then_raises && !else_raises) {
    Branches(statement, condition, env);
    return std::nullopt;
  }
  if (then_raises) condition = EmitNumber("torch.sym_not", {condition}, NumberKind::kBool);
  Emit("torch.ops.aten._assert_scalar.default",
       {{"self", condition.argument},
        {"assert_msg", ScriptText("what the model checks holds, where its code raises an exception").argument}},
       {});
  return Block(then_raises ? statement.otherwise : statement.body, env);
}

bool ScriptRunner::Merge(const ScriptValue& a, const ScriptValue& b, std::vector<Argument>& from_a,
                         std::vector<Argument>& from_b, std::vector<Argument>& outputs, ScriptValue& merged) {
  if (SameKnown(a, b) && !(IsLeaf(a) && a.argument.IsValue())) {
    merged = a;
    return true;
  }
  if (IsLeaf(a) && IsLeaf(b) && a.IsTensor() == b.IsTensor()) {
    NumberKind kind = a.ToNumberKind().value_or(NumberKind::kInt);
    if (b.ToNumberKind() == NumberKind::kFloat) kind = NumberKind::kFloat;
    merged = a.IsTensor() ? ScriptTensorNamed(NewName("joined")) : ScriptSymbol(NewName("joined"), kind);
    from_a.push_back(a.argument);
    from_b.push_back(b.argument);
    outputs.push_back(merged.argument);
    return true;
  }
  bool are_lists = a.IsList() && a.kind == b.kind && !a.list->is_open && !b.list->is_open &&
                   a.list->items.size() == b.list->items.size() && a.list != b.list;
  if (!are_lists) return false;
  if (!Spend(a.list->items.size())) return false;
  ScriptValues items(a.list->items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!Merge(a.list->items[i], b.list->items[i], from_a, from_b, outputs, items[i])) return false;
  }
  merged = ScriptListOf(std::move(items), a.kind, building_.depth);
  merged.text = a.text;
  return true;
}

void ScriptRunner::Branches(const Statement& statement, const ScriptValue& condition, Env& env) {
  Env then_env = env, else_env = env;
  Building outer = Begin();
  bool returns = Block(statement.body, then_env).has_value();
  Building then_side = std::exchange(building_, std::move(outer));
  outer = Begin();
  returns = Block(statement.otherwise, else_env).has_value() || returns;
  Building else_side = std::exchange(building_, std::move(outer));
  if (returns) Fail(statement.line, kLateReturn);
  if (failed()) return;
  std::vector<Argument> outputs;
  for (auto& [name, value] : then_env) {
    auto other = else_env.find(name);
    auto before = env.find(name);
    if (other == else_env.end()) continue;  // a local name of that branch
    bool is_changed =
        before == env.end() || !SameKnown(before->second, value) || !SameKnown(before->second, other->second);
    if (!is_changed) continue;
    ScriptValue merged;
    std::vector<Argument> from_then = then_side.graph->outputs, from_else = else_side.graph->outputs, made = outputs;
    if (!Merge(value, other->second, from_then, from_else, made, merged)) {
      merged = ScriptUnset(absl::StrCat("`", name, "`: ", Abseil(kLateEnd)));
    } else {
      then_side.graph->outputs = std::move(from_then);
      else_side.graph->outputs = std::move(from_else);
      outputs = std::move(made);
    }
    env[name] = std::move(merged);
  }
  std::vector<std::string> captured = Captured(then_side);
  for (const std::string& name : Captured(else_side)) {
    if (std::find(captured.begin(), captured.end(), name) == captured.end()) captured.push_back(name);
  }
  std::vector<Argument> operands;
  for (const std::string& name : captured) operands.push_back(TensorArgument(name));
  then_side.graph->inputs = else_side.graph->inputs = operands;
  bool is_empty = outputs.empty() && then_side.graph->nodes.empty() && else_side.graph->nodes.empty();
  if (is_empty) return;
  Node& node = Emit("torch.ops.higher_order.cond",
                    {{"", condition.argument},
                     {"", GraphArgument(then_side.graph)},
                     {"", GraphArgument(else_side.graph)},
                     {"", ListArgument(std::move(operands))}},
                    {});
  for (const Argument& output : outputs) building_.defined.insert(output.text);
  node.name = outputs.empty() ? "" : outputs[0].text;
  node.outputs = std::move(outputs);
}

// ---- loops

std::optional<ScriptValue> ScriptRunner::For(const Statement& statement, Env& env) {
  const Expr& over = statement.value;
  auto fail = [&](std::string_view message) {
    Fail(statement.line, message);
    return std::nullopt;
  };
  bool has_name = statement.targets.size() == 1 && statement.targets[0].kind == ExprKind::kName;
  if (!has_name) return fail("a loop with several variables");
  const std::string& name = statement.targets[0].text;
  bool is_range = over.kind == ExprKind::kCall && over.items[0].kind == ExprKind::kName &&
                  over.items[0].text == "range" && over.items.size() == 2;
  ScriptValue limit = Evaluate(is_range ? over.items[1] : over, env);
  if (failed()) return std::nullopt;
  if (!is_range && (!limit.IsList() || limit.list->is_open))
    return fail("a loop over what is no list of a known length");
  if (is_range && limit.ToNumberKind() != NumberKind::kInt) return fail("a loop to a limit that is no integer");
  if (is_range && !limit.Known()) {
    Counter counter{name, limit};
    Loop(statement, &counter, env);
    return std::nullopt;
  }
  int64_t steps = is_range ? limit.argument.integer : static_cast<int64_t>(limit.list->items.size());
  if (steps > kMaxSteps) return fail(kTooLong);
  ScriptValues items = is_range ? ScriptValues() : limit.list->items;
  for (int64_t i = 0; i < steps && !failed(); ++i) {
    env[name] = is_range ? ScriptInt(i) : items[static_cast<size_t>(i)];
    if (std::optional<ScriptValue> result = Block(statement.body, env)) return result;
  }
  return std::nullopt;
}

std::optional<ScriptValue> ScriptRunner::While(const Statement& statement, Env& env) {
  for (int64_t step = 0; !failed(); ++step) {
    ScriptValue condition = Evaluate(statement.value, env);
    if (failed()) break;
    std::optional<double> known = condition.Known();
    if (!known) Loop(statement, nullptr, env);
    if (!known || *known == 0) break;
    if (step == kMaxSteps) Fail(statement.line, kTooLong);
    if (std::optional<ScriptValue> result = Block(statement.body, env)) return result;
  }
  return std::nullopt;
}

ScriptValue ScriptRunner::Renamed(const ScriptValue& value, std::vector<Argument>& old_leaves,
                                  std::vector<Argument>& new_leaves) {
  if (IsLeaf(value)) {
    ScriptValue leaf = value.IsTensor() ? ScriptTensorNamed(NewName("carried"))
                                        : ScriptSymbol(NewName("carried"), *value.ToNumberKind());
    old_leaves.push_back(value.argument);
    new_leaves.push_back(leaf.argument);
    return leaf;
  }
  if (!value.IsList() || value.list->is_open || !Spend(value.list->items.size())) return value;
  ScriptValues items;
  for (const ScriptValue& item : value.list->items) items.push_back(Renamed(item, old_leaves, new_leaves));
  ScriptValue list = ScriptListOf(std::move(items), value.kind, building_.depth + 1);
  list.text = value.text;
  return list;
}

// Appends the leaves of a value that has the form of `like`; false if it has another one.
bool ScriptRunner::Leaves(const ScriptValue& value, const ScriptValue& like, std::vector<Argument>& leaves) {
  if (IsLeaf(like)) {
    if (!IsLeaf(value) || value.IsTensor() != like.IsTensor()) return false;
    leaves.push_back(value.argument);
    return true;
  }
  if (!like.IsList() || like.list->is_open) return SameKnown(value, like);
  bool fits = value.kind == like.kind && !value.list->is_open && value.list->items.size() == like.list->items.size() &&
              Spend(like.list->items.size());
  for (size_t i = 0; fits && i < like.list->items.size(); ++i) {
    fits = Leaves(value.list->items[i], like.list->items[i], leaves);
  }
  return fits;
}

void ScriptRunner::Loop(const Statement& statement, const Counter* counter, Env& env) {
  std::set<std::string> assigned;
  FindTargets(statement.body, assigned);
  std::vector<Argument> first, carried;
  std::vector<std::pair<std::string, ScriptValue>> state;
  Env inner = env;
  if (counter != nullptr) {
    inner[counter->name] = Renamed(ScriptInt(counter->start), first, carried);
    assigned.erase(counter->name);
  }
  for (const std::string& name : assigned) {
    auto before = env.find(name);
    if (before == env.end()) continue;
    inner[name] = Renamed(before->second, first, carried);
    state.emplace_back(name, inner[name]);
  }
  const Env start = inner;
  Building outer = Begin();
  for (const Argument& leaf : carried) building_.defined.insert(leaf.text);
  ScriptValue condition;
  if (counter != nullptr) {
    condition = EmitNumber("_operator.lt", {start.at(counter->name), counter->limit}, NumberKind::kBool);
  } else {
    condition = Evaluate(statement.value, inner);
  }
  building_.graph->outputs = {condition.argument};
  Building test = std::exchange(building_, std::move(outer));
  inner = start;
  outer = Begin();
  for (const Argument& leaf : carried) building_.defined.insert(leaf.text);
  if (Block(statement.body, inner)) Fail(statement.line, kLateReturn);
  std::vector<Argument> next;
  if (!failed() && counter != nullptr) {
    next.push_back(EmitNumber("_operator.add", {start.at(counter->name), ScriptInt(1)}, NumberKind::kInt).argument);
  }
  for (const auto& [name, value] : state) {
    if (!failed() && !Leaves(inner[name], value, next)) {
      Fail(statement.line, absl::StrCat("a loop that only the running model ends changes the kind of `", name, "`"));
    }
  }
  building_.graph->outputs = std::move(next);
  Building body = std::exchange(building_, std::move(outer));
  if (failed()) return;
  std::vector<std::string> captured = Captured(test);
  for (const std::string& name : Captured(body)) {
    if (std::find(captured.begin(), captured.end(), name) == captured.end()) captured.push_back(name);
  }
  std::vector<Argument> others, inputs = carried;
  for (const std::string& name : captured) others.push_back(TensorArgument(name));
  inputs.insert(inputs.end(), others.begin(), others.end());
  test.graph->inputs = body.graph->inputs = inputs;
  Node& node = Emit("torch.ops.higher_order.while_loop",
                    {{"", GraphArgument(test.graph)},
                     {"", GraphArgument(body.graph)},
                     {"", ListArgument(first)},
                     {"", ListArgument(std::move(others))}},
                    {});
  std::vector<Argument> unused;
  if (counter != nullptr) Renamed(ScriptInt(0), unused, node.outputs);
  for (const auto& [name, value] : state) {
    env[name] = Renamed(value, unused, node.outputs);
    if (env[name].list != nullptr) env[name].list->depth = building_.depth;
  }
  for (const Argument& output : node.outputs) building_.defined.insert(output.text);
  node.name = node.outputs.empty() ? "" : node.outputs[0].text;
}

}  // namespace rvm::torch
