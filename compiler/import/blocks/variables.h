// Variables that branches and loops write to: their values go in as arguments and come out as results.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_VARIABLES_H_
#define RVM_COMPILER_IMPORT_BLOCKS_VARIABLES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

// Returns the place of the value that the variable of that number has now; it holds null before the first one.
using VariablePlace = absl::FunctionRef<Operand&(size_t number)>;

// Variables that blocks may write to, of those that have a value, and their values before.
struct WrittenVariables {
  std::vector<size_t> numbers;
  Operands values;
};
WrittenVariables WithValues(const std::vector<size_t>& numbers, VariablePlace place);

// Runs a block that begins with these values of the variables. Returns its results, and behind them the values that it
// leaves; outside of the block the variables keep theirs.
Operands RunWithVariables(const WrittenVariables& written, std::span<const Operand> before, VariablePlace place,
                          absl::FunctionRef<Operands()> block);

// Takes the values of the variables from the end of `results`.
Operands StoreVariables(const WrittenVariables& written, VariablePlace place, Operands results);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_VARIABLES_H_
