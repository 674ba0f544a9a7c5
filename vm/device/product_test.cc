#include "vm/device/product.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace rvm::device {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The variable RELAYVM_CUBLASLT is not set.
TEST(ProductTest, LargeOrDeepProductsAreTheLibrarys) {
  EXPECT_TRUE(PrefersLibrary({.multiplications = 128 * 768 * 768, .depth = 768}));
  EXPECT_TRUE(PrefersLibrary({.multiplications = 1024 * 256 * 256, .depth = 256}));
  EXPECT_TRUE(PrefersLibrary({.multiplications = 16 * 768 * 768, .depth = 768}));
  EXPECT_FALSE(PrefersLibrary({.multiplications = 384 * 256 * 256, .depth = 256}));
  EXPECT_FALSE(PrefersLibrary({.multiplications = 12 * 128 * 128 * 64, .depth = 64}));
  EXPECT_FALSE(PrefersLibrary({.multiplications = 16 * 64 * 512, .depth = 512}));
  EXPECT_FALSE(PrefersLibrary({}));
}

TEST(ProductTest, LargeProductsOfFloat32TakeMoreMemory) {
  EXPECT_EQ(WorkspaceBytes({.multiplications = 128 * 768 * 768, .depth = 768, .is_exact_float32 = true}), 32 * kMiB);
  EXPECT_EQ(WorkspaceBytes({.multiplications = 128 * 768 * 768, .depth = 768}), 4 * kMiB);
  EXPECT_EQ(WorkspaceBytes({.multiplications = 16 * 768 * 768, .depth = 768, .is_exact_float32 = true}), 4 * kMiB);
}

}  // namespace
}  // namespace rvm::device
