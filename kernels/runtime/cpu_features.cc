#include "kernels/runtime/cpu_features.h"

#include <string_view>

#include "absl/strings/string_view.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/runtime/kernel_library.h"

namespace rvm::runtime {
namespace {

using enum CpuRegister;
using enum CpuState;

constexpr CpuFeature kFeatures[] = {
    {"sse2", 1, 0, kEdx, 26, kBasic},
    {"sse3", 1, 0, kEcx, 0, kBasic},
    {"pclmul", 1, 0, kEcx, 1, kBasic},
    {"ssse3", 1, 0, kEcx, 9, kBasic},
    {"fma", 1, 0, kEcx, 12, kAvx},
    {"cx16", 1, 0, kEcx, 13, kBasic},
    {"sse4.1", 1, 0, kEcx, 19, kBasic},
    {"sse4.2", 1, 0, kEcx, 20, kBasic},
    {"movbe", 1, 0, kEcx, 22, kBasic},
    {"popcnt", 1, 0, kEcx, 23, kBasic},
    {"aes", 1, 0, kEcx, 25, kBasic},
    {"avx", 1, 0, kEcx, 28, kAvx},
    {"f16c", 1, 0, kEcx, 29, kAvx},
    {"bmi", 7, 0, kEbx, 3, kBasic},
    {"avx2", 7, 0, kEbx, 5, kAvx},
    {"bmi2", 7, 0, kEbx, 8, kBasic},
    {"avx512f", 7, 0, kEbx, 16, kAvx512},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512},
    {"adx", 7, 0, kEbx, 19, kBasic},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512},
    {"sha", 7, 0, kEbx, 29, kBasic},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512},
    {"avx512vbmi2", 7, 0, kEcx, 6, kAvx512},
    {"gfni", 7, 0, kEcx, 8, kBasic},
    {"vaes", 7, 0, kEcx, 9, kAvx},
    {"vpclmulqdq", 7, 0, kEcx, 10, kAvx},
    {"avx512vnni", 7, 0, kEcx, 11, kAvx512},
    {"avx512bitalg", 7, 0, kEcx, 12, kAvx512},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kAvx512},
    {"avxvnni", 7, 1, kEax, 4, kAvx},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512},
    {"avxifma", 7, 1, kEax, 23, kAvx},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kBasic},
    {"xop", 0x80000001, 0, kEcx, 11, kAvx},
    {"fma4", 0x80000001, 0, kEcx, 16, kAvx},
    {"tbm", 0x80000001, 0, kEcx, 21, kBasic},
};

#if defined(__x86_64__)
bool OsSaves(CpuState state) {
  if (state == kBasic) return true;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c >> 27 & 1) == 0) return false;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  uint32_t wanted = state == kAvx ? 0x6 : 0xe6;
  return (low & wanted) == wanted;
}
#endif

}  // namespace

std::span<const CpuFeature> CpuFeatures() { return kFeatures; }

bool HostHas(const CpuFeature& feature) {
#if defined(__x86_64__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &a, &b, &c, &d)) return false;
  uint32_t values[] = {a, b, c, d};
  bool present = (values[static_cast<int>(feature.where)] >> feature.bit & 1) != 0;
  return present && OsSaves(feature.state);
#else
  (void)feature;
  return false;
#endif
}

absl::Status CheckHostSupports(std::string_view triple, std::string_view features) {
#if defined(__x86_64__) && defined(__linux__)
  constexpr std::string_view kHost = "x86_64";
#else
  constexpr std::string_view kHost = "none";
#endif
  absl::string_view triple_view(triple.data(), triple.size());
  if (!triple.starts_with(kHost) || triple.find("linux") == std::string_view::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat("native code is for `", triple_view, "`, which this machine cannot run"));
  }
  std::vector<std::string> missing;
  for (absl::string_view feature :
       absl::StrSplit(absl::string_view(features.data(), features.size()), ',', absl::SkipEmpty())) {
    if (!absl::ConsumePrefix(&feature, "+")) continue;
    bool has = false;
    for (const CpuFeature& known : kFeatures) has = has || (feature == known.name && HostHas(known));
    if (!has) missing.emplace_back(feature);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("native code needs features that this CPU lacks: ", absl::StrJoin(missing, ", ")));
}

}  // namespace rvm::runtime
