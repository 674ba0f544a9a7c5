#include "integrations/triton/testing/fake_server.h"

#include <chrono>
#include <utility>

namespace rvm::triton {
namespace {

std::atomic<int64_t> calls_left = 0;  // before the one that fails; 0: none fails
std::atomic<bool> has_failed = false;
std::mutex log_mutex;
std::string* const log_text = new std::string();

// Counts a call. Returns an error if it is the one to fail.
TRITONSERVER_Error* Count() {
  if (calls_left.load() <= 0 || calls_left.fetch_sub(1) != 1) return nullptr;
  has_failed = true;
  return new TRITONSERVER_Error{ErrorCode::kInternal, "the call that a test lets fail"};
}

// Counts a call, and sets its result unless it fails.
template <typename T, typename V>
TRITONSERVER_Error* Give(T* out, V&& value) {
  TRITONSERVER_Error* error = Count();
  if (error == nullptr) *out = std::forward<V>(value);
  return error;
}

TRITONSERVER_Error* NotFound(const char* name) {
  return new TRITONSERVER_Error{ErrorCode::kInvalidArgument, std::string("no input ") + name};
}

}  // namespace

void FailCall(int64_t number) {
  has_failed = false;
  calls_left = number;
}
bool HasFailed() { return has_failed; }
std::string TakeLog() {
  std::lock_guard lock(log_mutex);
  return std::exchange(*log_text, "");
}

}  // namespace rvm::triton

using rvm::triton::Count;
using rvm::triton::Give;

bool TRITONBACKEND_Request::Wait(double seconds) {
  std::unique_lock lock(mutex);
  return released.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return releases > 0; });
}

TRITONSERVER_Error* TRITONSERVER_ErrorNew(rvm::triton::ErrorCode code, const char* message) {
  return new TRITONSERVER_Error{code, message};
}
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) { delete error; }
rvm::triton::ErrorCode TRITONSERVER_ErrorCode(TRITONSERVER_Error* error) { return error->code; }
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->message.c_str(); }
TRITONSERVER_Error* TRITONSERVER_LogMessage(rvm::triton::LogLevel, const char*, int, const char* message) {
  std::lock_guard lock(rvm::triton::log_mutex);
  rvm::triton::log_text->append(message).append("\n");
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** message, const char* base,
                                                              size_t bytes) {
  if (TRITONSERVER_Error* error = Count()) return error;
  *message = new TRITONSERVER_Message{std::string(base, bytes)};
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* message, const char** base,
                                                        size_t* bytes) {
  *bytes = message->text.size();
  return Give(base, message->text.data());
}
TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message) {
  delete message;
  return Count();
}

TRITONSERVER_Error* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) {
  *minor = 19;
  return Give(major, 1u);
}
TRITONSERVER_Error* TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(TRITONBACKEND_BackendAttribute* attribute,
                                                                            rvm::triton::InstanceKind kind, uint64_t,
                                                                            const uint64_t*, uint64_t) {
  attribute->kinds.push_back(kind);
  return Count();
}

TRITONSERVER_Error* TRITONBACKEND_ModelRepository(TRITONBACKEND_Model* model, rvm::triton::ArtifactType* type,
                                                  const char** location) {
  *type = rvm::triton::ArtifactType::kFileSystem;
  return Give(location, model->folder.c_str());
}
TRITONSERVER_Error* TRITONBACKEND_ModelVersion(TRITONBACKEND_Model* model, uint64_t* version) {
  return Give(version, model->version);
}
TRITONSERVER_Error* TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* model, uint32_t, TRITONSERVER_Message** config) {
  if (TRITONSERVER_Error* error = Count()) return error;
  *config = new TRITONSERVER_Message{model->config};
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model* model, bool* completes) {
  return Give(completes, model->completes);
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* model, uint32_t, TRITONSERVER_Message* config) {
  return Give(&model->config, config->text);
}
TRITONSERVER_Error* TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state) {
  return Give(state, model->state);
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state) {
  return Give(&model->state, state);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* instance,
                                                     TRITONBACKEND_Model** model) {
  return Give(model, instance->model);
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* instance, void** state) {
  return Give(state, instance->state);
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* instance, void* state) {
  return Give(&instance->state, state);
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance*,
                                                                TRITONBACKEND_Request* request, bool success,
                                                                uint64_t exec_begin, uint64_t compute_begin,
                                                                uint64_t compute_end, uint64_t exec_end) {
  bool in_order = exec_begin <= compute_begin && compute_begin <= compute_end && compute_end <= exec_end;
  request->statistics += in_order && success != request->error.has_value();
  return Count();
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance*, uint64_t, uint64_t,
                                                                     uint64_t, uint64_t, uint64_t) {
  return Count();
}

TRITONSERVER_Error* TRITONBACKEND_RequestInput(TRITONBACKEND_Request* request, const char* name,
                                               TRITONBACKEND_Input** input) {
  auto found = request->inputs.find(name);
  return found == request->inputs.end() ? rvm::triton::NotFound(name) : Give(input, &found->second);
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request* request, uint32_t* count) {
  return Give(count, static_cast<uint32_t>(request->outputs.size()));
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request* request, uint32_t index, const char** name) {
  return Give(name, request->outputs.at(index).c_str());
}
TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* request, bool* is_cancelled) {
  return Give(is_cancelled, request->is_cancelled.load());
}
TRITONSERVER_Error* TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request* request,
                                                                      uint64_t* timeout) {
  return Give(timeout, request->timeout_us);
}
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request, uint32_t) {
  TRITONSERVER_Error* error = Count();
  // Under the lock: whoever waits may free the request.
  std::lock_guard lock(request->mutex);
  ++request->releases;
  request->released.notify_all();
  return error;
}

TRITONSERVER_Error* TRITONBACKEND_InputProperties(TRITONBACKEND_Input* input, const char**, rvm::triton::DataType* type,
                                                  const int64_t** shape, uint32_t* rank, uint64_t* bytes,
                                                  uint32_t* buffers) {
  *type = input->type;
  *shape = input->shape.data();
  *rank = static_cast<uint32_t>(input->shape.size());
  *bytes = 0;
  for (const std::string& buffer : input->buffers) *bytes += buffer.size() - input->skipped;
  return Give(buffers, static_cast<uint32_t>(input->buffers.size()));
}
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* input, uint32_t index, const void** buffer,
                                              uint64_t* bytes, rvm::triton::MemoryType* memory, int64_t* memory_id) {
  *bytes = input->buffers.at(index).size() - input->skipped;
  *memory = input->memory;
  *memory_id = 0;
  return Give(buffer, input->buffers.at(index).data() + input->skipped);
}
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** buffer, uint64_t bytes,
                                               rvm::triton::MemoryType* memory, int64_t* memory_id) {
  output->data.resize(bytes);
  *memory = rvm::triton::MemoryType::kCpu;
  *memory_id = 0;
  return Give(buffer, output->data.data());
}

TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response, TRITONBACKEND_Request* request) {
  if (TRITONSERVER_Error* error = Count()) return error;
  *response = new TRITONBACKEND_Response{request, {}};
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response, TRITONBACKEND_Output** output,
                                                 const char* name, rvm::triton::DataType type, const int64_t* shape,
                                                 uint32_t rank) {
  if (TRITONSERVER_Error* error = Count()) return error;
  *output = &response->outputs[name];
  **output = {type, std::vector<int64_t>(shape, shape + rank), ""};
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, uint32_t, TRITONSERVER_Error* error) {
  std::unique_ptr<TRITONBACKEND_Response> owned(response);
  if (TRITONSERVER_Error* failed = Count()) return failed;
  TRITONBACKEND_Request& request = *response->request;
  ++request.responses;
  if (error != nullptr) {
    request.error = *error;
  } else {
    request.response = std::move(response->outputs);
  }
  return nullptr;
}
