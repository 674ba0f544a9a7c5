// Options of the user about inputs: constant values and other extents.
#ifndef RVM_COMPILER_IMPORT_GIVEN_INPUTS_H_
#define RVM_COMPILER_IMPORT_GIVEN_INPUTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/dim.h"
#include "base/literal.h"

namespace rvm::importing {

// A value for an input of that type: numbers are converted to its dtype, a scalar stands for one element of any rank.
// kInvalidArgument where a number changes by that, but for the rounding of floats, and for another shape.
absl::StatusOr<Literal> FitGivenValue(std::string_view input, const Literal& value, DataType dtype, const Dims& dims);

// kInvalidArgument if one of the extents is neither a number, nor a name, nor `?`.
absl::Status CheckGivenExtents(std::string_view input, const std::vector<std::string>& extents);

// Returns the error for an input that the model does not have; it lists the `known` inputs. `purpose` says why the
// input was named: "to freeze".
absl::Status UnknownInput(std::string_view input, std::string_view purpose, const std::vector<std::string_view>& known);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_GIVEN_INPUTS_H_
