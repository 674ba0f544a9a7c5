// DeviceTensors: the tensors of one machine that are on its devices.
//
// A kernel's result stays on the device that computed it. The first time that the host reads such a tensor, its
// elements are copied; likewise, a tensor of the host is copied when a kernel on a device first reads it. From device
// to device, tensors go by way of the host. All copies stay, so no tensor is copied twice to one place. A tensor that
// is on a device has the storage kOnDevice; its `data` is null until the host has a copy.
#ifndef RVM_VM_INTERPRETER_DEVICE_TENSORS_H_
#define RVM_VM_INTERPRETER_DEVICE_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/interpreter/device_lane.h"
#include "vm/link/device_program.h"
#include "vm/memory/heap.h"

namespace rvm::vm {

class DeviceTensors : public DeviceMemoryOwner {
 public:
  // `limit_bytes`: of the memory of each device. All outlive this; `heap` and `control` need not be constructed yet.
  // `profiler` may be null.
  DeviceTensors(const DeviceProgram& program, Heap& heap, int64_t limit_bytes, const RunControl& control,
                Profiler* profiler);
  ~DeviceTensors() override;

  // Returns the devices, as DeviceProgram has them.
  size_t num_lanes() const { return lanes_.size(); }
  DeviceLane& lane(size_t number) { return *lanes_[number]; }

  // Makes `tensor`, whose header has no elements, one of `bytes` bytes on a device, and gives its memory.
  absl::StatusOr<const device::Block*> MakeResult(Tensor* tensor, int64_t bytes, size_t lane);
  // Returns a device's copy of a tensor.
  absl::StatusOr<const device::Block*> Fetch(Tensor* tensor, size_t lane);
  // Makes a copy for the host: tensor->data is not null then.
  absl::Status FetchToHost(Tensor* tensor);

  // The heap frees the tensor: its device memory is free, and it has the storage of its part on the host again.
  void Release(Tensor* tensor) override;
  // Submits all queued work to the devices.
  absl::Status Submit();
  // Waits for all work that is queued, unless the run must stop.
  void EndWork();
  // After a run, once its tensors are gone.
  void EndRun();
  // The heap was reset: all tensors are gone, except constants. Work under way ends.
  void Reset();
  // After Reset: gives all memory back to the devices.
  void Trim();

 private:
  // A tensor on a device, or several.
  struct Entry {
    Tensor* tensor;
    std::vector<std::unique_ptr<device::Block>> blocks;  // by lane; null: no copy there
    int64_t bytes;                                       // of the elements
    // Previous contents of the tensor's header.
    TensorStorage storage;
    int64_t block_bytes;
    void* host_copy;  // raw memory of the heap; null: the elements are the tensor's own, or not on the host
    std::list<Entry>::iterator place;
  };

  Entry* NewEntry(Tensor* tensor, int64_t bytes);
  // Gives the header the storage that it had.
  static void Restore(const Entry& entry) {
    entry.tensor->storage = entry.storage;
    entry.tensor->block_bytes = entry.block_bytes;
  }
  void GiveBlocks(Entry& entry);
  void DropConstants();

  Heap& heap_;
  std::vector<std::unique_ptr<DeviceLane>> lanes_;
  std::list<Entry> entries_;    // of tensors that the heap frees
  std::list<Entry> constants_;  // of immortal tensors
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_DEVICE_TENSORS_H_
