// Quantised programs from the decisions for their sites (realize), and float programs that compute the same numbers
// (simulate).
#ifndef RVM_COMPILER_QUANTIZE_REALIZE_H_
#define RVM_COMPILER_QUANTIZE_REALIZE_H_

#include <cstdint>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/quantize/scheme.h"
#include "compiler/quantize/sites.h"
#include "compiler/quantize/weights.h"

namespace rvm::quantize {

// Decision for one site.
struct SitePlan {
  Scheme scheme = Scheme::kFloat;
  int64_t group = 32;   // weights of 4 bits that share a scale
  double greatest = 0;  // kW8A8: the magnitude of activations that becomes the greatest code
};

// Returns whether products of the site fit the scheme. A table only changes how it is stored, so the schemes of
// products of bytes store it as those of floats with as many bits.
bool CanRealize(const Site& site, Scheme scheme, int64_t group, WeightStore& weights);

// Returns the module with the sites in the forms that `plans` decide, one for each site. Types stay as they are.
// Weights are constants in their stored form, which kernels expand or multiply as they are; a product of bytes is
//
//   let q = cast(clip(round_half_even(x * 1/s), -127, 127), int8);
//   cast(nn.dense(q, codes, out_dtype=int32), float32) * (s * scales)
//
// and one of kW4A8Dynamic a product of floats that a kernel may compute with bytes, since `s` and the scales are those
// of groups of the depth: nn.dense(cast(q, float32) * s, (cast(codes, float32) - 8) * scales).
//
// REQUIRES: CanRealize for each plan.
ir::Module Realize(const ir::Module& module, const std::vector<Site>& sites, const std::vector<SitePlan>& plans,
                   WeightStore& weights);

// Returns the same with weights and activations rounded in float32, and products of floats. Results differ from those
// of Realize by the rounding of sums.
ir::Module Simulate(const ir::Module& module, const std::vector<Site>& sites, const std::vector<SitePlan>& plans,
                    WeightStore& weights);

}  // namespace rvm::quantize

#endif  // RVM_COMPILER_QUANTIZE_REALIZE_H_
