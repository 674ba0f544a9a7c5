#include "vm/device/product.h"

#include <stdlib.h>

#include <limits>
#include <string_view>

#include "serialization/device_contract.h"

namespace rvm::device {

int64_t LeastMultiplications() {
  static const int64_t least = [] {
    const char* variable = ::secure_getenv("RELAYVM_CUBLASLT");
    std::string_view wanted = variable == nullptr ? "" : variable;
    return wanted == "off"      ? std::numeric_limits<int64_t>::max()
           : wanted == "always" ? 1
                                : device_contract::kMinLibraryMultiplications;
  }();
  return least;
}

}  // namespace rvm::device
