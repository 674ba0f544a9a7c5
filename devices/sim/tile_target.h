// The name of the code of the simulated accelerator, DeviceCode::target: text (sim_device.h).
#ifndef RVM_DEVICES_SIM_TILE_TARGET_H_
#define RVM_DEVICES_SIM_TILE_TARGET_H_

namespace rvm::device {

inline constexpr char kTileTarget[] = "int8-tiles-16";

}  // namespace rvm::device

#endif  // RVM_DEVICES_SIM_TILE_TARGET_H_
