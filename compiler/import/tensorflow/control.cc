// Calls of functions, branches, loops and variables.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/blocks/complex.h"
#include "compiler/import/blocks/reserved_lists.h"
#include "compiler/import/blocks/variables.h"
#include "compiler/import/loops.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

using importing::Branch;
using importing::RunLoop;
using importing::RunWithVariables;
using importing::StoreVariables;
using importing::WithValues;
using importing::WrittenVariables;

Operands Identity(NodeContext& c) { return c.inputs(); }
Operands First(NodeContext& c) { return {c.In(0)}; }
Operands Nothing(NodeContext& c) { return {c.Integer(0)}; }

Operands Const(NodeContext& c) {
  const std::optional<Bytes> tensor = c.node().attr("value").Tensor();
  if (!tensor) return {c.Fail("its attribute `value` is missing")};
  absl::StatusOr<Literal> value = ReadTensor(*tensor);
  if (!value.ok()) {
    c.emit().Fail(value.status());
    return {};
  }
  Operand constant = c.emit().Constant(*std::move(value), std::string(c.node().name));
  return {HasComplexElements(*tensor) ? importing::FromPairs(c, constant) : constant};
}

Operands UnfedInput(NodeContext& c) {
  return {c.Fail("it is no input of the signature, and the outputs depend on it")};
}

// ---- functions

Operands CallFunction(NodeContext& c) {
  std::string_view name = c.node().attr("f").Function();
  if (name.empty()) name = c.node().op;
  const Graph* function = c.importer().FunctionNamed(name);
  return function == nullptr ? Operands() : c.importer().Call(*function, c.inputs());
}

// A condition that is a tensor of numbers holds where it is not 0.
Operand Condition(NodeContext& c, Operand x) {
  if (c.failed()) return x;
  x = c.Scalar(x);
  return c.DTypeOf(x).is_bool() ? x : c.Op("not_equal", {x, c.Number(0, x)});
}

// Returns the place of the value of a variable.
auto PlaceIn(NodeContext& c) {
  return [&c](size_t number) -> Operand& { return c.importer().variable(number).value; };
}

// Returns the variables that calls of these functions may write to.
WrittenVariables WrittenIn(NodeContext& c, std::span<const Graph* const> functions, const Operands& arguments) {
  std::set<size_t> numbers;
  for (const Graph* function : functions) {
    for (size_t number : c.importer().WrittenBy(*function, arguments)) numbers.insert(number);
  }
  return WithValues({numbers.begin(), numbers.end()}, PlaceIn(c));
}

// Returns the results of a function, and behind them the values that it leaves to the variables.
Operands Run(NodeContext& c, const Graph& function, const Operands& arguments, const WrittenVariables& written,
             std::span<const Operand> before) {
  return RunWithVariables(written, before, PlaceIn(c), [&] { return c.importer().Call(function, arguments); });
}

Operands If(NodeContext& c) {
  Operand condition = Condition(c, c.In(0));
  const Graph* functions[2] = {c.importer().FunctionNamed(c.node().attr("then_branch").Function()),
                               c.importer().FunctionNamed(c.node().attr("else_branch").Function())};
  if (c.failed()) return {};
  const Operands arguments = c.InputsFrom(1);
  if (condition->constant) {
    return c.importer().Call(*functions[condition->constant->IntAt(0) != 0 ? 0 : 1], arguments);
  }
  const WrittenVariables written = WrittenIn(c, functions, arguments);
  auto run = [&](size_t i) { return Run(c, *functions[i], arguments, written, written.values); };
  return StoreVariables(written, PlaceIn(c), Branch(c, condition, [&] { return run(0); }, [&] { return run(1); }));
}

// Numbers that are none of a branch choose the last one.
Operands Choose(NodeContext& c, Operand index, std::span<const Graph* const> branches, int64_t first,
                const Operands& arguments, const WrittenVariables& written) {
  auto run = [&] { return Run(c, *branches[static_cast<size_t>(first)], arguments, written, written.values); };
  if (first + 1 == static_cast<int64_t>(branches.size())) return run();
  return Branch(c, c.Op("equal", {index, c.Integer(first)}), run,
                [&] { return Choose(c, index, branches, first + 1, arguments, written); });
}
Operands Case(NodeContext& c) {
  Operand index = c.In(0);
  std::vector<const Graph*> branches;
  for (std::string_view name : c.node().attr("branches").Functions()) {
    branches.push_back(c.importer().FunctionNamed(name));
  }
  if (c.failed()) return {};
  if (branches.empty() || branches.size() > 256) return {c.Fail(absl::StrCat("it has ", branches.size(), " branches"))};
  index = c.Cast(c.Scalar(index), kInt64);
  const Operands arguments = c.InputsFrom(1);
  if (!index->constant) {
    const WrittenVariables written = WrittenIn(c, branches, arguments);
    return StoreVariables(written, PlaceIn(c), Choose(c, index, branches, 0, arguments, written));
  }
  const int64_t chosen = index->constant->IntAt(0), last = static_cast<int64_t>(branches.size()) - 1;
  return c.importer().Call(*branches[static_cast<size_t>(chosen < 0 || chosen > last ? last : chosen)], arguments);
}

// Returns the arguments that a body gives back as they are: what they hold stays known inside.
std::vector<bool> Unchanged(const Graph& body) {
  std::vector<bool> unchanged;
  for (size_t i = 0; i < body.results.size(); ++i) {
    Source source = body.results[i];
    for (size_t step = 0; step < body.nodes.size() && source.node != Source::kNone; ++step) {
      const Node& node = body.nodes[static_cast<size_t>(source.node)];
      if (node.op != "Identity" || node.inputs.empty()) break;
      source = node.inputs[0];
    }
    unchanged.push_back(source.argument == static_cast<int32_t>(i));
  }
  return unchanged;
}

Operands While(NodeContext& c) {
  const Graph* condition = c.importer().FunctionNamed(c.node().attr("cond").Function());
  const Graph* body = c.importer().FunctionNamed(c.node().attr("body").Function());
  if (c.failed()) return {};
  const Operands& inputs = c.inputs();
  if (body->results.size() != inputs.size() || body->arguments.size() != inputs.size()) {
    return {c.Fail("its body has other numbers of arguments and results than the loop")};
  }
  const std::vector<bool> unchanged = Unchanged(*body);
  Operands state;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!unchanged[i]) state.push_back(inputs[i]);
  }
  // The state: inputs that change, then variables.
  const size_t changing = state.size();
  const Graph* const functions[] = {condition, body};
  const WrittenVariables written = WrittenIn(c, functions, inputs);
  state.insert(state.end(), written.values.begin(), written.values.end());
  auto run = [&](const Graph& function, const Operands& arguments, const Operands& own) {
    return Run(c, function, arguments, written, std::span(own).subspan(changing));
  };
  auto all = [&](const Operands& own) {
    Operands arguments = inputs;
    size_t next = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!unchanged[i]) arguments[i] = own[next++];
    }
    return arguments;
  };
  auto goes_on = [&](const Operands& own) -> Operand {
    const Operands results = run(*condition, all(own), own);
    if (c.failed() || results.empty() || results[0]->is_placeholder) return c.emit().Placeholder();
    return Condition(c, results[0]);
  };
  auto next_state = [&](const Operands& own) {
    const Operands results = run(*body, all(own), own);
    Operands next;
    for (size_t i = 0; i < results.size(); ++i) {
      if (i >= inputs.size() || !unchanged[i]) next.push_back(results[i]);
    }
    return next;
  };
  const Operands last = RunLoop(c, state, goes_on, next_state);
  if (c.failed() || last.size() != state.size()) return {};
  return all(StoreVariables(written, PlaceIn(c), last));
}

// ---- variables

std::optional<size_t> VariableAt(NodeContext& c, size_t input) {
  const int64_t number = c.Int(input, "variable");
  if (!c.failed() && (number < 0 || std::cmp_greater_equal(number, c.importer().num_variables()))) {
    c.Fail(absl::StrCat("input ", input, " is no variable"));
  }
  return c.failed() ? std::nullopt : std::optional(static_cast<size_t>(number));
}

// A resource is the number of its variable.
Operands VarHandle(NodeContext& c) {
  std::optional<size_t> number = c.importer().FindVariable(c.node().name);
  if (!number) number = c.importer().FindVariable(c.TextAttr("shared_name", ""));
  return {number ? c.Integer(static_cast<int64_t>(*number)) : c.Fail("it names no variable")};
}

Operands ReadVariable(NodeContext& c) {
  const std::optional<size_t> number = VariableAt(c, 0);
  return number ? Operands{c.importer().ReadVariable(*number)} : Operands();
}

// The variables of the first generation are their own values.
Operands VariableValue(NodeContext& c) {
  const std::optional<size_t> number = c.importer().FindVariable(c.node().name);
  return {number ? c.importer().ReadVariable(*number) : c.Fail("it names no variable")};
}

Operands ResourceGather(NodeContext& c) {
  const std::optional<size_t> number = VariableAt(c, 0);
  if (!number) return {};
  ir::Attrs attrs = {{"axis", c.IntAttr("batch_dims", 0)}};
  if (const int64_t batch = c.IntAttr("batch_dims", 0); batch != 0) attrs.Set("batch_dims", batch);
  return {c.Op("take", {c.importer().ReadVariable(*number), c.In(1)}, std::move(attrs))};
}

// Gives a variable a value: an operator of its old value and the input, or the input.
Operands AssignVariable(NodeContext& c) {
  const std::optional<size_t> number = VariableAt(c, 0);
  if (!number) return {};
  if (c.importer().is_in_frame())
    return {c.Unsupported("a variable that a loop or a branch of Switch and Merge changes")};
  const Operand before = c.importer().ReadVariable(*number);
  Operand value = c.In(1);
  if (c.failed() || before->is_placeholder) return {};
  if (!c.row().variant.empty()) value = c.Op(c.row().variant, {before, value});
  const Dims old_dims = c.DimsOf(before), dims = c.DimsOf(value);
  bool fits = c.DTypeOf(value) == c.DTypeOf(before) && dims.size() == old_dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = CompareDims(dims[i], old_dims[i]) != DimEquality::kDifferent;
  if (!fits) return {c.Unsupported("a variable that gets a value of another type")};
  c.importer().variable(*number).value = dims == old_dims ? value : c.emit().Widened(value, before->type);
  return {c.Integer(0)};
}

// The variables of the first generation.
Operands Assignment(NodeContext& c) { return {c.Unsupported("a variable that a run changes")}; }

constexpr OperatorRow kRows[] = {
    {"Assert", Nothing, "sources"},
    {"Assign", Assignment, "sources"},
    {"AssignAddVariableOp", AssignVariable, "add"},
    {"AssignSubVariableOp", AssignVariable, "subtract"},
    {"AssignVariableOp", AssignVariable},
    {"Case", Case},
    {"CheckNumerics", First},
    {"Const", Const},
    {"EnsureShape", First},
    {"Identity", Identity},
    {"IdentityN", Identity},
    {"If", If},
    {"NoOp", Nothing, "sources"},
    {"PartitionedCall", CallFunction},
    {"Placeholder", UnfedInput},
    {"PlaceholderWithDefault", First},
    {"PreventGradient", First},
    {"ReadVariableOp", ReadVariable},
    {"ResourceGather", ResourceGather},
    {"Snapshot", First},
    {"StatefulPartitionedCall", CallFunction},
    {"StatelessCase", Case},
    {"StatelessIf", If},
    {"StatelessWhile", While},
    {"StopGradient", First},
    {"VarHandleOp", VarHandle},
    {"Variable", VariableValue},
    {"VariableV2", VariableValue},
    {"While", While},
};

}  // namespace

std::span<const OperatorRow> ControlOperators() { return kRows; }

}  // namespace rvm::tensorflow
