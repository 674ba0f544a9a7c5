#include "vm/link/device_program.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "serialization/device_contract.h"
#include "vm/limits/limit.h"

namespace rvm::vm {
namespace {

// Returns the features that the code needs and the device lacks; "" if there are none.
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

// Functions of a code, numbered in the order of their first use.
class FunctionNumbers {
 public:
  uint32_t Of(uint32_t kernel, uint32_t launch) {
    auto [it, added] = numbers_.try_emplace({kernel, launch}, static_cast<uint32_t>(names_.size()));
    if (added) names_.push_back(device_contract::FunctionName(kernel, launch));
    return it->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;
  std::vector<std::string> names_;
};

// Links launch `number` of a kernel; nullopt if a size in it is no expression of the kernel's symbols.
std::optional<DeviceLaunch> LinkLaunch(const DeviceCode::Kernel& kernel, uint32_t number, uint32_t num_symbols,
                                       FunctionNumbers& functions) {
  DeviceLaunch launch;
  std::optional<DimProgram> items = DimProgram::Compile(kernel.launches[number], num_symbols);
  if (!items) return std::nullopt;
  launch.items = *std::move(items);
  if (kernel.calls.empty()) {
    launch.function = functions.Of(kernel.kernel.value, number);
    return launch;
  }
  const DeviceCall& call = kernel.calls[number];
  launch.function = functions.Of(call.kernel.value, call.launch);
  launch.passes_all = false;
  for (const DeviceCall::Argument& argument : call.arguments) {
    std::optional<DimProgram> offset = DimProgram::Compile(argument.offset, num_symbols);
    if (!offset) return std::nullopt;
    launch.args.push_back({argument.argument, *std::move(offset)});
  }
  return launch;
}

// Adds the code, on the device.
absl::Status Load(const Executable& executable, const DeviceCode& code, std::shared_ptr<device::Device> device,
                  DeviceProgram& program) {
  FunctionNumbers functions;
  for (const DeviceCode::Kernel& kernel : code.kernels) {
    uint32_t number = kernel.kernel.value;
    const KernelDesc& desc = executable.kernels[number];
    auto linked = std::make_unique<DeviceKernel>();
    linked->part = program.parts.size();
    std::optional<DimProgram> workspace = DimProgram::Compile(kernel.workspace, desc.num_symbols);
    bool compiles = workspace.has_value();
    if (compiles) linked->workspace = *std::move(workspace);
    for (uint32_t i = 0; i < kernel.launches.size(); ++i) {
      std::optional<DeviceLaunch> launch = LinkLaunch(kernel, i, desc.num_symbols, functions);
      compiles = compiles && launch.has_value();
      if (launch) linked->launches.push_back(*std::move(launch));
    }
    for (const DeviceProduct& product : kernel.products) {
      linked->products.resize(product.launch + 1);
      linked->products.back() = ProductProgram::Compile(product, desc.num_symbols);
      if (product.has_tail) linked->tails.push_back(product.launch + 1);
    }
    if (!compiles) {
      return absl::InvalidArgumentError(absl::StrCat("kernel `", desc.name, "` has a launch for ", code.target,
                                                     " whose size is no expression of its symbols"));
    }
    if (program.kernels[number] == nullptr) program.kernels[number] = std::move(linked);
  }
  absl::StatusOr<std::unique_ptr<device::Code>> loaded = device->Load(code.bytes, functions.names());
  bool is_refused = absl::IsInvalidArgument(loaded.status());
  if (!loaded.ok()) return is_refused ? loaded.status() : DeviceFailure(loaded.status());
  program.parts.push_back({std::move(device), *std::move(loaded)});
  return absl::OkStatus();
}

// Device `number`, from 0, of those that the code fits; null if there are fewer, and then `reasons` says why, one line
// for each.
std::shared_ptr<device::Device> FindDevice(const DeviceCode& code, size_t number, const device::DeviceList& devices,
                                           std::string& reasons) {
  size_t found = 0;
  for (const std::shared_ptr<device::Device>& device : devices.devices) {
    const device::DeviceInfo& info = device->info();
    if (info.target != code.target) continue;
    std::string missing = MissingFeatures(code, info);
    if (!missing.empty()) {
      absl::StrAppend(&reasons, "\n  ", info.id, " (", info.name, ") lacks ", missing);
    } else if (found++ == number) {
      return device;
    } else {
      absl::StrAppend(&reasons, "\n  ", info.id, " (", info.name, ") is number ", found - 1, "; expected a number ",
                      number, ", too");
    }
  }
  for (const std::string& reason : devices.missing) absl::StrAppend(&reasons, "\n  ", reason);
  return nullptr;
}

std::string TargetText(const DeviceCode& code) {
  return absl::StrCat(code.target, code.features.empty() ? "" : " with ", code.features);
}

// Required code, for which no device was found.
struct MissingDevice {
  const DeviceCode* code;
  std::string reasons;
};

bool HasKernel(const DeviceCode& code, KernelId kernel) {
  return std::any_of(code.kernels.begin(), code.kernels.end(), [&](const auto& k) { return k.kernel == kernel; });
}

// Returns the first kernel of the code that has no device; nullopt if all have one.
std::optional<KernelId> FirstUnplaced(const DeviceCode& code, const DeviceProgram& program) {
  for (const DeviceCode::Kernel& kernel : code.kernels) {
    if (program.kernels[kernel.kernel.value] == nullptr) return kernel.kernel;
  }
  return std::nullopt;
}

// OK if every kernel that must run on a device has one.
absl::Status CheckMissing(const std::vector<MissingDevice>& missing, const DeviceProgram& program) {
  for (const MissingDevice& first : missing) {
    std::optional<KernelId> kernel = FirstUnplaced(*first.code, program);
    if (!kernel) continue;
    std::string targets, reasons;
    for (const MissingDevice& other : missing) {
      if (!HasKernel(*other.code, *kernel)) continue;
      absl::StrAppend(&targets, targets.empty() ? "" : " or ", TargetText(*other.code));
      reasons = reasons.size() < other.reasons.size() ? other.reasons : reasons;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the executable needs a device for ", targets, ", and this machine has none:", reasons,
                     "\nrun it on the host (`--device host` or `--host-fallback`; in Python `device=\"host\"` or "
                     "`host_fallback=True`)"));
  }
  return absl::OkStatus();
}

}  // namespace

size_t DeviceNumbers::Of(const DeviceCode& code) {
  std::vector<KernelId> kernels;
  for (const DeviceCode::Kernel& kernel : code.kernels) kernels.push_back(kernel.kernel);
  std::vector<std::vector<KernelId>>& known = kernels_[code.target];
  auto same = std::find(known.begin(), known.end(), kernels);
  if (same == known.end()) same = known.insert(same, std::move(kernels));
  return static_cast<size_t>(same - known.begin());
}

absl::StatusOr<std::unique_ptr<const DeviceProgram>> LoadDeviceProgram(const Executable& executable,
                                                                       const device::DeviceList& devices,
                                                                       bool host_fallback) {
  auto program = std::make_unique<DeviceProgram>();
  program->kernels.resize(executable.kernels.size());
  DeviceNumbers numbers;
  std::vector<MissingDevice> missing;
  for (const DeviceCode& code : executable.device_codes) {
    size_t number = numbers.Of(code);
    if (!FirstUnplaced(code, *program)) continue;
    std::string reasons;
    std::shared_ptr<device::Device> device = FindDevice(code, number, devices, reasons);
    if (device != nullptr) {
      RVM_RETURN_IF_ERROR(Load(executable, code, std::move(device), *program));
    } else if (code.is_required && !host_fallback) {
      missing.push_back({&code, std::move(reasons)});
    }
  }
  RVM_RETURN_IF_ERROR(CheckMissing(missing, *program));
  if (program->parts.empty()) return nullptr;
  return program;
}

}  // namespace rvm::vm
