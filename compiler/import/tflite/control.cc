// Control flow, and the variables that graphs share.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/reserved_lists.h"
#include "compiler/import/blocks/variables.h"
#include "compiler/import/loops.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

using importing::RunLoop;
using importing::RunWithVariables;
using importing::StoreVariables;
using importing::WithValues;
using importing::WrittenVariables;

size_t GraphOption(NodeContext& c, int field) { return c.options().Number<uint32_t>(field, 0); }

// Returns the place of the value of a variable.
auto PlaceIn(NodeContext& c) {
  return [&c](size_t number) -> Operand& { return c.importer().variable(number).value; };
}

WrittenVariables WrittenIn(NodeContext& c, std::span<const size_t> graphs) {
  return WithValues(c.importer().WrittenBy(graphs), PlaceIn(c));
}

Operands RunGraph(NodeContext& c, size_t graph, const Operands& inputs, const WrittenVariables& written,
                  std::span<const Operand> before) {
  return RunWithVariables(written, before, PlaceIn(c), [&] { return c.Body(graph, inputs); });
}

Operands If(NodeContext& c) {
  Operand condition = c.In(0);
  if (c.failed()) return {};
  condition = c.Scalar(condition);
  const size_t graphs[] = {GraphOption(c, 0), GraphOption(c, 1)};
  Operands inputs;
  for (size_t i = 1; i < c.num_inputs(); ++i) inputs.push_back(c.In(i));
  if (c.failed()) return {};
  if (condition->constant) return c.Body(graphs[condition->constant->IntAt(0) != 0 ? 0 : 1], inputs);
  const WrittenVariables written = WrittenIn(c, graphs);
  auto run = [&](size_t graph) { return RunGraph(c, graph, inputs, written, written.values); };
  Operands results = Branch(c, condition, [&] { return run(graphs[0]); }, [&] { return run(graphs[1]); });
  return StoreVariables(written, PlaceIn(c), std::move(results));
}

// Returns the inputs that the body gives back as they are: what they hold stays known inside.
std::vector<bool> Unchanged(const Graph& body) {
  std::vector<bool> unchanged;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    unchanged.push_back(i < body.outputs.size() && body.outputs[i] == body.inputs[i]);
  }
  return unchanged;
}

Operands While(NodeContext& c) {
  const size_t condition = GraphOption(c, 0), body = GraphOption(c, 1);
  const std::vector<Graph>& all = c.importer().model().graphs;
  if (condition >= all.size() || body >= all.size()) return {c.Fail("its condition or its body is no graph")};
  Operands inputs;
  for (size_t i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.In(i));
  if (c.failed()) return {};
  if (all[body].outputs.size() != inputs.size() || all[body].inputs.size() != inputs.size()) {
    return {c.Fail("its body has other numbers of inputs and outputs than the loop")};
  }
  const std::vector<bool> unchanged = Unchanged(all[body]);
  const size_t graphs[] = {condition, body};
  const WrittenVariables written = WrittenIn(c, graphs);
  // The state: inputs that change, then variables.
  Operands state;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!unchanged[i]) state.push_back(inputs[i]);
  }
  const size_t changing = state.size();
  state.insert(state.end(), written.values.begin(), written.values.end());
  auto run = [&](size_t graph, const Operands& own) {
    Operands all_inputs = inputs;
    size_t next = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!unchanged[i]) all_inputs[i] = own[next++];
    }
    return RunGraph(c, graph, all_inputs, written, std::span(own).subspan(changing));
  };
  auto goes_on = [&](const Operands& own) -> Operand {
    Operands results = run(condition, own);
    if (c.failed() || results.empty() || results[0]->is_placeholder) return c.emit().Placeholder();
    return c.Cast(c.Scalar(results[0]), kBool);
  };
  auto next_state = [&](const Operands& own) {
    Operands results = run(body, own), next;
    for (size_t i = 0; i < results.size(); ++i) {
      if (i >= inputs.size() || !unchanged[i]) next.push_back(results[i]);
    }
    return next;
  };
  Operands last = RunLoop(c, state, goes_on, next_state), results;
  if (c.failed() || last.size() != state.size()) return {};
  last = StoreVariables(written, PlaceIn(c), std::move(last));
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) results.push_back(unchanged[i] ? inputs[i] : last[next++]);
  return results;
}

Operands Call(NodeContext& c) {
  Operands inputs;
  for (size_t i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.In(i));
  return c.failed() ? Operands() : c.Body(GraphOption(c, 0), inputs);
}

// Gives variables their first values. State has that of the caller of @main instead.
Operands CallOnce(NodeContext& c) {
  std::vector<Variable>& variables = c.importer().variables();
  Operands before;
  for (const Variable& variable : variables) before.push_back(variable.value);
  c.Body(GraphOption(c, 0), {});
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].is_state) variables[i].value = before[i];
  }
  return {};
}

// A resource is the number of its variable.
Operands VarHandle(NodeContext& c) {
  const std::optional<size_t> number = c.importer().FindResource(c.node());
  return {number ? c.Integer(static_cast<int64_t>(*number)) : c.Fail("it names no variable")};
}

Variable* VariableOf(NodeContext& c) {
  const int64_t number = c.Int(0, "variable");
  if (!c.failed() && (number < 0 || std::cmp_greater_equal(number, c.importer().variables().size()))) {
    c.Fail("its first input is no variable");
  }
  return c.failed() ? nullptr : &c.importer().variable(static_cast<size_t>(number));
}

Operands ReadVariable(NodeContext& c) {
  const Variable* variable = VariableOf(c);
  if (variable == nullptr) return {};
  if (variable->value == nullptr) {
    return {c.Fail(absl::StrCat("variable `", variable->name, "` has no value before it is read"))};
  }
  return {variable->value};
}

Operands AssignVariable(NodeContext& c) {
  Variable* variable = VariableOf(c);
  Operand value = c.In(1);
  if (variable == nullptr || c.failed()) return {};
  variable->value = value;
  return {};
}

constexpr OperatorRow kRows[] = {
    Moves("ASSIGN_VARIABLE", AssignVariable),
    Moves("CALL", Call),
    Moves("CALL_ONCE", CallOnce),
    Moves("IF", If),
    Moves("READ_VARIABLE", ReadVariable),
    Moves("STABLEHLO_WHILE", While),
    Moves("VAR_HANDLE", VarHandle),
    Moves("WHILE", While),
};

}  // namespace

std::span<const OperatorRow> ControlOperators() { return kRows; }

}  // namespace rvm::tflite
