#include "vm/device/cublaslt_api.h"

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/device/shared_library.h"

namespace rvm::device::cublaslt {
namespace {

absl::StatusOr<const Api*> Open() {
  static Api api;
#define RVM_SYMBOL(name, symbol, parameters) {symbol, reinterpret_cast<void**>(&api.name)},
  const LibrarySymbol symbols[] = {
      RVM_CUBLASLT_FUNCTIONS(RVM_SYMBOL){"cublasLtGetVersion", reinterpret_cast<void**>(&api.GetVersion)}};
#undef RVM_SYMBOL
  // The latest first: a driver runs libraries of earlier versions.
  RVM_ASSIGN_OR_RETURN(
      api.library, LoadLibrary({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, "cuBLASLt", symbols));
  return &api;
}

}  // namespace

std::string Describe(const Api& api) {
  size_t version = api.GetVersion();
  return absl::StrCat("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100, " (", api.library,
                      ")");
}

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<const Api*>* loaded = new absl::StatusOr<const Api*>(Open());
  return *loaded;
}

}  // namespace rvm::device::cublaslt
