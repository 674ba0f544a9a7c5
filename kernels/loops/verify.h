// Verifies the form of programs.
#ifndef RVM_KERNELS_LOOPS_VERIFY_H_
#define RVM_KERNELS_LOOPS_VERIFY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/loops/program.h"

namespace rvm::loops {

// Maximum size of a block's shared memory, which every OpenCL device and GPU has.
inline constexpr int64_t kMaxSharedBytes = 32 << 10;

// Returns kInternal, with the statement at fault, unless
// - each value is defined once, before its uses and in a body around them, and operands have the dtypes that they need;
// - buffers exist, inputs are not stored to, and shared memory has room;
// - all threads of a block come to each barrier: no condition is around it, and loops are the same for all of them.
absl::Status Verify(const Program& program);

}  // namespace rvm::loops

#endif  // RVM_KERNELS_LOOPS_VERIFY_H_
