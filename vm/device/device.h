// The interface of the VM to a device, such as a GPU.
//
// The VM decides which kernels run where, cuts device memory up and counts it against its limit; a device gives memory,
// copies, and runs functions, in the order in which a stream was told. Drivers are opened when a program runs: nothing
// links them.
#ifndef RVM_VM_DEVICE_DEVICE_H_
#define RVM_VM_DEVICE_DEVICE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/device/product.h"

namespace rvm::device {

struct DeviceInfo {
  std::string id;            // "opencl:0": unique on this machine
  std::string name;          // for people
  std::string target;        // of the code that it takes: "opencl-c-1.2"
  std::string features;      // "+fp64": those that code may need
  int64_t memory_bytes = 0;  // in all
};

// A piece of device memory, which the host cannot access. It may be destroyed while work uses it that was submitted.
class Block {
 public:
  virtual ~Block() = default;
};

// Functions, ready to be launched. Immutable; any thread.
class Code {
 public:
  virtual ~Code() = default;
  // How the device came by it: "compiled", "from the cache", "shared" with other code; "" if it does not say.
  virtual std::string_view origin() const { return ""; }
};

// An argument of a function: memory (which may be no block at all, for memory that the function does not use), from its
// byte `number` on, or a number of 8 bytes. Only what executables call with an offset is behind the begin of a block.
struct Argument {
  enum class Kind : uint8_t { kBlock, kNumber };
  static Argument Of(const Block* block) { return {Kind::kBlock, block, 0}; }
  static Argument Of(uint64_t number) { return {Kind::kNumber, nullptr, number}; }

  Kind kind;
  const Block* block;
  uint64_t number;
};

// When the device did a piece of work: nanoseconds on a clock of the stream.
struct WorkTime {
  double begin_ns = 0;
  double end_ns = 0;
};

// Work that a stream submitted together, as graphs that it had kept.
struct GraphUse {
  int64_t graphs = 0;
  int64_t launches = 0;  // in them
  int64_t products = 0;  // in them
};

// Maximum number of work items of one launch of a grid. Functions stride over the rest.
inline constexpr int64_t kMaxItems = 1 << 22;

// Work, done in the order in which it was queued. One thread at a time. An error may belong to work that was queued
// before; after an error, a stream is only good to be destroyed. The caller bounds how much is queued. Code outlives
// the streams that it was launched on.
//
// A stream may keep launches back, to submit them together: until the next copy, wait, or Submit.
class Stream {
 public:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

  virtual ~Stream() = default;  // waits for what was submitted, and drops the rest
  // Queues a copy; `from`, which is not empty, stays unchanged until the copy is done.
  virtual absl::Status CopyIn(const Block& to, std::span<const std::byte> from) = 0;
  // Waits for all work queued so far, and copies. `to` is not empty.
  virtual absl::Status CopyOut(std::span<std::byte> to, const Block& from) = 0;
  // Queues a copy to memory of the stream, and returns that memory; nullptr if this copy must be one of CopyOut. The
  // bytes are there when all work is done, until the next copy.
  virtual absl::StatusOr<const std::byte*> StageOut(const Block& /*from*/, size_t /*bytes*/) { return nullptr; }
  // Enqueues function number `function` of `code`. `items`: as many as the launch of the kernel has, or fewer, as
  // functions stride over the grid. REQUIRES: items > 0.
  virtual absl::Status Launch(const Code& code, uint32_t function, std::span<const Argument> args, int64_t items) = 0;
  // Returns whether there is a GEMM library. The first call may open it.
  virtual bool HasProducts() { return false; }
  // The name and version of the library for products, or why there is none. "" before the first HasProducts().
  virtual std::string library() const { return ""; }
  // Queues a product, which the library computes; false if it does not compute such products, and nothing is queued.
  // `workspace`: memory that the library may use, or null. kInvalidArgument if a matrix does not lie in its block.
  // REQUIRES: HasProducts().
  virtual absl::StatusOr<bool> Multiply(const Product& /*product*/, const Block* /*workspace*/) { return false; }
  // Submits all queued work. Call before long host work, so that the device does not idle.
  virtual absl::Status Submit() { return absl::OkStatus(); }
  // Waits until all work is done, but not much longer than `time`; gives whether it is done.
  virtual absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds time) = 0;
  // Returns the times of the copies and launches that were queued since the last call, in order, for a stream that
  // keeps times. REQUIRES: all work is done.
  virtual absl::StatusOr<std::vector<WorkTime>> TakeTimes() = 0;
  virtual GraphUse graph_use() const { return {}; }
};

// Any thread. Outlives what it made.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // The name and version of the library for products, which the call opens, or why there is none; "" for devices that
  // use no library.
  virtual std::string FindLibrary() const { return ""; }
  // REQUIRES: bytes > 0. kResourceExhausted if there is no room.
  virtual absl::StatusOr<std::unique_ptr<Block>> Allocate(int64_t bytes) = 0;
  // `functions`: the names of functions of the code, by number. The code runs with the rights of this process: the
  // caller decides whether to trust it. kInvalidArgument for code that the device's compiler refuses.
  virtual absl::StatusOr<std::unique_ptr<Code>> Load(std::span<const uint8_t> code,
                                                     std::span<const std::string> functions) = 0;
  // `keeps_times`: for TakeTimes; each piece of work then costs somewhat more.
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream(bool keeps_times) = 0;
};

// Counts of a machine's use of a device since the machine was made.
struct DeviceUse {
  std::string device;          // its id
  std::string code;            // the origin of its code
  int64_t launches = 0;        // of functions; a kernel has one or more
  int64_t products = 0;        // by the device's library, in place of launches
  std::string library;         // Stream::library(); "" if no product was large enough to ask for it
  GraphUse graphs;             // how much of both went to the device together
  int64_t copies_in = 0;       // of tensors, from the host
  int64_t copies_out = 0;      // to the host, which waited for each
  int64_t reserved_bytes = 0;  // taken now
  int64_t peak_bytes = 0;      // reserved
};

// All devices of this machine, and why there are no others: one line for each kind that is missing.
struct DeviceList {
  std::vector<std::shared_ptr<Device>> devices;
  std::vector<std::string> missing;
};
DeviceList FindDevices();

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_DEVICE_H_
