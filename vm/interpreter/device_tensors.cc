#include "vm/interpreter/device_tensors.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "vm/limit.h"

namespace rvm::vm {

namespace {

// Eight sizes per power of two, so a block is at most an eighth too large.
int64_t BlockBytes(int64_t bytes) {
  auto wanted = static_cast<uint64_t>(std::max<int64_t>(bytes, 256));
  int shift = std::bit_width(wanted - 1) - 4;
  uint64_t steps = (wanted + (uint64_t{1} << shift) - 1) >> shift;
  return static_cast<int64_t>(steps << shift);
}

// The tensor that has the elements of a view.
Tensor* RootOf(Tensor* tensor) {
  while (tensor->storage == TensorStorage::kView) tensor = reinterpret_cast<Tensor*>(tensor->owner);
  return tensor;
}

}  // namespace

DeviceTensors::~DeviceTensors() = default;

absl::StatusOr<device::Stream*> DeviceTensors::stream() {
  if (stream_ == nullptr) {
    RVM_ASSIGN_OR_RETURN(stream_, program_.device->NewStream());
  }
  return stream_.get();
}

absl::StatusOr<std::unique_ptr<device::Block>> DeviceTensors::TakeBlock(int64_t bytes) {
  auto out_of_memory = [&](absl::string_view why) {
    return absl::StrCat("out of memory on device ", info().id, ": ",
                        bytes == Heap::kUncountable ? "more than 2^63" : absl::StrCat(bytes), " bytes were asked for, ",
                        stats_.reserved_bytes, " bytes are in use; ", why);
  };
  std::string limit = absl::StrCat("the memory limit is ", BytesText(limit_bytes_));
  if (bytes > limit_bytes_) return LimitReached(Limit::kMemory, out_of_memory(limit));
  int64_t size = BlockBytes(bytes);
  if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
    std::unique_ptr<device::Block> block = std::move(found->second.back());
    found->second.pop_back();
    return block;
  }
  if (stats_.reserved_bytes + size > limit_bytes_) DropFreeBlocks();
  if (stats_.reserved_bytes + size > limit_bytes_) return LimitReached(Limit::kMemory, out_of_memory(limit));
  absl::StatusOr<std::unique_ptr<device::Block>> block = program_.device->Allocate(size);
  if (absl::IsResourceExhausted(block.status())) {
    DropFreeBlocks();
    block = program_.device->Allocate(size);
  }
  if (absl::IsResourceExhausted(block.status())) {
    return absl::ResourceExhaustedError(out_of_memory(block.status().message()));
  }
  RVM_RETURN_IF_ERROR(block.status());
  stats_.reserved_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.reserved_bytes);
  return block;
}

void DeviceTensors::GiveBlock(std::unique_ptr<device::Block> block, int64_t bytes) {
  free_[BlockBytes(bytes)].push_back(std::move(block));
}

void DeviceTensors::DropFreeBlocks() {
  for (auto& [size, blocks] : free_) stats_.reserved_bytes -= size * static_cast<int64_t>(blocks.size());
  free_.clear();
}

DeviceTensors::Entry* DeviceTensors::NewEntry(Tensor* tensor, std::unique_ptr<device::Block> block, int64_t bytes) {
  std::list<Entry>& list = tensor->object.count >= kImmortal ? constants_ : entries_;
  Entry& entry =
      list.emplace_back(Entry{tensor, std::move(block), bytes, tensor->storage, tensor->block_bytes, nullptr, {}});
  entry.place = std::prev(list.end());
  tensor->storage = TensorStorage::kOnDevice;
  tensor->on_device = &entry;
  return &entry;
}

absl::Status DeviceTensors::MakeResult(Tensor* tensor, int64_t bytes) {
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<device::Block> block, TakeBlock(bytes));
  NewEntry(tensor, std::move(block), bytes);
  tensor->data = nullptr;
  return absl::OkStatus();
}

absl::StatusOr<const device::Block*> DeviceTensors::Fetch(Tensor* tensor) {
  tensor = RootOf(tensor);
  if (tensor->storage == TensorStorage::kOnDevice) return static_cast<Entry*>(tensor->on_device)->block.get();
  int64_t bytes = tensor->dtype.bytes();
  for (uint16_t axis = 0; axis < tensor->rank; ++axis) bytes *= tensor->dims[axis];
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<device::Block> block, TakeBlock(bytes));
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, stream());
  ++stats_.copies_in;
  RVM_RETURN_IF_ERROR(
      Noted(queue->CopyIn(*block, {static_cast<const std::byte*>(tensor->data), static_cast<size_t>(bytes)})));
  return NewEntry(tensor, std::move(block), bytes)->block.get();
}

absl::Status DeviceTensors::FetchToHost(Tensor* tensor) {
  Tensor* root = RootOf(tensor);
  if (root->data == nullptr) {
    auto* entry = static_cast<Entry*>(root->on_device);
    void* memory = entry->bytes > heap_.limit_bytes() ? heap_.Refuse(entry->bytes)
                                                      : heap_.TakeRaw(std::max<int64_t>(entry->bytes, 64));
    if (memory == nullptr) return heap_.OutOfMemory();
    entry->host_copy = memory;
    root->data = memory;
    RVM_RETURN_IF_ERROR(Read(*entry->block, {static_cast<std::byte*>(memory), static_cast<size_t>(entry->bytes)}));
  }
  tensor->data = root->data;
  return absl::OkStatus();
}

absl::Status DeviceTensors::Launch(uint32_t function, std::span<const device::Argument> args, int64_t items) {
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, stream());
  ++stats_.launches;
  return Noted(queue->Launch(*program_.code, function, args, items));
}

absl::Status DeviceTensors::Read(const device::Block& block, std::span<std::byte> to) {
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, stream());
  ++stats_.copies_out;
  return Noted(queue->CopyOut(to, block));
}

void DeviceTensors::Release(Tensor* tensor) {
  auto* entry = static_cast<Entry*>(tensor->on_device);
  if (entry->host_copy != nullptr) heap_.GiveRaw(entry->host_copy);
  Restore(*entry);
  GiveBlock(std::move(entry->block), entry->bytes);
  entries_.erase(entry->place);
}

void DeviceTensors::Reset() {
  // Copies of constants may still be queued.
  if (stream_ != nullptr && !has_failed_) has_failed_ = !stream_->Wait().ok();
  stream_.reset();
  for (Entry& entry : entries_) GiveBlock(std::move(entry.block), entry.bytes);
  entries_.clear();
  if (has_failed_) DropConstants();
  has_failed_ = false;
}

void DeviceTensors::DropConstants() {
  for (Entry& constant : constants_) {
    Restore(constant);
    GiveBlock(std::move(constant.block), constant.bytes);
  }
  constants_.clear();
}

void DeviceTensors::Trim() {
  DropConstants();
  DropFreeBlocks();
}

}  // namespace rvm::vm
