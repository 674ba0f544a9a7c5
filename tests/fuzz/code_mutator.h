// Bytecode as a list of instructions whose labels are numbers of instructions, so that instructions can
// be put in and taken out.
#ifndef RVM_TESTS_FUZZ_CODE_MUTATOR_H_
#define RVM_TESTS_FUZZ_CODE_MUTATOR_H_

#include "serialization/executable.h"
#include "tests/fuzz/dice.h"

namespace rvm::fuzz {

// Changes one thing, or a few, in the code of a function of `executable`, mostly to what is in range.
void MutateCode(Executable& executable, FunctionDesc& function, Dice& dice);

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_CODE_MUTATOR_H_
