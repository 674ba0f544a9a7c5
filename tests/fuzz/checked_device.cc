#include "tests/fuzz/checked_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace rvm::fuzz {
namespace {

// Queued work keeps it.
struct Bytes {
  explicit Bytes(int64_t count) : all(static_cast<size_t>(count)) {}
  std::vector<std::byte> all;
  int launches = 0;  // that use it and were not submitted
};
using Memory = std::shared_ptr<Bytes>;

struct CheckedBlock : device::Block {
  explicit CheckedBlock(int64_t bytes) : memory(std::make_shared<Bytes>(bytes)) {}
  ~CheckedBlock() override { RVM_CHECK(memory->launches == 0, "a launch that was not submitted uses the block"); }
  Memory memory;
};

struct CheckedCode : device::Code {
  size_t num_functions = 0;
};

const Memory& MemoryOf(const device::Block& block) { return static_cast<const CheckedBlock&>(block).memory; }

// Returns whether all elements lie in the block. Extents and strides may be any that fit their types.
bool IsWithin(const device::Matrix& matrix, int64_t batches, int64_t rows, int64_t columns) {
  RVM_CHECK(matrix.block != nullptr && matrix.offset >= 0, "a matrix has no memory");
  RVM_CHECK(std::min({matrix.batch_stride, matrix.row_stride, matrix.column_stride}) >= 0, "a stride is negative");
  auto bytes = static_cast<double>(matrix.offset);
  for (auto [stride, extent] : {std::pair(matrix.batch_stride, batches), std::pair(matrix.row_stride, rows),
                                std::pair(matrix.column_stride, columns)}) {
    RVM_CHECK(extent > 0, "a product has no elements");
    bytes += static_cast<double>(stride) * static_cast<double>(extent - 1) * static_cast<double>(matrix.dtype.bytes());
  }
  return bytes + static_cast<double>(matrix.dtype.bytes()) <= static_cast<double>(MemoryOf(*matrix.block)->all.size());
}

// Keeps launches back for as long as it may.
class CheckedStream : public device::Stream {
 public:
  ~CheckedStream() override {
    SubmitAll();
    CopyAll();
  }

  absl::Status CopyIn(const device::Block& to, std::span<const std::byte> from) override {
    SubmitAll();
    RVM_CHECK(!from.empty() && from.size() <= MemoryOf(to)->all.size(), "a copy does not fit its block");
    // Its elements are read when the copy is done.
    copies_.emplace_back(MemoryOf(to), from);
    return Queued();
  }

  absl::Status CopyOut(std::span<std::byte> to, const device::Block& from) override {
    SubmitAll();
    CopyAll();
    RVM_CHECK(!to.empty() && to.size() <= MemoryOf(from)->all.size(), "a copy does not fit its block");
    std::copy_n(MemoryOf(from)->all.begin(), to.size(), to.begin());
    return absl::OkStatus();
  }

  absl::Status Launch(const device::Code& code, uint32_t function, std::span<const device::Argument> args,
                      int64_t items) override {
    RVM_CHECK(function < static_cast<const CheckedCode&>(code).num_functions, "a function is not there");
    RVM_CHECK(items > 0, "a launch has no work items");
    for (const device::Argument& arg : args) {
      if (arg.kind != device::Argument::Kind::kBlock || arg.block == nullptr) continue;
      ++MemoryOf(*arg.block)->launches;
      kept_back_.push_back(MemoryOf(*arg.block));
    }
    return Queued();
  }

  bool HasProducts() override { return true; }

  absl::StatusOr<bool> Multiply(const device::Product& product, const device::Block* workspace) override {
    auto [batches, rows, columns, depth] = std::tuple(product.batches, product.rows, product.columns, product.depth);
    bool is_within = IsWithin(product.a, batches, rows, depth);
    is_within &= IsWithin(product.b, batches, depth, columns);
    is_within &= IsWithin(product.d, batches, rows, columns);
    for (const device::Matrix& addend : product.addends) is_within &= IsWithin(addend, batches, rows, columns);
    if (!is_within) return absl::InvalidArgumentError("a matrix does not lie in its block");
    RVM_CHECK(
        workspace == nullptr || MemoryOf(*workspace)->all.size() >= static_cast<size_t>(device::kMinWorkspaceBytes),
        "a workspace is too small");
    if (product.scale < 0) return false;
    SubmitAll();
    RVM_RETURN_IF_ERROR(Queued());
    return true;
  }

  absl::Status Submit() override {
    SubmitAll();
    return absl::OkStatus();
  }

  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds) override {
    SubmitAll();
    CopyAll();
    return true;
  }

  absl::StatusOr<std::vector<device::WorkTime>> TakeTimes() override { return std::vector<device::WorkTime>(); }

 private:
  absl::Status Queued() {
    RVM_CHECK(++num_queued_ <= 256, "the queue has no end");
    return absl::OkStatus();
  }
  void SubmitAll() {
    for (const Memory& memory : kept_back_) --memory->launches;
    kept_back_.clear();
  }
  void CopyAll() {
    for (auto& [to, from] : copies_) std::copy(from.begin(), from.end(), to->all.begin());
    copies_.clear();
    num_queued_ = 0;
  }

  std::vector<std::pair<Memory, std::span<const std::byte>>> copies_;
  std::vector<Memory> kept_back_;  // what launches use
  int num_queued_ = 0;
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
