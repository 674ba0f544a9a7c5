#include "base/order_keys.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/stop_flag.h"

namespace rvm {
namespace {

constexpr int64_t kFew = 32;
constexpr int kMaxDigitBits = 11;
constexpr int kDigitBits = 8;  // where all bits are sorted by: most digits that all keys share are found at little cost
// Bits that are sorted by beyond those of n: few keys then have the same upper bits as another.
constexpr int kSpareBits = 7;
constexpr int64_t kSamples = 16;  // pairs of neighbours by which rows are judged
constexpr int kHalfBits = 32;     // of a number that holds a part of a key and a part of where it was
constexpr uint64_t kHalf = (uint64_t{1} << kHalfBits) - 1;
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

// Sorts the first n keys: by their upper bits, then by insertion if these tell most keys apart, else by all bits.
bool Sort(const Block& block, int64_t n, const volatile int32_t* stop) {
  if (IsSorted(block.keys, n, stop)) return true;
  if (n <= kFew) {
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
