// The union-find of Solver's holes. Included by the solver's sources only.
#ifndef RVM_COMPILER_TYPING_SOLVER_HOLES_H_
#define RVM_COMPILER_TYPING_SOLVER_HOLES_H_

#include <cstdint>
#include <utility>

#include "compiler/typing/solver.h"

namespace rvm::typing {

template <typename Value>
int64_t Solver::NewHole(Holes<Value>& holes, bool sticky, bool defaultable) {
  int64_t id = static_cast<int64_t>(holes.size());
  Hole<Value>& hole = holes.emplace_back();
  hole.parent = id;
  hole.sticky = sticky;
  hole.defaultable = defaultable;
  return id;
}

template <typename Value>
int64_t Solver::Root(Holes<Value>& holes, int64_t id) {
  int64_t root = id;
  while (holes[static_cast<size_t>(root)].parent != root) root = holes[static_cast<size_t>(root)].parent;
  while (holes[static_cast<size_t>(id)].parent != root) {
    id = std::exchange(holes[static_cast<size_t>(id)].parent, root);
  }
  return root;
}

template <typename Value>
void Solver::Wake(Hole<Value>& hole) {
  woken_.insert(woken_.end(), hole.waiters.begin(), hole.waiters.end());
  hole.waiters.clear();
}

template <typename Value>
void Solver::Fill(Holes<Value>& holes, int64_t root, Value value) {
  Hole<Value>& hole = holes[static_cast<size_t>(root)];
  hole.value = std::move(value);
  Wake(hole);
}

// REQUIRES: both are roots and open.
template <typename Value>
void Solver::Union(Holes<Value>& holes, int64_t a, int64_t b) {
  if (a == b) return;
  Hole<Value>*from = &holes[static_cast<size_t>(a)], *to = &holes[static_cast<size_t>(b)];
  if (from->waiters.size() > to->waiters.size()) {
    std::swap(a, b);
    std::swap(from, to);
  }
  from->parent = b;
  to->waiters.insert(to->waiters.end(), from->waiters.begin(), from->waiters.end());
  to->followers.insert(to->followers.end(), from->followers.begin(), from->followers.end());
  to->sticky = to->sticky && from->sticky;
  to->defaultable = to->defaultable && from->defaultable;
  to->error = to->error || from->error;
}

}  // namespace rvm::typing

#endif  // RVM_COMPILER_TYPING_SOLVER_HOLES_H_
