// Finds the CPU to compile for.
#include "kernels/codegen/llvm/host_target.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "kernels/codegen/kernel_compiler.h"
#include "kernels/runtime/cpu_features.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

namespace rvm::codegen {

using runtime::Architecture;
using runtime::ArchitectureInfo;

static void InitializeBackends() {
  // LLVM registers into its own tables; doing it again changes nothing.
  static const bool done = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)done;
}

absl::StatusOr<const llvm::Target*> FindBackend(const std::string& triple) {
  InitializeBackends();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("no code generator for `", triple, "`: ", error));
  return target;
}

std::string BaselineCpu(const std::string& triple) { return llvm::Triple(triple).isAArch64() ? "generic" : "x86-64"; }

std::string TunedCpu(const HostTarget& target) {
  for (const ArchitectureInfo& info : runtime::Architectures()) {
    if (target.cpu == info.name && target.triple == info.triple) return BaselineCpu(target.triple);
  }
  return target.cpu;
}

std::string TunedFeatures(const HostTarget& target) {
  if (!llvm::Triple(target.triple).isX86()) return target.features;
  // A gather or scatter is as slow as its loads or stores one by one, and much slower than the vectors and shuffles of
  // an access with a small stride, which LLVM compares it with.
  return absl::StrCat(target.features, target.features.empty() ? "" : ",", "+prefer-no-gather,+prefer-no-scatter");
}

namespace {

void AddFeature(HostTarget& target, std::string_view name) {
  absl::StrAppend(&target.features, target.features.empty() ? "+" : ",+", Abseil(name));
}

absl::StatusOr<HostTarget> ThisMachine() {
  std::optional<Architecture> architecture = runtime::HostArchitecture();
  if (!architecture) {
    return absl::InvalidArgumentError(
        "`host`: no machine code for this machine; expected `portable` or the name of a CPU");
  }
  HostTarget target{.triple = std::string(runtime::InfoOf(*architecture).triple),
                    .cpu = llvm::sys::getHostCPUName().str(),
                    .features = ""};
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  for (std::string_view feature : runtime::CpuFeatures(*architecture)) {
    if (host.lookup(feature) && runtime::HostHas(feature)) AddFeature(target, feature);
  }
  return target;
}

}  // namespace

absl::StatusOr<HostTarget> ParseHostTarget(std::string_view text) {
  if (text == "host") return ThisMachine();
  for (const ArchitectureInfo& info : runtime::Architectures()) {
    HostTarget target{.triple = std::string(info.triple), .cpu = std::string(text), .features = ""};
    RVM_ASSIGN_OR_RETURN(const llvm::Target* backend, FindBackend(target.triple));
    auto subtarget = [&](const std::string& cpu) {
      return std::unique_ptr<llvm::MCSubtargetInfo>(backend->createMCSubtargetInfo(target.triple, cpu, ""));
    };
    std::string cpu = TunedCpu(target);
    if (!subtarget(BaselineCpu(target.triple))->isCPUStringValid(cpu)) continue;
    std::unique_ptr<llvm::MCSubtargetInfo> facts = subtarget(cpu);
    for (std::string_view feature : runtime::CpuFeatures(info.architecture)) {
      if (facts->checkFeatures(absl::StrCat("+", Abseil(feature)))) AddFeature(target, feature);
    }
    return target;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown CPU `", Abseil(text),
                   "`; expected `portable`, `host`, `x86-64`, `x86-64-v2`, `-v3`, `-v4`, `aarch64` or LLVM's name of a "
                   "CPU"));
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const HostTarget& target, int opt_level) {
  RVM_ASSIGN_OR_RETURN(const llvm::Target* backend, FindBackend(target.triple));
  constexpr llvm::CodeGenOptLevel kLevels[] = {llvm::CodeGenOptLevel::None, llvm::CodeGenOptLevel::Less,
                                               llvm::CodeGenOptLevel::Default, llvm::CodeGenOptLevel::Default};
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  // The baseline CPU with exactly the features that were listed: the loader checks those.
  std::unique_ptr<llvm::TargetMachine> machine(
      backend->createTargetMachine(target.triple, BaselineCpu(target.triple), target.features, options,
                                   llvm::Reloc::PIC_, llvm::CodeModel::Small, kLevels[opt_level]));
  if (machine == nullptr) return absl::InternalError(absl::StrCat("cannot compile for `", target.cpu, "`"));
  return machine;
}

}  // namespace rvm::codegen
