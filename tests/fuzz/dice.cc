#include "tests/fuzz/dice.h"

#include <iterator>

namespace rvm::fuzz {

int64_t Dice::Number() {
  static constexpr int64_t kBorders[] = {0,
                                         1,
                                         -1,
                                         2,
                                         3,
                                         7,
                                         8,
                                         63,
                                         64,
                                         65,
                                         127,
                                         -128,
                                         255,
                                         32767,
                                         -32768,
                                         65535,
                                         INT32_MAX,
                                         INT32_MIN,
                                         1000,
                                         1 << 20,
                                         1 << 30,
                                         int64_t{1} << 32,
                                         int64_t{1} << 40,
                                         INT64_MAX,
                                         INT64_MIN};
  return Chance(70) ? kBorders[Pick(std::size(kBorders))] : static_cast<int64_t>(Bits() >> Pick(64));
}

}  // namespace rvm::fuzz
