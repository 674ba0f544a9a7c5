// Extents as PyTorch writes them: sympy expressions. guard.h has those that are conditions in Python.
#ifndef RVM_COMPILER_IMPORT_TORCH_EXPRESSION_H_
#define RVM_COMPILER_IMPORT_TORCH_EXPRESSION_H_

#include <functional>
#include <optional>
#include <string_view>

#include "base/dim.h"

namespace rvm::torch {

// Returns the dim that a name denotes; nullopt if it is unknown.
using DimOfName = std::function<std::optional<Dim>(std::string_view name)>;

// The name of an expression that is a symbol alone; "" for others.
std::string_view PlainSymbol(std::string_view expression);

// "Mul(Integer(2), Symbol('s0', positive=True))". nullopt where it says what a Dim cannot.
std::optional<Dim> ParseExtent(std::string_view text, const DimOfName& symbol);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_EXPRESSION_H_
