#include "compiler/import/tensorflow/flow.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/stack_guard.h"

namespace rvm::tensorflow {
namespace {

// The side of a Switch that an output is.
bool IsTrueSide(const Source& source) { return source.output == "output_true" || source.index == 1; }

bool Is(const Node& node, std::string_view op) {
  return node.op == op || (node.op.starts_with("Ref") && node.op.substr(3) == op);
}

}  // namespace

Flow::Flow(const Graph& graph) : graph_(graph) {
  const bool has_merges = std::ranges::any_of(graph.nodes, [](const Node& node) { return Is(node, "Merge"); });
  if (!has_merges) return;
  // A loop needs those inside of it: theirs come first, however nodes stand in the file.
  const auto count = static_cast<int32_t>(graph.nodes.size());
  for (int32_t i = 0; i < count; ++i) {
    if (node(i).op == "LoopCond") FindLoop(i);
  }
  FindGuards();
  for (int32_t i = 0; i < count; ++i) {
    if (Is(node(i), "Merge") && !IsLoopMerge(i)) FindChoice(i);
  }
  for (auto& [merge, choice] : choices_) FindOuter(choice, merge);
}

const Loop* Flow::LoopOf(int32_t exit) const {
  auto condition = exits_.find(exit);
  if (condition == exits_.end()) return nullptr;
  auto loop = loops_.find(condition->second);
  return loop == loops_.end() ? nullptr : &loop->second;
}

const Choice* Flow::ChoiceOf(int32_t merge) const {
  auto choice = choices_.find(merge);
  return choice == choices_.end() ? nullptr : &choice->second;
}

std::vector<Source> Flow::Dependencies(int32_t number) const {
  if (const Loop* loop = LoopOf(number)) {
    std::vector<Source> sources;
    for (const Loop::State& state : loop->state) sources.push_back(state.first);
    for (int32_t enter : loop->constants) sources.push_back(node(enter).inputs[0]);
    return sources;
  }
  if (const Choice* choice = ChoiceOf(number)) {
    std::vector<Source> sources = choice->outer;
    sources.push_back(choice->condition);
    return sources;
  }
  return node(number).inputs;
}

// Follows nodes that pass a tensor on.
Source Flow::Origin(Source source) const {
  for (size_t i = 0; i < graph_.nodes.size() && source.node != Source::kNone; ++i) {
    const Node& from = node(source.node);
    if (!Is(from, "Identity") || from.inputs.empty()) break;
    source = from.inputs[0];
  }
  return source;
}

// ---- loops

bool Flow::IsLoopMerge(int32_t number) const {
  return std::ranges::any_of(node(number).inputs, [&](const Source& source) {
    return source.node != Source::kNone && Is(node(source.node), "NextIteration");
  });
}

// Returns the LoopCond that decides a Switch, whose second input is `source`.
std::optional<int32_t> Flow::LoopConditionOf(const Source& source) const {
  const Source origin = Origin(source);
  if (origin.node == Source::kNone || node(origin.node).op != "LoopCond") return std::nullopt;
  return origin.node;
}

// Adds what a Merge of a loop is a tensor of, once. False if it is malformed.
bool Flow::AddState(Loop& loop, int32_t merge) {
  const std::vector<Source>& inputs = node(merge).inputs;
  if (inputs.size() != 2) return false;
  for (const Loop::State& state : loop.state) {
    if (state.merge == merge) return true;
  }
  Loop::State state{.merge = merge, .first = {}, .next = {}, .switches = {}, .exits = {}};
  bool enters = false, repeats = false;
  for (const Source& input : inputs) {
    if (input.node == Source::kNone || node(input.node).inputs.empty()) continue;
    const Node& from = node(input.node);
    if (Is(from, "Enter")) {
      state.first = from.inputs[0];
      enters = true;
    } else if (Is(from, "NextIteration")) {
      state.next = from.inputs[0];
      repeats = true;
    }
  }
  if (enters && repeats) loop.state.push_back(std::move(state));
  return enters && repeats;
}

// Adds the tensors whose Switches share a LoopCond. False if one is malformed.
bool Flow::FindSwitches(int32_t condition, Loop& loop) {
  const auto count = static_cast<int32_t>(graph_.nodes.size());
  for (int32_t i = 0; i < count; ++i) {
    const Node& own = node(i);
    if (!Is(own, "Switch") || own.inputs.size() != 2 || LoopConditionOf(own.inputs[1]) != condition) continue;
    const int32_t merge = Origin(own.inputs[0]).node;
    if (merge == Source::kNone || !Is(node(merge), "Merge") || !AddState(loop, merge)) return false;
    std::ranges::find(loop.state, merge, &Loop::State::merge)->switches.push_back(i);
  }
  return true;
}

// Returns the loop inside of another that gives a node's result; null if it is malformed.
const Loop* Flow::InnerLoop(int32_t exit, int32_t condition) {
  const Source from = node(exit).inputs.empty() ? Source() : node(exit).inputs[0];
  if (from.node == Source::kNone || node(from.node).inputs.size() != 2) return nullptr;
  const std::optional<int32_t> inner = LoopConditionOf(node(from.node).inputs[1]);
  if (!inner || *inner == condition) return nullptr;
  if (!loops_.contains(*inner)) {
    loops_.try_emplace(*inner);  // ends the recursion of loops that are inside of each other
    WithStack([&] { FindLoop(*inner); });
  }
  return &loops_[*inner];
}

// Adds further tensors of the state, and those that the loop only reads: they are found from what it computes. False if
// it is malformed.
bool Flow::FindBody(int32_t condition, Loop& loop) {
  absl::flat_hash_set<int32_t> seen;
  for (const Loop::State& state : loop.state) seen.insert(state.switches.begin(), state.switches.end());
  std::vector<int32_t> open;
  auto visit = [&](const Source& source) {
    if (source.node != Source::kNone) open.push_back(source.node);
  };
  visit(loop.condition);
  for (size_t visited = 0; !open.empty() || visited < loop.state.size();) {
    if (open.empty()) {
      visit(loop.state[visited++].next);
      continue;
    }
    const int32_t number = open.back();
    open.pop_back();
    if (!seen.insert(number).second) continue;
    const Node& own = node(number);
    if (Is(own, "Merge") && IsLoopMerge(number)) {
      if (!AddState(loop, number)) return false;
    } else if (Is(own, "Enter")) {
      if (own.inputs.empty()) return false;
      loop.constants.push_back(number);
    } else if (Is(own, "Exit")) {
      const Loop* inner = InnerLoop(number, condition);
      if (inner == nullptr) return false;
      for (const Loop::State& state : inner->state) visit(state.first);
      for (int32_t enter : inner->constants) visit(node(enter).inputs[0]);
    } else {
      for (const Source& source : own.inputs) visit(source);
    }
  }
  return true;
}

void Flow::FindLoop(int32_t condition) {
  if (node(condition).inputs.empty()) return;
  Loop loop{.condition = node(condition).inputs[0], .state = {}, .constants = {}};
  if (!FindSwitches(condition, loop) || !FindBody(condition, loop)) return;
  absl::flat_hash_map<int32_t, size_t> of_switch;
  for (size_t i = 0; i < loop.state.size(); ++i) {
    Loop::State& state = loop.state[i];
    for (int32_t number : state.switches) of_switch[number] = i;
    const int32_t next = Origin(state.next).node;
    state.is_unchanged = std::ranges::find(state.switches, next) != state.switches.end();
  }
  const auto count = static_cast<int32_t>(graph_.nodes.size());
  for (int32_t i = 0; i < count; ++i) {
    if (!Is(node(i), "Exit") || node(i).inputs.empty()) continue;
    auto from = of_switch.find(Origin(node(i).inputs[0]).node);
    if (from == of_switch.end()) continue;
    loop.state[from->second].exits.push_back(i);
    exits_[i] = condition;
  }
  loops_[condition] = std::move(loop);
}

// ---- branches

// Returns the nodes, each behind those that decide whether it runs.
std::vector<int32_t> Flow::OrderForGuards() const {
  std::vector<int32_t> order;
  std::vector<uint8_t> marks(graph_.nodes.size(), 0);
  std::vector<std::pair<int32_t, size_t>> open;
  auto before = [&](int32_t number) {
    std::vector<int32_t> nodes = node(number).controls;
    for (const Source& source : node(number).inputs) {
      if (source.node != Source::kNone && !Is(node(source.node), "NextIteration")) nodes.push_back(source.node);
    }
    return nodes;
  };
  std::vector<std::vector<int32_t>> befores(graph_.nodes.size());
  for (size_t root = 0; root < graph_.nodes.size(); ++root) {
    if (marks[root] != 0) continue;
    open.emplace_back(static_cast<int32_t>(root), 0);
    marks[root] = 1;
    befores[root] = before(static_cast<int32_t>(root));
    while (!open.empty()) {
      auto& [number, next] = open.back();
      const std::vector<int32_t>& own = befores[static_cast<size_t>(number)];
      if (next == own.size()) {
        order.push_back(number);
        open.pop_back();
        continue;
      }
      const int32_t one = own[next++];
      if (marks[static_cast<size_t>(one)] != 0) continue;
      marks[static_cast<size_t>(one)] = 1;
      befores[static_cast<size_t>(one)] = before(one);
      open.emplace_back(one, 0);
    }
  }
  return order;
}

// Returns a number for a tensor, the same for the same one.
int64_t Flow::NumberOf(const Source& source) {
  const auto number = static_cast<int64_t>(tensors_.size());
  auto [place, is_new] = numbers_.try_emplace({source.node, source.argument, source.output, source.index}, number);
  if (is_new) tensors_.push_back(source);
  return place->second;
}

Flow::Guards Flow::GuardsOf(const Source& source) {
  if (source.node == Source::kNone) return {};
  Guards guards = guards_[static_cast<size_t>(source.node)];
  const Node& from = node(source.node);
  if (!Is(from, "Switch") || from.inputs.size() != 2 || LoopConditionOf(from.inputs[1])) return guards;
  const Guard own = {NumberOf(Origin(from.inputs[1])), IsTrueSide(source)};
  auto place = std::ranges::lower_bound(guards, own);
  if (place == guards.end() || *place != own) guards.insert(place, own);
  return guards;
}

void Flow::FindGuards() {
  constexpr size_t kMaxGuards = 256;
  guards_.resize(graph_.nodes.size());
  for (int32_t number : OrderForGuards()) {
    const Node& own = node(number);
    Guards all;
    auto join = [&](const Guards& more) {
      Guards joined;
      std::ranges::set_union(all, more, std::back_inserter(joined));
      if (joined.size() <= kMaxGuards) all = std::move(joined);
    };
    if (Is(own, "Merge") && !IsLoopMerge(number) && own.inputs.size() == 2) {
      const Guards a = GuardsOf(own.inputs[0]), b = GuardsOf(own.inputs[1]);
      std::ranges::set_intersection(a, b, std::back_inserter(all));
    } else {
      for (const Source& source : own.inputs) {
        if (source.node != Source::kNone && !Is(node(source.node), "NextIteration")) join(GuardsOf(source));
      }
      for (int32_t control : own.controls) join(guards_[static_cast<size_t>(control)]);
    }
    guards_[static_cast<size_t>(number)] = std::move(all);
  }
}

void Flow::FindChoice(int32_t merge) {
  const std::vector<Source>& inputs = node(merge).inputs;
  if (inputs.size() != 2) return;
  const Guards guards[2] = {GuardsOf(inputs[0]), GuardsOf(inputs[1])};
  auto has = [&](size_t side, const Guard& guard) { return std::ranges::binary_search(guards[side], guard); };
  // The condition that one input needs to hold and the other one not to; else one that only one input needs.
  std::optional<Guard> found;
  size_t input = 0;
  for (const bool is_strict : {true, false}) {
    for (size_t side = 0; side < 2 && !found; ++side) {
      for (const Guard& guard : guards[side]) {
        if (has(1 - side, guard) || (is_strict && !has(1 - side, {guard.first, !guard.second}))) continue;
        found = guard;
        input = side;
      }
    }
  }
  if (!found) return;
  Choice choice{.condition = tensors_[static_cast<size_t>(found->first)], .inputs = {}, .outer = {}};
  choice.inputs[found->second ? 1 : 0] = input;
  choice.inputs[found->second ? 0 : 1] = 1 - input;
  choices_[merge] = std::move(choice);
}

// Tensors without the guard of a branch come from outside.
void Flow::FindOuter(Choice& choice, int32_t merge) {
  for (size_t side = 0; side < 2; ++side) {
    const Guard guard = {NumberOf(choice.condition), side == 1};
    absl::flat_hash_set<int64_t> seen;
    std::vector<Source> open = {node(merge).inputs[choice.inputs[side]]};
    while (!open.empty()) {
      const Source source = open.back();
      open.pop_back();
      if (!seen.insert(NumberOf(source)).second) continue;
      if (source.node == Source::kNone) continue;
      if (!std::ranges::binary_search(GuardsOf(source), guard)) {
        choice.outer.push_back(source);
        continue;
      }
      // Its own loops and branches have no `outer` yet: what they depend on is found from their inputs.
      const Node& own = node(source.node);
      if (const Loop* loop = LoopOf(source.node)) {
        for (const Loop::State& state : loop->state) open.push_back(state.first);
        for (int32_t enter : loop->constants) open.push_back(node(enter).inputs[0]);
        continue;
      }
      if (const Choice* inner = ChoiceOf(source.node); inner != nullptr && source.node != merge) {
        open.push_back(inner->condition);
      }
      for (const Source& input : own.inputs) open.push_back(input);
    }
  }
}

}  // namespace rvm::tensorflow
