// Loops and branches of the first generation of TensorFlow's control flow.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "compiler/import/blocks/reserved_lists.h"
#include "compiler/import/loops.h"
#include "compiler/import/tensorflow/flow.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

// Both sides are the tensor: what reads them is imported in the branch that they belong to.
Operands Switch(NodeContext& c) { return {c.In(0), c.In(0)}; }
Operands First(NodeContext& c) { return {c.In(0)}; }

// The results of a loop are all imported with the first one.
Operands Exit(NodeContext& c) {
  const Loop* loop = c.importer().FlowOf(*c.scope().graph).LoopOf(c.number());
  if (loop == nullptr)
    return {c.Unsupported("a loop that is not made of Enter, Merge, Switch, NextIteration and Exit")};
  Scope& outer = c.scope();
  Operands state, all;
  for (const Loop::State& own : loop->state) {
    all.push_back(c.importer().Value(own.first, outer));
    if (!own.is_unchanged) state.push_back(all.back());
  }
  Scope around{.graph = outer.graph, .arguments = outer.arguments, .values = {}, .outer = &outer};
  for (int32_t enter : loop->constants) {
    const Node& node = outer.graph->nodes[static_cast<size_t>(enter)];
    around.values[enter] = {c.importer().Value(node.inputs[0], outer)};
  }
  if (c.failed()) return {};
  auto evaluate = [&](const Operands& own, std::span<const Source> wanted) {
    Scope inner{.graph = outer.graph, .arguments = outer.arguments, .values = {}, .outer = &around};
    size_t next = 0;
    for (size_t i = 0; i < loop->state.size(); ++i) {
      Operand value = loop->state[i].is_unchanged ? all[i] : own[next++];
      inner.values[loop->state[i].merge] = {value};
      for (int32_t number : loop->state[i].switches) inner.values[number] = {value, value};
    }
    return c.importer().Evaluate(inner, wanted, false);
  };
  auto goes_on = [&](const Operands& own) -> Operand {
    const Operands results = evaluate(own, {{loop->condition}});
    return c.failed() || results[0]->is_placeholder ? c.emit().Placeholder() : c.Scalar(results[0]);
  };
  auto next_state = [&](const Operands& own) {
    std::vector<Source> wanted;
    for (const Loop::State& one : loop->state) {
      if (!one.is_unchanged) wanted.push_back(one.next);
    }
    return evaluate(own, wanted);
  };
  const Operands last = importing::RunLoop(c, state, goes_on, next_state);
  if (c.failed() || last.size() != state.size()) return {};
  Operands result;
  size_t next = 0;
  for (size_t i = 0; i < loop->state.size(); ++i) {
    Operand value = loop->state[i].is_unchanged ? all[i] : last[next++];
    for (int32_t exit : loop->state[i].exits) {
      if (exit == c.number()) {
        result = {value};
      } else {
        outer.values[exit] = {value};
      }
    }
  }
  return result;
}

Operands Merge(NodeContext& c) {
  const Choice* choice = c.importer().FlowOf(*c.scope().graph).ChoiceOf(c.number());
  if (choice == nullptr) return {c.Unsupported("a Merge of tensors that no Switch decides between")};
  Scope& outer = c.scope();
  Operand condition = c.importer().Value(choice->condition, outer);
  if (c.failed() || condition->is_placeholder) return {};
  condition = c.Scalar(condition);
  auto run = [&](size_t side) {
    Scope inner{.graph = outer.graph, .arguments = outer.arguments, .values = {}, .outer = &outer};
    return c.importer().Evaluate(inner, {{c.node().inputs[choice->inputs[side]]}}, false);
  };
  auto number = [&](size_t side) { return c.emit().Integer(static_cast<int64_t>(choice->inputs[side]), kInt32); };
  if (condition->constant) {
    const size_t side = condition->constant->IntAt(0) != 0 ? 1 : 0;
    Operands chosen = run(side);
    chosen.push_back(number(side));
    return chosen;
  }
  Operands results = importing::Branch(c, condition, [&] { return run(1); }, [&] { return run(0); });
  if (results.size() == 1) results.push_back(c.Where(condition, number(1), number(0)));
  return results;
}

constexpr OperatorRow kRows[] = {
    {"Exit", Exit, "sources"},
    {"LoopCond", First},
    {"Merge", Merge, "sources", "output value_index"},
    {"RefExit", Exit, "sources"},
    {"RefMerge", Merge, "sources", "output value_index"},
    {"RefSwitch", Switch, "", "output_false output_true"},
    {"Switch", Switch, "", "output_false output_true"},
};

}  // namespace

std::span<const OperatorRow> FrameOperators() { return kRows; }

}  // namespace rvm::tensorflow
