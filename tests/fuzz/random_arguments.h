// Arguments that an entry may be called with.
#ifndef RVM_TESTS_FUZZ_RANDOM_ARGUMENTS_H_
#define RVM_TESTS_FUZZ_RANDOM_ARGUMENTS_H_

#include <optional>
#include <vector>

#include "base/value.h"
#include "serialization/executable.h"
#include "tests/fuzz/dice.h"

namespace rvm::fuzz {

// None where a parameter is a function, an ADT that never ends, or a very large tensor. Extents that
// the types leave open are mostly one and the same, so that programs which compare them go on.
std::optional<std::vector<Value>> RandomArguments(const Executable& executable, const Entry& entry, Dice& dice);

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_RANDOM_ARGUMENTS_H_
