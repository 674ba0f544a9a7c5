#include "tests/fuzz/checked_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"

namespace rvm::fuzz {
namespace {

// Queued work keeps it.
using Memory = std::shared_ptr<std::vector<std::byte>>;

struct CheckedBlock : device::Block {
  explicit CheckedBlock(int64_t bytes) : memory(std::make_shared<std::vector<std::byte>>(bytes)) {}
  Memory memory;
};

struct CheckedCode : device::Code {
  size_t num_functions = 0;
};

const Memory& MemoryOf(const device::Block& block) { return static_cast<const CheckedBlock&>(block).memory; }

class CheckedStream : public device::Stream {
 public:
  ~CheckedStream() override { CopyAll(); }

  absl::Status CopyIn(const device::Block& to, std::span<const std::byte> from) override {
    RVM_CHECK(!from.empty() && from.size() <= MemoryOf(to)->size(), "a copy does not fit its block");
    // Its elements are read when the copy is done.
    copies_.emplace_back(MemoryOf(to), from);
    return Queued();
  }

  absl::Status CopyOut(std::span<std::byte> to, const device::Block& from) override {
    CopyAll();
    RVM_CHECK(!to.empty() && to.size() <= MemoryOf(from)->size(), "a copy does not fit its block");
    std::copy_n(MemoryOf(from)->begin(), to.size(), to.begin());
    return absl::OkStatus();
  }

  absl::Status Launch(const device::Code& code, uint32_t function, std::span<const device::Argument> args,
                      int64_t items) override {
    RVM_CHECK(function < static_cast<const CheckedCode&>(code).num_functions, "a function is not there");
    RVM_CHECK(items > 0, "a launch has no work items");
    for (const device::Argument& arg : args) {
      if (arg.kind == device::Argument::Kind::kBlock && arg.block != nullptr) touched_ += MemoryOf(*arg.block)->size();
    }
    return Queued();
  }

  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds) override {
    CopyAll();
    return true;
  }

  absl::StatusOr<std::vector<device::WorkTime>> TakeTimes() override { return std::vector<device::WorkTime>(); }

 private:
  absl::Status Queued() {
    RVM_CHECK(++num_queued_ <= 256, "the queue has no end");
    return absl::OkStatus();
  }
  void CopyAll() {
    for (auto& [to, from] : copies_) std::copy(from.begin(), from.end(), to->begin());
    copies_.clear();
    num_queued_ = 0;
  }

  std::vector<std::pair<Memory, std::span<const std::byte>>> copies_;
  int num_queued_ = 0;
  size_t touched_ = 0;  // so that arguments are read
};

class CheckedDevice : public device::Device {
 public:
  explicit CheckedDevice(device::DeviceInfo info) : info_(std::move(info)) {}
  const device::DeviceInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<device::Block>> Allocate(int64_t bytes) override {
    RVM_CHECK(bytes > 0, "a block has no bytes");
    if (bytes > info_.memory_bytes) return absl::ResourceExhaustedError("there is not so much memory");
    return std::make_unique<CheckedBlock>(bytes);
  }
  absl::StatusOr<std::unique_ptr<device::Code>> Load(std::span<const uint8_t> bytes,
                                                     std::span<const std::string> functions) override {
    if (!bytes.empty() && bytes[0] == 0) return absl::InvalidArgumentError("the code begins with a 0");
    auto code = std::make_unique<CheckedCode>();
    code->num_functions = functions.size();
    return code;
  }
  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(bool) override { return std::make_unique<CheckedStream>(); }

 private:
  device::DeviceInfo info_;
};

}  // namespace

std::shared_ptr<device::Device> MakeCheckedDevice(device::DeviceInfo info) {
  return std::make_shared<CheckedDevice>(std::move(info));
}

}  // namespace rvm::fuzz
