#include "vm/device/product.h"

#include <stdlib.h>

#include <string_view>

#include "serialization/device_contract.h"

namespace rvm::device {
namespace {

// Large products, and smaller ones of a great depth, are those that took longer by our own functions than by the
// library on an H100. See decision 45.
constexpr int64_t kLarge = device_contract::kMinLibraryMultiplications;
constexpr int64_t kSmall = int64_t{1} << 23;
constexpr int64_t kDeep = 512;
constexpr int64_t kMaxWorkspaceBytes = int64_t{32} << 20;

enum class Wish : uint8_t { kNone, kSome, kAll };

Wish LibraryWish() {
  static const Wish wish = [] {
    const char* variable = ::secure_getenv("RELAYVM_CUBLASLT");
    std::string_view wanted = variable == nullptr ? "" : variable;
    return wanted == "off" ? Wish::kNone : wanted == "always" ? Wish::kAll : Wish::kSome;
  }();
  return wish;
}

}  // namespace

bool PrefersLibrary(const ProductSize& size) {
  if (size.multiplications <= 0 || LibraryWish() == Wish::kNone) return false;
  return LibraryWish() == Wish::kAll || size.multiplications >= kLarge ||
         (size.multiplications >= kSmall && size.depth >= kDeep);
}

int64_t WorkspaceBytes(const ProductSize& size) {
  return size.is_exact_float32 && size.multiplications >= kLarge ? kMaxWorkspaceBytes : kMinWorkspaceBytes;
}

}  // namespace rvm::device
