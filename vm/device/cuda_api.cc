#include "vm/device/cuda_api.h"

#include <string_view>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "vm/device/shared_library.h"

namespace rvm::device::cuda {
namespace {

// Returns the name that drivers before CUDA 11 have for a function of the same parameters; null if they have the same.
const char* OlderName(std::string_view symbol) {
  return symbol == "cuDevicePrimaryCtxRelease_v2" ? "cuDevicePrimaryCtxRelease" : nullptr;
}

absl::StatusOr<const Api*> Open() {
  static Api api;
#define RVM_SYMBOL(name, symbol, parameters) {symbol, reinterpret_cast<void**>(&api.name), OlderName(symbol)},
#define RVM_OPTIONAL(name, symbol, parameters) {symbol, reinterpret_cast<void**>(&api.name), nullptr, true},
  const LibrarySymbol symbols[] = {RVM_CUDA_FUNCTIONS(RVM_SYMBOL) RVM_CUDA_OPTIONAL_FUNCTIONS(RVM_OPTIONAL)};
#undef RVM_SYMBOL
#undef RVM_OPTIONAL
  RVM_RETURN_IF_ERROR(LoadLibrary({"libcuda.so.1"}, "NVIDIA's driver", symbols).status());
  return &api;
}

}  // namespace

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<const Api*>* loaded = new absl::StatusOr<const Api*>(Open());
  return *loaded;
}

}  // namespace rvm::device::cuda
