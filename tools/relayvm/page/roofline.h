// The roofline of a machine with kernels under it: Williams, Waterman and Patterson, "Roofline: an insightful visual
// performance model for multicore architectures", 2009.
#ifndef RVM_TOOLS_RELAYVM_PAGE_ROOFLINE_H_
#define RVM_TOOLS_RELAYVM_PAGE_ROOFLINE_H_

#include <string>
#include <vector>

#include "tools/relayvm/page/machine_peaks.h"

namespace rvm::tools {

struct RooflinePoint {
  std::string id;    // of the circle, for the script
  std::string name;  // its title
  double operations = 0;
  double bytes = 0;  // of arguments and results
  double ns = 0;
  double share = 0;  // of the time of the run, from 0 to 1: the area of the circle
};

// Returns a drawing with logarithmic axes: operations a byte, and operations a second. Points without operations, bytes
// or time are left out; "" if no point is left.
std::string RooflineSvg(const MachinePeaks& peaks, const std::vector<RooflinePoint>& points);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_PAGE_ROOFLINE_H_
