// Choices that a seed decides.
#ifndef RVM_TESTS_FUZZ_DICE_H_
#define RVM_TESTS_FUZZ_DICE_H_

#include <cstddef>
#include <cstdint>
#include <random>

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

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_DICE_H_
