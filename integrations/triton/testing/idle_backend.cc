// A backend that answers each request with one zero, and runs nothing: what a request costs beside it is the server's
// own. triton_test measures with it.
#include <chrono>
#include <cstdint>

#include "integrations/triton/triton_api.h"

namespace {

using rvm::triton::DataType;
using rvm::triton::MemoryType;

uint64_t Now() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }

// Returns the first error; later calls need what earlier ones give.
TRITONSERVER_Error* Answer(TRITONBACKEND_Request* request) {
  TRITONBACKEND_Response* response = nullptr;
  if (TRITONSERVER_Error* error = TRITONBACKEND_ResponseNew(&response, request)) return error;
  const int64_t shape[] = {1};
  TRITONBACKEND_Output* output = nullptr;
  if (TRITONSERVER_Error* error =
          TRITONBACKEND_ResponseOutput(response, &output, "score", DataType::kFloat32, shape, 1)) {
    return error;
  }
  void* buffer = nullptr;
  MemoryType memory = MemoryType::kCpu;
  int64_t memory_id = 0;
  if (TRITONSERVER_Error* error = TRITONBACKEND_OutputBuffer(output, &buffer, sizeof(float), &memory, &memory_id)) {
    return error;
  }
  *static_cast<float*>(buffer) = 0;
  return TRITONBACKEND_ResponseSend(response, rvm::triton::kResponseFinal, nullptr);
}

}  // namespace

TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend*,
                                                      TRITONBACKEND_BackendAttribute* attribute) {
  return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attribute, rvm::triton::InstanceKind::kCpu, 0, nullptr,
                                                                 0);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t began = Now();
    if (TRITONSERVER_Error* error = Answer(requests[i])) return error;
    uint64_t ended = Now();
    TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[i], true, began, began, ended, ended);
    TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, 1, began, began, ended, ended);
    TRITONBACKEND_RequestRelease(requests[i], rvm::triton::kReleaseAll);
  }
  return nullptr;
}
