#include "vm/device/cuda_core.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rvm::device::cuda {

absl::Status Core::Check(Result result, const char* what) const {
  if (result == 0) return absl::OkStatus();
  const char *name = nullptr, *text = nullptr;
  cu->GetErrorName(result, &name);
  cu->GetErrorString(result, &text);
  // Errors of running work, from 700 on, but for a launch that asks for too much, are for ever.
  bool is_fault = result >= kIllegalAddress && result < 800 && result != kLaunchOutOfResources;
  if (is_fault) is_lost = true;
  bool is_full = result == kOutOfMemory || result == kLaunchOutOfResources;
  return absl::Status(
      is_full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      absl::StrCat("device ", info.id, " (", info.name, ")", is_lost ? " is lost: " : ": ", "cu", what, ": ",
                   text == nullptr ? "unknown error" : text, " (", name == nullptr ? "" : name, " ", result, ")"));
}

}  // namespace rvm::device::cuda
