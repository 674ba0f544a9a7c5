#include "compiler/import/blocks/variables.h"

#include <cstddef>
#include <span>
#include <vector>

namespace rvm::importing {

WrittenVariables WithValues(const std::vector<size_t>& numbers, VariablePlace place) {
  WrittenVariables written;
  for (size_t number : numbers) {
    if (place(number) == nullptr) continue;
    written.numbers.push_back(number);
    written.values.push_back(place(number));
  }
  return written;
}

Operands RunWithVariables(const WrittenVariables& written, std::span<const Operand> before, VariablePlace place,
                          absl::FunctionRef<Operands()> block) {
  Operands outer;
  for (size_t i = 0; i < written.numbers.size(); ++i) {
    outer.push_back(place(written.numbers[i]));
    place(written.numbers[i]) = before[i];
  }
  Operands results = block();
  for (size_t i = 0; i < written.numbers.size(); ++i) {
    results.push_back(place(written.numbers[i]));
    place(written.numbers[i]) = outer[i];
  }
  return results;
}

Operands StoreVariables(const WrittenVariables& written, VariablePlace place, Operands results) {
  if (results.size() < written.numbers.size()) return results;
  const size_t first = results.size() - written.numbers.size();
  for (size_t i = 0; i < written.numbers.size(); ++i) place(written.numbers[i]) = results[first + i];
  results.resize(first);
  return results;
}

}  // namespace rvm::importing
