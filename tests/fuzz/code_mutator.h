// Bytecode as a list of instructions whose labels are numbers of instructions, so that instructions can
// be put in and taken out.
#ifndef RVM_TESTS_FUZZ_CODE_MUTATOR_H_
#define RVM_TESTS_FUZZ_CODE_MUTATOR_H_

#include <cstdint>
#include <random>
#include <vector>

#include "serialization/executable.h"

namespace rvm::fuzz {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  // 0 .. count - 1; 0 where count is 0.
  size_t Pick(size_t count) { return count == 0 ? 0 : random_() % count; }
  bool Chance(size_t percent) { return Pick(100) < percent; }
  uint64_t Bits() { return random_(); }
  // One that is at a border often.
  int64_t Number();

 private:
  std::mt19937_64 random_;
};

// Changes one thing, or a few, in the code of a function of `executable`, mostly to what is in range.
void MutateCode(Executable& executable, FunctionDesc& function, Dice& dice);

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_CODE_MUTATOR_H_
