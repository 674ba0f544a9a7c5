#include "vm/device/cuda_api.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace rvm::device::cuda {
namespace {

absl::StatusOr<const Api*> Open() {
  static Api api;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError(absl::StrCat("NVIDIA's driver is not installed: ", dlerror()));
#define RVM_LOOK_UP(name, symbol, parameters)                              \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, symbol)); \
  if (api.name == nullptr) return absl::UnavailableError("libcuda.so.1 lacks the function " symbol);
  RVM_CUDA_FUNCTIONS(RVM_LOOK_UP)
#undef RVM_LOOK_UP
  return &api;
}

}  // namespace

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<const Api*>* loaded = new absl::StatusOr<const Api*>(Open());
  return *loaded;
}

}  // namespace rvm::device::cuda
