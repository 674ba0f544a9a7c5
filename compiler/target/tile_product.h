// Patterns of the operators that the simulated accelerator (vm/device/sim_device.h) computes, which are products of
// int8, and their code for it.
#ifndef RVM_COMPILER_TARGET_TILE_PRODUCT_H_
#define RVM_COMPILER_TARGET_TILE_PRODUCT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/expr.h"
#include "serialization/executable.h"

namespace rvm::target {

// Returns true if a typed call of an operator, of variables and constants, fits a pattern: factors of int8 or
// uint8, a result of int32, constant zero points. Extents along which a window slides must be known.
bool IsTileProduct(const ir::Call& call);

// Returns the code of a kernel that is the single call of a primitive function, which IsTileProduct accepts: its one
// function is "k<number>_0", whose arguments are those of a DeviceCode::Kernel. Returns kUnimplemented, with the
// reason, if its extents are more than constants and symbols.
absl::StatusOr<std::string> MakeTileProduct(uint32_t number, const KernelDesc& kernel, const ir::Function& primitive);

}  // namespace rvm::target

#endif  // RVM_COMPILER_TARGET_TILE_PRODUCT_H_
