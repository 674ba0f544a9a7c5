#include "kernels/te/kernel_symbols.h"

#include <algorithm>

namespace rvm::te {

void AddVariables(const Dim& dim, std::vector<Dim>& symbols) {
  if (dim.is_binary()) {
    AddVariables(dim.lhs(), symbols);
    AddVariables(dim.rhs(), symbols);
  } else if (dim.kind() == DimKind::kVar && std::find(symbols.begin(), symbols.end(), dim) == symbols.end()) {
    symbols.push_back(dim);
  }
}

std::vector<Dim> KernelSymbols(const Computation& computation) {
  std::vector<Dim> symbols;
  for (const Tensor& input : computation.inputs) {
    for (const Dim& dim : input.dims()) AddVariables(dim, symbols);
  }
  for (const Computation::ValueSymbol& value : computation.values) AddVariables(value.symbol, symbols);
  return symbols;
}

}  // namespace rvm::te
