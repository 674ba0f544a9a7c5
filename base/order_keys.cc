#include "base/order_keys.h"

#include <algorithm>
#include <utility>

namespace rvm {
namespace {

constexpr int64_t kFew = 32;
constexpr int kDigits = 8;
constexpr int kValues = 256;  // of a digit

void InsertionSort(int64_t* keys, int64_t* places, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    int64_t key = keys[i], place = places[i], at = i;
    for (; at > 0 && keys[at - 1] > key; --at) {
      keys[at] = keys[at - 1];
      places[at] = places[at - 1];
    }
    keys[at] = key;
    places[at] = place;
  }
}

// In unsigned order.
uint8_t Digit(int64_t key, int digit) {
  uint64_t ordered = static_cast<uint64_t>(key) ^ (uint64_t{1} << 63);
  return static_cast<uint8_t>(ordered >> (8 * digit));
}

}  // namespace

// By digits, the least significant first. Keys mostly differ in few of them: those all share are left out.
void OrderKeys(int64_t* block, int64_t n) {
  int64_t *keys = block, *places = block + n;
  if (std::is_sorted(keys, keys + n)) return;
  if (n <= kFew) return InsertionSort(keys, places, n);
  int64_t *to_keys = block + 2 * n, *to_places = block + 3 * n;
  int64_t begins[kDigits][kValues] = {};
  for (int64_t i = 0; i < n; ++i) {
    for (int digit = 0; digit < kDigits; ++digit) ++begins[digit][Digit(keys[i], digit)];
  }
  for (int digit = 0; digit < kDigits; ++digit) {
    int64_t* begin = begins[digit];
    if (begin[Digit(keys[0], digit)] == n) continue;
    int64_t sum = 0;
    for (int value = 0; value < kValues; ++value) sum += std::exchange(begin[value], sum);
    for (int64_t i = 0; i < n; ++i) {
      int64_t to = begin[Digit(keys[i], digit)]++;
      to_keys[to] = keys[i];
      to_places[to] = places[i];
    }
    std::swap(keys, to_keys);
    std::swap(places, to_places);
  }
  if (keys != block) std::copy(keys, keys + 2 * n, block);
}

}  // namespace rvm
