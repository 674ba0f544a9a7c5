// The options of compilation, which `compile` and `run` share.
#ifndef RVM_TOOLS_RELAYVM_COMPILE_OPTIONS_H_
#define RVM_TOOLS_RELAYVM_COMPILE_OPTIONS_H_

#include "compiler/driver/compile.h"
#include "tools/options.h"

namespace rvm::tools {

inline constexpr OptionSpec kParamsOption = {
    "--params", "FILE",
    "weights for the free variables and the parameters of @main, by name: .npz, .safetensors, .npy or .params; may be "
    "repeated"};
inline constexpr OptionSpec kLevelOption = {
    "-O", "LEVEL", "0: as written, 1: optimised, 2: and fused (the default), 3: all there is", /*attached=*/true};
inline constexpr OptionSpec kTargetOption = {
    "--target", "CPU",
    "host (the default), x86-64, x86-64-v2, -v3, -v4, a CPU's name as LLVM knows it, or portable: no machine code"};

// From `--params`, `-O` and `--target`.
absl::StatusOr<driver::CompileOptions> ReadCompileOptions(const Options& options);

// Says on stderr which parameters of `@main` have become constants and which are left as arguments, or that no tensor
// fits. Silent where there were no files, or they only held free variables.
void ShowWeights(const driver::BoundWeights& weights, std::span<const std::string> params_files);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_COMPILE_OPTIONS_H_
