#include "compiler/driver/device_code.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/lowering/kernel_recipe.h"
#include "compiler/lowering/opencl_source.h"
#include "kernels/schedule/schedule.h"

namespace rvm::driver {
namespace {

constexpr char kOpenCl[] = "opencl";

// The recipe from which the code of a kernel on a device is made, and its workspace.
absl::StatusOr<lowering::PortableKernel> RecipeOf(const schedule::Schedule& kernel) {
  RVM_ASSIGN_OR_RETURN(schedule::Schedule plain,
                       schedule::MakeSchedule(kernel.computation, kernel.constant_inputs, schedule::Target{}));
  return lowering::MakePortableKernel(plain);
}

absl::StatusOr<lowering::OpenClKernel> MakeKernel(size_t index, bytecode::EmittedProgram& program, DeviceCode& code) {
  auto number = static_cast<uint32_t>(index);
  RVM_ASSIGN_OR_RETURN(lowering::PortableKernel portable, RecipeOf(program.kernels[index]));
  RVM_ASSIGN_OR_RETURN(lowering::OpenClKernel kernel,
                       lowering::MakeOpenClKernel(number, program.executable.kernels[index], portable.recipe));
  code.kernels.push_back({KernelId(number), portable.workspace, kernel.launches});
  return kernel;
}

absl::Status AddOpenClCode(bool is_required, bytecode::EmittedProgram& program) {
  Executable& executable = program.executable;
  DeviceCode code{.target = lowering::kOpenClTarget, .is_required = is_required};
  std::string kernels;
  bool uses_fp64 = false;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    absl::StatusOr<lowering::OpenClKernel> kernel = MakeKernel(i, program, code);
    if (absl::IsUnimplemented(kernel.status())) {
      executable.metadata.emplace_back(absl::StrCat("device.", kOpenCl, ".", executable.kernels[i].symbol),
                                       absl::StrCat("on the host: ", kernel.status().message()));
      continue;
    }
    RVM_RETURN_IF_ERROR(kernel.status());
    uses_fp64 |= kernel->uses_fp64;
    kernels += kernel->source;
  }
  if (code.kernels.empty()) return absl::OkStatus();
  if (uses_fp64) code.features = "+fp64";
  std::string text = lowering::OpenClPrelude(uses_fp64) + kernels;
  code.bytes.assign(text.begin(), text.end());
  executable.device_codes.push_back(std::move(code));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDeviceNames(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != kOpenCl) {
      return absl::InvalidArgumentError(
          absl::StrCat("saw the device `", names[i], "`; kernels can be compiled for `", kOpenCl, "`"));
    }
    if (std::count(names.begin(), names.end(), names[i]) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("the device `", names[i], "` is named twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status AddDeviceCode(const std::vector<std::string>& devices, bool is_required,
                           bytecode::EmittedProgram& program) {
  // There is one kind of device.
  return devices.empty() ? absl::OkStatus() : AddOpenClCode(is_required, program);
}

}  // namespace rvm::driver
