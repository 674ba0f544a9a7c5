#include "vm/interpreter/device_lane.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "vm/device/block_bytes.h"
#include "vm/limits/limit.h"
#include "vm/memory/heap.h"

namespace rvm::vm {
namespace {

using device::BlockBytes;

constexpr std::chrono::milliseconds kSlice(10);    // between two looks at whether the run must stop
constexpr int64_t kStaged = int64_t{1} << 20;      // bytes; bigger copies wait
constexpr int64_t kMaxStaged = int64_t{64} << 20;  // of all copies that are queued

void AddTo(device::GraphUse& sum, device::GraphUse use) {
  sum.graphs += use.graphs;
  sum.launches += use.launches;
  sum.products += use.products;
}

}  // namespace

DeviceLane::DeviceLane(const LoadedCode& part, size_t number, int64_t limit_bytes, const RunControl& control,
                       Profiler* profiler)
    : part_(part),
      number_(number),
      limit_bytes_(limit_bytes),
      control_(control),
      profiler_(profiler),
      use_{.device = part.device->info().id, .code = std::string(part.code->origin())} {}
DeviceLane::~DeviceLane() { DropStream(); }

absl::StatusOr<std::unique_ptr<device::Block>> DeviceLane::TakeBlock(int64_t bytes) {
  auto out_of_memory = [&](absl::string_view why) {
    return absl::StrCat("out of memory on device ", use_.device, ": ",
                        bytes == Heap::kUncountable ? "more than 2^63" : absl::StrCat(bytes), " bytes were asked for, ",
                        use_.reserved_bytes, " bytes are in use; ", why);
  };
  auto limit = [&] { return absl::StrCat("the memory limit is ", BytesText(limit_bytes_)); };
  if (bytes > limit_bytes_) return LimitReached(Limit::kMemory, out_of_memory(limit()));
  int64_t size = BlockBytes(bytes);
  if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
    std::unique_ptr<device::Block> block = std::move(found->second.back());
    found->second.pop_back();
    return block;
  }
  if (use_.reserved_bytes + size > limit_bytes_) RVM_RETURN_IF_ERROR(DropFreeBlocks());
  if (use_.reserved_bytes + size > limit_bytes_) return LimitReached(Limit::kMemory, out_of_memory(limit()));
  absl::StatusOr<std::unique_ptr<device::Block>> block = part_.device->Allocate(size);
  if (absl::IsResourceExhausted(block.status())) {
    RVM_RETURN_IF_ERROR(DropFreeBlocks());
    block = part_.device->Allocate(size);
  }
  if (absl::IsResourceExhausted(block.status())) {
    return absl::ResourceExhaustedError(out_of_memory(block.status().message()));
  }
  if (!block.ok()) return DeviceFailure(block.status());
  use_.reserved_bytes += size;
  use_.peak_bytes = std::max(use_.peak_bytes, use_.reserved_bytes);
  return block;
}

void DeviceLane::GiveBlock(std::unique_ptr<device::Block> block, int64_t bytes) {
  free_[BlockBytes(bytes)].push_back(std::move(block));
}

absl::Status DeviceLane::DropFreeBlocks() {
  RVM_RETURN_IF_ERROR(Submit());  // only work that was submitted may outlive the memory that it uses
  for (auto& [size, blocks] : free_) use_.reserved_bytes -= size * static_cast<int64_t>(blocks.size());
  free_.clear();
  return absl::OkStatus();
}

absl::Status DeviceLane::Submit() {
  if (stream_ == nullptr || has_failed_) return absl::OkStatus();
  return Noted(stream_->Submit());
}

bool DeviceLane::EndRun() {
  Submit().IgnoreError();  // noted
  for (auto& [size, blocks] : free_) std::sort(blocks.begin(), blocks.end());
  if (!has_failed_) return true;
  DropStream();
  return false;
}

void DeviceLane::Trim() {
  DropStream();
  DropFreeBlocks().IgnoreError();  // there is no stream
}

device::DeviceUse DeviceLane::use() const {
  device::DeviceUse use = use_;
  if (stream_ != nullptr) AddTo(use.graphs, stream_->graph_use());
  if (stream_ != nullptr && use.library.empty()) use.library = stream_->library();
  return use;
}

absl::StatusOr<device::Stream*> DeviceLane::Room() {
  if (num_queued_ >= kMaxQueued) RVM_RETURN_IF_ERROR(Wait());
  if (stream_ == nullptr) {
    absl::StatusOr<std::unique_ptr<device::Stream>> made =
        part_.device->NewStream(/*keeps_times=*/profiler_ != nullptr);
    if (!made.ok()) return DeviceFailure(made.status());
    stream_ = *std::move(made);
  }
  return stream_.get();
}

void DeviceLane::NoteQueued(DeviceWork::Kind kind, int64_t bytes) {
  ++num_queued_;
  if (profiler_ != nullptr) watched_.push_back(profiler_->WorkOfNow(kind, bytes));
}

absl::Status DeviceLane::Write(const device::Block& block, std::span<const std::byte> from) {
  auto bytes = static_cast<int64_t>(from.size());
  ++use_.copies_in;
  if (bytes == 0) return absl::OkStatus();
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, Room());
  auto copy = [&] {
    RVM_RETURN_IF_ERROR(Noted(queue->CopyIn(block, from)));
    NoteQueued(DeviceWork::kCopyIn, bytes);
    return absl::OkStatus();
  };
  if (bytes > kStaged) {
    return Wait([&] {
      RVM_RETURN_IF_ERROR(copy());
      // Even if the run must stop: the device reads the memory until the copy is done.
      return Noted(queue->WaitFor(device::Stream::kForever)).status();
    });
  }
  if (staged_bytes_ + bytes > kMaxStaged) RVM_RETURN_IF_ERROR(Wait());
  staged_bytes_ += bytes;
  from = staged_.emplace_back(from.begin(), from.end());
  return copy();
}

absl::Status DeviceLane::Read(const device::Block& block, std::span<std::byte> to) {
  ++use_.copies_out;
  if (to.empty()) return absl::OkStatus();
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, Room());
  RVM_ASSIGN_OR_RETURN(const std::byte* staged, Noted(queue->StageOut(block, to.size())));
  if (staged != nullptr) {
    NoteQueued(DeviceWork::kCopyOut, static_cast<int64_t>(to.size()));
    return Wait([&] {
      std::copy_n(staged, to.size(), to.begin());
      return absl::OkStatus();
    });
  }
  return Wait([&] {
    RVM_RETURN_IF_ERROR(Noted(queue->CopyOut(to, block)));
    NoteQueued(DeviceWork::kCopyOut, static_cast<int64_t>(to.size()));
    return absl::OkStatus();
  });
}

absl::Status DeviceLane::Launch(uint32_t function, std::span<const device::Argument> args, int64_t items) {
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, Room());
  ++use_.launches;
  RVM_RETURN_IF_ERROR(Noted(queue->Launch(*part_.code, function, args, items)));
  NoteQueued(DeviceWork::kLaunch, 0);
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceLane::Multiply(const device::Product& product, int64_t workspace_bytes) {
  RVM_ASSIGN_OR_RETURN(device::Stream * queue, Room());
  if (!queue->HasProducts()) return false;
  absl::StatusOr<std::unique_ptr<device::Block>> workspace = TakeBlock(workspace_bytes);
  if (absl::IsResourceExhausted(workspace.status()) && workspace_bytes > device::kMinWorkspaceBytes) {
    workspace_bytes = device::kMinWorkspaceBytes;
    workspace = TakeBlock(workspace_bytes);
  }
  if (!workspace.ok() && !absl::IsResourceExhausted(workspace.status())) return workspace.status();
  absl::StatusOr<bool> is_queued = queue->Multiply(product, workspace.ok() ? workspace->get() : nullptr);
  if (workspace.ok()) GiveBlock(*std::move(workspace), workspace_bytes);
  RVM_RETURN_IF_ERROR(Noted(is_queued.status()));
  if (*is_queued) {
    ++use_.products;
    NoteQueued(DeviceWork::kLaunch, 0);
  }
  return *is_queued;
}

template <typename F>
absl::Status DeviceLane::Wait(F step) {
  if (profiler_ != nullptr) profiler_->BeginWait();
  absl::Status status = AwaitWork();
  if (status.ok()) status = step();
  if (status.ok()) {
    num_queued_ = 0;
    staged_.clear();
    staged_bytes_ = 0;
  }
  if (profiler_ == nullptr) return status;
  Profiler::Ticks ended = Profiler::Now();
  std::vector<device::WorkTime> times;
  if (status.ok() && !watched_.empty()) {
    absl::StatusOr<std::vector<device::WorkTime>> taken = stream_->TakeTimes();
    status = Noted(taken.status());
    if (taken.ok()) times = *std::move(taken);
  }
  for (const device::WorkTime& time : times) {
    RVM_CHECK(!watched_.empty(), "a stream has more times than work");
    profiler_->CountWork(number_, watched_.front(), time.begin_ns, time.end_ns, times.back().end_ns);
    watched_.pop_front();
  }
  profiler_->EndWait(number_, ended);
  return status;
}

// The error of a run that must stop leaves the work to the stream.
absl::Status DeviceLane::AwaitWork() {
  while (num_queued_ > 0) {
    RVM_ASSIGN_OR_RETURN(bool is_done, Noted(stream_->WaitFor(kSlice)));
    if (is_done) break;
    RVM_RETURN_IF_ERROR(control_.Poll());
  }
  return absl::OkStatus();
}

bool DeviceLane::EndWork() {
  if (!has_failed_) Wait().IgnoreError();
  if (!has_failed_) return true;
  DropStream();
  return false;
}

void DeviceLane::DropStream() {
  use_ = use();
  stream_.reset();
  has_failed_ = false;
  num_queued_ = 0;
  staged_.clear();
  staged_bytes_ = 0;
  watched_.clear();
}

}  // namespace rvm::vm
