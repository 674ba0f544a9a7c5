// Options of compilation, shared by `compile` and `run`.
#ifndef RVM_TOOLS_RELAYVM_COMPILE_OPTIONS_H_
#define RVM_TOOLS_RELAYVM_COMPILE_OPTIONS_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/driver/compile.h"
#include "tools/options.h"

namespace rvm::tools {

inline constexpr OptionSpec kParamsOption = {
    "--params", "FILE",
    "weights for the free variables and the parameters of @main, by name: .npz, .safetensors, .npy or .params; may be "
    "repeated. Of a .cfg or -symbol.json model: its weights"};
inline constexpr OptionSpec kLevelOption = {
    "-O", "LEVEL", "0: as written, 1: optimised, 2: and fused (the default), 3: all there is", /*attached=*/true};
inline constexpr OptionSpec kTargetOption = {
    "--target", "CPU[,CPU...][,sm_N...]",
    "host (the default), x86-64, x86-64-v2, -v3, -v4, aarch64, a CPU's name as LLVM knows it, several of them, or "
    "portable: no machine code; sm_75, sm_80 or sm_80+tf32: the NVIDIA GPUs of `--device cuda`"};

inline constexpr OptionSpec kCompileDeviceOption = {
    "--device", "KIND[:OPERATORS],...",
    "run operators on a kind of device, cuda, opencl, gpu (either of them) or sim: all, or those "
    "that a pattern names (opencl:nn.*); the first rule "
    "that fits decides, `host` is one too; may be repeated"};
inline constexpr OptionSpec kDeviceLibraryOption = {
    "--device-library", "FILE.so",
    "open an accelerator of another maker (relayvm/accelerator.h), whose kind `--device` then takes; may be repeated"};
inline constexpr OptionSpec kHostFallbackOption = {
    "--host-fallback", "", "with --device: run on the host where there is no such device, instead of refusing to run"};

inline constexpr OptionSpec kBatchOption = {
    "--batch", "", "make variants of kernels for many calls at once, so that independent calls read weights once"};

inline constexpr OptionSpec kWithPassOption = {"--with-pass", "PASS",
                                               "also run a pass that the level leaves out; may be repeated"};
inline constexpr OptionSpec kWithoutPassOption = {
    "--without-pass", "PASS", "leave out a pass, to see what it does to the program or to its speed; may be repeated"};

// Returns kInvalidArgument if no pass is named `name`.
absl::Status CheckPassName(std::string_view name);

// Reads `--params`, `-O`, `--target`, `--device`, `--device-library`, `--host-fallback`, `--batch`, `--with-pass` and
// `--without-pass`.
absl::StatusOr<driver::CompileOptions> ReadCompileOptions(const Options& options);

// Reports on stderr which parameters of `@main` became constants and which remain arguments, or that no tensor
// matches one. Prints nothing if no files were given, or if they only bind free variables.
void ShowWeights(const driver::BoundWeights& weights, std::span<const std::string> params_files);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_COMPILE_OPTIONS_H_
