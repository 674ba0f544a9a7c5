// A simulated accelerator for products of int8, in the style of VTA (Moreau et al., "A Hardware-Software Blueprint for
// Flexible Deep Learning Specialization", 2019): memory of its own, a stream of commands that runs later than it is
// queued, and a core that multiplies tiles of 16x16 bytes and adds them up in int32. It needs no driver, so every test
// run exercises devices, and it is the example for those who add a device of their own.
//
// Its code is text, for one function per product:
//
//   product NAME
//   loops COUNT OUTER ROWS COLUMNS DEPTH
//   extents EXTENT...
//   tensor ARGUMENT DTYPE ZERO RANK
//   axis EXTENT CONSTANT COEFFICIENT...
//
// The first OUTER loops choose elements of the result, the others add up. Loops ROWS and COLUMNS are outer ones, DEPTH
// is an inner one; these three advance by 16 and make the tiles. Three tensors follow, each with RANK axes: the two
// factors (DTYPE int8 or uint8; ZERO is subtracted from what is loaded) and the result (int32). An element is at the
// coordinates CONSTANT + sum of COEFFICIENT * loop. A load from outside of a tensor gives 0 after that subtraction,
// which makes padding; a store there is skipped. The result must not be an input. The first factor does not depend on
// COLUMNS, nor the second on ROWS. An EXTENT is a number, or `a7`: the value of argument 7.
#ifndef RVM_VM_DEVICE_SIM_DEVICE_H_
#define RVM_VM_DEVICE_SIM_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "vm/device/device.h"

namespace rvm::device {

// Calls that may fail. kRun: a command that was queued before, whose error the next wait or copy to the host reports.
enum class SimCall : uint8_t { kAllocate, kLoad, kNewStream, kCopyIn, kCopyOut, kLaunch, kWait, kRun };

struct SimOptions {
  int64_t memory_bytes = int64_t{1} << 30;
  // Asked before each call, on its thread; an error is what the call gives. For tests. May be empty.
  std::function<absl::Status(SimCall)> fault;
  // Positions of the loops of a launch, in tiles; one with more is refused, as nothing stops it.
  int64_t most_tiles = int64_t{1} << 36;
};

// "sim:0".
std::shared_ptr<Device> MakeSimDevice(SimOptions options = {});

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_SIM_DEVICE_H_
