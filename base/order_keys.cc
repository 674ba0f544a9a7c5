#include "base/order_keys.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/stop_flag.h"

namespace rvm {
namespace {

constexpr int kHalfBits = 32;  // of a number that holds a part of a key and a part of where it was
constexpr uint64_t kHalf = (uint64_t{1} << kHalfBits) - 1;

// ---- a sorting network in vector registers ------------------------------------------
//
// It is bitonic, and all of its comparators put the lesser number first. Numbers beyond the last one count as infinite:
// comparators with them change nothing and are left out, so that any number of groups is sorted.

#if defined(__x86_64__)

// Returns whether this CPU compares vectors of 64-bit numbers.
bool HasSortNetwork() {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2;
}

#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)

constexpr int64_t kLanes = 4, kVectors = 4;
constexpr int64_t kGroup = kVectors * kLanes;  // the network sorts whole groups

using Vector = int64_t __attribute__((vector_size(kLanes * sizeof(int64_t))));

struct Group {
  Vector v[kVectors];
};

inline Vector Load(const int64_t* numbers) {
  Vector v;
  std::memcpy(&v, numbers, sizeof v);
  return v;
}

inline void Store(const Vector& v, int64_t* numbers) { std::memcpy(numbers, &v, sizeof v); }

inline void Exchange(Vector& a, Vector& b) {
  Vector lesser = __builtin_elementwise_min(a, b);
  b = __builtin_elementwise_max(a, b);
  a = lesser;
}

inline void Reverse(Vector& v) { v = __builtin_shufflevector(v, v, 3, 2, 1, 0); }

// Compares the numbers of `a` with those of `b` from the end. Of two sorted vectors, `a` then has the lesser half.
inline void ExchangeMirrored(Vector& a, Vector& b) {
  Reverse(b);
  Exchange(a, b);
  Reverse(b);
}

inline void Transpose(Group& g) {
  Vector a = __builtin_shufflevector(g.v[0], g.v[1], 0, 4, 2, 6),
         b = __builtin_shufflevector(g.v[0], g.v[1], 1, 5, 3, 7);
  Vector c = __builtin_shufflevector(g.v[2], g.v[3], 0, 4, 2, 6),
         d = __builtin_shufflevector(g.v[2], g.v[3], 1, 5, 3, 7);
  g.v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  g.v[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  g.v[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  g.v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

// Sorts the columns of a group if they are bitonic.
inline void MergeColumns(Group& g) {
  Exchange(g.v[0], g.v[2]);
  Exchange(g.v[1], g.v[3]);
  Exchange(g.v[0], g.v[1]);
  Exchange(g.v[2], g.v[3]);
}

// Sorts each vector of a group if it is bitonic.
inline void MergeVectors(Group& g) {
  Transpose(g);
  MergeColumns(g);
  Transpose(g);
}

inline void SortGroup(Group& g) {
  MergeColumns(g);
  Exchange(g.v[1], g.v[2]);
  Transpose(g);  // vectors are sorted
  ExchangeMirrored(g.v[0], g.v[1]);
  ExchangeMirrored(g.v[2], g.v[3]);
  MergeVectors(g);  // halves are
  ExchangeMirrored(g.v[0], g.v[3]);
  ExchangeMirrored(g.v[1], g.v[2]);
  Exchange(g.v[0], g.v[1]);
  Exchange(g.v[2], g.v[3]);
  MergeVectors(g);
}

inline Group LoadGroup(const int64_t* numbers) {
  Group g;
  for (int64_t i = 0; i < kVectors; ++i) g.v[i] = Load(numbers + i * kLanes);
  return g;
}

inline void StoreGroup(const Group& g, int64_t* numbers) {
  for (int64_t i = 0; i < kVectors; ++i) Store(g.v[i], numbers + i * kLanes);
}

// Compares runs of `half` numbers, which are sorted, with the run behind, from its end.
void ExchangeRuns(int64_t* numbers, int64_t count, int64_t half) {
  for (int64_t run = 0; run + half < count; run += 2 * half) {
    int64_t last = run + 2 * half - kLanes;
    for (int64_t i = last < count ? 0 : last - (count - kLanes); i < half; i += kLanes) {
      Vector a = Load(numbers + run + i), b = Load(numbers + last - i);
      ExchangeMirrored(a, b);
      Store(a, numbers + run + i);
      Store(b, numbers + last - i);
    }
  }
}

// Compares numbers `distance` apart in blocks of twice as many.
void ExchangeApart(int64_t* numbers, int64_t count, int64_t distance) {
  for (int64_t block = 0; block + distance < count; block += 2 * distance) {
    int64_t end = block + 2 * distance < count ? block + distance : count - distance;
    for (int64_t i = block; i < end; i += kLanes) {
      Vector a = Load(numbers + i), b = Load(numbers + i + distance);
      Exchange(a, b);
      Store(a, numbers + i);
      Store(b, numbers + i + distance);
    }
  }
}

// Sorts numbers[0, count). REQUIRES: HasSortNetwork(); count is a multiple of kGroup.
void SortNumbers(int64_t* numbers, int64_t count) {
  for (int64_t i = 0; i < count; i += kGroup) {
    Group g = LoadGroup(numbers + i);
    SortGroup(g);
    StoreGroup(g, numbers + i);
  }
  for (int64_t half = kGroup; half < count; half *= 2) {
    ExchangeRuns(numbers, count, half);
    for (int64_t distance = half / 2; distance >= kGroup; distance /= 2) ExchangeApart(numbers, count, distance);
    for (int64_t i = 0; i < count; i += kGroup) {
      Group g = LoadGroup(numbers + i);
      MergeColumns(g);
      MergeVectors(g);
      StoreGroup(g, numbers + i);
    }
  }
}

// Sorts n keys, and the numbers that move with them, by as many upper bits of the keys' distances from the least as fit
// beside an index. Returns how many lower bits were left out. `scratch` has room for 2 * n numbers.
int SortByNetwork(int64_t* keys, int64_t* places, int64_t* scratch, int64_t n) {
  int64_t few[kGroup];
  int64_t *numbers = n < kGroup ? few : scratch, *moved = scratch + n;
  int64_t least = keys[0], most = keys[0];
  for (int64_t i = 1; i < n; ++i) {
    least = std::min(least, keys[i]);
    most = std::max(most, keys[i]);
  }
  const int bits = std::bit_width(static_cast<uint64_t>(most) - static_cast<uint64_t>(least));
  const int dropped = std::max(bits - kHalfBits, 0);
  constexpr uint64_t kSign = uint64_t{1} << 63;  // the network compares signed numbers
  for (int64_t i = 0; i < n; ++i) {
    uint64_t distance = (static_cast<uint64_t>(keys[i]) - static_cast<uint64_t>(least)) >> dropped;
    numbers[i] = static_cast<int64_t>((distance << kHalfBits | static_cast<uint64_t>(i)) ^ kSign);
  }
  const int64_t count = (n + kGroup - 1) / kGroup * kGroup;
  std::fill(numbers + n, numbers + count, std::numeric_limits<int64_t>::max());
  SortNumbers(numbers, count);
  for (int64_t i = 0; i < n; ++i) moved[i] = places[static_cast<uint64_t>(numbers[i]) & kHalf];
  std::copy(moved, moved + n, places);
  if (dropped > 0) {
    for (int64_t i = 0; i < n; ++i) moved[i] = keys[static_cast<uint64_t>(numbers[i]) & kHalf];
    std::copy(moved, moved + n, keys);
    return dropped;
  }
  for (int64_t i = 0; i < n; ++i) {
    uint64_t distance = (static_cast<uint64_t>(numbers[i]) ^ kSign) >> kHalfBits;
    keys[i] = static_cast<int64_t>(static_cast<uint64_t>(least) + distance);
  }
  return 0;
}

#pragma clang attribute pop

#else

bool HasSortNetwork() { return false; }

int SortByNetwork(int64_t*, int64_t*, int64_t*, int64_t) { RVM_UNREACHABLE("a CPU without the network"); }

#endif

// ---- rows of keys -----------------------------------------------------------------------

constexpr int64_t kFew = 32;
constexpr int kMaxDigitBits = 11;
constexpr int kDigitBits = 8;  // where all bits are sorted by: most digits that all keys share are found at little cost
// Bits that are sorted by beyond those of n: few keys then have the same upper bits as another.
constexpr int kSpareBits = 7;
constexpr int64_t kSamples = 16;  // pairs of neighbours by which rows are judged
// Keys of rows that a network sorts. Insertion is faster for fewer, digits for more.
constexpr int64_t kMinNetwork = 9, kMaxNetwork = 1024;
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

// A block of OrderKeys with room for n keys.
struct Block {
  Block(int64_t* block, int64_t n)
      : keys(block), places(block + n), free_keys(block + 2 * n), free_places(block + 3 * n) {}
  int64_t *keys, *places, *free_keys, *free_places;
};

// Inserts key i among those before it, which are in order.
void Insert(const Block& block, int64_t i) {
  int64_t *keys = block.keys, *places = block.places;
  int64_t key = keys[i], place = places[i], at = i;
  for (; at > 0 && keys[at - 1] > key; --at) {
    keys[at] = keys[at - 1];
    places[at] = places[at - 1];
  }
  keys[at] = key;
  places[at] = place;
}

// Sorts keys of which most are in order already. Returns false if one would move over more than kFew others, or if it
// ended early; equal keys are in their first order even then.
bool SortNearlySorted(const Block& block, int64_t n, const volatile int32_t* stop) {
  const int64_t* keys = block.keys;
  return ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = std::max<int64_t>(begin, 1); i < end; ++i) {
      if (keys[i - 1] <= keys[i]) continue;
      if (i > kFew && keys[i - kFew - 1] > keys[i]) return false;
      Insert(block, i);
    }
    return true;
  });
}

// Facts about n keys by which Sort chooses how to sort them.
struct Span {
  uint64_t DistanceOf(int64_t key) const { return static_cast<uint64_t>(key) - static_cast<uint64_t>(least); }

  int64_t least;
  int bits;         // of the distance between the least and the greatest key
  uint64_t places;  // the bits that are set in any of them
};

// Reads all keys. Returns false if it ended early.
bool Measure(const Block& block, int64_t n, const volatile int32_t* stop, Span& span) {
  int64_t least = block.keys[0], most = block.keys[0], places = 0;
  bool all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      least = std::min(least, block.keys[i]);
      most = std::max(most, block.keys[i]);
      places |= block.places[i];
    }
    return true;
  });
  span = {least, 0, static_cast<uint64_t>(places)};
  span.bits = std::bit_width(span.DistanceOf(most));
  return all;
}

enum class Scattered { kMoved, kHaveOneDigit, kEndedEarly };

// Sorts n elements stably by digit_of(i), of `bits` bits: move(i, to) puts element i at its new place. Moves none if
// all have the same digit.
template <typename DigitOf, typename Move>
Scattered Scatter(int64_t n, int bits, const volatile int32_t* stop, const DigitOf& digit_of, const Move& move) {
  int64_t next[int64_t{1} << kMaxDigitBits];
  const int64_t values = int64_t{1} << bits;
  std::fill_n(next, values, 0);
  bool all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++next[digit_of(i)];
    return true;
  });
  if (all && next[digit_of(0)] == n) return Scattered::kHaveOneDigit;
  int64_t sum = 0;
  for (int64_t value = 0; value < values; ++value) sum += std::exchange(next[value], sum);
  all = all && ForChunks(n, stop, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) move(i, next[digit_of(i)]++);
          return true;
        });
  return all ? Scattered::kMoved : Scattered::kEndedEarly;
}

// The upper bits of distances by which SortByUpperBits sorts, and how many of them at once.
struct Upper {
  int bits, digit_bits;
};

// Returns as many upper bits as tell most of n evenly distributed keys apart.
Upper UpperBits(int64_t n, const Span& span) {
  int limit = std::min(span.bits, kHalfBits);
  int wanted = std::min(limit, static_cast<int>(std::bit_width(static_cast<uint64_t>(n))) + kSpareBits);
  int digits = (wanted + kMaxDigitBits - 1) / kMaxDigitBits;
  int digit_bits = (wanted + digits - 1) / digits;
  return {std::min(limit, digits * digit_bits), digit_bits};
}

// Returns whether different keys mostly differ in these bits. They do not where a few keys are far from all others.
bool Distinguish(const Upper& upper, const Block& block, int64_t n, const Span& span) {
  int64_t alike = 0;
  for (int64_t i = 1; i < n; i += n / kSamples) {
    int64_t key = block.keys[i], before = block.keys[i - 1];
    uint64_t differing = span.DistanceOf(key) ^ span.DistanceOf(before);
    alike += differing != 0 && differing >> (span.bits - upper.bits) == 0;
  }
  return alike <= kSamples / 8;
}

// Sorts by the upper bits of the keys' distances from the least key. Each key moves as one number: its distance and its
// place, or the upper half of the distance and its index.
bool SortByUpperBits(const Block& block, int64_t n, const Span& span, Upper upper, const volatile int32_t* stop) {
  auto *from = reinterpret_cast<uint64_t*>(block.free_keys), *to = reinterpret_cast<uint64_t*>(block.free_places);
  int dropped = std::max(span.bits - kHalfBits, 0);
  bool whole = dropped == 0 && span.places <= kHalf;
  bool all = ForChunks(n, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto low = static_cast<uint64_t>(whole ? block.places[i] : i);
      from[i] = (span.DistanceOf(block.keys[i]) >> dropped) << kHalfBits | low;
    }
    return true;
  });
  const int end = kHalfBits + span.bits - dropped;
  for (int shift = end - upper.bits; all && shift < end; shift += upper.digit_bits) {
    int bits = std::min(end - shift, upper.digit_bits);
    uint64_t mask = (uint64_t{1} << bits) - 1;
    Scattered scattered = Scatter(
        n, bits, stop, [&](int64_t i) { return (from[i] >> shift) & mask; },
        [&](int64_t i, int64_t at) { to[at] = from[i]; });
    all = scattered != Scattered::kEndedEarly;
    if (scattered == Scattered::kMoved) std::swap(from, to);
  }
  if (whole) {
    return all && ForChunks(n, stop, [&](int64_t begin, int64_t end) {
             for (int64_t i = begin; i < end; ++i) {
               block.keys[i] = static_cast<int64_t>(static_cast<uint64_t>(span.least) + (from[i] >> kHalfBits));
               block.places[i] = static_cast<int64_t>(from[i] & kHalf);
             }
             return true;
           });
  }
  for (int64_t* moved : {block.places, block.keys}) {
    all = all && ForChunks(n, stop, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) to[i] = static_cast<uint64_t>(moved[from[i] & kHalf]);
            return true;
          });
    all = all && ForChunks(n, stop, [&](int64_t begin, int64_t end) {
            std::copy(to + begin, to + end, moved + begin);
            return true;
          });
  }
  return all;
}

// Sorts by all bits of the distances from the least key.
bool SortByAllBits(Block block, int64_t n, const Span& span, const volatile int32_t* stop) {
  Block first = block;
  for (int shift = 0; shift < span.bits; shift += kDigitBits) {
    int bits = std::min(span.bits - shift, kDigitBits);
    uint64_t mask = (uint64_t{1} << bits) - 1;
    Scattered scattered = Scatter(
        n, bits, stop, [&](int64_t i) { return (span.DistanceOf(block.keys[i]) >> shift) & mask; },
        [&](int64_t i, int64_t at) {
          block.free_keys[at] = block.keys[i];
          block.free_places[at] = block.places[i];
        });
    if (scattered == Scattered::kEndedEarly) return false;
    if (scattered == Scattered::kHaveOneDigit) continue;
    std::swap(block.keys, block.free_keys);
    std::swap(block.places, block.free_places);
  }
  return block.keys == first.keys || ForChunks(n, stop, [&](int64_t begin, int64_t end) {
           std::copy(block.keys + begin, block.keys + end, first.keys + begin);
           std::copy(block.places + begin, block.places + end, first.places + begin);
           return true;
         });
}

// Sorts the first n keys: in a network, or by their upper bits, then by insertion if these tell most keys apart, else
// by all bits.
bool Sort(const Block& block, int64_t n, const volatile int32_t* stop) {
  if (IsSorted(block.keys, n, stop)) return true;
  if (n >= kMinNetwork && n <= kMaxNetwork && HasSortNetwork()) {
    int dropped = SortByNetwork(block.keys, block.places, block.free_keys, n);
    if (dropped == 0 || SortNearlySorted(block, n, stop)) return !IsSet(stop);
    if (IsSet(stop)) return false;
  } else if (n <= kFew) {
    for (int64_t i = 1; i < n; ++i) Insert(block, i);
    return !IsSet(stop);
  }
  Span span;
  if (!Measure(block, n, stop, span)) return false;
  if (static_cast<uint64_t>(n) <= kHalf) {
    const Upper upper = UpperBits(n, span);
    bool are_all = upper.bits == span.bits;
    if (are_all || Distinguish(upper, block, n, span)) {
      if (!SortByUpperBits(block, n, span, upper, stop)) return false;
      if (are_all || SortNearlySorted(block, n, stop)) return true;
      if (IsSet(stop)) return false;
    }
    if (span.bits <= kHalfBits) return SortByUpperBits(block, n, span, {span.bits, kDigitBits}, stop);
  }
  return SortByAllBits(block, n, span, stop);
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
  int64_t kept = first;
  bool seen = ForChunks(n - room, stop, [&](int64_t begin, int64_t end) {
    int64_t last = all.keys[first - 1];
    auto precedes = [&](int64_t i) -> int { return all.keys[i] < last; };  // equal keys keep their order
    for (int64_t i = room + begin; i < room + end; ++i) {
      // Few of them precede it: four take one branch.
      while (i + 4 <= room + end && (precedes(i) | precedes(i + 1) | precedes(i + 2) | precedes(i + 3)) == 0) i += 4;
      if (i == room + end || precedes(i) == 0) continue;
      all.keys[kept] = all.keys[i];
      all.places[kept++] = all.places[i];
      if (kept < room) continue;
      if (!Sort(all, room, stop)) return false;
      last = all.keys[first - 1];
      kept = first;
    }
    return true;
  });
  return seen && Sort(all, kept, stop);
}

}  // namespace rvm
