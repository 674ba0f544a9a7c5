#include "vm/device/opencl_api.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace rvm::device::opencl {
namespace {

absl::StatusOr<const Api*> Open() {
  static Api api;
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return absl::UnavailableError(absl::StrCat("the OpenCL loader is not installed: ", dlerror()));
#define RVM_LOOK_UP(name, result, parameters)                                  \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "cl" #name)); \
  if (api.name == nullptr) return absl::UnavailableError("libOpenCL.so.1 lacks the function cl" #name);
  RVM_OPENCL_FUNCTIONS(RVM_LOOK_UP)
#undef RVM_LOOK_UP
  return &api;
}

}  // namespace

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<const Api*>* loaded = new absl::StatusOr<const Api*>(Open());
  return *loaded;
}

}  // namespace rvm::device::opencl
