// Executables changed a little, mostly so that their tables still fit each other.
#ifndef RVM_TESTS_FUZZ_EXECUTABLE_MUTATOR_H_
#define RVM_TESTS_FUZZ_EXECUTABLE_MUTATOR_H_

#include <cstdint>

#include "serialization/executable.h"

namespace rvm::fuzz {

// One to four changes: of instructions, registers, types, layouts, constants, kernels, recipes, entries.
void MutateExecutable(Executable& executable, uint64_t seed);

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_EXECUTABLE_MUTATOR_H_
