// The structs of DLPack 1.0 (https://dmlc.github.io/dlpack), by which libraries pass tensors to each other.
#ifndef RVM_CAPI_DLPACK_H_
#define RVM_CAPI_DLPACK_H_

#include <cstdint>

#include "include/relayvm/relayvm.h"

struct DLDevice {
  int32_t type;  // 1: memory of the host
  int32_t id;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  rvm_dtype dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);  // may be null
};

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // may be null
  uint64_t flags;                                   // bit 0: read-only
  DLTensor dl_tensor;
};

namespace rvm::capi {

inline constexpr int32_t kHostDevice = 1;
inline constexpr uint32_t kDlpackMajor = 1;
inline constexpr uint64_t kReadOnly = 1;

}  // namespace rvm::capi

#endif  // RVM_CAPI_DLPACK_H_
