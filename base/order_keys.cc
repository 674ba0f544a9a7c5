#include "base/order_keys.h"

#include <algorithm>
#include <utility>

#include "base/stop_flag.h"

namespace rvm {
namespace {

constexpr int64_t kFew = 32;
constexpr int kDigits = 8;
constexpr int kValues = 256;  // of a digit
// Keys between two looks at the flag: some tens of microseconds.
constexpr int64_t kChunk = 16384;

// body(begin, end) for pieces of [0, n), until *stop is not 0 or a body gives false; whether all have run.
template <typename Body>
bool ForChunks(int64_t n, const volatile int32_t* stop, const Body& body) {
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    if (IsSet(stop) || !body(begin, std::min(n, begin + kChunk))) return false;
  }
  return true;
}

bool IsSorted(const int64_t* keys, int64_t n, const volatile int32_t* stop) {
  return ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    return std::is_sorted(keys + std::max<int64_t>(begin - 1, 0), keys + end);
  });
}

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
bool OrderKeys(int64_t* block, int64_t n, const volatile int32_t* stop) {
  int64_t *keys = block, *places = block + n;
  if (IsSorted(keys, n, stop)) return true;
  if (n <= kFew) {
    InsertionSort(keys, places, n);
    return !IsSet(stop);
  }
  int64_t *to_keys = block + 2 * n, *to_places = block + 3 * n;
  int64_t begins[kDigits][kValues] = {};
  bool all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int digit = 0; digit < kDigits; ++digit) ++begins[digit][Digit(keys[i], digit)];
    }
    return true;
  });
  for (int digit = 0; all && digit < kDigits; ++digit) {
    int64_t* next = begins[digit];
    if (next[Digit(keys[0], digit)] == n) continue;
    int64_t sum = 0;
    for (int value = 0; value < kValues; ++value) sum += std::exchange(next[value], sum);
    all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t to = next[Digit(keys[i], digit)]++;
        to_keys[to] = keys[i];
        to_places[to] = places[i];
      }
      return true;
    });
    std::swap(keys, to_keys);
    std::swap(places, to_places);
  }
  if (!all || keys == block) return all;
  return ForChunks(2 * n, stop, [&](int64_t begin, int64_t end) {
    std::copy(keys + begin, keys + end, block + begin);
    return true;
  });
}

}  // namespace rvm
