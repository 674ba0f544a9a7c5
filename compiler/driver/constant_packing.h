// Constants in the layouts that the schedules of the kernels state.
#ifndef RVM_COMPILER_DRIVER_CONSTANT_PACKING_H_
#define RVM_COMPILER_DRIVER_CONSTANT_PACKING_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/schedule/schedule.h"
#include "serialization/executable.h"

namespace rvm::driver {

// Repacks the constants of kernel calls whose schedule states a layout, each once per layout, after kernels that read
// the same constants have agreed on one as far as they can (their schedules and workspaces become those of it), and
// gives the kernels' descriptors, and those of their batched variants, the packed shapes. A constant that nothing names
// any more is released: a scalar stays in its place. `kernels`: by KernelId. `names`: of the constants, kept in step.
// kResourceExhausted where there are more constants than an argument can name.
absl::Status PackConstants(std::span<schedule::Schedule> kernels, Executable& executable,
                           std::vector<std::string>& names);

// Drops the constants that no instruction names, and their `names`, and renumbers the rest.
void DropUnusedConstants(Executable& executable, std::vector<std::string>& names);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_CONSTANT_PACKING_H_
