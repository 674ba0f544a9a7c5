#include "compiler/passes/call_graph.h"

#include <algorithm>

#include "base/abseil.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

CallGraph::CallGraph(const ir::Module& module)
    : callees_(module.functions.size()), is_recursive_(module.functions.size()), num_calls_(module.functions.size()) {
  for (size_t i = 0; i < module.functions.size(); ++i) index_[module.functions[i].name] = i;
  for (size_t i = 0; i < module.functions.size(); ++i) {
    ForEachExpr(module.functions[i].function->body, [&](const Expr* expr) {
      const auto* global = DynCast<ir::GlobalExpr>(expr);
      const size_t* callee = global == nullptr ? nullptr : Find(global->name);
      if (callee != nullptr) {
        ++num_calls_[*callee];
        callees_[i].push_back(*callee);
      }
      return true;
    });
  }
  FindCycles();
}

const size_t* CallGraph::Find(std::string_view name) const {
  auto found = index_.find(Abseil(name));
  return found == index_.end() ? nullptr : &found->second;
}

// Tarjan's strongly connected components, on a stack of its own.
void CallGraph::FindCycles() {
  struct Frame {
    size_t node;
    size_t next;
  };
  constexpr size_t kUnvisited = ~size_t{0};
  size_t size = callees_.size(), counter = 0;
  std::vector<size_t> number(size, kUnvisited), low(size, 0);
  std::vector<bool> is_open(size, false);
  std::vector<size_t> open;
  std::vector<Frame> frames;
  auto enter = [&](size_t node) {
    number[node] = low[node] = counter++;
    open.push_back(node);
    is_open[node] = true;
    frames.push_back({node, 0});
  };
  for (size_t root = 0; root < size; ++root) {
    if (number[root] == kUnvisited) enter(root);
    while (!frames.empty()) {
      Frame& frame = frames.back();
      size_t node = frame.node;
      if (frame.next < callees_[node].size()) {
        size_t callee = callees_[node][frame.next++];
        if (callee == node) is_recursive_[node] = true;
        if (number[callee] == kUnvisited) {
          enter(callee);
        } else if (is_open[callee]) {
          low[node] = std::min(low[node], number[callee]);
        }
        continue;
      }
      frames.pop_back();
      if (!frames.empty()) low[frames.back().node] = std::min(low[frames.back().node], low[node]);
      if (low[node] != number[node]) continue;
      size_t first = open.size();
      do is_open[open[--first]] = false;
      while (open[first] != node);
      for (size_t i = first; i < open.size(); ++i) {
        order_.push_back(open[i]);
        if (open.size() - first > 1) is_recursive_[open[i]] = true;
      }
      open.resize(first);
    }
  }
}

ir::Module DropUnreachable(const ir::Module& module, const std::vector<std::string>& entries) {
  absl::flat_hash_map<std::string_view, size_t> index;
  for (size_t i = 0; i < module.functions.size(); ++i) index[module.functions[i].name] = i;
  std::vector<bool> is_reached(module.functions.size(), false);
  std::vector<size_t> pending;
  auto reach = [&](const std::string& name) {
    auto found = index.find(name);
    if (found == index.end() || is_reached[found->second]) return;
    is_reached[found->second] = true;
    pending.push_back(found->second);
  };
  for (const std::string& entry : entries) reach(entry);
  while (!pending.empty()) {
    size_t function = pending.back();
    pending.pop_back();
    ForEachExpr(module.functions[function].function->body, [&](const Expr* expr) {
      if (const auto* global = DynCast<ir::GlobalExpr>(expr)) reach(global->name);
      return true;
    });
  }
  ir::Module result = module;
  result.functions.clear();
  for (size_t i = 0; i < module.functions.size(); ++i) {
    if (is_reached[i]) result.functions.push_back(module.functions[i]);
  }
  return result;
}

}  // namespace rvm::passes
