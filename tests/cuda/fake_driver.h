// Functions of the driver of the tests (libcuda.so.1) for libraries of the tests that queue work of their own. They
// find these functions by dlsym: nothing links the driver.
#ifndef RVM_TESTS_CUDA_FAKE_DRIVER_H_
#define RVM_TESTS_CUDA_FAKE_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "vm/device/cuda_api.h"

namespace rvm::fake_cuda {

// RVM_FAKE_CUDA(name, result, parameters)
#define RVM_FAKE_CUDA_FUNCTIONS(RVM_FAKE_CUDA)                                                                \
  /* Queues work that uses the memory at some addresses, or adds it to what is captured; it gives a fault, */ \
  /* or "". Needs a current context. */                                                                       \
  RVM_FAKE_CUDA(Queue, device::cuda::Result,                                                                  \
                (device::cuda::Stream, const std::vector<uint64_t>&, const std::function<std::string()>&))    \
  /* Device memory; null, and the problem, if it is not of one allocation. For work that runs. */             \
  RVM_FAKE_CUDA(Memory, uint8_t*, (uint64_t, size_t, std::string&))                                           \
  /* Whether FAKE_CUDA_FAIL wants this call to fail. */                                                       \
  RVM_FAKE_CUDA(Fails, bool, (const char*))                                                                   \
  /* What is left when the context is released; "" if nothing. */                                             \
  RVM_FAKE_CUDA(AtRelease, void, (const std::function<std::string()>&))

struct Hooks {
#define RVM_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  RVM_FAKE_CUDA_FUNCTIONS(RVM_MEMBER)
#undef RVM_MEMBER
};

}  // namespace rvm::fake_cuda

#endif  // RVM_TESTS_CUDA_FAKE_DRIVER_H_
