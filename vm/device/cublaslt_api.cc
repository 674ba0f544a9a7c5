#include "vm/device/cublaslt_api.h"

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "vm/device/shared_library.h"

namespace rvm::device::cublaslt {
namespace {

absl::StatusOr<const Api*> Open() {
  static Api api;
#define RVM_SYMBOL(name, symbol, parameters) {symbol, reinterpret_cast<void**>(&api.name)},
  const LibrarySymbol symbols[] = {RVM_CUBLASLT_FUNCTIONS(RVM_SYMBOL)};
#undef RVM_SYMBOL
  // The latest first: a driver runs libraries of earlier versions.
  RVM_RETURN_IF_ERROR(
      LoadLibrary({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, "cuBLASLt", symbols));
  return &api;
}

}  // namespace

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<const Api*>* loaded = new absl::StatusOr<const Api*>(Open());
  return *loaded;
}

}  // namespace rvm::device::cublaslt
