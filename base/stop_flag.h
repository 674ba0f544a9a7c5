// The flag with which another thread cancels long-running work, such as RvmKernelContext::cancel.
#ifndef RVM_BASE_STOP_FLAG_H_
#define RVM_BASE_STOP_FLAG_H_

#include <cstdint>

namespace rvm {

inline bool IsSet(const volatile int32_t* flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED) != 0; }

}  // namespace rvm

#endif  // RVM_BASE_STOP_FLAG_H_
