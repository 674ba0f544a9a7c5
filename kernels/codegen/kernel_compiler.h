// Compiles te computations to host machine code. No LLVM types here.
#ifndef RVM_KERNELS_CODEGEN_KERNEL_COMPILER_H_
#define RVM_KERNELS_CODEGEN_KERNEL_COMPILER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "kernels/te/tensor.h"

namespace rvm::codegen {

// A CPU to compile for.
struct HostTarget {
  std::string triple;    // "x86_64-unknown-linux-gnu"
  std::string cpu;       // LLVM's name: "znver3", "x86-64-v3"
  std::string features;  // "+avx2,+fma,...": complete, so the loader can check each
};
// "host" (the CPU this runs on), "x86-64" (baseline), "x86-64-v2", "-v3", "-v4", or an LLVM CPU name.
absl::StatusOr<HostTarget> ParseHostTarget(std::string_view text);

struct KernelRequest {
  std::string symbol;  // name of the function in the object; unique
  te::Computation computation;
  // inputs[i] may be repacked by the compiler because it is a constant at every call.
  std::vector<bool> constant_inputs;
};

// How a constant input must be laid out for the kernel; the compiler of the
// executable applies it to the constant once (Pack).
struct PackedLayout {
  // Panels of `panel` columns: from W[n, k] (or W[k, n] if `transposed`) to
  // P[ceil(n / panel), k, panel], zero padded.
  int64_t panel;
  bool transposed;
};
Literal Pack(const PackedLayout& layout, const Literal& weight);

struct CompiledKernel {
  std::string symbol;
  std::vector<std::optional<PackedLayout>> input_layouts;  // one per input
  int64_t workspace_bytes = 0;                             // for static shapes; 0 if it takes none
  // Workspace where it depends on dims: bytes = workspace_dim evaluated (Dim over the symbols).
  Dim workspace;
  std::string schedule;  // for people: "contraction 4x64, epilogue: add, tanh"
};

struct CompiledObject {
  std::vector<uint8_t> object;  // relocatable ELF
  std::vector<CompiledKernel> kernels;
  std::string llvm_ir;   // before optimisation, if kept
  std::string assembly;  // of the whole object, if kept
};

struct CodegenOptions {
  int opt_level = 2;     // 0..3
  bool keep_ir = false;  // fills llvm_ir / assembly for `inspect` and goldens
};

// All kernels in one object. Deterministic: same requests, same bytes.
absl::StatusOr<CompiledObject> CompileKernels(const HostTarget& target, const std::vector<KernelRequest>& requests,
                                              const CodegenOptions& options);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_KERNEL_COMPILER_H_
