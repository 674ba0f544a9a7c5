// A simulated accelerator for products of int8, in the style of VTA (Moreau et al., "A Hardware-Software Blueprint for
// Flexible Deep Learning Specialization", 2019): memory of its own, a stream of commands that runs later than it is
// queued, a core that multiplies tiles of 16x16 bytes and adds them up in int32, and a vector unit for what is done to
// each sum before it is stored. It needs no driver, so every test run exercises devices, and it is the example for
// those who add a device of their own.
//
// Its code is text, for one function per product:
//
//   product NAME
//   loops COUNT OUTER ROWS COLUMNS DEPTH
//   extents EXTENT...
//   TENSOR          first factor
//   TENSOR          second factor, or `ones`: 1 everywhere
//   STEP...
//   store
//   TENSOR          result
//
// A TENSOR is
//
//   tensor ARGUMENT DTYPE ZERO RANK
//   axis EXTENT CONSTANT COEFFICIENT...       for each axis
//
// The first OUTER loops choose elements of the result, the others add up. Loops ROWS and COLUMNS are outer ones, DEPTH
// is an inner one; these three advance by 16 and make the tiles. Factors are int8 or uint8; ZERO is subtracted from
// what is loaded. An element is at the coordinates CONSTANT + sum of COEFFICIENT * loop. A load from outside of a
// tensor gives 0 after that subtraction, which makes padding; a store there is skipped. `broadcast` in place of `axis`:
// if the extent is 1, the coordinate is 0. The result must not be an input. The first factor does not depend on
// COLUMNS, nor the second on ROWS, nor other tensors on inner loops. An EXTENT is a number, or `a7`: the value of
// argument 7, or several of those with `|` between them: the first that is not 1.
//
// The vector unit has lanes of 64 bits, which begin as the sums and wrap. A STEP is
//
//   plus N
//   multiply SIGNIFICAND SHIFT up|nearest     multiplied, divided by 2^SHIFT, halves rounded up or away from 0
//   divide N                                  rounded towards 0
//   clamp LOW HIGH
//   wrap int8|uint8|int32                     the lowest bits, as a number of that type
//   add SIGNIFICAND SHIFT                     adds the TENSOR behind it, of int8, uint8 or int32, multiplied likewise
//   scale BITS                                float32 with these bits times the lane as int32; the last step
//
// The result has the lowest bits of the lanes: int8, uint8, int32, or float32 behind `scale`.
#ifndef RVM_DEVICES_SIM_SIM_DEVICE_H_
#define RVM_DEVICES_SIM_SIM_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// Returns the simulated accelerator of this machine.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> SimDevices();

}  // namespace rvm::device

#endif  // RVM_DEVICES_SIM_SIM_DEVICE_H_
