// Program: an executable with its kernels.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "kernels/abi/machine_abi.h"
#include "kernels/runtime/cpu_features.h"
#include "serialization/decoder.h"
#include "vm/device/choose_devices.h"
#include "vm/interpreter/native_code.h"
#include "vm/link/device_program.h"
#include "vm/link/link_info.h"
#include "vm/machine.h"

namespace rvm::vm {
namespace {

absl::Status CheckRunsHere(const CodeObject& object) {
  if (object.abi_version == RVM_KERNEL_ABI_VERSION) return runtime::CheckHostSupports(object.triple, object.features);
  return absl::FailedPreconditionError(
      absl::StrCat("saw kernel ABI ", object.abi_version, "; expected ", RVM_KERNEL_ABI_VERSION));
}

absl::Status CheckRunsHere(const ControlCode& code) {
  if (code.abi_version == RVM_MACHINE_ABI_VERSION) return runtime::CheckHostSupports(code.triple, code.features);
  return absl::FailedPreconditionError(
      absl::StrCat("saw machine ABI ", code.abi_version, "; expected ", RVM_MACHINE_ABI_VERSION));
}

std::string_view HostName() {
  std::optional<runtime::Architecture> host = runtime::HostArchitecture();
  return host ? runtime::InfoOf(*host).name : "not one that machine code is made for";
}

// Names the targets that give machine code for this machine.
std::string TargetsForThisMachine() {
  if (!runtime::HostArchitecture()) return "";
  absl::string_view name = Abseil(HostName());
  return absl::StrCat("`--target ", name, "` for every ", name, " CPU, with `--target host` on this machine, or with ");
}

// Returns the code of the supported target that uses most features of the CPU; null if none is supported. `reasons`
// gets what speaks against each of the others.
template <typename Code>
const Code* ChooseCode(const std::vector<Code>& codes, std::string& reasons) {
  auto num_features = [](const Code& code) { return std::count(code.features.begin(), code.features.end(), '+'); };
  const Code* best = nullptr;
  for (const Code& code : codes) {
    absl::Status fits = CheckRunsHere(code);
    if (!fits.ok()) {
      absl::StrAppend(&reasons, "\n  target ", code.target, " (", code.triple, "): ", fits.message());
    } else if (best == nullptr || num_features(code) > num_features(*best)) {
      best = &code;
    }
  }
  return best;
}

absl::StatusOr<const CodeObject*> ChooseCodeObject(const Executable& executable) {
  std::string reasons;
  if (const CodeObject* best = ChooseCode(executable.code_objects, reasons); best != nullptr) return best;
  return absl::FailedPreconditionError(
      absl::StrCat("this machine (", Abseil(HostName()), ") supports none of the executable's ",
                   executable.code_objects.size(), " targets", reasons.empty() ? "" : ":", reasons,
                   "\ncompile it with ", TargetsForThisMachine(), "`--target portable` for any machine"));
}

}  // namespace

Program::Program() = default;
Program::~Program() = default;

absl::StatusOr<std::shared_ptr<const Program>> Program::LoadMapped(const MappedFile& file, const LoadOptions& options) {
  RVM_ASSIGN_OR_RETURN(Executable executable, Decode(file.bytes, {.owner = file.owner}));
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const VerifiedExecutable> verified, Verify(std::move(executable)));
  LoadOptions link = options;
  bool has_code = (*verified)->is_native() || !(*verified)->control_codes.empty();
  if (has_code && !options.allow_native && !options.trusted_keys.empty()) {
    absl::Status is_signed = CheckSignature(file.bytes, options.trusted_keys).status();
    // A portable executable runs as bytecode.
    if ((*verified)->is_native()) RVM_RETURN_IF_ERROR(is_signed);
    link.allow_native = is_signed.ok();
  }
  return Link(std::move(verified), link);
}

absl::StatusOr<std::shared_ptr<const Program>> Program::Load(std::span<const uint8_t> bytes,
                                                             const LoadOptions& options) {
  return LoadMapped({bytes, nullptr}, options);
}

absl::StatusOr<std::shared_ptr<const Program>> Program::LoadFile(const std::string& path, const LoadOptions& options) {
  RVM_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
  absl::StatusOr<std::shared_ptr<const Program>> program = LoadMapped(file, options);
  if (program.ok()) return program;
  return absl::Status(program.status().code(), absl::StrCat(path, ": ", program.status().message()));
}

absl::StatusOr<std::shared_ptr<const Program>> Program::Link(std::shared_ptr<const VerifiedExecutable> executable,
                                                             const LoadOptions& options) {
  const Executable& exe = **executable;
  std::vector<RvmKernel> kernels;
  std::shared_ptr<const runtime::KernelLibrary> library;
  if (exe.is_native()) {
    if (!options.allow_native) {
      return absl::UnauthenticatedError(
          "the executable has machine code, which runs with all rights of this process: set `allow_native` if you "
          "trust its origin, give the key that signed it, or compile it with `--target portable`");
    }
    RVM_ASSIGN_OR_RETURN(const CodeObject* object, ChooseCodeObject(exe));
    RVM_ASSIGN_OR_RETURN(library, runtime::KernelLibrary::Load(object->bytes));
    for (const KernelDesc& desc : exe.kernels) {
      RvmKernel kernel = library->Find(desc.symbol);
      if (kernel == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("kernel `", desc.name, "` has no symbol `", desc.symbol,
                                                       "` in the code object for ", object->target));
      }
      kernels.push_back(kernel);
    }
  }
  std::shared_ptr<const DeviceProgram> device;
  if (options.device != "host" && !(exe.device_codes.empty() && options.device.empty())) {
    device::DeviceList devices = device::FindDevices();
    if (!options.device.empty()) {
      absl::StatusOr<device::DeviceList> chosen = device::ChooseDevices(options.device, devices);
      if (!chosen.ok() && !options.host_fallback) return chosen.status();
      devices = chosen.ok() ? *std::move(chosen) : device::DeviceList{};
    }
    RVM_ASSIGN_OR_RETURN(device, LoadDeviceProgram(exe, devices, options.host_fallback));
  }
  std::string reasons;
  const ControlCode* control = options.allow_native ? ChooseCode(exe.control_codes, reasons) : nullptr;
  return LinkWithKernels(std::move(executable), std::move(kernels), std::move(library), std::move(device), control);
}

absl::StatusOr<std::shared_ptr<const Program>> Program::LinkWithKernels(
    std::shared_ptr<const VerifiedExecutable> executable, std::vector<RvmKernel> kernels,
    std::shared_ptr<const runtime::KernelLibrary> library, std::shared_ptr<const DeviceProgram> device,
    const ControlCode* control) {
  size_t expected = (*executable)->is_native() ? (*executable)->kernels.size() : 0;
  if (kernels.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("saw ", kernels.size(), " kernels; expected ", expected));
  }
  std::shared_ptr<Program> program(new Program());
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<LinkInfo> link, MakeLinkInfo(**executable, kernels, device.get()));
  if (control != nullptr) {
    RVM_ASSIGN_OR_RETURN(link->native, LoadNativeCode(**executable, *control, *link));
  }
  program->link_ = std::move(link);
  program->executable_ = std::move(executable);
  program->library_ = std::move(library);
  program->device_ = std::move(device);
  return program;
}

}  // namespace rvm::vm
