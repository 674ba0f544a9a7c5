// The collector against a plain walk over random graphs.
#include "vm/memory/cycle_collector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "vm/limits/stop_signal.h"
#include "vm/memory/heap.h"

namespace rvm::vm {
namespace {

enum : uint16_t { kRef = 1, kPair = 2, kNumber = 3 };

std::vector<HeapLayout> Layouts() {
  std::vector<HeapLayout> layouts(4);
  layouts[kRef] = {24, 0, 1, 0, true, true, {0}, {1}};
  layouts[kPair] = {24, 0, 2, 0, true, false, {0, 1}, {1, 1}};
  layouts[kNumber] = {16, 0, 1, 0, false, false, {}, {0}};
  return layouts;
}

// A program's registers, which write and drop at random.
class Mutator {
 public:
  Mutator(int64_t limit_bytes, uint32_t seed) : heap_(layouts_, stop_, limit_bytes, 0), random_(seed) {
    registers_.assign(kRegisters, ImmediateOf(0));
  }

  Heap& heap() { return heap_; }

  void Step() {
    switch (Pick(6)) {
      case 0: return Set(Any(), New(kRef, {Copy()}));
      case 1: return Set(Any(), New(kPair, {Copy(), Copy()}));
      case 2: return Set(Any(), New(kNumber, {7}));
      case 3: return Set(Any(), Copy());
      case 4: return Set(Any(), ImmediateOf(0));
      default: return Write(registers_[Any()]);
    }
  }

  // Register 0 comes to hold a list of that many pairs, or as many as there is memory for.
  void Lengthen(int pairs) {
    for (int i = 0; i < pairs; ++i) {
      Slot longer = New(kPair, {std::exchange(registers_[0], ImmediateOf(0)), ImmediateOf(0)});
      if (IsImmediate(longer)) return;
      registers_[0] = longer;
    }
  }

  // How often each object that the registers lead to is pointed to.
  std::map<Object*, uint32_t> Reachable() const {
    std::map<Object*, uint32_t> counts;
    std::vector<Object*> work;
    auto see = [&](Slot slot) {
      if (!IsImmediate(slot) && ++counts[AsObject(slot)] == 1) work.push_back(AsObject(slot));
    };
    for (Slot slot : registers_) see(slot);
    while (!work.empty()) {
      Object* object = work.back();
      work.pop_back();
      for (uint16_t field : layouts_[object->layout].pointer_fields) see(object->fields()[field]);
    }
    return counts;
  }

 private:
  static constexpr size_t kRegisters = 40;
  size_t Pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  size_t Any() { return 1 + Pick(kRegisters - 1); }
  size_t AnyOrFirst() { return Pick(kRegisters); }
  Slot Copy() {
    Slot slot = registers_[AnyOrFirst()];
    Retain(slot);
    return slot;
  }
  Slot New(uint16_t layout, std::vector<Slot> fields) {
    Object* object = heap_.NewCell(layout);
    if (object == nullptr) {
      for (uint16_t field : layouts_[layout].pointer_fields) heap_.Drop(fields[field]);
      return ImmediateOf(0);
    }
    std::copy(fields.begin(), fields.end(), object->fields());
    return AsSlot(object);
  }
  void Set(size_t reg, Slot slot) { heap_.Drop(std::exchange(registers_[reg], slot)); }
  void Write(Slot ref) {
    if (IsImmediate(ref) || AsObject(ref)->layout != kRef) return;
    Slot old = std::exchange(AsObject(ref)->fields()[0], Copy());
    heap_.Drop(old);
    EXPECT_TRUE(heap_.RefWritten(AsObject(ref)));
  }

  std::vector<HeapLayout> layouts_ = Layouts();
  StopSignal stop_;
  Heap heap_;
  std::mt19937 random_;
  std::vector<Slot> registers_;
};

TEST(CycleCollectorTest, FreesWhatAWalkDoesNotReach) {
  int64_t collected = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Mutator mutator(64 << 20, seed);
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 400; ++i) mutator.Step();
      EXPECT_TRUE(mutator.heap().CollectCycles());
      auto reachable = mutator.Reachable();
      ASSERT_EQ(mutator.heap().live_objects(), static_cast<int64_t>(reachable.size())) << seed << " " << round;
      for (const auto& [object, count] : reachable) ASSERT_EQ(object->count, count);
    }
    collected += mutator.heap().collected();
  }
  EXPECT_GT(collected, 1000);
}

// At the limit collections come at any allocation, and may lack memory themselves.
TEST(CycleCollectorTest, AtTheLimitNothingReachableIsLost) {
  for (int64_t limit = 64 << 10; limit < 72 << 10; limit += 128) {
    Mutator mutator(limit, static_cast<uint32_t>(limit));
    // A long list that is always held and leads to a reference, so that every look is at many objects.
    mutator.Lengthen(2500);
    for (int i = 0; i < 20'000; ++i) mutator.Step();
    auto reachable = mutator.Reachable();
    EXPECT_GE(mutator.heap().live_objects(), static_cast<int64_t>(reachable.size()));
    for (const auto& [object, count] : reachable) ASSERT_GE(object->count, count);
  }
}

// Pairs that hold each other, the first of them held by a reference that the last one leads to.
Object* MakeRing(Heap& heap, int pairs) {
  Object* first = heap.NewCell(kRef);
  first->fields()[0] = ImmediateOf(0);
  Slot last = AsSlot(first);
  Retain(last);
  for (int i = 0; i < pairs; ++i) {
    Object* next = heap.NewCell(kPair);
    next->fields()[0] = last;
    next->fields()[1] = ImmediateOf(0);
    last = AsSlot(next);
  }
  first->fields()[0] = last;
  return first;
}

// A chain of references to references, closed to a ring: nothing here recurses.
TEST(CycleCollectorTest, ALongRingEndsWithoutStack) {
  std::vector<HeapLayout> layouts = Layouts();
  StopSignal stop;
  Heap heap(layouts, stop, int64_t{1} << 30, 0);
  Object* first = MakeRing(heap, 1'000'000);
  EXPECT_TRUE(heap.RefWritten(first));
  EXPECT_TRUE(heap.CollectCycles());
  EXPECT_EQ(heap.live_objects(), 1'000'001);
  heap.Drop(AsSlot(first));
  EXPECT_EQ(heap.live_objects(), 1'000'001);
  EXPECT_TRUE(heap.CollectCycles());
  EXPECT_EQ(heap.live_objects(), 0);
  EXPECT_EQ(heap.live_bytes(), 0);
}

TEST(CycleCollectorTest, AStopEndsACollection) {
  std::vector<HeapLayout> layouts = Layouts();
  StopSignal stop;
  Heap heap(layouts, stop, int64_t{1} << 30, 0);
  for (bool is_held : {false, true}) {
    stop.Clear();
    Object* ring = MakeRing(heap, 100'000);
    EXPECT_TRUE(heap.RefWritten(ring));
    if (!is_held) heap.Drop(AsSlot(ring));
    stop.Raise(StopSignal::kCancelled);
    EXPECT_FALSE(heap.CollectCycles());
    EXPECT_EQ(heap.live_objects(), 100'001);
    // Counts are wrong now, so nobody may go on, even if nobody stopped it.
    stop.Clear();
    EXPECT_FALSE(heap.CollectCycles());
    heap.Reset();
    EXPECT_EQ(heap.live_objects(), 0);
    EXPECT_TRUE(heap.CollectCycles());
  }
  Object* ring = MakeRing(heap, 100'000);
  EXPECT_TRUE(heap.RefWritten(ring));
  heap.Drop(AsSlot(ring));
  EXPECT_TRUE(heap.CollectCycles());
  EXPECT_EQ(heap.live_objects(), 0);
}

// Few steps need no look at the signal.
TEST(CycleCollectorTest, ASmallCollectionEndsInSpiteOfAStop) {
  std::vector<HeapLayout> layouts = Layouts();
  StopSignal stop;
  Heap heap(layouts, stop, int64_t{1} << 30, 0);
  Object* ring = MakeRing(heap, 100);
  stop.Raise(StopSignal::kTimeIsUp);
  EXPECT_TRUE(heap.RefWritten(ring));
  heap.Drop(AsSlot(ring));
  EXPECT_TRUE(heap.CollectCycles());
  EXPECT_EQ(heap.live_objects(), 0);
}

}  // namespace
}  // namespace rvm::vm
