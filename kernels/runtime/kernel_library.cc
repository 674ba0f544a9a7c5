#include "kernels/runtime/kernel_library.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "kernels/runtime/cpu_features.h"
#include "kernels/runtime/linker.h"

namespace rvm::runtime {

KernelLibrary::KernelLibrary(std::unique_ptr<const LinkedImage> image) : image_(std::move(image)) {}
KernelLibrary::~KernelLibrary() = default;

absl::StatusOr<std::shared_ptr<const KernelLibrary>> KernelLibrary::Load(std::span<const uint8_t> object,
                                                                         std::span<const Import> imports) {
  std::optional<Architecture> host = HostArchitecture();
  if (!host) return absl::FailedPreconditionError("no machine code of kernels runs on this machine");
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<LinkedImage> image, LinkObject(object, *host, imports));
  return std::shared_ptr<const KernelLibrary>(new KernelLibrary(std::move(image)));
}

RvmKernel KernelLibrary::Find(std::string_view symbol) const {
  auto found = image_->functions.find(Abseil(symbol));
  return found == image_->functions.end() ? nullptr : reinterpret_cast<RvmKernel>(found->second);
}

}  // namespace rvm::runtime
