#include "kernels/runtime/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/abseil.h"
#include "kernels/runtime/kernel_library.h"

namespace rvm::runtime {
namespace {

constexpr ArchitectureInfo kArchitectures[] = {
    {Architecture::kX86_64, "x86-64", "x86_64-unknown-linux-gnu"},
    {Architecture::kAArch64, "aarch64", "aarch64-unknown-linux-gnu"},
};

enum X86Register : uint8_t { kEax, kEbx, kEcx, kEdx };
// The register state that the operating system must save. That of AMX it saves for processes that ask for it.
enum X86State : uint8_t { kBasic, kAvx, kAvx512, kAmx };

struct X86Feature {
  std::string_view name;
  uint32_t leaf, subleaf;  // of cpuid
  X86Register where;
  uint8_t bit;
  X86State state;
};

constexpr X86Feature kX86Features[] = {
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
    {"amx-bf16", 7, 0, kEdx, 22, kAmx},
    {"amx-tile", 7, 0, kEdx, 24, kAmx},
    {"amx-int8", 7, 0, kEdx, 25, kAmx},
    {"avxvnni", 7, 1, kEax, 4, kAvx},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512},
    {"avxifma", 7, 1, kEax, 23, kAvx},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kBasic},
    {"xop", 0x80000001, 0, kEcx, 11, kAvx},
    {"fma4", 0x80000001, 0, kEcx, 16, kAvx},
    {"tbm", 0x80000001, 0, kEcx, 21, kBasic},
};

// Linux states AArch64's features in two words, AT_HWCAP and AT_HWCAP2, whose bits the kernel documents.
struct ArmFeature {
  std::string_view name;
  uint8_t word;   // 0: AT_HWCAP, 1: AT_HWCAP2
  uint64_t bits;  // all of them
};

constexpr uint64_t Bit(int n) { return uint64_t{1} << n; }

// Without the scalable vectors: the width of a schedule's vectors is fixed.
constexpr ArmFeature kArmFeatures[] = {
    {"fp-armv8", 0, Bit(0)}, {"neon", 0, Bit(1)},
    {"lse", 0, Bit(8)},      {"fullfp16", 0, Bit(9) | Bit(10)},  // FPHP, ASIMDHP
    {"rdm", 0, Bit(12)},     {"complxnum", 0, Bit(14)},
    {"dotprod", 0, Bit(20)}, {"fp16fml", 0, Bit(23)},
    {"i8mm", 1, Bit(13)},    {"bf16", 1, Bit(14)},
};

#if defined(__x86_64__)

// Asks Linux for the state of AMX's tiles (ARCH_REQ_XCOMP_PERM), for all threads of the process and for those that it
// forks. Refused by kernels before 5.16, and where a thread's signal stack is too small to hold the state.
bool MayUseTiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}

bool OsSaves(X86State state) {
  if (state == kBasic) return true;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c >> 27 & 1) == 0) return false;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr uint32_t kStates[] = {0, 0x6, 0xe6, 0x600e6};
  const uint32_t wanted = kStates[state];
  return (low & wanted) == wanted && (state != kAmx || MayUseTiles());
}

bool Has(const X86Feature& feature) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &a, &b, &c, &d)) return false;
  uint32_t values[] = {a, b, c, d};
  return (values[feature.where] >> feature.bit & 1) != 0 && OsSaves(feature.state);
}

constexpr std::span<const X86Feature> kHostFeatures = kX86Features;
constexpr std::optional<Architecture> kHost = Architecture::kX86_64;

#elif defined(__aarch64__)

bool Has(const ArmFeature& feature) {
  return (getauxval(feature.word == 0 ? AT_HWCAP : AT_HWCAP2) & feature.bits) == feature.bits;
}

constexpr std::span<const ArmFeature> kHostFeatures = kArmFeatures;
constexpr std::optional<Architecture> kHost = Architecture::kAArch64;

#else

bool Has(const ArmFeature&) { return false; }

constexpr std::span<const ArmFeature> kHostFeatures;
constexpr std::optional<Architecture> kHost;

#endif

template <typename Feature>
std::vector<std::string_view> Names(std::span<const Feature> features) {
  std::vector<std::string_view> names;
  for (const Feature& feature : features) names.push_back(feature.name);
  return names;
}

// Returns the architecture that a triple names, if it is of Linux and in the table.
std::optional<Architecture> ArchitectureOf(std::string_view triple) {
  if (triple.find("linux") == std::string_view::npos) return std::nullopt;
  std::string_view first = triple.substr(0, triple.find('-'));
  for (const ArchitectureInfo& info : kArchitectures) {
    if (first == info.triple.substr(0, info.triple.find('-'))) return info.architecture;
  }
  return std::nullopt;
}

}  // namespace

std::span<const ArchitectureInfo> Architectures() { return kArchitectures; }

const ArchitectureInfo& InfoOf(Architecture architecture) {
  return *std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                       [&](const ArchitectureInfo& info) { return info.architecture == architecture; });
}

std::optional<Architecture> HostArchitecture() { return kHost; }

std::vector<std::string_view> CpuFeatures(Architecture architecture) {
  switch (architecture) {
    case Architecture::kX86_64: return Names<X86Feature>(kX86Features);
    case Architecture::kAArch64: return Names<ArmFeature>(kArmFeatures);
  }
}

bool HostHas(std::string_view feature) {
  for (const auto& known : kHostFeatures) {
    if (known.name == feature) return Has(known);
  }
  return false;
}

absl::Status CheckHostSupports(std::string_view triple, std::string_view features) {
  std::optional<Architecture> architecture = ArchitectureOf(triple);
  if (!kHost || architecture != kHost) {
    return absl::FailedPreconditionError(
        absl::StrCat("native code is for `", architecture ? Abseil(InfoOf(*architecture).name) : Abseil(triple),
                     "`, which this machine cannot run"));
  }
  std::vector<std::string> missing;
  for (absl::string_view feature : absl::StrSplit(Abseil(features), ',', absl::SkipEmpty())) {
    if (!absl::ConsumePrefix(&feature, "+")) continue;
    if (!HostHas({feature.data(), feature.size()})) missing.emplace_back(feature);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("native code needs features that this CPU lacks: ", absl::StrJoin(missing, ", ")));
}

}  // namespace rvm::runtime
