#include "vm/device/cublaslt_api.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace rvm::device::cublaslt {
namespace {

absl::StatusOr<const Api*> Open() {
  static Api api;
  void* library = nullptr;
  // The latest first: a driver runs libraries of earlier versions.
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}) {
    if (library == nullptr) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  }
  if (library == nullptr) return absl::UnavailableError(absl::StrCat("cuBLASLt is not installed: ", dlerror()));
#define RVM_LOOK_UP(name, symbol, parameters)                              \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, symbol)); \
  if (api.name == nullptr) return absl::UnavailableError("libcublasLt.so lacks the function " symbol);
  RVM_CUBLASLT_FUNCTIONS(RVM_LOOK_UP)
#undef RVM_LOOK_UP
  return &api;
}

}  // namespace

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<const Api*>* loaded = new absl::StatusOr<const Api*>(Open());
  return *loaded;
}

}  // namespace rvm::device::cublaslt
