#include "vm/interpreter/device_lane.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "vm/limit.h"
#include "vm/memory/heap.h"

namespace rvm::vm {
namespace {

// Eight sizes per power of two, so a block is at most an eighth too large.
int64_t BlockBytes(int64_t bytes) {
  auto wanted = static_cast<uint64_t>(std::max<int64_t>(bytes, 256));
  int shift = std::bit_width(wanted - 1) - 4;
  uint64_t steps = (wanted + (uint64_t{1} << shift) - 1) >> shift;
  return static_cast<int64_t>(steps << shift);
}

}  // namespace

DeviceLane::DeviceLane(const LoadedCode& part, int64_t limit_bytes)
    : part_(part), limit_bytes_(limit_bytes), use_{.device = part.device->info().id} {}
DeviceLane::~DeviceLane() = default;

absl::StatusOr<device::Stream*> DeviceLane::stream() {
  if (stream_ == nullptr) {
    RVM_ASSIGN_OR_RETURN(stream_, part_.device->NewStream());
  }
  return stream_.get();
}

absl::StatusOr<std::unique_ptr<device::Block>> DeviceLane::TakeBlock(int64_t bytes) {
  auto out_of_memory = [&](absl::string_view why) {
    return absl::StrCat("out of memory on device ", use_.device, ": ",
                        bytes == Heap::kUncountable ? "more than 2^63" : absl::StrCat(bytes), " bytes were asked for, ",
                        use_.reserved_bytes, " bytes are in use; ", why);
  };
  std::string limit = absl::StrCat("the memory limit is ", BytesText(limit_bytes_));
  if (bytes > limit_bytes_) return LimitReached(Limit::kMemory, out_of_memory(limit));
  int64_t size = BlockBytes(bytes);
  if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
    std::unique_ptr<device::Block> block = std::move(found->second.back());
    found->second.pop_back();
    return block;
  }
  if (use_.reserved_bytes + size > limit_bytes_) DropFreeBlocks();
  if (use_.reserved_bytes + size > limit_bytes_) return LimitReached(Limit::kMemory, out_of_memory(limit));
  absl::StatusOr<std::unique_ptr<device::Block>> block = part_.device->Allocate(size);
  if (absl::IsResourceExhausted(block.status())) {
    DropFreeBlocks();
    block = part_.device->Allocate(size);
  }
  if (absl::IsResourceExhausted(block.status())) {
    return absl::ResourceExhaustedError(out_of_memory(block.status().message()));
  }
  RVM_RETURN_IF_ERROR(block.status());
  use_.reserved_bytes += size;
  use_.peak_bytes = std::max(use_.peak_bytes, use_.reserved_bytes);
  return block;
}

void DeviceLane::GiveBlock(std::unique_ptr<device::Block> block, int64_t bytes) {
  free_[BlockBytes(bytes)].push_back(std::move(block));
}

void DeviceLane::DropFreeBlocks() {
  for (auto& [size, blocks] : free_) use_.reserved_bytes -= size * static_cast<int64_t>(blocks.size());
  free_.clear();
}

absl::Status DeviceLane::Write(const device::Block& block, std::span<const std::byte> from) {
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, stream());
  ++use_.copies_in;
  return Noted(queue->CopyIn(block, from));
}

absl::Status DeviceLane::Read(const device::Block& block, std::span<std::byte> to) {
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, stream());
  ++use_.copies_out;
  return Noted(queue->CopyOut(to, block));
}

absl::Status DeviceLane::Launch(uint32_t function, std::span<const device::Argument> args, int64_t items) {
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, stream());
  ++use_.launches;
  return Noted(queue->Launch(*part_.code, function, args, items));
}

bool DeviceLane::EndWork() {
  bool succeeded = !has_failed_ && (stream_ == nullptr || stream_->Wait().ok());
  stream_.reset();
  has_failed_ = false;
  return succeeded;
}

}  // namespace rvm::vm
