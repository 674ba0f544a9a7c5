#include "serialization/verifier.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "serialization/function_verifier.h"
#include "serialization/verify_tables.h"

namespace rvm {

static absl::Status VerifyParts(const Executable& executable) {
  RVM_RETURN_IF_ERROR(VerifyTables(executable));
  std::vector<LayoutId> closure_layouts = ClosureLayouts(executable);
  for (uint32_t i = 0; i < executable.functions.size(); ++i) {
    RVM_RETURN_IF_ERROR(FunctionVerifier(executable, closure_layouts, FunctionId(i)).Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> Verify(Executable executable) {
  if (absl::Status status = VerifyParts(executable); !status.ok()) {
    return MentionNewerFormat(status, executable.format_minor);
  }
  return std::shared_ptr<const VerifiedExecutable>(new VerifiedExecutable(std::move(executable)));
}

std::vector<Reg> OwnedRegistersAt(const Executable& executable, FunctionId function, uint32_t pc) {
  std::vector<LayoutId> closure_layouts = ClosureLayouts(executable);
  return FunctionVerifier(executable, closure_layouts, function).OwnedAt(pc);
}

}  // namespace rvm
