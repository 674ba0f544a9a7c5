// Lowers schedules for GPUs to programs of loops.
#ifndef RVM_KERNELS_LOOPS_LOWER_H_
#define RVM_KERNELS_LOOPS_LOWER_H_

#include <vector>

#include "kernels/loops/program.h"
#include "kernels/schedule/schedule.h"

namespace rvm::loops {

// The target of the schedules that are lowered: blocks of threads, without instructions for matrices.
inline constexpr schedule::Target kTarget = {.has_blocks = true, .has_half_conversions = true};

// Returns the program of each of schedule::Launches(schedule).
// REQUIRES: the target is kTarget; no nest has an update, is a scan or is sorted.
std::vector<Program> Lower(const schedule::Schedule& schedule);

}  // namespace rvm::loops

#endif  // RVM_KERNELS_LOOPS_LOWER_H_
