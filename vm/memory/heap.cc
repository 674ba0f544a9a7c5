#include "vm/memory/heap.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vm/limits/limit.h"
#include "vm/memory/system_memory.h"

namespace rvm::vm {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMinChunkBytes = 64 << 10;
constexpr size_t kMaxChunkBytes = 4 << 20;
constexpr int64_t kMaxCachedBytes = 256 << 20;
constexpr int64_t kMaxCachedBlock = kMaxCachedBytes / 2;
constexpr int64_t kMaxReturnedBytes = kMaxCachedBlock;

constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Eight classes per power of two, so a cached block is at most an eighth too large.
struct LargeClass {
  size_t index;
  size_t bytes;
};
LargeClass LargeClassOf(size_t bytes) {
  size_t shift = static_cast<size_t>(std::bit_width(bytes - 1)) - 4;
  size_t steps = (bytes + (size_t{1} << shift) - 1) >> shift;
  return {shift * 8 + steps - 8, steps << shift};
}

// A dying object keeps only its layout; the rest of its header links it to the next one.
Object* NextDying(const Object* object) {
  uint64_t word;
  std::memcpy(&word, object, sizeof(word));
  return reinterpret_cast<Object*>(word >> 16);
}
uint16_t DyingLayout(const Object* object) {
  uint64_t word;
  std::memcpy(&word, object, sizeof(word));
  return static_cast<uint16_t>(word);
}
void LinkDying(Object* object, Object*& head) {
  uint64_t word = reinterpret_cast<uint64_t>(head) << 16 | object->layout;
  std::memcpy(static_cast<void*>(object), &word, sizeof(word));
  head = object;
}

// Drops one count; an object without another joins the list of dying objects.
void Release(Slot slot, Object*& dying) {
  if (IsImmediate(slot)) return;
  Object* object = AsObject(slot);
  if (object->count == 1) {
    LinkDying(object, dying);
  } else if (object->count < kImmortal) {
    --object->count;
  }
}

size_t HeaderBytes(const Tensor& tensor) { return sizeof(Tensor) + (tensor.inline_dims ? size_t{tensor.rank} * 8 : 0); }

}  // namespace

struct Heap::Chunk {
  Chunk* next;
  size_t bytes;
};

struct Heap::LargeBlock {
  LargeBlock* prev;
  LargeBlock* next;
  size_t bytes;  // this header included

  void* memory() { return reinterpret_cast<std::byte*>(this) + kAlignment; }
  static LargeBlock* Of(void* memory) {
    return reinterpret_cast<LargeBlock*>(static_cast<std::byte*>(memory) - kAlignment);
  }
  // `block` and all that follow it.
  static void FreeAll(LargeBlock* block) {
    while (block != nullptr) std::free(std::exchange(block, block->next));
  }
};

// Detached blocks whose owners died and that the heap has not taken yet. Any thread.
class Heap::ReturnedBlocks {
 public:
  ~ReturnedBlocks() { LargeBlock::FreeAll(first_); }

  void Put(LargeBlock* block) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (is_open_ && bytes_ + static_cast<int64_t>(block->bytes) <= kMaxReturnedBytes) {
        bytes_ += static_cast<int64_t>(block->bytes);
        block->next = std::exchange(first_, block);
        return;
      }
    }
    std::free(block);
  }

  // All blocks, linked by `next`.
  LargeBlock* TakeAll() {
    std::lock_guard<std::mutex> lock(mutex_);
    bytes_ = 0;
    return std::exchange(first_, nullptr);
  }

  // Later blocks go to the system.
  void Close() {
    std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = false;
  }

 private:
  std::mutex mutex_;
  bool is_open_ = true;
  LargeBlock* first_ = nullptr;
  int64_t bytes_ = 0;
};

Heap::Heap(std::span<const HeapLayout> layouts, const StopSignal& stop, int64_t limit_bytes, int64_t fail_at)
    : layouts_(layouts),
      stop_(stop),
      limit_bytes_(std::min(limit_bytes, kUncountable / 2)),  // sums of sizes do not overflow
      state_{.fail_at = fail_at},
      returned_(std::make_shared<ReturnedBlocks>()),
      cycles_(*this, layouts, stop) {}

Heap::~Heap() {
  returned_->Close();
  ReleaseLists();
}

Tensor* Heap::NewTensor(DataType dtype, std::span<const int64_t> dims, int64_t data_bytes, bool static_dims) {
  size_t header = RoundUp(sizeof(Tensor) + (static_dims ? 0 : dims.size() * 8), kAlignment);
  size_t bytes = header + RoundUp(static_cast<size_t>(data_bytes), kAlignment);
  if (++state_.allocations == state_.fail_at || data_bytes > limit_bytes_) [[unlikely]]
    return static_cast<Tensor*>(RefuseCounted(data_bytes));
  auto* tensor = static_cast<Tensor*>(NewBlock(bytes));
  if (tensor == nullptr) [[unlikely]]
    return static_cast<Tensor*>(RefuseCounted(data_bytes));
  Count(static_cast<int64_t>(bytes));
  tensor->object = {1, 0, kTensorLayout};
  tensor->dtype = dtype;
  tensor->rank = static_cast<uint16_t>(dims.size());
  tensor->storage = TensorStorage::kInline;
  tensor->inline_dims = !static_dims;
  tensor->data = reinterpret_cast<std::byte*>(tensor) + header;
  tensor->block_bytes = static_cast<int64_t>(bytes);
  if (static_dims) {
    tensor->dims = dims.data();
  } else {
    int64_t* copy = tensor->dims_after_header();
#pragma clang loop unroll(disable) vectorize(disable)  // a few dims
    for (size_t i = 0; i < dims.size(); ++i) copy[i] = dims[i];
    tensor->dims = copy;
  }
  return tensor;
}

Tensor* Heap::NewHeader(DataType dtype, std::span<const int64_t> dims) {
  auto* tensor = static_cast<Tensor*>(NewSmall(sizeof(Tensor) + dims.size() * 8));
  if (tensor == nullptr) return nullptr;
  tensor->object = {1, 0, kTensorLayout};
  tensor->dtype = dtype;
  tensor->rank = static_cast<uint16_t>(dims.size());
  tensor->inline_dims = true;
  std::copy(dims.begin(), dims.end(), tensor->dims_after_header());
  tensor->dims = tensor->dims_after_header();
  return tensor;
}

Tensor* Heap::NewBorrowed(DataType dtype, std::span<const int64_t> dims, const void* data) {
  Tensor* tensor = NewHeader(dtype, dims);
  if (tensor == nullptr) return nullptr;
  tensor->storage = TensorStorage::kBorrowed;
  tensor->data = const_cast<void*>(data);  // kernels write their outputs only, which are never borrowed
  tensor->owner = nullptr;
  return tensor;
}

Tensor* Heap::NewView(Tensor* owner, std::span<const int64_t> dims) {
  Tensor* tensor = NewHeader(owner->dtype, dims);
  if (tensor == nullptr) return nullptr;
  tensor->storage = TensorStorage::kView;
  tensor->data = owner->data;
  tensor->owner = &owner->object;
  return tensor;
}

void Heap::Free(Object* object) {
  // A view of what others have, too, is freed without a list: rows of blocks are.
  if (auto* tensor = reinterpret_cast<Tensor*>(object); object->layout == kTensorLayout &&
                                                        tensor->storage == TensorStorage::kView &&
                                                        tensor->owner->count > 1 && tensor->owner->count < kImmortal) {
    --tensor->owner->count;
    return FreeTensor(tensor);
  }
  Object* dying = nullptr;
  LinkDying(object, dying);
  while (dying != nullptr) {
    // Dying objects have no header, which a collection might read.
    if (state_.frees % kStepsPerLook == 0 && stop_.is_raised()) [[unlikely]]
      return cycles_.Forgo();
    Object* next = dying;
    dying = NextDying(next);
    uint16_t layout = DyingLayout(next);
    if (layout == kTensorLayout) {
      auto* tensor = reinterpret_cast<Tensor*>(next);
      if (tensor->storage == TensorStorage::kView) Release(AsSlot(tensor->owner), dying);
      FreeTensor(tensor);
      continue;
    }
    const HeapLayout& l = layouts_[layout];
    for (uint16_t field : l.pointer_fields) Release(next->fields()[field], dying);
    if (l.is_tracked) [[unlikely]]
      cycles_.Forget(next);
    FreeSmall(next, l.bytes);
  }
}

void Heap::FreeTensor(Tensor* tensor) {
  if (tensor->storage == TensorStorage::kOnDevice) device_memory_->Release(tensor);
  switch (tensor->storage) {
    case TensorStorage::kOnDevice:
    case TensorStorage::kDetached: ++state_.frees; return;
    case TensorStorage::kBorrowed:
    case TensorStorage::kView: FreeSmall(tensor, HeaderBytes(*tensor)); return;
    case TensorStorage::kInline: {
      auto bytes = static_cast<size_t>(tensor->block_bytes);
      ++state_.frees;
      state_.live_bytes -= tensor->block_bytes;
      if (bytes <= kMaxBlockBytes) {
        Put(state_.blocks, tensor, bytes >> 6);
      } else {
        FreeLarge(tensor);
      }
    }
  }
}

std::shared_ptr<const void> Heap::Detach(Tensor* tensor) {
  if (tensor->storage != TensorStorage::kInline || tensor->block_bytes <= int64_t{kMaxBlockBytes}) return nullptr;
  state_.live_bytes -= tensor->block_bytes;
  tensor->storage = TensorStorage::kDetached;
  LargeBlock* block = LargeBlock::Of(tensor);
  Unlink(block);
  reserved_bytes_ -= static_cast<int64_t>(block->bytes);
  return std::shared_ptr<const void>(block, [block, returned = returned_](const void*) { returned->Put(block); });
}

void* Heap::NewBlock(size_t bytes) {
  if (bytes > kMaxBlockBytes) return NewLarge(bytes);
  void* block = Take(state_.blocks, bytes >> 6, bytes);
  return block != nullptr ? block : TakeFromNewChunk(state_.blocks, bytes >> 6, bytes);
}

void* Heap::NewLargeCounted(size_t bytes) {
  void* block = NewLarge(bytes);
  if (block == nullptr) return RefuseCounted(static_cast<int64_t>(bytes));
  Count(static_cast<int64_t>(bytes));
  return block;
}

bool Heap::Reserve(size_t bytes) {
  is_system_full_ = false;
  if (reserved_bytes_ + static_cast<int64_t>(bytes) > limit_bytes_) {
    if (!cycles_.Collect()) return false;
    Trim();
  }
  if (reserved_bytes_ + static_cast<int64_t>(bytes) > limit_bytes_) return false;
  reserved_bytes_ += static_cast<int64_t>(bytes);
  return true;
}

// The rest of the pool's old chunk is lost: less than one block.
void* Heap::TakeFromNewChunk(RvmPool& pool, size_t size_class, size_t bytes) {
  size_t wanted =
      std::clamp(RoundUp(static_cast<size_t>(reserved_bytes_) / 4, kMinChunkBytes), kMinChunkBytes, kMaxChunkBytes);
  // Near the limit a smaller chunk may still fit.
  size_t least = RoundUp(bytes, kAlignment) + kAlignment;
  while (!Reserve(wanted)) {
    if (wanted == least) return nullptr;
    wanted = std::max(least, RoundUp(wanted / 2, kAlignment));
  }
  auto* chunk = static_cast<Chunk*>(TakeFromSystem(wanted));
  is_system_full_ = chunk == nullptr;
  if (is_system_full_) {
    reserved_bytes_ -= static_cast<int64_t>(wanted);
    return nullptr;
  }
  *chunk = {chunks_, wanted};
  chunks_ = chunk;
  pool.bump = reinterpret_cast<char*>(chunk) + kAlignment;
  pool.end = reinterpret_cast<char*>(chunk) + wanted;
  return Take(pool, size_class, bytes);
}

void* Heap::NewLarge(size_t bytes) {
  LargeClass large_class = LargeClassOf(RoundUp(bytes, kAlignment) + kAlignment);
  if (cache_[large_class.index] == nullptr) CacheReturned();
  LargeBlock* block = cache_[large_class.index];
  if (block != nullptr) {
    cache_[large_class.index] = block->next;
    cached_bytes_ -= static_cast<int64_t>(block->bytes);
  } else {
    size_t total = RoundUp(large_class.bytes, kAlignment);
    if (!Reserve(total)) return nullptr;
    block = static_cast<LargeBlock*>(TakeFromSystem(total));
    is_system_full_ = block == nullptr;
    if (is_system_full_) {
      reserved_bytes_ -= static_cast<int64_t>(total);
      return nullptr;
    }
    block->bytes = total;
  }
  block->prev = nullptr;
  block->next = large_;
  if (large_ != nullptr) large_->prev = block;
  large_ = block;
  return block->memory();
}

void Heap::Unlink(LargeBlock* block) {
  if (block->prev != nullptr) block->prev->next = block->next;
  if (block->next != nullptr) block->next->prev = block->prev;
  if (large_ == block) large_ = block->next;
}

void Heap::FreeLarge(void* memory) {
  LargeBlock* block = LargeBlock::Of(memory);
  Unlink(block);
  auto bytes = static_cast<int64_t>(block->bytes);
  if (bytes > kMaxCachedBlock) {
    reserved_bytes_ -= bytes;
    std::free(block);
    return;
  }
  Cache(block);
}

void Heap::Cache(LargeBlock* block) {
  auto bytes = static_cast<int64_t>(block->bytes);
  if (cached_bytes_ + bytes > kMaxCachedBytes) Trim();
  cached_bytes_ += bytes;
  // The size of a class is a multiple of the alignment, so it is in its own class.
  block->next = std::exchange(cache_[LargeClassOf(block->bytes).index], block);
}

// Counted from here on; what the limit has no room for goes to the system.
void Heap::CacheReturned() {
  LargeBlock* block = returned_->TakeAll();
  while (block != nullptr) {
    LargeBlock* next = block->next;
    if (reserved_bytes_ + static_cast<int64_t>(block->bytes) > limit_bytes_) {
      std::free(block);
    } else {
      reserved_bytes_ += static_cast<int64_t>(block->bytes);
      Cache(block);
    }
    block = next;
  }
}

void Heap::Trim() {
  trims_ += cached_bytes_ > 0;
  for (LargeBlock*& head : cache_) LargeBlock::FreeAll(std::exchange(head, nullptr));
  LargeBlock::FreeAll(returned_->TakeAll());
  reserved_bytes_ -= cached_bytes_;
  cached_bytes_ = 0;
}

void* Heap::TakeRaw(int64_t bytes) {
  ++state_.frees;  // raw memory is not an object
  void* memory = ++state_.allocations == state_.fail_at ? nullptr : NewLarge(static_cast<size_t>(bytes));
  return memory != nullptr ? memory : Refuse(bytes);
}
void Heap::GiveRaw(void* memory) { FreeLarge(memory); }

absl::Status Heap::OutOfMemory() const {
  bool is_countable = refused_bytes_ < kUncountable;
  std::string what = absl::StrCat("out of memory: ", is_countable ? absl::StrCat(refused_bytes_) : "more than 2^63",
                                  " bytes were asked for, ", reserved_bytes_, " bytes are in use; ");
  if (is_system_full_) return absl::ResourceExhaustedError(absl::StrCat(what, "the system has no more"));
  return LimitReached(Limit::kMemory, absl::StrCat(what, "the memory limit is ", BytesText(limit_bytes_)));
}

void Heap::ReleaseLists() {
  Trim();
  LargeBlock::FreeAll(std::exchange(large_, nullptr));
  while (chunks_ != nullptr) {
    Chunk* next = chunks_->next;
    std::free(chunks_);
    chunks_ = next;
  }
}

void Heap::Reset() {
  ReleaseLists();
  state_.cells = {};
  state_.blocks = {};
  cycles_.Reset();
  state_.frees = state_.allocations;
  state_.live_bytes = 0;
  reserved_bytes_ = 0;
  is_system_full_ = false;
}

}  // namespace rvm::vm
