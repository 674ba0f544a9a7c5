// Products and means as loops over tiles.
#ifndef RVM_DEVICES_SIM_PLAN_PRODUCT_H_
#define RVM_DEVICES_SIM_PLAN_PRODUCT_H_

#include <optional>

#include "base/dim.h"
#include "compiler/target/accelerator.h"
#include "devices/sim/tile_function.h"

namespace rvm::target {

// Returns the loops, the factors and, in `result.places`, the places of the result of the composite's product, whose
// extents are `dims`; nullopt if the accelerator does not compute it. The product is the first call, or, of a mean, the
// first two.
std::optional<TileFunction> PlanProduct(const Composite& composite, const Dims& dims);

// Returns the number of calls that PlanProduct reads.
size_t NumCallsOfProduct(const Composite& composite);

}  // namespace rvm::target

#endif  // RVM_DEVICES_SIM_PLAN_PRODUCT_H_
