// CycleCollector: frees cells that only cycles own.
//
// Trial deletion (D. Bacon, V. Rajan: Concurrent Cycle Collection in Reference Counted Systems, 2001,
// the synchronous form). Only a write to a reference can close a cycle, so the roots are the
// references that were written with a value that may lead back to them. Counts are exact: at an
// allocation or a write, every pointer outside the heap has its count.
#ifndef RVM_VM_MEMORY_CYCLE_COLLECTOR_H_
#define RVM_VM_MEMORY_CYCLE_COLLECTOR_H_

#include <cstdint>
#include <span>

#include "vm/limits/stop_signal.h"
#include "vm/memory/object.h"

namespace rvm::vm {

class Heap;

class CycleCollector {
 public:
  CycleCollector(Heap& heap, std::span<const HeapLayout> layouts, const StopSignal& stop)
      : heap_(heap), layouts_(layouts), stop_(stop) {}

  // To be called after a write to `ref`, a tracked reference. Collects when that is due. False: as Collect.
  bool Written(Object* ref);
  // A tracked reference is freed.
  void Forget(Object* ref) {
    if (IsRoot(ref)) Remove(ref);
  }
  // Frees objects that only cycles own; does nothing if there is no memory for its lists. False: the run must stop, and
  // the collection stopped midway: counts are wrong until Heap::Reset, so nothing may run before it.
  bool Collect();
  // No more collections until Heap::Reset.
  void Forgo() { is_forgone_ = true; }
  // After Heap::Reset, which also freed the lists.
  void Reset() {
    roots_ = {};
    is_forgone_ = false;
    is_incomplete_ = false;
    next_size_ = kMinRoots;
    next_bytes_ = kMinBytes;
  }

  int64_t collected() const { return collected_; }
  // Returns whether it lacked memory since Heap::Reset, so that cycles may be left.
  bool is_incomplete() const { return is_incomplete_; }

 private:
  // An array of objects in memory that the heap counts.
  struct List {
    Object** data = nullptr;
    int64_t size = 0;
    int64_t capacity = 0;
  };
  // A tracked reference has one slot behind its contents: its index among the roots. The slot is
  // garbage in a reference that is not a root; comparing with the root at that index tells (P. Briggs, L. Torczon:
  // An Efficient Representation for Sparse Sets, 1993).
  static Slot& IndexOf(Object* ref) { return ref->fields()[1]; }
  bool IsRoot(Object* ref) const {
    Slot index = IndexOf(ref);
    return index < static_cast<Slot>(roots_.size) && roots_.data[index] == ref;
  }
  void Remove(Object* ref);

  bool Append(List& list, Object* object);
  void Free(List& list);
  // The steps of a collection.
  enum class Step { kDone, kNoMemory, kStopped };
  Step CollectWith(List& visited);
  Step MarkAll(List& visited);
  Step Undo(const List& visited, int64_t done);
  Step RestoreLive(const List& visited, Object** stack);
  Step FreeDead(const List& visited);
  template <typename F>
  void ForEachChild(Object* object, F&& f) const;

  Heap& heap_;
  std::span<const HeapLayout> layouts_;
  const StopSignal& stop_;
  List roots_;
  int64_t next_size_ = kMinRoots;
  int64_t next_bytes_ = kMinBytes;
  bool is_collecting_ = false;
  bool is_forgone_ = false;
  bool is_incomplete_ = false;
  int64_t collected_ = 0;

  static constexpr int64_t kMinRoots = 256;
  static constexpr int64_t kMinBytes = 16 << 20;
};

}  // namespace rvm::vm

#endif  // RVM_VM_MEMORY_CYCLE_COLLECTOR_H_
