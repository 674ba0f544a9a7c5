// Arena: owns every node of a compilation. Nodes live until the arena is destroyed, so passes may share subtrees, and
// nothing is freed recursively.
#ifndef RVM_COMPILER_IR_ARENA_H_
#define RVM_COMPILER_IR_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace rvm::ir {

// Not thread-safe: one compilation, one thread.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    for (auto it = finalizers_.rbegin(); it != finalizers_.rend(); ++it) it->destroy(it->object);
  }

  template <typename T, typename... Args>
  T* New(Args&&... args) {
    T* object = ::new (Allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
    if constexpr (!std::is_trivially_destructible_v<T>) {
      finalizers_.push_back({object, [](void* p) { static_cast<T*>(p)->~T(); }});
    }
    return object;
  }

  // Returns a number that no other call on this arena returns, used as the identity of a variable.
  int64_t NextId() { return next_id_++; }

 private:
  struct Finalizer {
    void* object;
    void (*destroy)(void*);
  };
  static constexpr size_t kChunkBytes = size_t{64} << 10;

  void* Allocate(size_t bytes, size_t align) {
    size_t at = (used_ + align - 1) & ~(align - 1);
    if (chunks_.empty() || at + bytes > capacity_) {
      capacity_ = bytes > kChunkBytes ? bytes : kChunkBytes;
      chunks_.push_back(std::make_unique<std::byte[]>(capacity_));
      at = 0;
    }
    used_ = at + bytes;
    return chunks_.back().get() + at;
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<Finalizer> finalizers_;
  size_t used_ = 0;
  size_t capacity_ = 0;
  int64_t next_id_ = 1;
};

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_ARENA_H_
