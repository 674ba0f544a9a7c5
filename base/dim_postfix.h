// Dims as text that can be read again: in postfix notation, for metadata of executables.
#ifndef RVM_BASE_DIM_POSTFIX_H_
#define RVM_BASE_DIM_POSTFIX_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/dim.h"

namespace rvm {

// Returns "s0 768 * s1 +" for s0 * 768 + s1, where `sN` is the variable with id N. nullopt if a `?` or a hole occurs.
std::optional<std::string> DimToPostfix(const Dim& dim);

// Computes such a text for these values of the variables, by id. nullopt if the text is not one, if it needs a variable
// that has no value, or if the result overflows.
std::optional<int64_t> EvaluatePostfix(std::string_view text, std::span<const int64_t> variables);

}  // namespace rvm

#endif  // RVM_BASE_DIM_POSTFIX_H_
