// What a compiled kernel looks like to its caller. C, no dependencies; the
// version is part of the executable's format.
#ifndef RVM_KERNELS_ABI_KERNEL_ABI_H_
#define RVM_KERNELS_ABI_KERNEL_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RVM_KERNEL_ABI_VERSION 1

// What a kernel may use while it runs. Made by the caller, one per thread of execution.
typedef struct RvmKernelContext {
  // Scratch memory of at least the bytes that the kernel's descriptor states, aligned to 64.
  void* workspace;
  // Runs body(begin, end, closure) over disjoint ranges that cover [0, count), perhaps in
  // parallel; returns when all are done. `grain`: least count worth a thread. Null: there
  // are no threads.
  void (*parallel_for)(struct RvmKernelContext* context, int64_t count, int64_t grain,
                       void (*body)(int64_t begin, int64_t end, void* closure), void* closure);
  // Non-zero: somebody wants the run to stop. Long kernels look at it and return kRvmCancelled.
  const volatile int32_t* cancel;
  void* runtime;  // the caller's own
} RvmKernelContext;

enum {
  kRvmOk = 0,
  kRvmCancelled = 1,
  kRvmIndexOutOfRange = 2,  // e.g. an index of a gather
};

// buffers: the inputs, then the outputs: row-major contiguous elements; a rank-0
// tensor is a pointer to one element. Outputs never overlap inputs unless the descriptor
// allows it. dims: the values of the kernel's symbols, in order. The caller has
// checked types and shapes: a kernel checks nothing but indices it reads from data.
// Returns kRvmOk or a code above.
typedef int32_t (*RvmKernel)(void* const* buffers, const int64_t* dims, RvmKernelContext* context);

#ifdef __cplusplus
}
#endif

#endif  // RVM_KERNELS_ABI_KERNEL_ABI_H_
