#include "vm/device/opencl_api.h"

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "vm/device/shared_library.h"

namespace rvm::device::opencl {
namespace {

absl::StatusOr<const Api*> Open() {
  static Api api;
#define RVM_SYMBOL(name, result, parameters) {"cl" #name, reinterpret_cast<void**>(&api.name)},
  const LibrarySymbol symbols[] = {RVM_OPENCL_FUNCTIONS(RVM_SYMBOL)};
#undef RVM_SYMBOL
  RVM_RETURN_IF_ERROR(LoadLibrary({"libOpenCL.so.1"}, "the OpenCL loader", symbols).status());
  return &api;
}

}  // namespace

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<const Api*>* loaded = new absl::StatusOr<const Api*>(Open());
  return *loaded;
}

}  // namespace rvm::device::opencl
