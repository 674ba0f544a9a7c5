// How far the results of a quantised program are from those of the program in floats.
#ifndef RVM_COMPILER_DRIVER_RESULT_ERROR_H_
#define RVM_COMPILER_DRIVER_RESULT_ERROR_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/value.h"

namespace rvm::driver {

enum class ResultMetric : uint8_t {
  kNorm,    // norm of the difference of all floats, divided by their norm
  kArgmax,  // share of the rows of floats whose greatest element is another one
};
// Reads "norm" or "argmax".
absl::StatusOr<ResultMetric> ParseResultMetric(std::string_view text);

// Returns the greater of the error by `metric` and the share of calls that give other integers, booleans or
// constructors. REQUIRES: as many results as expected ones.
double ResultError(std::span<const Value> expected, std::span<const Value> results, ResultMetric metric);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_RESULT_ERROR_H_
