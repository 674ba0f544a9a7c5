// The functions and numbers of cublaslt_api.h, on NVIDIA's library where it is installed. What describes a product
// needs no GPU.
#include "vm/device/cublaslt_api.h"

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"

namespace rvm::device::cublaslt {
namespace {

class Library : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<const Api*> loaded = Load();
    if (!loaded.ok()) GTEST_SKIP() << loaded.status().message();
    lt_ = *loaded;
  }
  const Api* lt_ = nullptr;
};

template <typename T>
auto Setter(Status (*set)(T, int32_t, const void*, size_t), T object) {
  return [=](int32_t attribute, auto value) { return set(object, attribute, &value, sizeof(value)); };
}

TEST_F(Library, DescribesProducts) {
  for (auto [compute, scale] : {std::pair(kCompute32, kReal32), {kCompute32Tf32, kReal32}, {kCompute64, kReal64}}) {
    MatmulDesc desc = nullptr;
    ASSERT_EQ(lt_->MatmulDescCreate(&desc, compute, scale), 0);
    auto set = Setter(lt_->MatmulDescSetAttribute, desc);
    EXPECT_EQ(set(kTransposeA, kTransposed), 0);
    EXPECT_EQ(set(kTransposeB, kTransposed), 0);
    EXPECT_EQ(set(kEpilogue, kAddBias), 0);
    EXPECT_EQ(set(kBiasPointer, uint64_t{256}), 0);
    EXPECT_NE(set(kEpilogue, uint64_t{kAddBias}), 0) << "sizes are compared";
    EXPECT_EQ(lt_->MatmulDescDestroy(desc), 0);
  }
}

TEST_F(Library, DescribesMatrices) {
  for (int32_t type : {kReal16, kRealB16, kReal32, kReal64}) {
    Layout layout = nullptr;
    ASSERT_EQ(lt_->LayoutCreate(&layout, type, 30, 40, 50), 0);
    auto set = Setter(lt_->LayoutSetAttribute, layout);
    EXPECT_EQ(set(kBatchCount, int32_t{7}), 0);
    EXPECT_EQ(set(kBatchStride, int64_t{2000}), 0);
    EXPECT_NE(set(kBatchCount, int64_t{7}), 0) << "sizes are compared";
    EXPECT_EQ(lt_->LayoutDestroy(layout), 0);
  }
}

TEST_F(Library, TakesPreferences) {
  Preference preference = nullptr;
  ASSERT_EQ(lt_->PreferenceCreate(&preference), 0);
  auto set = Setter(lt_->PreferenceSetAttribute, preference);
  EXPECT_EQ(set(kMaxWorkspace, uint64_t{1} << 22), 0);
  EXPECT_EQ(set(kReductionSchemes, kSumsInWorkspace), 0);
  for (int32_t attribute : {kAlignmentA, kAlignmentB, kAlignmentC, kAlignmentD}) {
    EXPECT_EQ(set(attribute, uint32_t{64}), 0);
    EXPECT_NE(set(attribute, uint64_t{64}), 0) << "sizes are compared";
  }
  EXPECT_EQ(lt_->PreferenceDestroy(preference), 0);
}

TEST_F(Library, SaysIfThereIsNoGpu) {
  Handle handle = nullptr;
  if (lt_->Create(&handle) == 0) {
    EXPECT_EQ(lt_->Destroy(handle), 0);
  } else {
    EXPECT_EQ(handle, nullptr);
  }
}

}  // namespace
}  // namespace rvm::device::cublaslt
