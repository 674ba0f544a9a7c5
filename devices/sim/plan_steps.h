// Calls that follow a product, as steps of the vector unit.
#ifndef RVM_DEVICES_SIM_PLAN_STEPS_H_
#define RVM_DEVICES_SIM_PLAN_STEPS_H_

#include <optional>
#include <vector>

#include "base/dim.h"
#include "compiler/target/accelerator.h"
#include "devices/sim/tile_function.h"

namespace rvm::target {

// Returns the axes of `dims` that are those of a view of it, which leaves out others of extent 1; nullopt if the view
// does anything else.
std::optional<std::vector<size_t>> AxesOfView(const Dims& dims, const Dims& view);

// Returns true if the operator makes a view.
bool IsView(const CompositeCall& call);

// Adds the steps of the calls from number `first` on to the function, whose result has places by the axes of the call
// before. False if the accelerator does not compute one of them.
bool PlanSteps(const Composite& composite, size_t first, TileFunction& function);

}  // namespace rvm::target

#endif  // RVM_DEVICES_SIM_PLAN_STEPS_H_
