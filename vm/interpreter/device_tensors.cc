#include "vm/interpreter/device_tensors.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/status_macros.h"

namespace rvm::vm {

DeviceTensors::DeviceTensors(const DeviceProgram& program, Heap& heap, int64_t limit_bytes, const RunControl& control,
                             Profiler* profiler)
    : heap_(heap) {
  for (const LoadedCode& part : program.parts) {
    lanes_.push_back(std::make_unique<DeviceLane>(part, lanes_.size(), limit_bytes, control, profiler));
  }
}
DeviceTensors::~DeviceTensors() = default;

DeviceTensors::Entry* DeviceTensors::NewEntry(Tensor* tensor, int64_t bytes) {
  std::list<Entry>& list = tensor->object.count >= kImmortal ? constants_ : entries_;
  Entry& entry = list.emplace_back(Entry{tensor, {}, bytes, tensor->storage, tensor->block_bytes, nullptr, {}});
  entry.blocks.resize(lanes_.size());
  entry.place = std::prev(list.end());
  tensor->storage = TensorStorage::kOnDevice;
  tensor->on_device = &entry;
  return &entry;
}

absl::StatusOr<const device::Block*> DeviceTensors::MakeResult(Tensor* tensor, int64_t bytes, size_t lane) {
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<device::Block> block, lanes_[lane]->TakeBlock(bytes));
  Entry* entry = NewEntry(tensor, bytes);
  tensor->data = nullptr;
  entry->blocks[lane] = std::move(block);
  return entry->blocks[lane].get();
}

absl::StatusOr<const device::Block*> DeviceTensors::Fetch(Tensor* tensor, size_t lane) {
  tensor = RootOf(tensor);
  Entry* entry = tensor->storage == TensorStorage::kOnDevice ? static_cast<Entry*>(tensor->on_device) : nullptr;
  if (entry != nullptr) {
    if (entry->blocks[lane] != nullptr) return entry->blocks[lane].get();
    RVM_RETURN_IF_ERROR(FetchToHost(tensor));
  }
  int64_t bytes = tensor->dtype.bytes();
  for (uint16_t axis = 0; axis < tensor->rank; ++axis) bytes *= tensor->dims[axis];
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<device::Block> block, lanes_[lane]->TakeBlock(bytes));
  absl::Status status =
      lanes_[lane]->Write(*block, {static_cast<const std::byte*>(tensor->data), static_cast<size_t>(bytes)});
  if (!status.ok()) {
    lanes_[lane]->GiveBlock(std::move(block), bytes);
    return status;
  }
  if (entry == nullptr) entry = NewEntry(tensor, bytes);
  entry->blocks[lane] = std::move(block);
  return entry->blocks[lane].get();
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
    size_t lane = 0;  // of the device that made it, since no other has a copy before the host
    while (entry->blocks[lane] == nullptr) ++lane;
    RVM_RETURN_IF_ERROR(
        lanes_[lane]->Read(*entry->blocks[lane], {static_cast<std::byte*>(memory), static_cast<size_t>(entry->bytes)}));
  }
  tensor->data = root->data;
  return absl::OkStatus();
}

void DeviceTensors::GiveBlocks(Entry& entry) {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (entry.blocks[lane] != nullptr) lanes_[lane]->GiveBlock(std::move(entry.blocks[lane]), entry.bytes);
  }
}

void DeviceTensors::Release(Tensor* tensor) {
  auto* entry = static_cast<Entry*>(tensor->on_device);
  if (entry->host_copy != nullptr) heap_.GiveRaw(entry->host_copy);
  Restore(*entry);
  GiveBlocks(*entry);
  entries_.erase(entry->place);
}

void DeviceTensors::EndWork() {
  bool succeeded = true;
  for (std::unique_ptr<DeviceLane>& lane : lanes_) succeeded &= lane->EndWork();
  if (!succeeded) DropConstants();
}

absl::Status DeviceTensors::Submit() {
  for (std::unique_ptr<DeviceLane>& lane : lanes_) RVM_RETURN_IF_ERROR(lane->Submit());
  return absl::OkStatus();
}

void DeviceTensors::EndRun() {
  bool succeeded = true;
  for (std::unique_ptr<DeviceLane>& lane : lanes_) succeeded &= lane->EndRun();
  if (!succeeded) DropConstants();
}

void DeviceTensors::Reset() {
  // Copies of constants may still be queued.
  EndWork();
  for (Entry& entry : entries_) GiveBlocks(entry);
  entries_.clear();
}

void DeviceTensors::DropConstants() {
  for (Entry& constant : constants_) {
    Restore(constant);
    GiveBlocks(constant);
  }
  constants_.clear();
}

void DeviceTensors::Trim() {
  DropConstants();
  for (std::unique_ptr<DeviceLane>& lane : lanes_) lane->Trim();
}

}  // namespace rvm::vm
