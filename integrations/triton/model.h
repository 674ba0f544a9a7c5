// Model: one version of a model, which its instances share.
#ifndef RVM_INTEGRATIONS_TRITON_MODEL_H_
#define RVM_INTEGRATIONS_TRITON_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "include/relayvm/relayvm.hpp"
#include "integrations/triton/model_config.h"
#include "integrations/triton/tensor_form.h"
#include "integrations/triton/triton_api.h"

namespace rvm::triton {

struct Model {
  // Loads VERSION/model.rvm of the model's folder, and completes the server's configuration of it.
  static absl::StatusOr<std::unique_ptr<Model>> Load(TRITONBACKEND_Model* handle);

  relayvm::Program program;
  ModelParameters parameters;  // lanes: 1 or more
  EntryForms forms;
};

}  // namespace rvm::triton

#endif  // RVM_INTEGRATIONS_TRITON_MODEL_H_
