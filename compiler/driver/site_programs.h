// Programs of one operator, to measure what it gains by being quantised.
#ifndef RVM_COMPILER_DRIVER_SITE_PROGRAMS_H_
#define RVM_COMPILER_DRIVER_SITE_PROGRAMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/quantize.h"
#include "compiler/quantize/realize.h"
#include "compiler/quantize/sites.h"
#include "compiler/quantize/weights.h"

namespace rvm::driver {

struct SiteTimes {
  double before, after;  // nanoseconds
};

// Measures operators of the sites of a program, those that are alike once.
class SiteTimer {
 public:
  // All references outlive the timer. `dims`: values of named extents. Others are 1 for a first axis of at least three,
  // and 16 elsewhere. `weight_bytes`: of all sites in floats; caches hold what fits of them. `has_network`:
  // convolutions are those of a network, and are measured in the layout that it has them in.
  SiteTimer(const CompileOptions& options, const std::map<std::string, int64_t>& dims, int64_t weight_bytes,
            bool has_network, const QuantizeRuntime& runtime, diagnostics::Diagnostics& diagnostics);

  // Measures the operator of the site in floats and as `plan` has it. nullopt if this machine cannot run the target, or
  // the target is portable. `elements`: of the operand in a call; 0: not known.
  absl::StatusOr<std::optional<SiteTimes>> Measure(const quantize::Site& site, const quantize::SitePlan& plan,
                                                   int64_t elements, quantize::WeightStore& weights);

 private:
  const CompileOptions& options_;
  const std::map<std::string, int64_t>& dims_;
  const int64_t weight_bytes_;
  const bool has_network_;
  const QuantizeRuntime& runtime_;
  diagnostics::Diagnostics& diagnostics_;
  std::map<std::string, std::optional<SiteTimes>> known_;
};

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_SITE_PROGRAMS_H_
