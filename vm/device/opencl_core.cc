#include "vm/device/opencl_core.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rvm::device::opencl {

Core::~Core() {
  if (context != nullptr) cl->ReleaseContext(context);
}

absl::Status Core::Open() {
  std::lock_guard<std::mutex> lock(mutex);
  if (context != nullptr) return absl::OkStatus();
  Error error = 0;
  context = cl->CreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
  return Check(error, "CreateContext");
}

absl::Status Core::Check(Error error, const char* what) const {
  if (error == 0) return absl::OkStatus();
  // A buffer may be larger than any that the device has room for.
  bool is_full = error == kAllocationFailure || error == kOutOfResources || error == kOutOfHostMemory ||
                 error == kInvalidBufferSize;
  return absl::Status(is_full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                      absl::StrCat("device ", info.id, " (", info.name, "): cl", what,
                                   is_full ? ": out of memory or resources" : "", ": OpenCL error ", error));
}

std::shared_ptr<Core> CoreOf(const Api& cl, DeviceId device, DeviceInfo info) {
  static std::mutex mutex;
  static auto& cores = *new std::map<DeviceId, std::weak_ptr<Core>>();
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Core>& known = cores[device];
  std::shared_ptr<Core> core = known.lock();
  if (core == nullptr) known = core = std::make_shared<Core>(cl, device, std::move(info));
  return core;
}

std::string TextOf(const std::function<Error(size_t room, char* text, size_t* size)>& query) {
  size_t size = 0;
  if (query(0, nullptr, &size) != 0) return "";
  std::string text(size, '\0');
  query(size, text.data(), nullptr);
  return text.substr(0, text.find('\0'));
}

std::string DeviceText(const Api& cl, DeviceId device, uint32_t what) {
  return TextOf(
      [&](size_t room, char* text, size_t* size) { return cl.GetDeviceInfo(device, what, room, text, size); });
}

}  // namespace rvm::device::opencl
