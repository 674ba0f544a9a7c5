// Arena: the planned tensors of activations, as a stack of windows that never
// move. Chunks are kept for the next activation.
#ifndef RVM_VM_MEMORY_ARENA_H_
#define RVM_VM_MEMORY_ARENA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "vm/memory/heap.h"

namespace rvm::vm {

class Arena {
 public:
  explicit Arena(Heap& heap) : heap_(heap) {}

  // Returns a window of `bytes` (a multiple of 64), aligned to 64; null at the memory limit.
  std::byte* Push(uint32_t bytes) {
    if (chunk_ == nullptr || static_cast<size_t>(chunk_->end - top_) < bytes) {
      if (!Advance(bytes)) return nullptr;
    }
    std::byte* window = top_;
    top_ += bytes;
    return window;
  }
  // Gives up the window `window`, which is the latest.
  void Pop(std::byte* window) {
    top_ = window;
    if (window == chunk_->begin() && chunk_->below != nullptr) {
      top_ = chunk_->top_below;
      chunk_ = chunk_->below;
    }
  }
  // Forgets everything, after Heap::Reset.
  void Forget() {
    chunk_ = nullptr;
    top_ = nullptr;
  }

 private:
  struct alignas(64) Chunk {
    Chunk* below;
    Chunk* above;  // kept for later
    std::byte* top_below;
    std::byte* end;
    std::byte* begin() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  static constexpr int64_t kChunkBytes = 1 << 20;

  bool Advance(uint32_t bytes) {
    Chunk* next = chunk_ != nullptr ? chunk_->above : nullptr;
    if (next != nullptr && next->end - next->begin() < static_cast<ptrdiff_t>(bytes)) {
      FreeFrom(next);
      next = nullptr;
    }
    if (next == nullptr) {
      int64_t size = std::max<int64_t>(kChunkBytes, int64_t{bytes} + int64_t{sizeof(Chunk)});
      void* memory = heap_.TakeRaw(size);
      if (memory == nullptr) return false;
      next = static_cast<Chunk*>(memory);
      *next = {chunk_, nullptr, nullptr, static_cast<std::byte*>(memory) + size};
      if (chunk_ != nullptr) chunk_->above = next;
    }
    next->top_below = top_;
    chunk_ = next;
    top_ = next->begin();
    return true;
  }
  void FreeFrom(Chunk* chunk) {
    chunk_->above = nullptr;
    while (chunk != nullptr) {
      Chunk* above = chunk->above;
      heap_.GiveRaw(chunk);
      chunk = above;
    }
  }

  Heap& heap_;
  Chunk* chunk_ = nullptr;
  std::byte* top_ = nullptr;
};

}  // namespace rvm::vm

#endif  // RVM_VM_MEMORY_ARENA_H_
