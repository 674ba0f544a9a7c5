// The x86-64 instruction set extensions that kernels may use, under LLVM's names.
#ifndef RVM_KERNELS_RUNTIME_CPU_FEATURES_H_
#define RVM_KERNELS_RUNTIME_CPU_FEATURES_H_

#include <cstdint>
#include <span>

namespace rvm::runtime {

enum class CpuRegister : uint8_t { kEax, kEbx, kEcx, kEdx };
// The register state that the operating system must save.
enum class CpuState : uint8_t { kBasic, kAvx, kAvx512 };

struct CpuFeature {
  const char* name;
  uint32_t leaf, subleaf;  // of cpuid
  CpuRegister where;
  uint8_t bit;
  CpuState state;
};

std::span<const CpuFeature> CpuFeatures();
bool HostHas(const CpuFeature& feature);

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_CPU_FEATURES_H_
