// The compiler's half of the simulated accelerator: its patterns, and code for calls that fit them (sim_device.h).
#ifndef RVM_DEVICES_SIM_SIM_ACCELERATOR_H_
#define RVM_DEVICES_SIM_SIM_ACCELERATOR_H_

#include <memory>
#include <span>

#include "compiler/target/accelerator.h"

namespace rvm::target {

// Products of int8 or uint8 with sums of int32, and means over images. What follows a product in a quantised network
// may be part of it: biases, requantisation, the sum with another tensor, bounds, dequantisation.
class SimAccelerator : public Accelerator {
 public:
  std::span<const Pattern> patterns() const override;
  bool Accepts(const Composite& composite) const override;
  std::unique_ptr<AcceleratorCode> NewCode() const override;
};

inline constexpr SimAccelerator kSimAccelerator;

}  // namespace rvm::target

#endif  // RVM_DEVICES_SIM_SIM_ACCELERATOR_H_
