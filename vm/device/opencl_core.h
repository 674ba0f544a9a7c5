// An OpenCL device, as all that is made of it shares it.
#ifndef RVM_VM_DEVICE_OPENCL_CORE_H_
#define RVM_VM_DEVICE_OPENCL_CORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "vm/device/binary_cache.h"
#include "vm/device/device.h"
#include "vm/device/opencl_api.h"

namespace rvm::device::opencl {

class BuiltProgram;

// Any thread.
struct Core {
  Core(const Api& api, DeviceId id, DeviceInfo about) : cl(&api), device(id), info(std::move(about)) {}
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Makes the context, when the device is first used.
  absl::Status Open();
  // `what`: the function that gave `error`, without its "cl".
  absl::Status Check(Error error, const char* what) const;

  const Api* const cl;
  const DeviceId device;
  const DeviceInfo info;
  Context context = nullptr;                                               // after Open
  std::mutex mutex;                                                        // of what follows, and of Open
  std::map<BinaryCache::Key, std::weak_ptr<const BuiltProgram>> programs;  // in use
};

// Returns the one core of the device in this process.
std::shared_ptr<Core> CoreOf(const Api& cl, DeviceId device, DeviceInfo info);

// Returns the text that a function of the driver gives in two calls: the first one asks for the size. "" if it fails.
std::string TextOf(const std::function<Error(size_t room, char* text, size_t* size)>& query);
// Facts about a device; "" and nullopt if the driver does not say.
std::string DeviceText(const Api& cl, DeviceId device, uint32_t what);
template <typename T>
std::optional<T> DeviceNumber(const Api& cl, DeviceId device, uint32_t what) {
  T number{};
  if (cl.GetDeviceInfo(device, what, sizeof(number), &number, nullptr) != 0) return std::nullopt;
  return number;
}

}  // namespace rvm::device::opencl

#endif  // RVM_VM_DEVICE_OPENCL_CORE_H_
