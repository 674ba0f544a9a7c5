// Index arithmetic as a linear function of variables.
#ifndef RVM_COMPILER_LOWERING_LINEAR_INDEX_H_
#define RVM_COMPILER_LOWERING_LINEAR_INDEX_H_

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "base/dim.h"
#include "kernels/te/expr_pool.h"

namespace rvm::lowering {

// constant + sum of coefficients * variables
struct Linear {
  Dim constant = 0;
  absl::flat_hash_map<int64_t, Dim> coefficients;  // by id of the variable

  Linear Times(const Dim& factor) const {
    Linear product = *this;
    product.constant = product.constant * factor;
    for (auto& [variable, coefficient] : product.coefficients) coefficient = coefficient * factor;
    return product;
  }
};

// nullopt for index arithmetic of another form.
std::optional<Linear> LinearOf(const te::Expr& e);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_LINEAR_INDEX_H_
