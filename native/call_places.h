// The bytecode that each call of machine code belongs to, from the line table that LLVM made.
#ifndef RVM_NATIVE_CALL_PLACES_H_
#define RVM_NATIVE_CALL_PLACES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/executable.h"

namespace rvm::native {

// Reads an object in which line n + 1 of RVM_FUNCTION_SYMBOL i is unit n of the bytecode of function i, of `functions`.
absl::StatusOr<std::vector<ControlCode::Function>> ReadCallPlaces(std::span<const uint8_t> object, size_t functions);

// Returns the object without its line table.
absl::StatusOr<std::vector<uint8_t>> StripPlaces(std::span<const uint8_t> object);

}  // namespace rvm::native

#endif  // RVM_NATIVE_CALL_PLACES_H_
