#include "vm/device/cuda_device.h"

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
#include "serialization/device_contract.h"
#include "vm/device/cuda_api.h"
#include "vm/device/cuda_core.h"
#include "vm/device/cuda_products.h"
#include "vm/device/cuda_stream.h"
#include "vm/device/ptx_params.h"

namespace rvm::device {
namespace {

using cuda::Api;
using cuda::Core;
using cuda::CudaBlock;
using cuda::CudaCode;
using cuda::Entered;
using cuda::Result;

constexpr int32_t kDriverVersion = 10020;  // the first one with PTX 6.5
// Compute capabilities that code may name, as features. The driver of a device reads the PTX that came with it: 7.0
// with 8.0.
constexpr int32_t kCapabilities[] = {75, 80, 86, 87, 89, 90, 100, 103, 120};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const DeviceInfo& info() const override { return core_->info; }
  std::string FindLibrary() const override { return cuda::LibraryText(); }

  absl::StatusOr<std::unique_ptr<Block>> Allocate(int64_t bytes) override {
    RVM_RETURN_IF_ERROR(Open());
    Entered entered(*core_);
    cuda::Address address = 0;
    RVM_RETURN_IF_ERROR(core_->Check(core_->cu->MemAlloc(&address, static_cast<size_t>(bytes)), "MemAlloc"));
    return std::make_unique<CudaBlock>(core_, address, bytes);
  }

  absl::StatusOr<std::unique_ptr<Code>> Load(std::span<const uint8_t> code,
                                             std::span<const std::string> functions) override {
    RVM_RETURN_IF_ERROR(Open());
    Entered entered(*core_);
    std::string text(code.begin(), code.end()), log(4000, '\0');
    // The last option has as many threads as there are CPUs translate the functions; older drivers refuse it.
    int32_t options[] = {cuda::kErrorLogBuffer, cuda::kErrorLogBufferBytes, cuda::kSplitCompile};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size()), nullptr};
    cuda::Module module = nullptr;
    Result result = core_->cu->ModuleLoadData(&module, text.c_str(), 3, options, values);
    if (result == cuda::kInvalidValue) {
      result = core_->cu->ModuleLoadData(&module, text.c_str(), 2, options, values);
    }
    if (result == cuda::kInvalidPtx || result == cuda::kUnsupportedPtxVersion) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", info().id, " (", info().name, ") does not accept the code for it:\n", log.c_str()));
    }
    RVM_RETURN_IF_ERROR(core_->Check(result, "ModuleLoadDataEx"));
    auto loaded = std::make_unique<CudaCode>(core_, module);
    auto unused = UnusedParams(text);
    for (const std::string& name : functions) {
      cuda::Function function = nullptr;
      result = core_->cu->ModuleGetFunction(&function, module, name.c_str());
      if (result == cuda::kNotFound) {
        return absl::InvalidArgumentError(
            absl::StrCat("device ", info().id, ": the code for it has no function `", name, "`"));
      }
      RVM_RETURN_IF_ERROR(core_->Check(result, "ModuleGetFunction"));
      loaded->entries.push_back({function, unused[name]});
    }
    return loaded;
  }

  absl::StatusOr<std::unique_ptr<Stream>> NewStream(bool keeps_times) override {
    RVM_RETURN_IF_ERROR(Open());
    Entered entered(*core_);
    cuda::Stream stream = nullptr;
    RVM_RETURN_IF_ERROR(core_->Check(core_->cu->StreamCreate(&stream, cuda::kNonBlocking), "StreamCreate"));
    return cuda::MakeStream(core_, stream, keeps_times);
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
                  .target = device_contract::kPtxTarget,
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
