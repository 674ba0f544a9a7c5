#include "vm/device/cuda_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/device/cuda_api.h"
#include "vm/device/poll.h"

namespace rvm::device {
namespace {

using cuda::Api;
using cuda::Result;

constexpr int64_t kThreads = 128;          // of a block
constexpr int64_t kMaxItems = 1 << 22;     // of a launch; functions stride over the rest
constexpr int32_t kDriverVersion = 10020;  // the first one with PTX 6.5
// Compute capabilities that code may name, as features. The driver of a device reads the PTX that came with it: 7.0
// with 8.0.
constexpr int32_t kCapabilities[] = {75, 80, 86, 87, 89, 90, 100, 103, 120};

// What a device and all that it made share.
struct Core {
  const Api* cu;
  cuda::DeviceId device;
  DeviceInfo info;
  cuda::Context context = nullptr;
  // A fault of a kernel ends the context: every later call fails, whoever makes it.
  mutable std::atomic<bool> is_lost = false;

  Core(const Api* api, cuda::DeviceId id, DeviceInfo of) : cu(api), device(id), info(std::move(of)) {}
  ~Core() {
    if (context != nullptr) cu->PrimaryCtxRelease(device);
  }

  absl::Status Check(Result result, const char* what) const {
    if (result == 0) return absl::OkStatus();
    const char *name = nullptr, *text = nullptr;
    cu->GetErrorName(result, &name);
    cu->GetErrorString(result, &text);
    // Errors of running work, from 700 on, but for a launch that asks for too much, are for ever.
    bool is_fault = result >= cuda::kIllegalAddress && result < 800 && result != cuda::kLaunchOutOfResources;
    if (is_fault) is_lost = true;
    bool is_full = result == cuda::kOutOfMemory || result == cuda::kLaunchOutOfResources;
    return absl::Status(
        is_full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
        absl::StrCat("device ", info.id, " (", info.name, ")", is_lost ? " is lost: " : ": ", "cu", what, ": ",
                     text == nullptr ? "unknown error" : text, " (", name == nullptr ? "" : name, " ", result, ")"));
  }
};

// Makes the context current for a scope; the thread keeps the one of its own, if it has one.
class Entered {
 public:
  explicit Entered(const Core& core) : core_(core) { pushed_ = core.cu->CtxPushCurrent(core.context) == 0; }
  ~Entered() {
    cuda::Context popped = nullptr;
    if (pushed_) core_.cu->CtxPopCurrent(&popped);
  }
  Entered(const Entered&) = delete;

 private:
  const Core& core_;
  bool pushed_;
};

class CudaBlock : public Block {
 public:
  CudaBlock(std::shared_ptr<const Core> core, cuda::Address address) : core_(std::move(core)), address_(address) {}
  // Waits for all work: some may use the memory. The VM keeps freed blocks in its pool, so that this is rare.
  ~CudaBlock() override {
    Entered entered(*core_);
    core_->cu->CtxSynchronize();
    core_->cu->MemFree(address_);
  }
  cuda::Address address() const { return address_; }

 private:
  std::shared_ptr<const Core> core_;
  cuda::Address address_;
};

cuda::Address AddressOf(const Block& block) { return static_cast<const CudaBlock&>(block).address(); }

class CudaCode : public Code {
 public:
  CudaCode(std::shared_ptr<const Core> core, cuda::Module module) : core_(std::move(core)), module_(module) {}
  ~CudaCode() override {
    Entered entered(*core_);
    core_->cu->ModuleUnload(module_);
  }
  std::vector<cuda::Function> functions;

 private:
  std::shared_ptr<const Core> core_;
  cuda::Module module_;
};

class CudaStream : public Stream {
 public:
  CudaStream(std::shared_ptr<const Core> core, cuda::Stream stream, bool keeps_times)
      : core_(std::move(core)), stream_(stream), keeps_times_(keeps_times) {}
  ~CudaStream() override {
    Entered entered(*core_);
    core_->cu->StreamSynchronize(stream_);
    for (cuda::Event event : events_) core_->cu->EventDestroy(event);
    core_->cu->StreamDestroy(stream_);
  }

  absl::Status CopyIn(const Block& to, std::span<const std::byte> from) override {
    Entered entered(*core_);
    RVM_RETURN_IF_ERROR(RecordEvent());
    RVM_RETURN_IF_ERROR(
        core_->Check(core_->cu->MemcpyHtoDAsync(AddressOf(to), from.data(), from.size(), stream_), "MemcpyHtoDAsync"));
    return RecordEvent();
  }

  absl::Status CopyOut(std::span<std::byte> to, const Block& from) override {
    Entered entered(*core_);
    RVM_RETURN_IF_ERROR(RecordEvent());
    absl::Status queued =
        core_->Check(core_->cu->MemcpyDtoHAsync(to.data(), AddressOf(from), to.size(), stream_), "MemcpyDtoHAsync");
    if (queued.ok()) queued = RecordEvent();
    // Even after an error: nothing may write to `to` when the call has returned.
    absl::Status done = WaitFor(kForever).status();
    return queued.ok() ? done : queued;
  }

  absl::Status Launch(const Code& code, uint32_t function, std::span<const Argument> args, int64_t items) override {
    values_.clear();
    for (const Argument& arg : args) {
      bool is_block = arg.kind == Argument::Kind::kBlock;
      values_.push_back(!is_block ? arg.number : arg.block == nullptr ? 0 : AddressOf(*arg.block));
    }
    pointers_.clear();
    for (uint64_t& value : values_) pointers_.push_back(&value);
    auto blocks = static_cast<uint32_t>((std::min(items, kMaxItems) + kThreads - 1) / kThreads);
    Entered entered(*core_);
    RVM_RETURN_IF_ERROR(RecordEvent());
    RVM_RETURN_IF_ERROR(core_->Check(
        core_->cu->LaunchKernel(static_cast<const CudaCode&>(code).functions[function], blocks, 1, 1,
                                static_cast<uint32_t>(kThreads), 1, 1, 0, stream_, pointers_.data(), nullptr),
        "LaunchKernel"));
    return RecordEvent();
  }

  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds time) override {
    Entered entered(*core_);
    if (time == kForever) {
      RVM_RETURN_IF_ERROR(core_->Check(core_->cu->StreamSynchronize(stream_), "StreamSynchronize"));
      return true;
    }
    return PollFor(time, [this]() -> absl::StatusOr<bool> {
      Result result = core_->cu->StreamQuery(stream_);
      if (result == cuda::kNotReady) return false;
      RVM_RETURN_IF_ERROR(core_->Check(result, "StreamQuery"));
      return true;
    });
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

 private:
  // Before and after each piece of work, if times are kept. Event 0 is the end of earlier work, or the very first.
  absl::Status RecordEvent() {
    if (!keeps_times_) return absl::OkStatus();
    if (num_recorded_ == 0) RVM_RETURN_IF_ERROR(RecordNext());
    return RecordNext();
  }
  absl::Status RecordNext() {
    if (num_recorded_ == events_.size()) {
      cuda::Event event = nullptr;
      RVM_RETURN_IF_ERROR(core_->Check(core_->cu->EventCreate(&event, 0), "EventCreate"));
      events_.push_back(event);
    }
    return core_->Check(core_->cu->EventRecord(events_[num_recorded_++], stream_), "EventRecord");
  }
  absl::StatusOr<double> SinceFirst(cuda::Event event) {
    float ms = 0;
    RVM_RETURN_IF_ERROR(core_->Check(core_->cu->EventElapsedTime(&ms, events_[0], event), "EventElapsedTime"));
    return double{ms} * 1e6;
  }

  std::shared_ptr<const Core> core_;
  cuda::Stream stream_;
  bool keeps_times_;
  std::vector<uint64_t> values_;  // arguments of a launch
  std::vector<void*> pointers_;
  std::vector<cuda::Event> events_;
  size_t num_recorded_ = 0;
  double first_ns_ = 0;  // when event 0 was
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const DeviceInfo& info() const override { return core_->info; }

  absl::StatusOr<std::unique_ptr<Block>> Allocate(int64_t bytes) override {
    RVM_RETURN_IF_ERROR(Open());
    Entered entered(*core_);
    cuda::Address address = 0;
    RVM_RETURN_IF_ERROR(core_->Check(core_->cu->MemAlloc(&address, static_cast<size_t>(bytes)), "MemAlloc"));
    return std::make_unique<CudaBlock>(core_, address);
  }

  absl::StatusOr<std::unique_ptr<Code>> Load(std::span<const uint8_t> code,
                                             std::span<const std::string> functions) override {
    RVM_RETURN_IF_ERROR(Open());
    Entered entered(*core_);
    std::string text(code.begin(), code.end()), log(4000, '\0');
    int32_t options[] = {cuda::kErrorLogBuffer, cuda::kErrorLogBufferBytes};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
    cuda::Module module = nullptr;
    Result result = core_->cu->ModuleLoadData(&module, text.c_str(), 2, options, values);
    if (result == cuda::kInvalidPtx || result == cuda::kUnsupportedPtxVersion) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", info().id, " (", info().name, ") does not accept the code for it:\n", log.c_str()));
    }
    RVM_RETURN_IF_ERROR(core_->Check(result, "ModuleLoadDataEx"));
    auto loaded = std::make_unique<CudaCode>(core_, module);
    for (const std::string& name : functions) {
      cuda::Function function = nullptr;
      result = core_->cu->ModuleGetFunction(&function, module, name.c_str());
      if (result == cuda::kNotFound) {
        return absl::InvalidArgumentError(
            absl::StrCat("device ", info().id, ": the code for it has no function `", name, "`"));
      }
      RVM_RETURN_IF_ERROR(core_->Check(result, "ModuleGetFunction"));
      loaded->functions.push_back(function);
    }
    return loaded;
  }

  absl::StatusOr<std::unique_ptr<Stream>> NewStream(bool keeps_times) override {
    RVM_RETURN_IF_ERROR(Open());
    Entered entered(*core_);
    cuda::Stream stream = nullptr;
    RVM_RETURN_IF_ERROR(core_->Check(core_->cu->StreamCreate(&stream, cuda::kNonBlocking), "StreamCreate"));
    return std::make_unique<CudaStream>(core_, stream, keeps_times);
  }

 private:
  // The context, which takes memory of the device, is made when the device is first used.
  absl::Status Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (core_->context != nullptr) return absl::OkStatus();
    return core_->Check(core_->cu->PrimaryCtxRetain(&core_->context, core_->device), "DevicePrimaryCtxRetain");
  }

  std::shared_ptr<Core> core_;
  std::mutex mutex_;
};

// No value if the device is too old, or cannot be asked.
absl::StatusOr<DeviceInfo> InfoOf(const Api& cu, cuda::DeviceId device, int32_t number) {
  char name[256] = "";
  int32_t major = 0, minor = 0;
  size_t bytes = 0;
  if (cu.DeviceGetName(name, sizeof(name), device) != 0 ||
      cu.DeviceGetAttribute(&major, cuda::kComputeCapabilityMajor, device) != 0 ||
      cu.DeviceGetAttribute(&minor, cuda::kComputeCapabilityMinor, device) != 0 ||
      cu.DeviceTotalMem(&bytes, device) != 0) {
    return absl::UnavailableError("the driver does not describe its devices");
  }
  int32_t capability = 10 * major + minor;
  if (capability < kCapabilities[0]) {
    return absl::UnavailableError(
        absl::StrCat(name, " has compute capability ", major, ".", minor, "; expected 7.5 or later"));
  }
  DeviceInfo info{.id = absl::StrCat("cuda:", number),
                  .name = name,
                  .target = "ptx",
                  .features = "",
                  .memory_bytes = static_cast<int64_t>(bytes)};
  for (int32_t known : kCapabilities) {
    if (known <= capability) absl::StrAppend(&info.features, info.features.empty() ? "" : ",", "+sm_", known);
  }
  return info;
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<Device>>> CudaDevices() {
  RVM_ASSIGN_OR_RETURN(const Api* cu, cuda::Load());
  int32_t version = 0, count = 0;
  if (cu->DriverGetVersion(&version) != 0 || version < kDriverVersion) {
    return absl::UnavailableError(absl::StrCat("NVIDIA's driver is for CUDA ", version / 1000, ".", version % 1000 / 10,
                                               "; expected 10.2 or later"));
  }
  Result result = cu->Init(0);
  if (result == 0) result = cu->DeviceGetCount(&count);
  if (result != 0 && result != cuda::kNoDevice) {
    return absl::UnavailableError(absl::StrCat("NVIDIA's driver does not start: CUDA error ", result));
  }
  std::vector<std::shared_ptr<Device>> devices;
  std::string reason = "NVIDIA's driver has no device";
  for (int32_t i = 0; i < count; ++i) {
    cuda::DeviceId id = 0;
    if (cu->DeviceGet(&id, i) != 0) continue;
    absl::StatusOr<DeviceInfo> info = InfoOf(*cu, id, static_cast<int32_t>(devices.size()));
    if (!info.ok()) {
      reason = std::string(info.status().message());
      continue;
    }
    devices.push_back(std::make_shared<CudaDevice>(std::make_shared<Core>(cu, id, *std::move(info))));
  }
  if (devices.empty()) return absl::UnavailableError(reason);
  return devices;
}

}  // namespace rvm::device
