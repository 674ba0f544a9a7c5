// Extents that models and command lines write as expressions: "past + t", "2*n", "n // 2".
#ifndef RVM_COMPILER_IMPORT_EXTENT_EXPRESSION_H_
#define RVM_COMPILER_IMPORT_EXTENT_EXPRESSION_H_

#include <functional>
#include <optional>
#include <string_view>

#include "base/dim.h"

namespace rvm::importing {

// Parses sums, differences, products, quotients (`//`) and remainders (`%`) of numbers and names, with parentheses.
// `-` between names needs spaces around it: `batch-size` is a name. `dim_of` gives the dim of a name, nullopt if the
// name is not known. Returns nullopt for a number or a name alone, for names that are not known and for other text,
// which is then a name.
std::optional<Dim> ParseExtentExpression(std::string_view text,
                                         const std::function<std::optional<Dim>(std::string_view name)>& dim_of);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_EXTENT_EXPRESSION_H_
