#include "base/order_keys.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/stop_flag.h"

namespace rvm {
namespace {

constexpr int64_t kFew = 32;
constexpr int kDigits = 8;
constexpr int kValues = 256;                      // of a digit
constexpr int64_t kMaxNarrow = int64_t{1} << 32;  // keys, of which the index has 32 bits
// Keys between two looks at the flag: some tens of microseconds.
constexpr int64_t kChunk = 16384;
// The fewest keys that OrderFirstKeys gathers before it sorts by digits, whose fixed cost is that of hundreds of keys.
constexpr int64_t kGathered = 512;

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

// Returns a digit of the key's distance from the least key.
uint8_t Digit(int64_t key, int64_t least, int digit) {
  return static_cast<uint8_t>((static_cast<uint64_t>(key) - static_cast<uint64_t>(least)) >> (8 * digit));
}

// A block of OrderKeys with room for n keys.
struct Block {
  Block(int64_t* block, int64_t n)
      : keys(block), places(block + n), free_keys(block + 2 * n), free_places(block + 3 * n) {}
  int64_t *keys, *places, *free_keys, *free_places;
};

// The first place of each value of a digit in the order by it, where there were counts.
void Accumulate(int64_t* counts) {
  int64_t sum = 0;
  for (int value = 0; value < kValues; ++value) sum += std::exchange(counts[value], sum);
}

// Sorts keys whose distances from the least key have at most 32 bits, as those of float32. Each moves as one number, of
// its distance and its index.
bool SortNarrow(const Block& block, int64_t n, int64_t least, const volatile int32_t* stop) {
  constexpr int kNarrowDigits = 4;
  int64_t begins[kNarrowDigits][kValues] = {};
  auto *from = reinterpret_cast<uint64_t*>(block.free_keys), *to = reinterpret_cast<uint64_t*>(block.free_places);
  auto digit_of = [](uint64_t number, int digit) { return static_cast<uint8_t>(number >> (32 + 8 * digit)); };
  bool all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint64_t distance = static_cast<uint64_t>(block.keys[i]) - static_cast<uint64_t>(least);
      from[i] = distance << 32 | static_cast<uint64_t>(i);
      for (int digit = 0; digit < kNarrowDigits; ++digit) ++begins[digit][digit_of(from[i], digit)];
    }
    return true;
  });
  for (int digit = 0; all && digit < kNarrowDigits; ++digit) {
    int64_t* next = begins[digit];
    if (next[digit_of(from[0], digit)] == n) continue;
    Accumulate(next);
    all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[next[digit_of(from[i], digit)]++] = from[i];
      return true;
    });
    std::swap(from, to);
  }
  all = all && ForChunks(n, stop, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            to[i] = static_cast<uint64_t>(block.places[from[i] & 0xffffffff]);
            block.keys[i] = static_cast<int64_t>(static_cast<uint64_t>(least) + (from[i] >> 32));
          }
          return true;
        });
  return all && ForChunks(n, stop, [&](int64_t begin, int64_t end) {
           std::copy(to + begin, to + end, block.places + begin);
           return true;
         });
}

// Sorts the first n keys by the digits of their distances from the least key, least significant digit first. Keys are
// mostly close to each other, so few digits are needed. A digit that all keys share is skipped.
bool Sort(const Block& block, int64_t n, const volatile int32_t* stop) {
  auto [keys, places, to_keys, to_places] = block;
  if (IsSorted(keys, n, stop)) return true;
  if (n <= kFew) {
    InsertionSort(keys, places, n);
    return !IsSet(stop);
  }
  int64_t least = keys[0], most = keys[0];
  bool all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) least = std::min(least, keys[i]), most = std::max(most, keys[i]);
    return true;
  });
  int digits = (std::bit_width(static_cast<uint64_t>(most) - static_cast<uint64_t>(least)) + 7) / 8;
  if (digits <= 4 && n < kMaxNarrow) return all && SortNarrow(block, n, least, stop);
  int64_t begins[kDigits][kValues];
  for (int digit = 0; digit < digits; ++digit) std::fill_n(begins[digit], kValues, 0);
  all = all && ForChunks(n, stop, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            for (int digit = 0; digit < digits; ++digit) ++begins[digit][Digit(keys[i], least, digit)];
          }
          return true;
        });
  for (int digit = 0; all && digit < digits; ++digit) {
    int64_t* next = begins[digit];
    if (next[Digit(keys[0], least, digit)] == n) continue;
    Accumulate(next);
    all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t to = next[Digit(keys[i], least, digit)]++;
        to_keys[to] = keys[i];
        to_places[to] = places[i];
      }
      return true;
    });
    std::swap(keys, to_keys);
    std::swap(places, to_places);
  }
  if (!all || keys == block.keys) return all;
  return ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    std::copy(keys + begin, keys + end, block.keys + begin);
    std::copy(places + begin, places + end, block.places + begin);
    return true;
  });
}

}  // namespace

bool OrderKeys(int64_t* block, int64_t n, const volatile int32_t* stop) { return Sort(Block(block, n), n, stop); }

// The block begins with the first keys found so far, in order. Later keys that precede the last of them are gathered
// behind; when `room` keys are there, they are sorted and the first are kept. Only keys already read are overwritten.
bool OrderFirstKeys(int64_t* block, int64_t n, int64_t first, const volatile int32_t* stop) {
  int64_t room = first <= kFew / 2 ? kFew : first + std::max(first, kGathered);
  if (room >= n) return OrderKeys(block, n, stop);
  Block all(block, n);
  if (first == 0) return true;
  if (!Sort(all, room, stop)) return false;
  const int64_t& last = all.keys[first - 1];
  int64_t kept = first;
  bool seen = ForChunks(n - room, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = room + begin; i < room + end; ++i) {
      if (all.keys[i] >= last) continue;  // equal keys keep their order
      all.keys[kept] = all.keys[i];
      all.places[kept++] = all.places[i];
      if (kept < room) continue;
      if (!Sort(all, room, stop)) return false;
      kept = first;
    }
    return true;
  });
  return seen && Sort(all, kept, stop);
}

}  // namespace rvm
