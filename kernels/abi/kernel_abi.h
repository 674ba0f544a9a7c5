// The calling convention of compiled kernels, in C and without dependencies. The version is part of the executable's
// format.
#ifndef RVM_KERNELS_ABI_KERNEL_ABI_H_
#define RVM_KERNELS_ABI_KERNEL_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RVM_KERNEL_ABI_VERSION 1

// The services that a kernel may use while it runs. Created by the caller, one per thread of execution.
typedef struct RvmKernelContext {
  // Scratch memory, aligned to 64 bytes, of at least the size that the kernel's descriptor states.
  void* workspace;
  // Runs body(begin, end, closure) over disjoint ranges that cover [0, count), possibly in parallel, and returns when
  // all are done. `grain` is the least count for which a further thread pays off. Null if there are no threads.
  void (*parallel_for)(struct RvmKernelContext* context, int64_t count, int64_t grain,
                       void (*body)(int64_t begin, int64_t end, void* closure), void* closure);
  // Non-zero if the run must stop. Long kernels poll it and return kRvmCancelled.
  const volatile int32_t* cancel;
  void* runtime;  // for use by the caller
} RvmKernelContext;

enum {
  kRvmOk = 0,
  kRvmCancelled = 1,
  kRvmIndexOutOfRange = 2,  // e.g. an index of a gather
};

// `buffers`: pointers to the elements of the inputs, then of the outputs, contiguous and in row-major order; one
// element for a rank-0 tensor. Outputs do not overlap inputs unless the descriptor allows it. `dims`: the values of the
// kernel's symbols, in order. REQUIRES: types and shapes are as the descriptor states. A kernel checks only the indices
// that it reads from data. Returns kRvmOk or a code above.
typedef int32_t (*RvmKernel)(void* const* buffers, const int64_t* dims, RvmKernelContext* context);

#ifdef __cplusplus
}
#endif

#endif  // RVM_KERNELS_ABI_KERNEL_ABI_H_
