// The architectures that kernels are compiled for, and the instruction set extensions that kernels may use.
#ifndef RVM_KERNELS_RUNTIME_CPU_FEATURES_H_
#define RVM_KERNELS_RUNTIME_CPU_FEATURES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace rvm::runtime {

enum class Architecture : uint8_t { kX86_64, kAArch64 };

struct ArchitectureInfo {
  Architecture architecture;
  std::string_view name;    // in messages, and as the target that every CPU of the architecture runs: "x86-64"
  std::string_view triple;  // as the compiler's: "x86_64-unknown-linux-gnu"
};

std::span<const ArchitectureInfo> Architectures();
const ArchitectureInfo& InfoOf(Architecture architecture);
// That of this process; nullopt if it runs no machine code of kernels.
std::optional<Architecture> HostArchitecture();

// The compiler's names of the instruction sets of an architecture: "avx2".
std::vector<std::string_view> CpuFeatures(Architecture architecture);
// Returns whether this CPU and its operating system have the instruction set. False for names that are not in
// CpuFeatures(HostArchitecture()). A question for AMX asks the operating system for the use of it, for the process.
bool HostHas(std::string_view feature);

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_CPU_FEATURES_H_
