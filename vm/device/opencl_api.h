// The part of the OpenCL 1.2 API that the VM uses, declared here so that neither headers nor a library are needed to
// build; libOpenCL.so.1, the loader of the drivers, is opened when the first device is looked for. Names, types and
// numbers are those of the OpenCL 1.2 specification (Khronos).
#ifndef RVM_VM_DEVICE_OPENCL_API_H_
#define RVM_VM_DEVICE_OPENCL_API_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace rvm::device::opencl {

using Error = int32_t;  // 0: success
using Platform = struct PlatformTag*;
using DeviceId = struct DeviceTag*;
using Context = struct ContextTag*;
using Queue = struct QueueTag*;
using Memory = struct MemoryTag*;
using Program = struct ProgramTag*;
using Kernel = struct KernelTag*;
using Event = struct EventTag*;

inline constexpr Error kDeviceNotFound = -1;
inline constexpr Error kAllocationFailure = -4;
inline constexpr Error kOutOfResources = -5;
inline constexpr Error kOutOfHostMemory = -6;
inline constexpr Error kBuildProgramFailure = -11;
inline constexpr Error kInvalidBufferSize = -61;
inline constexpr Error kNoPlatform = -1001;
inline constexpr uint64_t kAllDevices = 0xffffffff;
inline constexpr uint32_t kDeviceGroupItems = 0x1004;
inline constexpr uint32_t kDeviceMemoryBytes = 0x101f;
inline constexpr uint32_t kDeviceSharedBytes = 0x1023;
inline constexpr uint32_t kDeviceAvailable = 0x1027;
inline constexpr uint32_t kDeviceCompilerAvailable = 0x1028;
inline constexpr uint32_t kDeviceName = 0x102b;
inline constexpr uint32_t kDeviceVersion = 0x102f;
inline constexpr uint32_t kDeviceDoubleConfig = 0x1032;
inline constexpr uint32_t kDriverVersion = 0x102d;
inline constexpr uint32_t kDevicePlatform = 0x1031;
inline constexpr uint32_t kPlatformVersion = 0x0901;
inline constexpr uint32_t kPlatformName = 0x0902;
inline constexpr uint32_t kProgramBinarySizes = 0x1165;
inline constexpr uint32_t kProgramBinaries = 0x1166;
inline constexpr uint32_t kProgramBuildLog = 0x1183;
inline constexpr uint64_t kReadWrite = 1;
inline constexpr uint64_t kQueueProfiling = 2;
inline constexpr uint32_t kEventStatus = 0x11d3;
inline constexpr int32_t kComplete = 0;  // a negative status is an error
inline constexpr uint32_t kEventStart = 0x1282;
inline constexpr uint32_t kEventEnd = 0x1283;

// RVM_OPENCL(name, result, parameters): clName of the API.
#define RVM_OPENCL_FUNCTIONS(RVM_OPENCL)                                                                             \
  RVM_OPENCL(GetPlatformIDs, Error, (uint32_t, Platform*, uint32_t*))                                                \
  RVM_OPENCL(GetPlatformInfo, Error, (Platform, uint32_t, size_t, void*, size_t*))                                   \
  RVM_OPENCL(GetDeviceIDs, Error, (Platform, uint64_t, uint32_t, DeviceId*, uint32_t*))                              \
  RVM_OPENCL(GetDeviceInfo, Error, (DeviceId, uint32_t, size_t, void*, size_t*))                                     \
  RVM_OPENCL(CreateContext, Context, (const intptr_t*, uint32_t, const DeviceId*, void*, void*, Error*))             \
  RVM_OPENCL(ReleaseContext, Error, (Context))                                                                       \
  RVM_OPENCL(CreateCommandQueue, Queue, (Context, DeviceId, uint64_t, Error*))                                       \
  RVM_OPENCL(ReleaseCommandQueue, Error, (Queue))                                                                    \
  RVM_OPENCL(CreateBuffer, Memory, (Context, uint64_t, size_t, void*, Error*))                                       \
  RVM_OPENCL(ReleaseMemObject, Error, (Memory))                                                                      \
  RVM_OPENCL(CreateProgramWithSource, Program, (Context, uint32_t, const char**, const size_t*, Error*))             \
  RVM_OPENCL(CreateProgramWithBinary, Program,                                                                       \
             (Context, uint32_t, const DeviceId*, const size_t*, const uint8_t**, Error*, Error*))                   \
  RVM_OPENCL(GetProgramInfo, Error, (Program, uint32_t, size_t, void*, size_t*))                                     \
  RVM_OPENCL(BuildProgram, Error, (Program, uint32_t, const DeviceId*, const char*, void*, void*))                   \
  RVM_OPENCL(GetProgramBuildInfo, Error, (Program, DeviceId, uint32_t, size_t, void*, size_t*))                      \
  RVM_OPENCL(ReleaseProgram, Error, (Program))                                                                       \
  RVM_OPENCL(CreateKernel, Kernel, (Program, const char*, Error*))                                                   \
  RVM_OPENCL(ReleaseKernel, Error, (Kernel))                                                                         \
  RVM_OPENCL(SetKernelArg, Error, (Kernel, uint32_t, size_t, const void*))                                           \
  RVM_OPENCL(EnqueueWriteBuffer, Error,                                                                              \
             (Queue, Memory, uint32_t, size_t, size_t, const void*, uint32_t, const Event*, Event*))                 \
  RVM_OPENCL(EnqueueReadBuffer, Error,                                                                               \
             (Queue, Memory, uint32_t, size_t, size_t, void*, uint32_t, const Event*, Event*))                       \
  RVM_OPENCL(EnqueueNDRangeKernel, Error,                                                                            \
             (Queue, Kernel, uint32_t, const size_t*, const size_t*, const size_t*, uint32_t, const Event*, Event*)) \
  RVM_OPENCL(EnqueueMarkerWithWaitList, Error, (Queue, uint32_t, const Event*, Event*))                              \
  RVM_OPENCL(GetEventInfo, Error, (Event, uint32_t, size_t, void*, size_t*))                                         \
  RVM_OPENCL(GetEventProfilingInfo, Error, (Event, uint32_t, size_t, void*, size_t*))                                \
  RVM_OPENCL(ReleaseEvent, Error, (Event))                                                                           \
  RVM_OPENCL(Flush, Error, (Queue))                                                                                  \
  RVM_OPENCL(Finish, Error, (Queue))

struct Api {
#define RVM_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  RVM_OPENCL_FUNCTIONS(RVM_MEMBER)
#undef RVM_MEMBER
};

// Returns the API of libOpenCL.so.1, which stays open. kUnavailable, saying what is missing.
absl::StatusOr<const Api*> Load();

}  // namespace rvm::device::opencl

#endif  // RVM_VM_DEVICE_OPENCL_API_H_
