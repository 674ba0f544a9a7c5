// TensorForm: how a parameter or result of a program is a tensor of the Open Inference Protocol.
//
// A tensor is a tensor; a scalar has shape [1]; a List of scalars or tensors has its length as the first extent; the
// fields of a tuple are one output each. The mapping is that of python/runtime/relayvm_runtime/oip.py.
#ifndef RVM_INTEGRATIONS_TRITON_TENSOR_FORM_H_
#define RVM_INTEGRATIONS_TRITON_TENSOR_FORM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "include/relayvm/relayvm.hpp"
#include "integrations/triton/triton_api.h"

namespace rvm::triton {

// A dtype under its names.
struct ElementType {
  std::string_view relay;   // "float32"
  std::string_view config;  // "TYPE_FP32", in a model's configuration
  DataType type;
  rvm_dtype dtype;
  size_t bytes() const { return dtype.bits / 8; }
};

// Returns "FP32", the name in requests.
std::string_view ProtocolName(DataType type);

struct TensorForm {
  enum Kind : uint8_t { kTensor, kScalar, kList };
  std::string name;
  const ElementType* element = nullptr;
  Kind kind = kTensor;
  std::vector<int64_t> dims;  // -1: not fixed
};

struct EntryForms {
  std::vector<TensorForm> inputs, outputs;
  bool gives_tuple = false;
};

// Returns the forms of an entry. `signature` is that of rvm_program_signature. kInvalidArgument if there is no such
// entry, or if a type has no form.
absl::StatusOr<EntryForms> FormsOf(const JsonValue& signature, std::string_view entry);

}  // namespace rvm::triton

#endif  // RVM_INTEGRATIONS_TRITON_TENSOR_FORM_H_
