#include "vm/device/shared_library.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace rvm::device {
namespace {

TEST(LoadLibrary, GivesTheFirstThatIsInstalled) {
  void* cosine = nullptr;
  const LibrarySymbol symbols[] = {{"cos", &cosine}};
  absl::StatusOr<std::string> opened = LoadLibrary({"libnone.so.9", "libm.so.6"}, "mathematics", symbols);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(*opened, "libm.so.6");
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(cosine)(0), 1);
}

TEST(LoadLibrary, TakesOlderNamesOfFunctions) {
  void *renamed = nullptr, *present = nullptr;
  const LibrarySymbol symbols[] = {{"cos_v2", &renamed, "cos"}, {"sin", &present, "cos"}};
  ASSERT_TRUE(LoadLibrary({"libm.so.6"}, "mathematics", symbols).ok());
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(renamed)(0), 1);
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(present)(0), 0) << "the first name comes first";
}

TEST(LoadLibrary, SaysWhatIsMissing) {
  void* address = nullptr;
  const LibrarySymbol symbols[] = {{"cos_v2", &address, "cos_v1"}};
  absl::Status lacks = LoadLibrary({"libm.so.6"}, "mathematics", symbols).status();
  EXPECT_EQ(lacks.message(), "libm.so.6 lacks the function cos_v2");
  absl::Status none = LoadLibrary({"libnone.so.9", "libnone.so.8"}, "mathematics", symbols).status();
  EXPECT_TRUE(absl::StartsWith(none.message(), "mathematics is not installed: libnone.so.9: ")) << none;
  EXPECT_TRUE(absl::StrContains(none.message(), "; libnone.so.8: ")) << none;
}

}  // namespace
}  // namespace rvm::device
