// Which CPU to compile for.
#include "kernels/codegen/llvm/host_target.h"

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/codegen/kernel_compiler.h"
#include "kernels/runtime/cpu_features.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

namespace rvm::codegen {

static void InitializeHostBackend() {
  // LLVM registers into its own tables; doing it again changes nothing.
  static const bool done = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)done;
}

absl::StatusOr<const llvm::Target*> FindBackend(const std::string& triple) {
  InitializeHostBackend();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("no code generator for `", triple, "`: ", error));
  return target;
}

absl::StatusOr<HostTarget> ParseHostTarget(std::string_view text) {
  HostTarget target;
  target.triple = "x86_64-unknown-linux-gnu";
  absl::StatusOr<const llvm::Target*> backend = FindBackend(target.triple);
  if (!backend.ok()) return backend.status();
  if (text == "host") {
    target.cpu = llvm::sys::getHostCPUName().str();
    llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
    for (const runtime::CpuFeature& feature : runtime::CpuFeatures()) {
      if (host.lookup(feature.name))
        absl::StrAppend(&target.features, target.features.empty() ? "+" : ",+", feature.name);
    }
    return target;
  }
  target.cpu = std::string(text);
  std::unique_ptr<llvm::MCSubtargetInfo> info((*backend)->createMCSubtargetInfo(target.triple, "x86-64", ""));
  if (!info->isCPUStringValid(target.cpu)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown CPU `", target.cpu,
                     "`; expected `portable`, `host`, `x86-64`, `x86-64-v2`, `-v3`, `-v4` or LLVM's name of a CPU"));
  }
  info.reset((*backend)->createMCSubtargetInfo(target.triple, target.cpu, ""));
  for (const runtime::CpuFeature& feature : runtime::CpuFeatures()) {
    std::string enabled = absl::StrCat("+", feature.name);
    if (info->checkFeatures(enabled)) absl::StrAppend(&target.features, target.features.empty() ? "" : ",", enabled);
  }
  return target;
}

}  // namespace rvm::codegen
