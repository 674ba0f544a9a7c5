// Errors: those of Triton, those of relayvm.h, and absl::Status, in which the backend passes both on.
#ifndef RVM_INTEGRATIONS_TRITON_STATUS_H_
#define RVM_INTEGRATIONS_TRITON_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "include/relayvm/relayvm.hpp"
#include "integrations/triton/triton_api.h"

namespace rvm::triton {

// Returns the status of an error of the server, which it deletes; OK for null.
absl::Status StatusOf(TRITONSERVER_Error* error);
// Returns the status of an error of a run, with its backtrace.
absl::Status StatusOf(const relayvm::Error& error);
// Returns the error that the server sends to the client; null for OK.
TRITONSERVER_Error* ErrorOf(const absl::Status& status);
// Logs an error of the server that no client can be told of.
void LogIfError(TRITONSERVER_Error* error, std::string_view action);

}  // namespace rvm::triton

#endif  // RVM_INTEGRATIONS_TRITON_STATUS_H_
