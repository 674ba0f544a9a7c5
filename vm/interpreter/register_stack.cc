#include "vm/interpreter/register_stack.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/huge_pages.h"

namespace rvm::vm {
namespace {
constexpr int64_t kFirstBytes = 256 << 10;
constexpr int64_t kPageBytes = 4096;
}  // namespace

RegisterStack::RegisterStack(int64_t limit_bytes, int64_t headroom_slots)
    : limit_bytes_(limit_bytes), headroom_slots_(headroom_slots) {}

RegisterStack::~RegisterStack() { Release(); }

void RegisterStack::Release() {
  if (begin_ != nullptr) munmap(begin_, static_cast<size_t>(bytes_));
  begin_ = soft_end_ = nullptr;
  bytes_ = 0;
}

bool RegisterStack::Grow() {
  // The headroom comes on top of the limit: a program without calls always has its frame.
  int64_t headroom = headroom_slots_ * int64_t{sizeof(Slot)};
  int64_t frames = bytes_ - headroom;
  if (begin_ == nullptr)
    frames = std::min(kFirstBytes, limit_bytes_);
  else if (frames >= limit_bytes_)
    return false;
  else
    frames = std::min(frames * 2, limit_bytes_);
  return Resize((std::max<int64_t>(frames, 0) + headroom + kPageBytes - 1) / kPageBytes * kPageBytes);
}

bool RegisterStack::Resize(int64_t bytes) {
  auto size = static_cast<size_t>(bytes);
  void* memory = begin_ == nullptr
                     ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                     : mremap(begin_, static_cast<size_t>(bytes_), size, MREMAP_MAYMOVE);
  if (memory == MAP_FAILED) return false;
  AskForHugePages(memory, size);
  begin_ = static_cast<Slot*>(memory);
  bytes_ = bytes;
  soft_end_ = begin_ + bytes / int64_t{sizeof(Slot)} - headroom_slots_;
  return true;
}

}  // namespace rvm::vm
