#include "integrations/triton/tensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "integrations/triton/status.h"

namespace rvm::triton {
namespace {

struct InputTensor {
  TRITONBACKEND_Input* input = nullptr;
  DataType type = DataType::kInvalid;
  std::span<const int64_t> shape;
  uint64_t bytes = 0;
  uint32_t buffers = 0;
};

absl::Status WrongInput(const TensorForm& form, const std::string& saw, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("input `", form.name, "`: saw ", saw, "; expected ", expected));
}

std::string ShapeText(std::span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

absl::StatusOr<InputTensor> FindInput(TRITONBACKEND_Request* request, const TensorForm& form) {
  InputTensor found;
  const int64_t* shape = nullptr;
  uint32_t rank = 0;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_RequestInput(request, form.name.c_str(), &found.input)));
  RVM_RETURN_IF_ERROR(StatusOf(
      TRITONBACKEND_InputProperties(found.input, nullptr, &found.type, &shape, &rank, &found.bytes, &found.buffers)));
  found.shape = {shape, rank};
  return found;
}

absl::Status CheckInput(const InputTensor& tensor, const TensorForm& form) {
  if (tensor.type != form.element->type) {
    return WrongInput(form, absl::StrCat("datatype ", Abseil(ProtocolName(tensor.type))),
                      std::string(ProtocolName(form.element->type)));
  }
  uint64_t bytes = form.element->bytes();
  bool is_empty = false, fits = true;
  for (int64_t extent : tensor.shape) {
    fits = fits && extent >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes);
    is_empty = is_empty || extent == 0;
  }
  if (is_empty) bytes = 0;
  bool is_one = form.kind == TensorForm::kScalar && bytes == form.element->bytes();
  if (!fits || (tensor.shape.size() != form.dims.size() && !is_one) || (form.kind == TensorForm::kScalar && !is_one)) {
    return WrongInput(form, absl::StrCat("shape ", ShapeText(tensor.shape)), ShapeText(form.dims));
  }
  if (tensor.bytes != bytes) {
    return WrongInput(form, absl::StrCat(tensor.bytes, " bytes"),
                      absl::StrCat(bytes, " for shape ", ShapeText(tensor.shape)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const char>> Buffer(const InputTensor& tensor, const TensorForm& form, uint32_t index) {
  const void* data = nullptr;
  uint64_t bytes = 0;
  MemoryType memory = MemoryType::kCpu;
  int64_t memory_id = 0;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_InputBuffer(tensor.input, index, &data, &bytes, &memory, &memory_id)));
  if (memory == MemoryType::kGpu) {
    return absl::UnimplementedError(absl::StrCat("input `", form.name, "` is in memory of a GPU; expected the host's"));
  }
  return std::span(static_cast<const char*>(data), bytes);
}

// Returns the elements of the input as a tensor of this shape.
absl::StatusOr<relayvm::Value> ReadTensor(const InputTensor& tensor, const TensorForm& form,
                                          std::span<const int64_t> shape) {
  rvm_value* out = nullptr;
  rvm_error* error = nullptr;
  std::vector<char> joined;
  for (uint32_t i = 0; i < tensor.buffers; ++i) {
    RVM_ASSIGN_OR_RETURN(std::span<const char> buffer, Buffer(tensor, form, i));
    bool is_aligned = reinterpret_cast<uintptr_t>(buffer.data()) % form.element->bytes() == 0;
    if (tensor.buffers == 1 && is_aligned && buffer.size() == tensor.bytes) {
      error = rvm_value_tensor_borrow(form.element->dtype, shape.data(), shape.size(), buffer.data(), nullptr, nullptr,
                                      &out);
      if (error != nullptr) return StatusOf(relayvm::Error(error));
      return relayvm::Value(out);
    }
    joined.insert(joined.end(), buffer.begin(), buffer.end());
  }
  if (joined.size() != tensor.bytes) {
    return WrongInput(form, absl::StrCat(joined.size(), " bytes in its buffers"), absl::StrCat(tensor.bytes));
  }
  error = rvm_value_tensor_copy(form.element->dtype, shape.data(), shape.size(), joined.data(), &out);
  if (error != nullptr) return StatusOf(relayvm::Error(error));
  return relayvm::Value(out);
}

// Returns the elements of a list as one tensor, with the shape of it. An empty list has no tensor; the extents that its
// type leaves open are 0.
absl::StatusOr<relayvm::Value> Stack(const TensorForm& form, const relayvm::Value& list, std::vector<int64_t>& shape) {
  if (rvm_value_field_count(list.get()) == 0) {
    for (int64_t dim : form.dims) shape.push_back(std::max<int64_t>(dim, 0));
    return list;
  }
  relayvm::Result<relayvm::Value> stacked = list.Stacked();
  if (!stacked) {
    return absl::InternalError(absl::StrCat("output `", form.name, "`: ", stacked.error().message()));
  }
  shape = stacked->shape();
  return *stacked;
}

}  // namespace

absl::StatusOr<relayvm::Value> ReadInput(TRITONBACKEND_Request* request, const TensorForm& form) {
  RVM_ASSIGN_OR_RETURN(InputTensor tensor, FindInput(request, form));
  RVM_RETURN_IF_ERROR(CheckInput(tensor, form));
  bool is_scalar = form.kind == TensorForm::kScalar;
  RVM_ASSIGN_OR_RETURN(relayvm::Value value,
                       ReadTensor(tensor, form, is_scalar ? std::span<const int64_t>() : tensor.shape));
  if (form.kind != TensorForm::kList) return value;
  relayvm::Result<relayvm::Value> list = relayvm::Value::List(value);
  if (!list) return StatusOf(list.error());
  return *list;
}

absl::Status WriteOutput(TRITONBACKEND_Response* response, const TensorForm& form, const relayvm::Value& value) {
  std::vector<int64_t> shape = form.dims;
  relayvm::Value tensor = value;
  if (form.kind == TensorForm::kList) {
    shape.clear();
    RVM_ASSIGN_OR_RETURN(tensor, Stack(form, value, shape));
  } else if (form.kind == TensorForm::kTensor) {
    shape = value.shape();
  }
  uint64_t bytes = form.element->bytes();
  for (int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
  TRITONBACKEND_Output* output = nullptr;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ResponseOutput(response, &output, form.name.c_str(), form.element->type,
                                                            shape.data(), static_cast<uint32_t>(shape.size()))));
  void* buffer = nullptr;
  MemoryType memory = MemoryType::kCpu;
  int64_t memory_id = 0;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_OutputBuffer(output, &buffer, bytes, &memory, &memory_id)));
  if (memory == MemoryType::kGpu) {
    return absl::UnimplementedError(
        absl::StrCat("output `", form.name, "` is wanted in memory of a GPU; expected the host's"));
  }
  if (bytes > 0) std::memcpy(buffer, rvm_value_data(tensor.get()), bytes);
  return absl::OkStatus();
}

}  // namespace rvm::triton
