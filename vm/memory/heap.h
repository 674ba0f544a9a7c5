// Heap: the memory of one machine. Cells and small tensors come from free lists
// over chunks, big tensors from the system through a cache.
//
// Every allocation may fail: it gives null at the memory limit, or when the run must stop,
// and the caller ends the run. Nothing leaks then: Reset frees everything at once. The
// CycleCollector finds cells in cycles of references. One thread at a time.
#ifndef RVM_VM_MEMORY_HEAP_H_
#define RVM_VM_MEMORY_HEAP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "kernels/abi/machine_abi.h"
#include "vm/limits/stop_signal.h"
#include "vm/memory/cycle_collector.h"
#include "vm/memory/object.h"

namespace rvm::vm {

// Owns the device memory of a machine's tensors.
class DeviceMemoryOwner {
 public:
  virtual ~DeviceMemoryOwner() = default;
  // The heap frees `tensor`, of storage kOnDevice. Frees its device memory, and gives the header the storage that its
  // part on the host has.
  virtual void Release(Tensor* tensor) = 0;
};

class Heap {
 public:
  // `layouts` by layout id, must outlive the heap. `fail_at`: the allocation with this number
  // (from 1) fails, for tests; 0: none. `stop`, which also outlives the heap, interrupts long operations.
  Heap(std::span<const HeapLayout> layouts, const StopSignal& stop, int64_t limit_bytes, int64_t fail_at);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // A cell with count 1, its tag, and fields not yet written.
  Object* NewCell(uint16_t layout) {
    const HeapLayout& l = layouts_[layout];
    Object* object = static_cast<Object*>(NewSmall(l.bytes));
    if (object != nullptr) [[likely]]
      *object = {1, l.tag, layout};
    return object;
  }
  // Returns the fast path of NewCell: null if it takes more than a free block.
  Object* TryNewCell(uint16_t layout) {
    const HeapLayout& l = layouts_[layout];
    if (state_.allocations + 1 == state_.fail_at || l.bytes > kMaxCellBytes) [[unlikely]]
      return nullptr;
    auto* object = static_cast<Object*>(Take(state_.cells, l.bytes >> 3, l.bytes));
    if (object == nullptr) [[unlikely]]
      return nullptr;
    ++state_.allocations;
    Count(l.bytes);
    *object = {1, l.tag, layout};
    return object;
  }
  // Returns a tensor whose elements are not yet written. `static_dims`: `dims` outlives the heap, and the tensor points
  // to it; otherwise it is copied.
  Tensor* NewTensor(DataType dtype, std::span<const int64_t> dims, int64_t data_bytes, bool static_dims);
  // Bytes of the block of a tensor with a header of kTensorHeaderBytes, followed by its elements.
  static constexpr int64_t kTensorHeaderBytes = 64;
  static constexpr int64_t BlockBytes(int64_t data_bytes) {
    return kTensorHeaderBytes + (data_bytes + kTensorHeaderBytes - 1) / kTensorHeaderBytes * kTensorHeaderBytes;
  }
  // Returns a tensor that begins with `header`, except for `data`; null if it takes more than a free block.
  Tensor* TryNewTensor(const Tensor& header) {
    Tensor* tensor = TryBlock(header.block_bytes);
    if (tensor == nullptr) [[unlikely]]
      return nullptr;
    *tensor = header;
    tensor->data = reinterpret_cast<std::byte*>(tensor) + kTensorHeaderBytes;
    return tensor;
  }
  // Like the function above, for a tensor with dims of its own, which the caller writes; `header.block_bytes`: bytes
  // before the elements.
  Tensor* TryNewTensor(const Tensor& header, int64_t data_bytes) {
    if (data_bytes > int64_t{kMaxBlockBytes}) [[unlikely]]
      return nullptr;
    int64_t bytes = header.block_bytes + ((data_bytes + 63) & ~int64_t{63});
    Tensor* tensor = TryBlock(bytes);
    if (tensor == nullptr) [[unlikely]]
      return nullptr;
    *tensor = header;
    tensor->data = reinterpret_cast<std::byte*>(tensor) + header.block_bytes;
    tensor->block_bytes = bytes;
    tensor->dims = tensor->dims_after_header();
    return tensor;
  }
  static Tensor HeaderWithDims(DataType dtype, size_t rank) {
    Tensor header = {};
    header.object = {1, 0, kTensorLayout};
    header.dtype = dtype;
    header.rank = static_cast<uint16_t>(rank);
    header.storage = TensorStorage::kInline;
    header.inline_dims = true;
    header.block_bytes = static_cast<int64_t>((sizeof(Tensor) + rank * 8 + 63) & ~size_t{63});
    return header;
  }
  // Returns a tensor over elements that outlive it.
  Tensor* NewBorrowed(DataType dtype, std::span<const int64_t> dims, const void* data);
  // Returns a tensor over the elements of `owner`, whose count the view takes over.
  Tensor* NewView(Tensor* owner, std::span<const int64_t> dims);

  // Drops one count of a pointer slot. Frees whatever it was the last owner of, without recursion; if the run must stop
  // meanwhile, Reset frees the rest.
  void Drop(Slot slot) {
    if (IsImmediate(slot)) return;
    Object* object = AsObject(slot);
    if (object->count == 1) {
      FreeLast(object);
    } else if (object->count < kImmortal) {
      --object->count;
    }
  }
  // Drops the only count of an object. Fast for a small tensor that owns its elements.
  void FreeLast(Object* object) {
    auto* tensor = reinterpret_cast<Tensor*>(object);
    if (object->layout != kTensorLayout || tensor->storage != TensorStorage::kInline ||
        tensor->block_bytes > int64_t{kMaxBlockBytes}) {
      return Free(object);
    }
    ++state_.frees;
    state_.live_bytes -= tensor->block_bytes;
    Put(state_.blocks, tensor, static_cast<size_t>(tensor->block_bytes) >> 6);
  }
  // Frees a cell whose fields have been moved out.
  void FreeShell(Object* cell) { FreeSmall(cell, layouts_[cell->layout].bytes); }

  // Retains the pointers among the fields of a cell that has other owners, and drops the cell: its fields were copied.
  void ShareFields(Object* cell) {
    for (uint16_t field : layouts_[cell->layout].pointer_fields) Retain(cell->fields()[field]);
    if (cell->count < kImmortal) --cell->count;
  }

  // To be called after a write to `ref`, a tracked reference. False: the run was stopped meanwhile; only Reset may
  // follow.
  bool RefWritten(Object* ref) { return cycles_.Written(ref); }
  // Writes the contents of `ref`, a tracked reference, and drops the old ones. False: as above.
  bool WriteTracked(Object* ref, Slot value) {
    Slot old = ref->fields()[0];
    ref->fields()[0] = value;
    Drop(old);
    return RefWritten(ref);
  }
  // Frees objects that only cycles own. False: as above.
  bool CollectCycles() { return cycles_.Collect(); }
  // Returns whether CollectCycles finds all of them; not if memory was short since Reset.
  bool finds_cycles() const { return !cycles_.is_incomplete(); }

  // Takes the block of a big tensor out of the heap: the elements live until the returned owner
  // dies, on any thread, the tensor itself until it is dropped. Null if the tensor has no block of its own.
  // The heap, if it is still there, takes the block back for its next tensors: memory that is new from the system costs
  // its first touch, which is most of the time of an operator that writes a large result.
  std::shared_ptr<const void> Detach(Tensor* tensor);

  // Memory other than objects (arena chunks, workspaces), counted against the limit; null at the limit.
  void* TakeRaw(int64_t bytes);
  void GiveRaw(void* memory);

  // Returns the part of the heap that machine code of functions uses directly.
  RvmHeap* state() { return &state_; }

  // Sets the owner of tensors of storage kOnDevice; it outlives the heap. REQUIRED before there are any.
  void SetDeviceMemoryOwner(DeviceMemoryOwner* owner) { device_memory_ = owner; }

  // Frees all objects and all raw memory.
  void Reset();
  // Gives cached blocks back to the system.
  void Trim();

  int64_t live_bytes() const { return state_.live_bytes; }
  int64_t peak_bytes() const { return state_.peak_bytes; }
  // Since the heap was made; cells that reuse the memory of others do not count.
  int64_t allocations() const { return state_.allocations; }
  int64_t live_objects() const { return state_.allocations - state_.frees; }
  // Cells freed so far that only cycles owned.
  int64_t collected() const { return cycles_.collected(); }
  // Bytes taken from the system, which the limit bounds; and those of them that are cached, which Trim gives back.
  int64_t reserved_bytes() const { return reserved_bytes_; }
  int64_t pooled_bytes() const { return cached_bytes_; }
  // How often cached blocks were given back, on demand or because there were too many.
  int64_t trims() const { return trims_; }
  int64_t limit_bytes() const { return limit_bytes_; }
  // Why the last allocation failed: how much was asked for, how much is in use, what the limit is.
  absl::Status OutOfMemory() const;
  // Records that an allocation of so many bytes failed, and gives null; kUncountable if their number overflowed.
  static constexpr int64_t kUncountable = std::numeric_limits<int64_t>::max();
  void* Refuse(int64_t bytes) {
    refused_bytes_ = bytes;
    return nullptr;
  }

 private:
  // A block of so many bytes, counted; null if none is free.
  Tensor* TryBlock(int64_t bytes) {
    if (state_.allocations + 1 == state_.fail_at || bytes > int64_t{kMaxBlockBytes}) [[unlikely]]
      return nullptr;
    void* block = Take(state_.blocks, static_cast<size_t>(bytes) >> 6, static_cast<size_t>(bytes));
    if (block == nullptr) [[unlikely]]
      return nullptr;
    ++state_.allocations;
    Count(bytes);
    return static_cast<Tensor*>(block);
  }

  // A block of the pool; null if it has none.
  static void* Take(RvmPool& pool, size_t size_class, size_t bytes) {
    if (void* block = pool.free[size_class]; block != nullptr) {
      pool.free[size_class] = *static_cast<void**>(block);
      return block;
    }
    if (static_cast<size_t>(pool.end - pool.bump) < bytes) return nullptr;
    void* block = pool.bump;
    pool.bump += bytes;
    return block;
  }
  static void Put(RvmPool& pool, void* block, size_t size_class) {
    *static_cast<void**>(block) = pool.free[size_class];
    pool.free[size_class] = block;
  }
  struct Chunk;
  struct LargeBlock;
  class ReturnedBlocks;
  static constexpr size_t kMaxCellBytes = kRvmMaxCellBytes;    // of the pool in steps of 8 bytes
  static constexpr size_t kMaxBlockBytes = kRvmMaxBlockBytes;  // of the pool in steps of 64 bytes
  static constexpr size_t kLargeClasses = 512;

  void* NewSmall(size_t bytes) {
    if (++state_.allocations == state_.fail_at) [[unlikely]]
      return RefuseCounted(static_cast<int64_t>(bytes));
    if (bytes > kMaxCellBytes) [[unlikely]]
      return NewLargeCounted(bytes);
    void* block = Take(state_.cells, bytes >> 3, bytes);
    if (block == nullptr) [[unlikely]] {
      block = TakeFromNewChunk(state_.cells, bytes >> 3, bytes);
      if (block == nullptr) return RefuseCounted(static_cast<int64_t>(bytes));
    }
    Count(static_cast<int64_t>(bytes));
    return block;
  }
  void FreeSmall(void* block, size_t bytes) {
    ++state_.frees;
    state_.live_bytes -= static_cast<int64_t>(bytes);
    if (bytes > kMaxCellBytes) [[unlikely]]
      return FreeLarge(block);
    Put(state_.cells, block, bytes >> 3);
  }
  void Count(int64_t bytes) {
    state_.live_bytes += bytes;
    state_.peak_bytes = state_.peak_bytes < state_.live_bytes ? state_.live_bytes : state_.peak_bytes;
  }
  // Like Refuse, for an allocation that was counted already.
  void* RefuseCounted(int64_t bytes) {
    ++state_.frees;
    return Refuse(bytes);
  }
  void Free(Object* object);
  void FreeTensor(Tensor* tensor);
  Tensor* NewHeader(DataType dtype, std::span<const int64_t> dims);
  void* NewBlock(size_t bytes);
  void* NewLargeCounted(size_t bytes);
  void* TakeFromNewChunk(RvmPool& pool, size_t size_class, size_t bytes);
  void* NewLarge(size_t bytes);
  void Unlink(LargeBlock* block);
  void FreeLarge(void* memory);
  void Cache(LargeBlock* block);
  void CacheReturned();
  bool Reserve(size_t bytes);
  void ReleaseLists();

  std::span<const HeapLayout> layouts_;
  const StopSignal& stop_;
  int64_t limit_bytes_;
  RvmHeap state_ = {};
  int64_t reserved_bytes_ = 0;  // from the system, cached blocks included
  int64_t cached_bytes_ = 0;
  int64_t trims_ = 0;
  int64_t refused_bytes_ = 0;    // of the last allocation that failed
  bool is_system_full_ = false;  // it failed below the limit
  Chunk* chunks_ = nullptr;
  LargeBlock* large_ = nullptr;
  std::array<LargeBlock*, kLargeClasses> cache_ = {};
  std::shared_ptr<ReturnedBlocks> returned_;  // shared with the owners of detached blocks
  DeviceMemoryOwner* device_memory_ = nullptr;
  CycleCollector cycles_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_MEMORY_HEAP_H_
