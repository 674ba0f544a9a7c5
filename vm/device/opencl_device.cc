#include "vm/device/opencl_device.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/device_contract.h"
#include "serialization/opencl_groups.h"
#include "vm/device/opencl_api.h"
#include "vm/device/opencl_core.h"
#include "vm/device/opencl_program.h"
#include "vm/device/poll.h"

namespace rvm::device {
namespace {

using device_contract::kGroupItems;
using opencl::Api;
using opencl::Core;
using opencl::Error;

// The part of a wait that spins. It is short: some drivers compute on the CPU that would spin.
constexpr std::chrono::microseconds kBusyWait(50);

class OpenClBlock : public Block {
 public:
  OpenClBlock(std::shared_ptr<const Core> core, opencl::Memory memory) : core_(std::move(core)), memory_(memory) {}
  ~OpenClBlock() override { core_->cl->ReleaseMemObject(memory_); }
  opencl::Memory memory() const { return memory_; }

 private:
  std::shared_ptr<const Core> core_;
  opencl::Memory memory_;
};

opencl::Memory MemoryOf(const Block& block) { return static_cast<const OpenClBlock&>(block).memory(); }

class OpenClCode : public Code {
 public:
  OpenClCode(opencl::ProgramOf program, std::span<const std::string> functions)
      : program_(std::move(program)), functions_(functions.begin(), functions.end()) {}
  std::string_view origin() const override { return program_.origin; }
  opencl::Program program() const { return program_.program->program(); }
  const std::vector<std::string>& functions() const { return functions_; }

 private:
  opencl::ProgramOf program_;
  std::vector<std::string> functions_;
};

class OpenClStream : public Stream {
 public:
  OpenClStream(std::shared_ptr<const Core> core, opencl::Queue queue, bool keeps_times)
      : core_(std::move(core)), queue_(queue), keeps_times_(keeps_times) {}
  ~OpenClStream() override {
    core_->cl->Finish(queue_);
    DropMarker();
    for (opencl::Event event : events_) core_->cl->ReleaseEvent(event);
    for (auto& [code, kernels] : kernels_) {
      for (opencl::Kernel kernel : kernels) {
        if (kernel != nullptr) core_->cl->ReleaseKernel(kernel);
      }
    }
    core_->cl->ReleaseCommandQueue(queue_);
  }

  absl::Status CopyIn(const Block& to, std::span<const std::byte> from) override {
    return Queued(
        core_->cl->EnqueueWriteBuffer(queue_, MemoryOf(to), 0, 0, from.size(), from.data(), 0, nullptr, NewEvent()),
        "EnqueueWriteBuffer");
  }

  absl::Status CopyOut(std::span<std::byte> to, const Block& from) override {
    return Queued(
        core_->cl->EnqueueReadBuffer(queue_, MemoryOf(from), 1, 0, to.size(), to.data(), 0, nullptr, NewEvent()),
        "EnqueueReadBuffer");
  }

  absl::Status Launch(const Code& code, uint32_t function, std::span<const Argument> args, int64_t items) override {
    RVM_ASSIGN_OR_RETURN(opencl::Kernel kernel, KernelOf(static_cast<const OpenClCode&>(code), function));
    for (uint32_t i = 0; i < args.size(); ++i) {
      opencl::Memory memory = args[i].block == nullptr ? nullptr : MemoryOf(*args[i].block);
      bool is_block = args[i].kind == Argument::Kind::kBlock;
      const void* value = is_block ? static_cast<const void*>(&memory) : &args[i].number;
      RVM_RETURN_IF_ERROR(
          core_->Check(core_->cl->SetKernelArg(kernel, i, is_block ? sizeof(memory) : sizeof(args[i].number), value),
                       "SetKernelArg"));
    }
    constexpr size_t kGroup = kGroupItems;
    size_t global = (static_cast<size_t>(std::min(items, kMaxItems)) + kGroup - 1) / kGroup * kGroup;
    // Code that earlier releases made runs in groups of any size.
    bool has_groups = core_->info.features.ends_with(device_contract::kGroupsFeature);
    return Queued(core_->cl->EnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &global, has_groups ? &kGroup : nullptr,
                                                  0, nullptr, NewEvent()),
                  "EnqueueNDRangeKernel");
  }

  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds time) override {
    if (time == kForever) {
      RVM_RETURN_IF_ERROR(core_->Check(core_->cl->Finish(queue_), "Finish"));
      return true;
    }
    if (marker_ == nullptr) {
      RVM_RETURN_IF_ERROR(core_->Check(core_->cl->EnqueueMarkerWithWaitList(queue_, 0, nullptr, &marker_),
                                       "EnqueueMarkerWithWaitList"));
      RVM_RETURN_IF_ERROR(core_->Check(core_->cl->Flush(queue_), "Flush"));
    }
    return poller_.WaitFor(time, [this]() -> absl::StatusOr<bool> {
      int32_t status = 0;
      RVM_RETURN_IF_ERROR(core_->Check(
          core_->cl->GetEventInfo(marker_, opencl::kEventStatus, sizeof(status), &status, nullptr), "GetEventInfo"));
      if (status < 0) return core_->Check(status, "WaitForEvents");
      return status == opencl::kComplete;
    });
  }

  absl::StatusOr<std::vector<WorkTime>> TakeTimes() override {
    std::vector<WorkTime> times;
    for (opencl::Event event : events_) {
      uint64_t begin = 0, end = 0;
      RVM_RETURN_IF_ERROR(
          core_->Check(core_->cl->GetEventProfilingInfo(event, opencl::kEventStart, sizeof(begin), &begin, nullptr),
                       "GetEventProfilingInfo"));
      RVM_RETURN_IF_ERROR(
          core_->Check(core_->cl->GetEventProfilingInfo(event, opencl::kEventEnd, sizeof(end), &end, nullptr),
                       "GetEventProfilingInfo"));
      times.push_back({static_cast<double>(begin), static_cast<double>(end)});
    }
    for (opencl::Event event : events_) core_->cl->ReleaseEvent(event);
    events_.clear();
    return times;
  }

 private:
  // Returns the place for the event of the next command; null if times are not kept.
  opencl::Event* NewEvent() { return keeps_times_ ? &new_event_ : nullptr; }
  // After a command was queued, with an event from NewEvent.
  absl::Status Queued(Error error, const char* what) {
    RVM_RETURN_IF_ERROR(core_->Check(error, what));
    if (keeps_times_) events_.push_back(new_event_);
    DropMarker();
    return absl::OkStatus();
  }
  void DropMarker() {
    if (marker_ != nullptr) core_->cl->ReleaseEvent(marker_);
    marker_ = nullptr;
  }

  // A kernel object holds arguments, so each stream has its own.
  absl::StatusOr<opencl::Kernel> KernelOf(const OpenClCode& code, uint32_t function) {
    auto known = std::find_if(kernels_.begin(), kernels_.end(), [&](const auto& k) { return k.first == &code; });
    if (known == kernels_.end()) {
      kernels_.emplace_back(&code, std::vector<opencl::Kernel>(code.functions().size()));
      known = kernels_.end() - 1;
    }
    opencl::Kernel& kernel = known->second[function];
    if (kernel != nullptr) return kernel;
    Error error = 0;
    opencl::Kernel made = core_->cl->CreateKernel(code.program(), code.functions()[function].c_str(), &error);
    RVM_RETURN_IF_ERROR(core_->Check(error, "CreateKernel"));
    return kernel = made;
  }

  std::shared_ptr<const Core> core_;
  opencl::Queue queue_;
  bool keeps_times_;
  std::vector<std::pair<const Code*, std::vector<opencl::Kernel>>> kernels_;
  Poller poller_{kBusyWait};
  opencl::Event marker_ = nullptr;  // behind all that is queued; null: there is none yet
  opencl::Event new_event_ = nullptr;
  std::vector<opencl::Event> events_;  // of the commands whose times were not taken
};

class OpenClDevice : public Device {
 public:
  explicit OpenClDevice(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const DeviceInfo& info() const override { return core_->info; }

  absl::StatusOr<std::unique_ptr<Block>> Allocate(int64_t bytes) override {
    RVM_RETURN_IF_ERROR(core_->Open());
    Error error = 0;
    opencl::Memory memory =
        core_->cl->CreateBuffer(core_->context, opencl::kReadWrite, static_cast<size_t>(bytes), nullptr, &error);
    RVM_RETURN_IF_ERROR(core_->Check(error, "CreateBuffer"));
    return std::make_unique<OpenClBlock>(core_, memory);
  }

  absl::StatusOr<std::unique_ptr<Code>> Load(std::span<const uint8_t> code,
                                             std::span<const std::string> functions) override {
    RVM_RETURN_IF_ERROR(core_->Open());
    std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
    RVM_ASSIGN_OR_RETURN(opencl::ProgramOf program, opencl::BuildProgram(core_, text));
    return std::make_unique<OpenClCode>(std::move(program), functions);
  }

  absl::StatusOr<std::unique_ptr<Stream>> NewStream(bool keeps_times) override {
    RVM_RETURN_IF_ERROR(core_->Open());
    Error error = 0;
    opencl::Queue queue =
        core_->cl->CreateCommandQueue(core_->context, core_->device, keeps_times ? opencl::kQueueProfiling : 0, &error);
    RVM_RETURN_IF_ERROR(core_->Check(error, "CreateCommandQueue"));
    return std::make_unique<OpenClStream>(core_, queue, keeps_times);
  }

 private:
  std::shared_ptr<Core> core_;
};

// "OpenCL 1.1 ..." and older lack functions that are used.
bool IsUsable(const Api& cl, opencl::DeviceId device) {
  return opencl::DeviceNumber<uint32_t>(cl, device, opencl::kDeviceAvailable).value_or(0) != 0 &&
         opencl::DeviceNumber<uint32_t>(cl, device, opencl::kDeviceCompilerAvailable).value_or(0) != 0 &&
         opencl::DeviceText(cl, device, opencl::kDeviceVersion) >= "OpenCL 1.2";
}

bool HasGroups(const Api& cl, opencl::DeviceId device) {
  return opencl::DeviceNumber<size_t>(cl, device, opencl::kDeviceGroupItems).value_or(0) >= kGroupItems &&
         opencl::DeviceNumber<uint64_t>(cl, device, opencl::kDeviceSharedBytes).value_or(0) >=
             device_contract::kMaxSharedBytes;
}

DeviceInfo InfoOf(const Api& cl, opencl::DeviceId device, size_t number) {
  DeviceInfo info;
  info.id = absl::StrCat("opencl:", number);
  info.name = opencl::DeviceText(cl, device, opencl::kDeviceName);
  info.target = device_contract::kOpenClTarget;
  if (opencl::DeviceNumber<uint64_t>(cl, device, opencl::kDeviceDoubleConfig).value_or(0) != 0) {
    info.features = device_contract::kFloat64Feature;
  }
  if (HasGroups(cl, device)) {
    absl::StrAppend(&info.features, info.features.empty() ? "" : ",", device_contract::kGroupsFeature);
  }
  info.memory_bytes =
      static_cast<int64_t>(opencl::DeviceNumber<uint64_t>(cl, device, opencl::kDeviceMemoryBytes).value_or(0));
  return info;
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<Device>>> OpenClDevices() {
  RVM_ASSIGN_OR_RETURN(const Api* cl, opencl::Load());
  uint32_t num_platforms = 0;
  if (cl->GetPlatformIDs(0, nullptr, &num_platforms) != 0) num_platforms = 0;
  std::vector<opencl::Platform> platforms(num_platforms);
  if (num_platforms > 0) cl->GetPlatformIDs(num_platforms, platforms.data(), nullptr);
  std::vector<std::shared_ptr<Device>> devices;
  for (opencl::Platform platform : platforms) {
    uint32_t num_devices = 0;
    if (cl->GetDeviceIDs(platform, opencl::kAllDevices, 0, nullptr, &num_devices) != 0) continue;
    std::vector<opencl::DeviceId> ids(num_devices);
    if (num_devices > 0) cl->GetDeviceIDs(platform, opencl::kAllDevices, num_devices, ids.data(), nullptr);
    for (opencl::DeviceId id : ids) {
      if (!IsUsable(*cl, id)) continue;
      devices.push_back(std::make_shared<OpenClDevice>(opencl::CoreOf(*cl, id, InfoOf(*cl, id, devices.size()))));
    }
  }
  if (devices.empty()) {
    return absl::UnavailableError(num_platforms == 0 ? "the OpenCL loader finds no driver"
                                                     : "the OpenCL drivers have no device of OpenCL 1.2 or later");
  }
  return devices;
}

}  // namespace rvm::device
