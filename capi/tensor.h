// Tensors from and to the memory of others.
#ifndef RVM_CAPI_TENSOR_H_
#define RVM_CAPI_TENSOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "include/relayvm/relayvm.h"

namespace rvm::capi {

absl::StatusOr<DataType> ToDataType(rvm_dtype dtype);
rvm_dtype FromDataType(DataType dtype);

// A tensor in foreign memory.
struct ForeignTensor {
  rvm_dtype dtype;
  const int64_t* shape = nullptr;
  size_t rank = 0;
  const int64_t* strides = nullptr;  // in elements; null: row-major
  const void* data = nullptr;
};

// dtype, rank and extents are what a tensor may have; kInvalidArgument says what is wrong.
absl::StatusOr<Shape> CheckShape(const ForeignTensor& tensor);
// Copies the elements.
absl::StatusOr<Literal> CopyTensor(const ForeignTensor& tensor);
// Shares them if they are row-major and aligned, else copies; `owner` is given up as soon as they are not needed.
absl::StatusOr<Literal> ShareTensor(const ForeignTensor& tensor, std::shared_ptr<const void> owner);

}  // namespace rvm::capi

#endif  // RVM_CAPI_TENSOR_H_
