// DeviceLane: one device as one machine uses it: its stream, and the memory that the machine took.
//
// Work is queued and runs later; the host waits when it reads, and when kMaxQueued pieces of work are queued, so that a
// program that never reads takes no more memory. A wait ends early if the run must stop. What such a run queued stays
// in the stream, ahead of the work of the next run.
#ifndef RVM_VM_INTERPRETER_DEVICE_LANE_H_
#define RVM_VM_INTERPRETER_DEVICE_LANE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/interpreter/run_control.h"
#include "vm/limits/limit.h"
#include "vm/link/device_program.h"
#include "vm/profiler/profiler.h"

namespace rvm::vm {

class DeviceLane {
 public:
  static constexpr size_t kMaxQueued = 256;  // launches and copies

  // Device `number` of a program. `limit_bytes`: of its memory. All references outlive this; `control` need not be
  // constructed yet. `profiler` may be null.
  DeviceLane(const LoadedCode& part, size_t number, int64_t limit_bytes, const RunControl& control, Profiler* profiler);
  ~DeviceLane();

  // Memory for the time until GiveBlock, which may come before the work that uses it is done.
  absl::StatusOr<std::unique_ptr<device::Block>> TakeBlock(int64_t bytes);
  void GiveBlock(std::unique_ptr<device::Block> block, int64_t bytes);
  // Queues a copy to the block. `from` may change when the call returns.
  absl::Status Write(const device::Block& block, std::span<const std::byte> from);
  // Waits for the block, and reads it.
  absl::Status Read(const device::Block& block, std::span<std::byte> to);
  // Queues function `function` of the code.
  absl::Status Launch(uint32_t function, std::span<const device::Argument> args, int64_t items);

  // Queues a product for the device's library, which may use so much memory meanwhile, or less; false, and nothing is
  // queued, if there is none that computes it.
  absl::StatusOr<bool> Multiply(const device::Product& product, int64_t workspace_bytes);

  // Waits for all work, unless the run must stop. False if any of it failed: what is on the device may be wrong.
  bool EndWork();
  // Submits all queued work to the device.
  absl::Status Submit();
  // Submits all work, and puts the free blocks in an order, so that the same calls on the same free blocks take the
  // same ones in the next run: a device may keep what it launches. False if work failed, as for EndWork.
  bool EndRun();
  // Gives everything back.
  void Trim();

  device::DeviceUse use() const;

 private:
  // Gives memory that is not in use back to the device.
  absl::Status DropFreeBlocks();
  // Returns the stream for Write and Launch; it has room for one more piece of work.
  absl::StatusOr<device::Stream*> Room();
  // Records the work that was queued last, of `bytes` bytes.
  void NoteQueued(DeviceWork::Kind kind, int64_t bytes);
  absl::Status Wait() {
    return num_queued_ == 0 ? absl::OkStatus() : Wait([] { return absl::OkStatus(); });
  }
  // Waits for all work, and then does `step`, as a part of the wait.
  template <typename F>
  absl::Status Wait(F step);
  absl::Status AwaitWork();
  void DropStream();
  // Notes an error of the stream, and marks it as one of the device.
  absl::Status Noted(absl::Status status) {
    if (status.ok()) return status;
    has_failed_ = true;
    return DeviceFailure(std::move(status));
  }
  template <typename T>
  absl::StatusOr<T> Noted(absl::StatusOr<T> result) {
    if (!result.ok()) return Noted(result.status());
    return result;
  }

  const LoadedCode& part_;
  size_t number_;
  int64_t limit_bytes_;
  const RunControl& control_;
  Profiler* profiler_;
  std::unique_ptr<device::Stream> stream_;  // null: not yet
  bool has_failed_ = false;                 // work of the stream
  size_t num_queued_ = 0;
  std::vector<std::vector<std::byte>> staged_;  // sources of copies that are queued
  int64_t staged_bytes_ = 0;
  std::deque<DeviceWork> watched_;  // what is queued, in order; empty without a profiler
  absl::flat_hash_map<int64_t, std::vector<std::unique_ptr<device::Block>>> free_;  // by size
  device::DeviceUse use_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_DEVICE_LANE_H_
