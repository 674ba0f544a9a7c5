// Tensors of requests as values of programs, and back.
#ifndef RVM_INTEGRATIONS_TRITON_TENSORS_H_
#define RVM_INTEGRATIONS_TRITON_TENSORS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "include/relayvm/relayvm.hpp"
#include "integrations/triton/tensor_form.h"
#include "integrations/triton/triton_api.h"

namespace rvm::triton {

// Returns an input of a request, which shares the request's memory where that is one aligned buffer: release the value
// before the request. kInvalidArgument if the client sent another dtype, rank or number of bytes; extents are checked
// by the program.
absl::StatusOr<relayvm::Value> ReadInput(TRITONBACKEND_Request* request, const TensorForm& form);

// Copies a value to an output of a response.
absl::Status WriteOutput(TRITONBACKEND_Response* response, const TensorForm& form, const relayvm::Value& value);

}  // namespace rvm::triton

#endif  // RVM_INTEGRATIONS_TRITON_TENSORS_H_
