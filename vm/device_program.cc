#include "vm/device_program.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace rvm::vm {
namespace {

// What the device lacks of the features that the code needs; "": nothing.
std::string MissingFeatures(const DeviceCode& code, const device::DeviceInfo& info) {
  std::vector<std::string> has = absl::StrSplit(info.features, ',');
  std::string missing;
  std::vector<std::string> needed = absl::StrSplit(code.features, ',', absl::SkipEmpty());
  for (const std::string& feature : needed) {
    bool is_there = false;
    for (const std::string& known : has) is_there |= known == feature;
    if (!is_there) absl::StrAppend(&missing, missing.empty() ? "" : ",", feature);
  }
  return missing;
}

// Adds the code, on the device.
absl::Status Load(const Executable& executable, const DeviceCode& code, std::shared_ptr<device::Device> device,
                  DeviceProgram& program) {
  std::vector<std::string> functions;
  for (const DeviceCode::Kernel& kernel : code.kernels) {
    uint32_t number = kernel.kernel.value;
    const KernelDesc& desc = executable.kernels[number];
    auto linked = std::make_unique<DeviceKernel>();
    linked->part = program.parts.size();
    linked->first_function = static_cast<uint32_t>(functions.size());
    std::optional<DimProgram> workspace = DimProgram::Compile(kernel.workspace, desc.num_symbols);
    bool compiles = workspace.has_value();
    if (compiles) linked->workspace = *std::move(workspace);
    for (size_t i = 0; i < kernel.launches.size(); ++i) {
      std::optional<DimProgram> items = DimProgram::Compile(kernel.launches[i], desc.num_symbols);
      compiles = compiles && items.has_value();
      if (items) linked->launches.push_back(*std::move(items));
      functions.push_back(absl::StrCat("k", number, "_", i));
    }
    if (!compiles) {
      return absl::InvalidArgumentError(absl::StrCat("kernel `", desc.name, "` has a launch for ", code.target,
                                                     " whose size is no expression of its symbols"));
    }
    if (program.kernels[number] == nullptr) program.kernels[number] = std::move(linked);
  }
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<device::Code> loaded, device->Load(code.bytes, functions));
  program.parts.push_back({std::move(device), std::move(loaded)});
  return absl::OkStatus();
}

// The first device that the code fits; null if there is none, and then `reasons` says why, one line for each.
std::shared_ptr<device::Device> FindDevice(const DeviceCode& code, const device::DeviceList& devices,
                                           std::string& reasons) {
  for (const std::shared_ptr<device::Device>& device : devices.devices) {
    const device::DeviceInfo& info = device->info();
    if (info.target != code.target) continue;
    std::string missing = MissingFeatures(code, info);
    if (missing.empty()) return device;
    absl::StrAppend(&reasons, "\n  ", info.id, " (", info.name, ") lacks ", missing);
  }
  for (const std::string& reason : devices.missing) absl::StrAppend(&reasons, "\n  ", reason);
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const DeviceProgram>> LoadDeviceProgram(const Executable& executable,
                                                                       const device::DeviceList& devices) {
  auto program = std::make_unique<DeviceProgram>();
  program->kernels.resize(executable.kernels.size());
  for (const DeviceCode& code : executable.device_codes) {
    std::string reasons;
    std::shared_ptr<device::Device> device = FindDevice(code, devices, reasons);
    if (device != nullptr) {
      RVM_RETURN_IF_ERROR(Load(executable, code, std::move(device), *program));
    } else if (code.is_required) {
      return absl::FailedPreconditionError(
          absl::StrCat("the executable needs a device for ", code.target, code.features.empty() ? "" : " with ",
                       code.features, ", and this machine has none:", reasons,
                       "\nrun it on the host (`--device host`), or compile it with `--host-fallback`"));
    }
  }
  if (program->parts.empty()) return nullptr;
  return program;
}

}  // namespace rvm::vm
