// The configuration of a model (config.pbtxt), which the server gives as JSON: parameters of the backend, and inputs
// and outputs, which are those of the program.
#ifndef RVM_INTEGRATIONS_TRITON_MODEL_CONFIG_H_
#define RVM_INTEGRATIONS_TRITON_MODEL_CONFIG_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "integrations/triton/tensor_form.h"

namespace rvm::triton {

// The `parameters` of a configuration. Numbers that are 0 stand for the defaults of relayvm.h.
struct ModelParameters {
  std::string entry = "main";
  int64_t lanes = 0;  // requests that run at once; 0: 8 if the program has variants for batches, else 1
  int64_t threads = 0;
  int64_t fuel = 0;
  int64_t memory_limit = 0;                           // bytes of each lane
  double time_limit_ms = 0;                           // of each request
  std::string device;                                 // as rvm_load_options::device
  std::vector<std::array<uint8_t, 32>> trusted_keys;  // machine code must be signed by one of them; empty: all runs
};

// kInvalidArgument for a parameter that is unknown, or whose value is wrong.
absl::StatusOr<ModelParameters> ReadParameters(const JsonValue& config);

// Sets inputs and outputs that the configuration leaves out to those of the program. With a max_batch_size the first
// extent of each tensor is the batch, which a configuration does not list. kInvalidArgument if the program has none.
absl::Status CompleteConfig(JsonValue& config, const EntryForms& forms);
// kInvalidArgument if an input or output of the configuration is not as the program's, or an input is missing.
absl::Status CheckConfig(const JsonValue& config, const EntryForms& forms);

// Returns the value as JSON.
std::string JsonText(const JsonValue& value);

}  // namespace rvm::triton

#endif  // RVM_INTEGRATIONS_TRITON_MODEL_CONFIG_H_
