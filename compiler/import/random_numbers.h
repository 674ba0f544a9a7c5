// Random numbers of imported programs. The language draws them by keys (Threefry), so the program stays a function: the
// same seed gives the same numbers.
#ifndef RVM_COMPILER_IMPORT_RANDOM_NUMBERS_H_
#define RVM_COMPILER_IMPORT_RANDOM_NUMBERS_H_

#include <string_view>

#include "compiler/import/steps.h"

namespace rvm::importing {

// Returns the key made of an integer scalar (docs/operators.md describes its words).
Operand KeyOfSeed(Steps& c, Operand seed);

// Splits `key`: returns a key for one draw, and stores the one for the draws behind it in `key`.
Operand NextKey(Steps& c, Operand& key);

// Numbers of `op` ("random.uniform", "random.normal") with its two parameters, drawn with `key`.
Operand DrawNumbers(Steps& c, Operand key, std::string_view op, double first, double second, const Dims& dims,
                    DataType dtype);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_RANDOM_NUMBERS_H_
