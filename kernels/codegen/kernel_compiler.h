// Compiles scheduled kernels to host machine code. No LLVM types here.
#ifndef RVM_KERNELS_CODEGEN_KERNEL_COMPILER_H_
#define RVM_KERNELS_CODEGEN_KERNEL_COMPILER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/schedule/schedule.h"

namespace rvm::codegen {

// A CPU to compile for.
struct HostTarget {
  std::string triple;    // "x86_64-unknown-linux-gnu"
  std::string cpu;       // LLVM's name, or the architecture's: "znver3", "x86-64-v3", "aarch64"
  std::string features;  // "+avx2,+fma,...": the complete list, so that the loader can check each
};
// "host" (the CPU this runs on), "x86-64" (baseline), "x86-64-v2", "-v3", "-v4", "aarch64" (baseline), or an LLVM CPU
// name of one of these architectures ("znver3", "cortex-a76").
absl::StatusOr<HostTarget> ParseHostTarget(std::string_view text);

// Returns the properties of the CPU that schedules depend on.
schedule::Target ScheduleTarget(const HostTarget& target);

struct KernelRequest {
  std::string symbol;           // name of the function in the object; unique
  schedule::Schedule schedule;  // made for the ScheduleTarget of the target
};

struct CompiledObject {
  std::vector<uint8_t> object;  // relocatable ELF
  std::string llvm_ir;          // before optimisation, if kept
  std::string assembly;         // of the whole object, if kept
};

struct CodegenOptions {
  int opt_level = 2;                // 0..3
  bool keep_ir = false;             // fills llvm_ir / assembly for `inspect` and goldens
  std::function<bool()> must_stop;  // called between steps; true ends the compilation with kCancelled; may be null
};

// All kernels in one object. Deterministic: same requests, same bytes.
absl::StatusOr<CompiledObject> CompileKernels(const HostTarget& target, const std::vector<KernelRequest>& requests,
                                              const CodegenOptions& options);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_KERNEL_COMPILER_H_
