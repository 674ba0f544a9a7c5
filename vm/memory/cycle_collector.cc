#include "vm/memory/cycle_collector.h"

#include <algorithm>

#include "vm/memory/heap.h"

namespace rvm::vm {
namespace {

// While a collection runs, the count of an object it visits has a colour above it.
constexpr uint32_t kGray = 0x40000000u;   // seen: edges from gray objects are subtracted from counts
constexpr uint32_t kBlack = 0x80000000u;  // owned from outside: its edges are counted again
constexpr uint32_t kColours = kGray | kBlack;
static_assert(kImmortal < kGray);

constexpr int64_t kCopiedPerLook = 1 << 15;  // at the signal to stop

}  // namespace

// The cells that may be part of a cycle or lead to one. Immortal cells are not counted, and kept.
template <typename F>
void CycleCollector::ForEachChild(Object* object, F&& f) const {
  for (uint16_t field : layouts_[object->layout].pointer_fields) {
    Slot slot = object->fields()[field];
    if (IsImmediate(slot)) continue;
    Object* child = AsObject(slot);
    if (layouts_[child->layout].may_reach_cycle && (child->count & ~kColours) < kImmortal) f(child);
  }
}

bool CycleCollector::Written(Object* ref) {
  Slot value = ref->fields()[0];
  if (IsImmediate(value) || !layouts_[AsObject(value)->layout].may_reach_cycle || IsRoot(ref)) return true;
  if ((roots_.size >= next_size_ || heap_.live_bytes() > next_bytes_) && !Collect()) return false;
  // Without memory for the list (or time) a cycle through this reference lives until the run ends; the run
  // is about to end, because the next allocation finds no memory either.
  if (Append(roots_, ref)) {
    IndexOf(ref) = static_cast<Slot>(roots_.size - 1);
  } else {
    is_incomplete_ = true;
  }
  return !is_forgone_;
}

void CycleCollector::Remove(Object* ref) {
  Object* last = roots_.data[--roots_.size];
  roots_.data[IndexOf(ref)] = last;
  IndexOf(last) = IndexOf(ref);
}

bool CycleCollector::Append(List& list, Object* object) {
  if (list.size == list.capacity) {
    int64_t capacity = std::max<int64_t>(2 * list.capacity, 512);
    void* data = heap_.TakeRaw(capacity * int64_t{sizeof(Object*)});
    if (data == nullptr) return false;
    auto** objects = static_cast<Object**>(data);
    for (int64_t i = 0; i < list.size; i += kCopiedPerLook) {
      if (stop_.is_raised()) {
        heap_.GiveRaw(data);
        return false;
      }
      std::copy_n(list.data + i, std::min(kCopiedPerLook, list.size - i), objects + i);
    }
    Free(list);
    list.data = objects;
    list.capacity = capacity;
  }
  list.data[list.size++] = object;
  return true;
}

void CycleCollector::Free(List& list) {
  if (list.data != nullptr) heap_.GiveRaw(list.data);
}

bool CycleCollector::Collect() {
  if (is_forgone_) return false;
  if (is_collecting_ || roots_.size == 0) return true;
  is_collecting_ = true;
  List visited;
  Step step = CollectWith(visited);
  Free(visited);
  next_bytes_ = std::max(kMinBytes, 2 * heap_.live_bytes());
  is_collecting_ = false;
  if (step == Step::kStopped) Forgo();
  return !is_forgone_;
}

CycleCollector::Step CycleCollector::CollectWith(List& visited) {
  if (Step step = MarkAll(visited); step != Step::kDone) return step;
  // Each live object is on the stack at most once.
  void* stack = heap_.TakeRaw(visited.size * int64_t{sizeof(Object*)});
  if (stack == nullptr) return Undo(visited, visited.size);
  Step step = RestoreLive(visited, static_cast<Object**>(stack));
  heap_.GiveRaw(stack);
  if (step != Step::kDone) return step;
  int64_t before = collected_;
  step = FreeDead(visited);
  // The next collection may visit the survivors of this one again, so it waits for as many writes.
  next_size_ = roots_.size + std::max(kMinRoots, (visited.size - (collected_ - before)) / 2);
  return step;
}

// Visits every object that a root leads to, breadth first, and subtracts the edges between them from their counts.
CycleCollector::Step CycleCollector::MarkAll(List& visited) {
  auto mark = [&](Object* object) {
    if ((object->count & kGray) != 0) return true;
    if (!Append(visited, object)) return false;
    object->count |= kGray;
    return true;
  };
  StopWatcher watcher(stop_);
  bool ok = true;
  for (int64_t i = 0; ok && i < roots_.size; ++i) {
    if (watcher.MustStop()) return Step::kStopped;
    ok = roots_.data[i]->count >= kImmortal || mark(roots_.data[i]);
  }
  int64_t done = 0;
  for (; ok && done < visited.size; ++done) {
    if (watcher.MustStop()) return Step::kStopped;
    ForEachChild(visited.data[done], [&](Object* child) {
      --child->count;
      ok = ok && mark(child);
    });
  }
  if (ok) return Step::kDone;
  return stop_.is_raised() ? Step::kStopped : Undo(visited, done);
}

// Undoes what MarkAll did to the first `done` objects, after it ran out of memory.
CycleCollector::Step CycleCollector::Undo(const List& visited, int64_t done) {
  is_incomplete_ = true;
  StopWatcher watcher(stop_);
  for (int64_t i = 0; i < visited.size; ++i) {
    if (watcher.MustStop()) return Step::kStopped;
    visited.data[i]->count &= ~kColours;
  }
  for (int64_t i = 0; i < done; ++i) {
    if (watcher.MustStop()) return Step::kStopped;
    ForEachChild(visited.data[i], [](Object* child) { ++child->count; });
  }
  return Step::kNoMemory;
}

// Objects with an owner outside live, and so do all that they lead to.
CycleCollector::Step CycleCollector::RestoreLive(const List& visited, Object** stack) {
  int64_t depth = 0;
  auto restore = [&](Object* object) {
    if ((object->count & kBlack) != 0) return;
    object->count |= kBlack;
    stack[depth++] = object;
  };
  StopWatcher watcher(stop_);
  for (int64_t i = 0; i < visited.size; ++i) {
    if (watcher.MustStop()) return Step::kStopped;
    if ((visited.data[i]->count & ~kColours) > 0) restore(visited.data[i]);
    while (depth > 0) {
      if (watcher.MustStop()) return Step::kStopped;
      ForEachChild(stack[--depth], [&](Object* child) {
        ++child->count;
        restore(child);
      });
    }
  }
  return Step::kDone;
}

// Their edges to live objects are already subtracted; everything else that they own is dropped as usual.
CycleCollector::Step CycleCollector::FreeDead(const List& visited) {
  StopWatcher watcher(stop_);
  for (int64_t i = 0; i < visited.size; ++i) {
    if (watcher.MustStop()) return Step::kStopped;
    Object* object = visited.data[i];
    if ((object->count & kBlack) != 0) continue;
    for (uint16_t field : layouts_[object->layout].pointer_fields) {
      Slot slot = object->fields()[field];
      if (IsImmediate(slot) || layouts_[AsObject(slot)->layout].may_reach_cycle) continue;
      heap_.Drop(slot);
    }
    if (layouts_[object->layout].is_tracked) Forget(object);
  }
  for (int64_t i = 0; i < visited.size; ++i) {
    if (watcher.MustStop()) return Step::kStopped;
    Object* object = visited.data[i];
    bool lives = (object->count & kBlack) != 0;
    object->count &= ~kColours;
    if (lives) continue;
    heap_.FreeShell(object);
    ++collected_;
  }
  return Step::kDone;
}

}  // namespace rvm::vm
