// relayvm devices: what kernels may run on, beside the host.
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "devices/plugin/accelerator_library.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/verb.h"
#include "vm/device/device.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {kDeviceLibraryOption};

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  if (!options.positional().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("saw `", options.positional()[0], "`; `devices` takes no arguments"));
  }
  for (const std::string& path : options.Values("--device-library")) {
    RVM_RETURN_IF_ERROR(device::OpenAcceleratorLibrary(path));
  }
  device::DeviceList list = device::FindDevices();
  for (const std::shared_ptr<device::Device>& device : list.devices) {
    const device::DeviceInfo& info = device->info();
    std::string library = device->FindLibrary();
    std::cout << absl::StrFormat("%-10s %s: runs %s%s%s, %.1f GiB of memory%s%s\n", info.id, info.name, info.target,
                                 info.features.empty() ? "" : " with ", info.features,
                                 static_cast<double>(info.memory_bytes) / (int64_t{1} << 30),
                                 library.empty() ? "" : "; library of products: ", library);
  }
  for (const std::string& missing : list.missing) std::cout << "none of " << missing << '\n';
  return absl::OkStatus();
}

}  // namespace

const Verb kDevicesVerb = {
    .name = "devices",
    .summary = "list the devices that kernels may run on",
    .usage = "",
    .options = kOptions,
    .more = R"(
Each line begins with the name that `--device` takes. `relayvm compile --device opencl` makes an executable with code for
OpenCL devices: the graphics processors of all makers, and others; `--device cuda` one for NVIDIA GPUs. Their drivers
come with them. `sim` is a simulated accelerator of products of int8, which needs no driver. RELAYVM_DEVICE_LIBRARIES in
the environment names accelerator libraries that all programs open, with colons between them.

Example:
  relayvm devices --device-library ./libnpu.so
  relayvm compile model.relay --device opencl -o model.rvm
  relayvm-run model.rvm --device opencl:0
)",
    .run = Run,
};

}  // namespace rvm::tools
