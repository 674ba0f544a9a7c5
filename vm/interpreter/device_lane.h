// DeviceLane: one device as one machine uses it: its stream, and the memory that the machine took.
#ifndef RVM_VM_INTERPRETER_DEVICE_LANE_H_
#define RVM_VM_INTERPRETER_DEVICE_LANE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/device_program.h"

namespace rvm::vm {

class DeviceLane {
 public:
  // `limit_bytes`: of the device's memory. `part` outlives this.
  DeviceLane(const LoadedCode& part, int64_t limit_bytes);
  ~DeviceLane();

  // Memory for the time until GiveBlock, which may come before the work that uses it is done.
  absl::StatusOr<std::unique_ptr<device::Block>> TakeBlock(int64_t bytes);
  void GiveBlock(std::unique_ptr<device::Block> block, int64_t bytes);
  // Queues a copy to the block.
  absl::Status Write(const device::Block& block, std::span<const std::byte> from);
  // Waits for the block, and reads it.
  absl::Status Read(const device::Block& block, std::span<std::byte> to);
  // Queues function `function` of the code.
  absl::Status Launch(uint32_t function, std::span<const device::Argument> args, int64_t items);

  // Waits for all work. False if any of it failed: what is on the device may be wrong.
  bool EndWork();
  // Gives memory that is not in use back to the device.
  void DropFreeBlocks();

  const device::DeviceUse& use() const { return use_; }

 private:
  absl::StatusOr<device::Stream*> stream();
  // Notes an error of the stream.
  absl::Status Noted(absl::Status status) {
    has_failed_ |= !status.ok();
    return status;
  }

  const LoadedCode& part_;
  int64_t limit_bytes_;
  std::unique_ptr<device::Stream> stream_;
  bool has_failed_ = false;                                                         // work of the stream
  absl::flat_hash_map<int64_t, std::vector<std::unique_ptr<device::Block>>> free_;  // by size
  device::DeviceUse use_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_DEVICE_LANE_H_
