// The part of cuBLASLt that the VM uses, declared here as in cuda_api.h: NVIDIA's GEMM library, which is
// part of the CUDA toolkit, is opened when the first product is to be computed. Names, types and numbers are those of
// the cuBLAS documentation (NVIDIA), as of CUDA 11; later versions keep them.
#ifndef RVM_VM_DEVICE_CUBLASLT_API_H_
#define RVM_VM_DEVICE_CUBLASLT_API_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "vm/device/cuda_api.h"

namespace rvm::device::cublaslt {

using Status = int32_t;  // 0: success
using Handle = struct HandleTag*;
using MatmulDesc = struct MatmulDescTag*;
using Layout = struct LayoutTag*;
using Preference = struct PreferenceTag*;

inline constexpr Status kInvalidValue = 7;
inline constexpr Status kExecutionFailed = 13;
inline constexpr Status kNotSupported = 15;

// cudaDataType_t
inline constexpr int32_t kReal32 = 0;
inline constexpr int32_t kReal64 = 1;
inline constexpr int32_t kReal16 = 2;
inline constexpr int32_t kRealB16 = 14;

// cublasComputeType_t
inline constexpr int32_t kCompute32 = 68;
inline constexpr int32_t kCompute64 = 70;
inline constexpr int32_t kCompute32Tf32 = 77;  // elements are rounded to TF32

// cublasLtMatmulDescAttributes_t, and the values of them
inline constexpr int32_t kTransposeA = 3;  // int32
inline constexpr int32_t kTransposeB = 4;  // int32
inline constexpr int32_t kEpilogue = 7;    // uint32
inline constexpr int32_t kBiasPointer = 8;
inline constexpr int32_t kTransposed = 1;
inline constexpr uint32_t kAddBias = 4;  // a vector, to each column

// cublasLtMatrixLayoutAttribute_t
inline constexpr int32_t kBatchCount = 5;   // int32
inline constexpr int32_t kBatchStride = 6;  // int64, elements

// cublasLtMatmulPreferenceAttributes_t, and the values of them
inline constexpr int32_t kMaxWorkspace = 1;      // uint64, bytes
inline constexpr int32_t kReductionSchemes = 3;  // uint32, a mask
inline constexpr int32_t kAlignmentA = 5;        // uint32, bytes; B, C and D follow
inline constexpr int32_t kAlignmentB = 6;
inline constexpr int32_t kAlignmentC = 7;
inline constexpr int32_t kAlignmentD = 8;
inline constexpr uint32_t kSumsInWorkspace = 2;  // of a divided depth, in the type of the sums

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status status;
  float waves;
  int32_t reserved[4];
};

// RVM_CUBLASLT(name, symbol, parameters): a function that returns a Status. Matrices are stored by columns.
#define RVM_CUBLASLT_FUNCTIONS(RVM_CUBLASLT)                                                                         \
  RVM_CUBLASLT(Create, "cublasLtCreate", (Handle*))                                                                  \
  RVM_CUBLASLT(Destroy, "cublasLtDestroy", (Handle))                                                                 \
  RVM_CUBLASLT(MatmulDescCreate, "cublasLtMatmulDescCreate", (MatmulDesc*, int32_t, int32_t))                        \
  RVM_CUBLASLT(MatmulDescDestroy, "cublasLtMatmulDescDestroy", (MatmulDesc))                                         \
  RVM_CUBLASLT(MatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute", (MatmulDesc, int32_t, const void*, size_t)) \
  RVM_CUBLASLT(LayoutCreate, "cublasLtMatrixLayoutCreate", (Layout*, int32_t, uint64_t, uint64_t, int64_t))          \
  RVM_CUBLASLT(LayoutDestroy, "cublasLtMatrixLayoutDestroy", (Layout))                                               \
  RVM_CUBLASLT(LayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute", (Layout, int32_t, const void*, size_t))       \
  RVM_CUBLASLT(PreferenceCreate, "cublasLtMatmulPreferenceCreate", (Preference*))                                    \
  RVM_CUBLASLT(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", (Preference))                                   \
  RVM_CUBLASLT(PreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute",                                       \
               (Preference, int32_t, const void*, size_t))                                                           \
  RVM_CUBLASLT(GetHeuristic, "cublasLtMatmulAlgoGetHeuristic",                                                       \
               (Handle, MatmulDesc, Layout, Layout, Layout, Layout, Preference, int32_t, Heuristic*, int32_t*))      \
  RVM_CUBLASLT(Matmul, "cublasLtMatmul",                                                                             \
               (Handle, MatmulDesc, const void*, const void*, Layout, const void*, Layout, const void*, const void*, \
                Layout, void*, Layout, const Algorithm*, void*, size_t, cuda::Stream))

// The functions of the library.
struct Api {
#define RVM_MEMBER(name, symbol, parameters) Status(*name) parameters = nullptr;
  RVM_CUBLASLT_FUNCTIONS(RVM_MEMBER)
#undef RVM_MEMBER
  size_t (*GetVersion)() = nullptr;  // 10000 * major + 100 * minor + patch
  std::string library;               // the file's name
};

// Returns the library's name, version and file, for people.
std::string Describe(const Api& api);

// kUnavailable, with the reason, if the library is not installed. Any thread.
absl::StatusOr<const Api*> Load();

}  // namespace rvm::device::cublaslt

#endif  // RVM_VM_DEVICE_CUBLASLT_API_H_
