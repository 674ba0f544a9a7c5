// The functions of a backend of Triton Inference Server.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "integrations/triton/instance.h"
#include "integrations/triton/model.h"
#include "integrations/triton/status.h"
#include "integrations/triton/triton_api.h"

namespace rvm::triton {
namespace {

absl::Status CheckVersion() {
  uint32_t major = 0, minor = 0;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ApiVersion(&major, &minor)));
  if (major == kApiMajor) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the server's backend interface is version ", major, ".", minor, "; expected ", kApiMajor, ".x"));
}

template <typename T, typename Handle>
absl::StatusOr<T*> StateOf(Handle* handle, TRITONSERVER_Error* (*get)(Handle*, void**)) {
  void* state = nullptr;
  RVM_RETURN_IF_ERROR(StatusOf(get(handle, &state)));
  return static_cast<T*>(state);
}

absl::Status InitializeModel(TRITONBACKEND_Model* handle) {
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::Load(handle));
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelSetState(handle, model.get())));
  model.release();  // the server has it until FinalizeModel
  return absl::OkStatus();
}

absl::Status FinalizeModel(TRITONBACKEND_Model* handle) {
  RVM_ASSIGN_OR_RETURN(Model * model, (StateOf<Model>(handle, TRITONBACKEND_ModelState)));
  delete model;
  return absl::OkStatus();
}

absl::Status InitializeInstance(TRITONBACKEND_ModelInstance* handle) {
  TRITONBACKEND_Model* model_handle = nullptr;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelInstanceModel(handle, &model_handle)));
  RVM_ASSIGN_OR_RETURN(Model * model, (StateOf<Model>(model_handle, TRITONBACKEND_ModelState)));
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Instance::Create(handle, *model));
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelInstanceSetState(handle, instance.get())));
  instance.release();  // the server has it until FinalizeInstance
  return absl::OkStatus();
}

absl::Status FinalizeInstance(TRITONBACKEND_ModelInstance* handle) {
  RVM_ASSIGN_OR_RETURN(Instance * instance, (StateOf<Instance>(handle, TRITONBACKEND_ModelInstanceState)));
  delete instance;
  return absl::OkStatus();
}

absl::Status Execute(TRITONBACKEND_ModelInstance* handle, std::span<TRITONBACKEND_Request* const> requests) {
  RVM_ASSIGN_OR_RETURN(Instance * instance, (StateOf<Instance>(handle, TRITONBACKEND_ModelInstanceState)));
  instance->Execute(requests);
  return absl::OkStatus();
}

}  // namespace
}  // namespace rvm::triton

using rvm::triton::ErrorOf;

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend*) { return ErrorOf(rvm::triton::CheckVersion()); }

// Without instance_group the server would make an instance for each GPU.
TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend*,
                                                      TRITONBACKEND_BackendAttribute* attribute) {
  return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attribute, rvm::triton::InstanceKind::kCpu, 0, nullptr,
                                                                 0);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return ErrorOf(rvm::triton::InitializeModel(model));
}
TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  return ErrorOf(rvm::triton::FinalizeModel(model));
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return ErrorOf(rvm::triton::InitializeInstance(instance));
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  return ErrorOf(rvm::triton::FinalizeInstance(instance));
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests, uint32_t count) {
  return ErrorOf(rvm::triton::Execute(instance, {requests, count}));
}
