#include "vm/device/cuda_stream.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "vm/device/cuda_graphs.h"
#include "vm/device/cuda_products.h"
#include "vm/device/poll.h"

namespace rvm::device::cuda {
namespace {

// Results of at most so many bytes are copied to pinned memory: such a copy is queued behind the work and takes one
// wait, and one to other memory a wait of its own.
constexpr size_t kStagingBytes = 64 << 10;
// The part of a wait that spins. A sleep lasts tens of microseconds longer than asked for, a tenth of a short run and
// more.
constexpr std::chrono::milliseconds kBusyWait(2);

bool UsesGraphs() {
  const char* wanted = ::secure_getenv("RELAYVM_CUDA_GRAPHS");
  return wanted == nullptr || std::string_view(wanted) != "off";
}

class CudaStream : public device::Stream {
 public:
  CudaStream(std::shared_ptr<const Core> core, cuda::Stream stream, bool keeps_times)
      : core_(std::move(core)),
        stream_(stream),
        keeps_times_(keeps_times),
        products_(std::make_unique<LibraryProducts>(*core_, stream)) {
    if (!keeps_times && UsesGraphs()) graphs_ = std::make_unique<LaunchGraphs>(*core_, stream, products_.get());
  }
  ~CudaStream() override {
    Entered entered(*core_);
    core_->cu->StreamSynchronize(stream_);
    graphs_.reset();
    products_.reset();
    for (Event event : events_) core_->cu->EventDestroy(event);
    if (staging_ != nullptr) core_->cu->MemFreeHost(staging_);
    core_->cu->StreamDestroy(stream_);
  }

  absl::Status CopyIn(const Block& to, std::span<const std::byte> from) override {
    Entered entered(*core_);
    RVM_RETURN_IF_ERROR(EndBatch());
    RVM_RETURN_IF_ERROR(RecordEvent());
    RVM_RETURN_IF_ERROR(
        core_->Check(core_->cu->MemcpyHtoDAsync(AddressOf(to), from.data(), from.size(), stream_), "MemcpyHtoDAsync"));
    return RecordEvent();
  }

  absl::Status CopyOut(std::span<std::byte> to, const Block& from) override {
    Entered entered(*core_);
    RVM_RETURN_IF_ERROR(EndBatch());
    RVM_RETURN_IF_ERROR(RecordEvent());
    absl::Status queued =
        core_->Check(core_->cu->MemcpyDtoHAsync(to.data(), AddressOf(from), to.size(), stream_), "MemcpyDtoHAsync");
    if (queued.ok()) queued = RecordEvent();
    // Even after an error: nothing may write to `to` when the call has returned.
    absl::Status done = WaitFor(kForever).status();
    return queued.ok() ? done : queued;
  }

  absl::StatusOr<const std::byte*> StageOut(const Block& from, size_t bytes) override {
    if (bytes > kStagingBytes || cannot_stage_) return nullptr;
    Entered entered(*core_);
    RVM_RETURN_IF_ERROR(EndBatch());
    if (staging_ == nullptr && core_->cu->MemAllocHost(&staging_, kStagingBytes) != 0) {
      staging_ = nullptr;
      cannot_stage_ = true;
      return nullptr;
    }
    RVM_RETURN_IF_ERROR(RecordEvent());
    RVM_RETURN_IF_ERROR(
        core_->Check(core_->cu->MemcpyDtoHAsync(staging_, AddressOf(from), bytes, stream_), "MemcpyDtoHAsync"));
    RVM_RETURN_IF_ERROR(RecordEvent());
    return static_cast<const std::byte*>(staging_);
  }

  absl::Status Launch(const Code& code, uint32_t function, std::span<const Argument> args, int64_t items) override {
    values_.clear();
    for (const Argument& arg : args) {
      bool is_block = arg.kind == Argument::Kind::kBlock;
      values_.push_back(is_block && arg.block != nullptr ? AddressOf(*arg.block) + arg.number : arg.number);
    }
    const CudaCode::Entry& entry = static_cast<const CudaCode&>(code).entries[function];
    // Zero the arguments that this function does not use, so that launches differing only in those compare equal.
    for (size_t unused : entry.unused) {
      if (unused < values_.size()) values_[unused] = 0;
    }
    auto blocks = static_cast<uint32_t>((std::min(items, kMaxItems) + kPtxBlockThreads - 1) / kPtxBlockThreads);
    Entered entered(*core_);
    if (graphs_ != nullptr) return graphs_->Launch(entry.function, blocks, values_);
    pointers_.clear();
    for (uint64_t& value : values_) pointers_.push_back(&value);
    RVM_RETURN_IF_ERROR(RecordEvent());
    RVM_RETURN_IF_ERROR(core_->Check(core_->cu->LaunchKernel(entry.function, blocks, 1, 1, kPtxBlockThreads, 1, 1, 0,
                                                             stream_, pointers_.data(), nullptr),
                                     "LaunchKernel"));
    return RecordEvent();
  }

  bool HasProducts() override {
    Entered entered(*core_);
    return products_->IsThere();
  }

  std::string library() const override { return products_->description(); }

  absl::StatusOr<bool> Multiply(const Product& product, const Block* workspace) override {
    Entered entered(*core_);
    if (products_->IsFull()) {
      if (graphs_ != nullptr) RVM_RETURN_IF_ERROR(graphs_->Forget());
      products_->Forget();
    }
    RVM_ASSIGN_OR_RETURN(const ProductWork* work, products_->Prepare(product, workspace));
    if (work == nullptr) return false;
    if (graphs_ != nullptr) return graphs_->Multiply(work->plan, work->values);
    size_t num_recorded = num_recorded_;
    RVM_RETURN_IF_ERROR(RecordEvent());
    RVM_ASSIGN_OR_RETURN(bool is_queued,
                         products_->Outcome(work->plan, products_->Queue(work->plan, work->values, stream_)));
    if (is_queued) {
      RVM_RETURN_IF_ERROR(RecordEvent());
    } else {
      num_recorded_ = num_recorded;
    }
    return is_queued;
  }

  absl::Status Submit() override {
    Entered entered(*core_);
    return EndBatch();
  }

  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds time) override {
    Entered entered(*core_);
    RVM_RETURN_IF_ERROR(EndBatch());
    bool is_done = true;
    if (time == kForever) {
      RVM_RETURN_IF_ERROR(core_->Check(core_->cu->StreamSynchronize(stream_), "StreamSynchronize"));
    } else {
      RVM_ASSIGN_OR_RETURN(is_done, poller_.WaitFor(time, [this]() -> absl::StatusOr<bool> {
        Result result = core_->cu->StreamQuery(stream_);
        if (result == kNotReady) return false;
        RVM_RETURN_IF_ERROR(core_->Check(result, "StreamQuery"));
        return true;
      }));
    }
    if (is_done && graphs_ != nullptr) graphs_->NoteIdle();
    return is_done;
  }

  absl::StatusOr<std::vector<WorkTime>> TakeTimes() override {
    Entered entered(*core_);
    std::vector<WorkTime> times;
    for (size_t i = 1; i + 1 < num_recorded_; i += 2) {
      RVM_ASSIGN_OR_RETURN(double begin_ns, SinceFirst(events_[i]));
      RVM_ASSIGN_OR_RETURN(double end_ns, SinceFirst(events_[i + 1]));
      times.push_back({first_ns_ + begin_ns, first_ns_ + end_ns});
    }
    // Times between events are floats of milliseconds: precise only if they are short.
    if (!times.empty()) {
      first_ns_ = times.back().end_ns;
      std::swap(events_[0], events_[num_recorded_ - 1]);
      num_recorded_ = 1;
    }
    return times;
  }

  GraphUse graph_use() const override { return graphs_ == nullptr ? GraphUse() : graphs_->use(); }

 private:
  absl::Status EndBatch() { return graphs_ == nullptr ? absl::OkStatus() : graphs_->EndBatch(); }
  // Before and after each piece of work, if times are kept. Event 0 is the end of earlier work, or the very first.
  absl::Status RecordEvent() {
    if (!keeps_times_) return absl::OkStatus();
    if (num_recorded_ == 0) RVM_RETURN_IF_ERROR(RecordNext());
    return RecordNext();
  }
  absl::Status RecordNext() {
    if (num_recorded_ == events_.size()) {
      Event event = nullptr;
      RVM_RETURN_IF_ERROR(core_->Check(core_->cu->EventCreate(&event, 0), "EventCreate"));
      events_.push_back(event);
    }
    return core_->Check(core_->cu->EventRecord(events_[num_recorded_++], stream_), "EventRecord");
  }
  absl::StatusOr<double> SinceFirst(Event event) {
    float ms = 0;
    RVM_RETURN_IF_ERROR(core_->Check(core_->cu->EventElapsedTime(&ms, events_[0], event), "EventElapsedTime"));
    return double{ms} * 1e6;
  }

  std::shared_ptr<const Core> core_;
  cuda::Stream stream_;
  bool keeps_times_;
  std::unique_ptr<LibraryProducts> products_;
  std::unique_ptr<LaunchGraphs> graphs_;  // null: each launch goes to the driver at once
  Poller poller_{kBusyWait};
  void* staging_ = nullptr;  // kStagingBytes, pinned, from the first StageOut on
  bool cannot_stage_ = false;
  std::vector<uint64_t> values_;  // arguments of a launch
  std::vector<void*> pointers_;
  std::vector<Event> events_;
  size_t num_recorded_ = 0;
  double first_ns_ = 0;  // when event 0 was
};

}  // namespace

std::unique_ptr<device::Stream> MakeStream(std::shared_ptr<const Core> core, Stream stream, bool keeps_times) {
  return std::make_unique<CudaStream>(std::move(core), stream, keeps_times);
}

}  // namespace rvm::device::cuda
