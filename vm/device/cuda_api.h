// The part of the CUDA driver API that the VM uses, declared here so that neither headers nor a library of NVIDIA's are
// needed to build; libcuda.so.1, which comes with the driver, is opened when the first device is looked for. Names,
// types and numbers are those of the CUDA Driver API documentation (NVIDIA), as of CUDA 10.2.
#ifndef RVM_VM_DEVICE_CUDA_API_H_
#define RVM_VM_DEVICE_CUDA_API_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace rvm::device::cuda {

using Result = int32_t;  // 0: success
using DeviceId = int32_t;
using Address = uint64_t;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphNode = struct GraphNodeTag*;
using GraphExec = struct GraphExecTag*;

inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kInvalidPtx = 218;
inline constexpr Result kUnsupportedPtxVersion = 222;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchOutOfResources = 701;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kNotSupported = 801;

inline constexpr int32_t kComputeCapabilityMajor = 75;
inline constexpr int32_t kComputeCapabilityMinor = 76;

// Streams that do not wait for the default stream.
inline constexpr uint32_t kNonBlocking = 1;

// Mode of StreamBeginCapture: other threads may do what they like meanwhile.
inline constexpr int32_t kCaptureThreadLocal = 1;

// Options of ModuleLoadData.
inline constexpr int32_t kErrorLogBuffer = 5;
inline constexpr int32_t kErrorLogBufferBytes = 6;
inline constexpr int32_t kSplitCompile = 34;  // drivers for CUDA 12.8 and later

// CUDA_KERNEL_NODE_PARAMS_v1: a launch by a graph, with the parameters of LaunchKernel.
struct KernelNodeParams {
  Function function;
  uint32_t grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** params;
  void** extra;
};

// RVM_CUDA(name, symbol, parameters): a function that returns a Result. Those of graphs are the first versions, which
// CUDA 10.2 has and later drivers keep.
#define RVM_CUDA_FUNCTIONS(RVM_CUDA)                                                                                 \
  RVM_CUDA(Init, "cuInit", (uint32_t))                                                                               \
  RVM_CUDA(DriverGetVersion, "cuDriverGetVersion", (int32_t*))                                                       \
  RVM_CUDA(GetErrorName, "cuGetErrorName", (Result, const char**))                                                   \
  RVM_CUDA(GetErrorString, "cuGetErrorString", (Result, const char**))                                               \
  RVM_CUDA(DeviceGetCount, "cuDeviceGetCount", (int32_t*))                                                           \
  RVM_CUDA(DeviceGet, "cuDeviceGet", (DeviceId*, int32_t))                                                           \
  RVM_CUDA(DeviceGetName, "cuDeviceGetName", (char*, int32_t, DeviceId))                                             \
  RVM_CUDA(DeviceGetAttribute, "cuDeviceGetAttribute", (int32_t*, int32_t, DeviceId))                                \
  RVM_CUDA(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t*, DeviceId))                                               \
  RVM_CUDA(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context*, DeviceId))                                       \
  RVM_CUDA(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (DeviceId))                                            \
  RVM_CUDA(CtxPushCurrent, "cuCtxPushCurrent_v2", (Context))                                                         \
  RVM_CUDA(CtxPopCurrent, "cuCtxPopCurrent_v2", (Context*))                                                          \
  RVM_CUDA(CtxSynchronize, "cuCtxSynchronize", ())                                                                   \
  RVM_CUDA(MemAlloc, "cuMemAlloc_v2", (Address*, size_t))                                                            \
  RVM_CUDA(MemFree, "cuMemFree_v2", (Address))                                                                       \
  RVM_CUDA(MemAllocHost, "cuMemAllocHost_v2", (void**, size_t))                                                      \
  RVM_CUDA(MemFreeHost, "cuMemFreeHost", (void*))                                                                    \
  RVM_CUDA(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (Address, const void*, size_t, Stream))                          \
  RVM_CUDA(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, Address, size_t, Stream))                                \
  RVM_CUDA(StreamCreate, "cuStreamCreate", (Stream*, uint32_t))                                                      \
  RVM_CUDA(StreamSynchronize, "cuStreamSynchronize", (Stream))                                                       \
  RVM_CUDA(StreamQuery, "cuStreamQuery", (Stream))                                                                   \
  RVM_CUDA(EventCreate, "cuEventCreate", (Event*, uint32_t))                                                         \
  RVM_CUDA(EventRecord, "cuEventRecord", (Event, Stream))                                                            \
  RVM_CUDA(EventElapsedTime, "cuEventElapsedTime", (float*, Event, Event))                                           \
  RVM_CUDA(EventDestroy, "cuEventDestroy_v2", (Event))                                                               \
  RVM_CUDA(StreamDestroy, "cuStreamDestroy_v2", (Stream))                                                            \
  RVM_CUDA(ModuleLoadData, "cuModuleLoadDataEx", (Module*, const void*, uint32_t, int32_t*, void**))                 \
  RVM_CUDA(ModuleUnload, "cuModuleUnload", (Module))                                                                 \
  RVM_CUDA(ModuleGetFunction, "cuModuleGetFunction", (Function*, Module, const char*))                               \
  RVM_CUDA(LaunchKernel, "cuLaunchKernel",                                                                           \
           (Function, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, Stream, void**, void**)) \
  RVM_CUDA(GraphCreate, "cuGraphCreate", (Graph*, uint32_t))                                                         \
  RVM_CUDA(GraphAddKernelNode, "cuGraphAddKernelNode",                                                               \
           (GraphNode*, Graph, const GraphNode*, size_t, const KernelNodeParams*))                                   \
  RVM_CUDA(GraphInstantiate, "cuGraphInstantiate", (GraphExec*, Graph, GraphNode*, char*, size_t))                   \
  RVM_CUDA(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams",                                           \
           (GraphExec, GraphNode, const KernelNodeParams*))                                                          \
  RVM_CUDA(GraphLaunch, "cuGraphLaunch", (GraphExec, Stream))                                                        \
  RVM_CUDA(GraphExecDestroy, "cuGraphExecDestroy", (GraphExec))                                                      \
  RVM_CUDA(GraphDestroy, "cuGraphDestroy", (Graph))

// Functions that a driver may lack, which has null for them then: products in graphs, as of CUDA 11.1.
#define RVM_CUDA_OPTIONAL_FUNCTIONS(RVM_CUDA)                                                                        \
  RVM_CUDA(StreamBeginCapture, "cuStreamBeginCapture_v2", (Stream, int32_t))                                         \
  RVM_CUDA(StreamEndCapture, "cuStreamEndCapture", (Stream, Graph*))                                                 \
  RVM_CUDA(GraphAddChildGraphNode, "cuGraphAddChildGraphNode", (GraphNode*, Graph, const GraphNode*, size_t, Graph)) \
  RVM_CUDA(GraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams", (GraphExec, GraphNode, Graph))

// The functions of the library.
struct Api {
#define RVM_MEMBER(name, symbol, parameters) Result(*name) parameters = nullptr;
  RVM_CUDA_FUNCTIONS(RVM_MEMBER)
  RVM_CUDA_OPTIONAL_FUNCTIONS(RVM_MEMBER)
#undef RVM_MEMBER
};

// kUnavailable, with the reason, if there is no driver. Any thread.
absl::StatusOr<const Api*> Load();

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_API_H_
