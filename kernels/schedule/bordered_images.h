// Images that are stored where their copies with a border have them.
#ifndef RVM_KERNELS_SCHEDULE_BORDERED_IMAGES_H_
#define RVM_KERNELS_SCHEDULE_BORDERED_IMAGES_H_

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Lets the nest that computes an image store it into the copy with a border that a convolution reads, if nothing else
// reads the image: the nest that copied it stores the border alone. Neighbours along the innermost axis stay
// neighbours, as channels that lie side by side do. REQUIRES: schedule.nests are planned, and not yet grouped.
void StoreIntoBorders(Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BORDERED_IMAGES_H_
