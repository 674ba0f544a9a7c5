// DeviceTensors: the tensors of one machine that are on its device, and the device memory that they take.
//
// A kernel's result stays on the device that computed it. The first time that the host reads such a tensor, its
// elements are copied; likewise, a tensor of the host is copied when a kernel on the device first reads it. Both copies
// stay, so no tensor is copied twice. A tensor that is on the device has the storage kOnDevice; its `data` is null
// until the host has a copy.
#ifndef RVM_VM_INTERPRETER_DEVICE_TENSORS_H_
#define RVM_VM_INTERPRETER_DEVICE_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/device_program.h"
#include "vm/memory/heap.h"

namespace rvm::vm {

struct DeviceStats {
  int64_t launches = 0;    // of functions
  int64_t copies_in = 0;   // tensors
  int64_t copies_out = 0;  // the host waited for each
  int64_t reserved_bytes = 0;
  int64_t peak_bytes = 0;  // reserved
};

class DeviceTensors : public DeviceMemoryOwner {
 public:
  // `limit_bytes`: of device memory. All outlive this; `heap` need not be constructed yet.
  DeviceTensors(const DeviceProgram& program, Heap& heap, int64_t limit_bytes)
      : program_(program), heap_(heap), limit_bytes_(limit_bytes) {}
  ~DeviceTensors() override;

  // Makes `tensor`, whose header has no elements, one of `bytes` bytes on the device.
  absl::Status MakeResult(Tensor* tensor, int64_t bytes);
  // The device's copy of a tensor.
  absl::StatusOr<const device::Block*> Fetch(Tensor* tensor);
  // Makes a copy for the host: tensor->data is not null then.
  absl::Status FetchToHost(Tensor* tensor);

  // Memory for the time until GiveBlock, which may come before the work that uses it is done.
  absl::StatusOr<std::unique_ptr<device::Block>> TakeBlock(int64_t bytes);
  void GiveBlock(std::unique_ptr<device::Block> block, int64_t bytes);
  // Queues function `function` of the program's code.
  absl::Status Launch(uint32_t function, std::span<const device::Argument> args, int64_t items);
  // Waits for the block, and reads it.
  absl::Status Read(const device::Block& block, std::span<std::byte> to);

  // The heap frees the tensor: its device memory is free, and it has the storage of its part on the host again.
  void Release(Tensor* tensor) override;
  // The heap was reset: all tensors are gone, except constants. Work under way ends.
  void Reset();
  // After Reset: gives all memory back to the device.
  void Trim();

  const DeviceStats& stats() const { return stats_; }
  const device::DeviceInfo& info() const { return program_.device->info(); }

 private:
  // A tensor on the device.
  struct Entry {
    Tensor* tensor;
    std::unique_ptr<device::Block> block;
    int64_t bytes;  // of the elements
    // What the tensor's header was before.
    TensorStorage storage;
    int64_t block_bytes;
    void* host_copy;  // raw memory of the heap; null: the elements are the tensor's own, or not on the host
    std::list<Entry>::iterator place;
  };

  absl::StatusOr<device::Stream*> stream();
  // Notes an error of the stream.
  absl::Status Noted(absl::Status status) {
    has_failed_ |= !status.ok();
    return status;
  }
  Entry* NewEntry(Tensor* tensor, std::unique_ptr<device::Block> block, int64_t bytes);
  // Gives the header the storage that it had.
  static void Restore(const Entry& entry) {
    entry.tensor->storage = entry.storage;
    entry.tensor->block_bytes = entry.block_bytes;
  }
  void DropConstants();
  void DropFreeBlocks();

  const DeviceProgram& program_;
  Heap& heap_;
  int64_t limit_bytes_;
  std::unique_ptr<device::Stream> stream_;
  bool has_failed_ = false;     // work of the stream: what is on the device may be wrong
  std::list<Entry> entries_;    // of tensors that the heap frees
  std::list<Entry> constants_;  // of immortal tensors
  absl::flat_hash_map<int64_t, std::vector<std::unique_ptr<device::Block>>> free_;  // by size
  DeviceStats stats_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_DEVICE_TENSORS_H_
