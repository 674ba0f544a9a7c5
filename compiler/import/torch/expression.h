// Extents as PyTorch writes them: sympy expressions, and guards in Python.
#ifndef RVM_COMPILER_IMPORT_TORCH_EXPRESSION_H_
#define RVM_COMPILER_IMPORT_TORCH_EXPRESSION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/dim.h"

namespace rvm::torch {

// What a name stands for; nullopt: nobody knows.
using DimOfName = std::function<std::optional<Dim>(std::string_view name)>;
// The extent of an axis of an input.
using DimOfAxis = std::function<std::optional<Dim>(std::string_view input, int64_t axis)>;

// "Mul(Integer(2), Symbol('s0', positive=True))". nullopt where it says what a Dim cannot.
std::optional<Dim> ParseExtent(std::string_view text, const DimOfName& symbol);

// A comparison of two extents.
struct Comparison {
  enum class Kind : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual } kind;
  Dim lhs, rhs;
};
// "L['x'].size()[0] % 2 == 0". nullopt where it says what a comparison of Dims cannot.
std::optional<Comparison> ParseGuard(std::string_view text, const DimOfAxis& axis);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_EXPRESSION_H_
