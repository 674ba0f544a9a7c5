// The code of the simulated accelerator, text (sim_device.h): its name, and the bounds of what it can say. Both halves
// keep to them.
#ifndef RVM_DEVICES_SIM_TILE_TARGET_H_
#define RVM_DEVICES_SIM_TILE_TARGET_H_

#include <cstdint>
#include <limits>

namespace rvm::device {

// DeviceCode::target.
inline constexpr char kTileTarget[] = "int8-tiles-16";

inline constexpr int64_t kTile = 16;  // rows and columns of a tile

// Bounds that keep coordinates far from overflow.
inline constexpr int64_t kMaxTileLoops = 16, kMaxTileRank = 16, kMaxTileSteps = 32;
inline constexpr int64_t kMaxTileExtent = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kMaxTileCoefficient = 1 << 24;

}  // namespace rvm::device

#endif  // RVM_DEVICES_SIM_TILE_TARGET_H_
