#include "integrations/triton/status.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::triton {
namespace {

absl::StatusCode CodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnknown: return absl::StatusCode::kUnknown;
    case ErrorCode::kInternal: return absl::StatusCode::kInternal;
    case ErrorCode::kNotFound: return absl::StatusCode::kNotFound;
    case ErrorCode::kInvalidArgument: return absl::StatusCode::kInvalidArgument;
    case ErrorCode::kUnavailable: return absl::StatusCode::kUnavailable;
    case ErrorCode::kUnsupported: return absl::StatusCode::kUnimplemented;
    case ErrorCode::kAlreadyExists: return absl::StatusCode::kAlreadyExists;
    case ErrorCode::kCancelled: return absl::StatusCode::kCancelled;
  }
  return absl::StatusCode::kUnknown;  // of a newer server
}

absl::StatusCode CodeOf(rvm_code code) {
  switch (code) {
    case RVM_OK: return absl::StatusCode::kOk;
    case RVM_INVALID_ARGUMENT:
    case RVM_INVALID_FILE: return absl::StatusCode::kInvalidArgument;
    case RVM_UNSUPPORTED_VERSION:
    case RVM_UNSUPPORTED_TARGET:
    case RVM_UNTRUSTED_CODE: return absl::StatusCode::kUnimplemented;
    case RVM_IO: return absl::StatusCode::kNotFound;
    case RVM_PROGRAM_FAILED:
    case RVM_INTERNAL:
    case RVM_DEVICE_FAILED:
    case RVM_HOST_FAILED: return absl::StatusCode::kInternal;
    case RVM_RESOURCE_EXHAUSTED:
    case RVM_DEADLINE_EXCEEDED: return absl::StatusCode::kUnavailable;
    case RVM_CANCELLED: return absl::StatusCode::kCancelled;
  }
  return absl::StatusCode::kUnknown;
}

// Returns the server's code. Codes that StatusOf does not give are those of our own bugs.
ErrorCode ServerCode(absl::StatusCode code) {
  if (code == absl::StatusCode::kNotFound) return ErrorCode::kNotFound;
  if (code == absl::StatusCode::kInvalidArgument) return ErrorCode::kInvalidArgument;
  if (code == absl::StatusCode::kUnavailable) return ErrorCode::kUnavailable;
  if (code == absl::StatusCode::kUnimplemented) return ErrorCode::kUnsupported;
  if (code == absl::StatusCode::kAlreadyExists) return ErrorCode::kAlreadyExists;
  if (code == absl::StatusCode::kCancelled) return ErrorCode::kCancelled;
  if (code == absl::StatusCode::kUnknown) return ErrorCode::kUnknown;
  return ErrorCode::kInternal;
}

}  // namespace

absl::Status StatusOf(TRITONSERVER_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  absl::Status status(CodeOf(TRITONSERVER_ErrorCode(error)), TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return status;
}

absl::Status StatusOf(const relayvm::Error& error) {
  std::string_view backtrace = error.backtrace();
  if (backtrace.ends_with('\n')) backtrace.remove_suffix(1);
  std::string message = error.message();
  if (!backtrace.empty()) absl::StrAppend(&message, "\n", Abseil(backtrace));
  return absl::Status(CodeOf(error.code()), message);
}

TRITONSERVER_Error* ErrorOf(const absl::Status& status) {
  if (status.ok()) return nullptr;
  return TRITONSERVER_ErrorNew(ServerCode(status.code()), std::string(status.message()).c_str());
}

void LogIfError(TRITONSERVER_Error* error, std::string_view action) {
  if (error == nullptr) return;
  std::string message = absl::StrCat("relayvm: ", Abseil(action), ": ", TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  TRITONSERVER_Error* unlogged = TRITONSERVER_LogMessage(LogLevel::kError, __FILE__, __LINE__, message.c_str());
  if (unlogged != nullptr) TRITONSERVER_ErrorDelete(unlogged);
}

}  // namespace rvm::triton
