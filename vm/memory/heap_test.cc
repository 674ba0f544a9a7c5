#include "vm/memory/heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/data_type.h"
#include "vm/limits/stop_signal.h"
#include "vm/memory/system_memory.h"

namespace rvm::vm {
namespace {

constexpr uint16_t kCons = 1;

std::vector<HeapLayout> Layouts() {
  std::vector<HeapLayout> layouts(2);
  layouts[kCons] = {16, 0, 1, 0, false, false, {0}, {1}};
  return layouts;
}

Slot MakeList(Heap& heap, int length) {
  Slot list = ImmediateOf(0);
  for (int i = 0; i < length; ++i) {
    Object* cons = heap.NewCell(kCons);
    cons->fields()[0] = list;
    list = AsSlot(cons);
  }
  return list;
}

TEST(HeapTest, AStopEndsTheFreeingOfALongList) {
  std::vector<HeapLayout> layouts = Layouts();
  StopSignal stop;
  Heap heap(layouts, stop, int64_t{1} << 30, 0);
  for (int round = 0; round < 3; ++round) {
    stop.Clear();
    heap.Drop(MakeList(heap, 100'000));
    EXPECT_EQ(heap.live_objects(), 0);
    Slot list = MakeList(heap, 100'000);
    stop.Raise(StopSignal::kCancelled);
    heap.Drop(list);
    EXPECT_GT(heap.live_objects(), 90'000);
    EXPECT_FALSE(heap.CollectCycles());  // which might meet what is half freed
    heap.Reset();
    EXPECT_EQ(heap.live_objects(), 0);
    EXPECT_EQ(heap.live_bytes(), 0);
    EXPECT_EQ(heap.reserved_bytes(), 0);
  }
}

// Sizes on both sides of where blocks come in huge pages.
TEST(HeapTest, BigTensorsAreTheirOwn) {
  std::vector<HeapLayout> layouts = Layouts();
  StopSignal stop;
  Heap heap(layouts, stop, int64_t{1} << 30, 0);
  std::vector<std::pair<Tensor*, int64_t>> tensors;
  for (int64_t bytes : {1 << 20, (2 << 20) - 4096, 2 << 20, (2 << 20) + 4, 5'000'000, 40 << 20}) {
    std::vector<int64_t> dims = {bytes / 4};
    Tensor* tensor = heap.NewTensor(kFloat32, dims, bytes, /*static_dims=*/false);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data) % 64, 0u);
    std::memset(tensor->data, static_cast<int>(tensors.size()) + 1, static_cast<size_t>(bytes));
    tensors.emplace_back(tensor, bytes);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto [tensor, bytes] = tensors[i];
    const auto* data = static_cast<const std::byte*>(tensor->data);
    EXPECT_EQ(std::count(data, data + bytes, static_cast<std::byte>(i + 1)), bytes);
  }
  // Elements that left live on without the heap's tensor.
  auto [last, bytes] = tensors.back();
  const auto* elements = static_cast<const std::byte*>(last->data);
  std::shared_ptr<const void> owner = heap.Detach(last);
  ASSERT_NE(owner, nullptr);
  for (auto [tensor, size] : tensors) heap.Drop(AsSlot(&tensor->object));
  EXPECT_EQ(heap.live_bytes(), 0);
  heap.Reset();
  EXPECT_EQ(elements[bytes - 1], static_cast<std::byte>(tensors.size()));
}

// Detached blocks come back for the heap's next tensors, counted against the limit from then on.
TEST(HeapTest, DetachedBlocksComeBack) {
  std::vector<HeapLayout> layouts;
  StopSignal stop;
  constexpr int64_t kBytes = 3 << 20;
  const std::vector<int64_t> dims = {kBytes / 4};
  auto heap = std::make_unique<Heap>(layouts, stop, 4 << 20, 0);
  auto detached = [&] {
    Tensor* tensor = heap->NewTensor(kFloat32, dims, kBytes, /*static_dims=*/false);
    std::shared_ptr<const void> owner = heap->Detach(tensor);
    auto* elements = static_cast<std::byte*>(tensor->data);
    heap->Drop(AsSlot(&tensor->object));
    return std::pair(owner, elements);
  };
  auto [first, place] = detached();
  EXPECT_EQ(heap->reserved_bytes(), 0);
  std::thread([&] { first = nullptr; }).join();
  auto [second, same_place] = detached();
  EXPECT_EQ(same_place, place);
  EXPECT_EQ(heap->reserved_bytes(), 0);
  // The limit has room for one of two that come back.
  auto [third, other_place] = detached();
  EXPECT_NE(other_place, place);
  second = third = nullptr;
  auto [fourth, any_place] = detached();
  EXPECT_LE(heap->reserved_bytes(), 4 << 20);
  heap->Trim();
  EXPECT_EQ(heap->reserved_bytes(), 0);
  // An owner may outlive the heap.
  std::memset(any_place, 7, kBytes);
  heap = nullptr;
  EXPECT_EQ(std::count(any_place, any_place + kBytes, std::byte{7}), kBytes);
}

// A large block stays for the heap's next tensor of its size: pages from the system cost more than most operators take
// for such a result.
TEST(HeapTest, LargeBlocksStay) {
  std::vector<HeapLayout> layouts;
  StopSignal stop;
  Heap heap(layouts, stop, int64_t{1} << 40, 0);
  auto reserved_after = [&](int64_t bytes) {
    heap.Trim();
    const std::vector<int64_t> dims = {bytes / 4};
    heap.Drop(AsSlot(&heap.NewTensor(kFloat32, dims, bytes, /*static_dims=*/false)->object));
    return heap.reserved_bytes();
  };
  for (int64_t megabytes : {1, 32, 64, 100}) EXPECT_GE(reserved_after(megabytes << 20), megabytes << 20);
  EXPECT_EQ(reserved_after(int64_t{200} << 20), 0);
}

TEST(SystemMemoryTest, IsAlignedAndAllThere) {
  for (size_t bytes : {size_t{64}, size_t{4096}, (size_t{2} << 20) - 64, size_t{2} << 20, (size_t{2} << 20) + 64,
                       (size_t{7} << 20) + 4096 + 64}) {
    auto* memory = static_cast<std::byte*>(TakeFromSystem(bytes));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    std::memset(memory, 0xff, bytes);
    std::free(memory);
  }
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)  // which take that for a bug
  EXPECT_EQ(TakeFromSystem(SIZE_MAX / 64 * 64), nullptr);
  EXPECT_EQ(TakeFromSystem(size_t{1} << 60), nullptr);
#endif
}

}  // namespace
}  // namespace rvm::vm
