#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/cuda/ptx.h"

namespace ptx {

uint64_t Memory::Allocate(size_t bytes) {
  constexpr uint64_t kAlignment = 256, kApart = 1 << 16;
  uint64_t address = next_;
  next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment + kApart;
  blocks_[address].assign(bytes, 0xcd);  // reading what was never written shows
  return address;
}

bool Memory::Free(uint64_t address) {
  auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  freed_[address] = block->second.size();
  blocks_.erase(block);
  return true;
}

uint64_t Memory::BlockOf(uint64_t address) const {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return 0;
  --after;
  return address - after->first < after->second.size() ? after->first : 0;
}

uint8_t* Memory::At(uint64_t address, size_t bytes, std::string& problem) {
  auto after = blocks_.upper_bound(address);
  if (after != blocks_.begin()) {
    auto& [begin, data] = *std::prev(after);
    uint64_t offset = address - begin;
    if (offset <= data.size() && bytes <= data.size() - offset) return data.data() + offset;
    problem = "byte " + std::to_string(offset) + " and " + std::to_string(bytes) + " bytes on, of an allocation of " +
              std::to_string(data.size()) + " bytes";
  } else {
    problem = "no allocation is at this address";
  }
  auto old = freed_.upper_bound(address);
  if (old != freed_.begin() && address - std::prev(old)->first < std::prev(old)->second) {
    problem = "byte " + std::to_string(address - std::prev(old)->first) + " of memory that was freed";
  }
  return nullptr;
}

size_t Memory::bytes() const {
  size_t sum = 0;
  for (const auto& [address, block] : blocks_) sum += block.size();
  return sum;
}

namespace {

template <typename T>
T As(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  if constexpr (std::is_integral_v<T>) return static_cast<T>(bits);
}
template <typename T>
uint64_t Bits(T value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(value);
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(value);
  if constexpr (std::is_integral_v<T>) return static_cast<std::make_unsigned_t<T>>(value);
}

// Calls `f` with a zero of the C++ type; false: there is none that computes.
template <typename F>
bool WithInteger(Type type, F f) {
  bool is_signed = type.kind == Kind::kSigned;
  switch (type.bytes) {
    case 1: return is_signed ? f(int8_t{}) : f(uint8_t{});
    case 2: return is_signed ? f(int16_t{}) : f(uint16_t{});
    case 4: return is_signed ? f(int32_t{}) : f(uint32_t{});
    default: return is_signed ? f(int64_t{}) : f(uint64_t{});
  }
}
template <typename F>
bool WithNumber(Type type, F f) {
  if (type.kind != Kind::kFloat) return WithInteger(type, f);
  return type.bytes == 4 ? f(float{}) : type.bytes == 8 ? f(double{}) : false;
}

template <typename T>
bool Holds(Compare compare, T x, T y) {
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = std::isnan(x) || std::isnan(y);
  switch (compare) {
    case Compare::kEq: return !unordered && x == y;
    case Compare::kNe: return !unordered && x != y;
    case Compare::kLt: return !unordered && x < y;
    case Compare::kLe: return !unordered && x <= y;
    case Compare::kGt: return !unordered && x > y;
    case Compare::kGe: return !unordered && x >= y;
    case Compare::kEqu: return unordered || x == y;
    case Compare::kNeu: return unordered || x != y;
    case Compare::kLtu: return unordered || x < y;
    case Compare::kLeu: return unordered || x <= y;
    case Compare::kGtu: return unordered || x > y;
    case Compare::kGeu: return unordered || x >= y;
    case Compare::kNum: return !unordered;
    case Compare::kNan: return unordered;
  }
  return false;
}

// Rounds to a number of type T, saturating; a NaN becomes 0.
template <typename T>
T ToInteger(double x) {
  if (std::isnan(x)) return 0;
  double least = static_cast<double>(std::numeric_limits<T>::min());
  double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (x <= least) return std::numeric_limits<T>::min();
  return x >= beyond ? std::numeric_limits<T>::max() : static_cast<T>(x);
}

double RoundToInt(Rounding rounding, double x) {
  switch (rounding) {
    case Rounding::kNearestInt: return std::nearbyint(x);
    case Rounding::kZeroInt: return std::trunc(x);
    case Rounding::kDownInt: return std::floor(x);
    case Rounding::kUpInt: return std::ceil(x);
    case Rounding::kNone:
    case Rounding::kNearest:
    case Rounding::kZero:
    case Rounding::kDown:
    case Rounding::kUp: return x;
  }
  return x;
}

double FloatOf(Type type, uint64_t bits) {
  if (type.bytes == 2) return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
  return type.bytes == 4 ? As<float>(bits) : As<double>(bits);
}

// The memory that a block shares. Threads may use a byte in any way once all of them passed a barrier since it was used
// in another; which way they used it since the last one is kept for each byte.
class Shared {
 public:
  explicit Shared(size_t bytes) : data_(bytes), uses_(bytes) {}

  void PassBarrier() { ++phase_; }
  // A new block.
  void Clear() {
    std::fill(data_.begin(), data_.end(), 0xcd);
    std::fill(uses_.begin(), uses_.end(), Use{});
    phase_ = 0;
  }
  // Null, with the reason in `problem`.
  uint8_t* At(uint64_t address, size_t bytes, uint32_t thread, bool writes, std::string& problem) {
    if (address > data_.size() || bytes > data_.size() - address) {
      problem = "shared memory beyond its end";
      return nullptr;
    }
    for (size_t i = address; i < address + bytes; ++i) {
      if (!MayUse(uses_[i], thread, writes, problem)) return nullptr;
    }
    return data_.data() + address;
  }

 private:
  static constexpr uint32_t kNone = ~0u, kSeveral = ~1u;
  struct Use {
    uint32_t phase = 0, writer = kNone, reader = kNone;  // threads, in that phase
    bool is_written = false;                             // in any
  };

  bool MayUse(Use& use, uint32_t thread, bool writes, std::string& problem) {
    if (use.phase != phase_) use = {phase_, kNone, kNone, use.is_written};
    bool races =
        (use.writer != kNone && use.writer != thread) || (writes && use.reader != kNone && use.reader != thread);
    if (races) {
      uint32_t other = use.writer != kNone ? use.writer : use.reader;
      problem = "shared memory that another thread uses without a barrier in between: " +
                (other == kSeveral ? std::string("several") : std::to_string(other));
      return false;
    }
    if (!writes && !use.is_written) {
      problem = "shared memory that was never written";
      return false;
    }
    if (writes) {
      use.writer = thread;
      use.is_written = true;
    } else {
      use.reader = use.reader == kNone || use.reader == thread ? thread : kSeveral;
    }
    return true;
  }

  std::vector<uint8_t> data_;
  std::vector<Use> uses_;
  uint32_t phase_ = 0;
};

struct GlobalAccess {
  const Instruction* instruction;
  uint64_t address;
  size_t bytes;
};

class Thread {
 public:
  enum class State : uint8_t { kEnded, kAtBarrier, kInWarp, kFault };

  Thread(const Entry& entry, const std::vector<uint64_t>& params, Memory& memory, Shared& shared)
      : entry_(entry), params_(params), memory_(memory), shared_(shared), registers_(entry.num_registers) {}

  void Begin(uint32_t thread, uint32_t block, Grid grid) {
    const uint32_t special[] = {thread, grid.threads, block, grid.blocks};
    std::copy(std::begin(special), std::end(special), special_);
    std::fill(registers_.begin(), registers_.end(), 0xcdcdcdcdcdcdcdcd);
    problem_.clear();
    at_ = 0;
    counts_ = {};
  }

  // Runs until it waits or ends.
  State Run() {
    constexpr uint64_t kMaxSteps = 500'000'000;
    for (; counts_.instructions < kMaxSteps; ++counts_.instructions) {
      const Instruction& now = entry_.code[at_++];
      if (now.guard >= 0 && (registers_[static_cast<size_t>(now.guard)] == 1) == now.is_guard_negated) continue;
      if (now.op == Op::kReturn) return State::kEnded;
      if (now.op == Op::kBarrier) return State::kAtBarrier;
      if (now.op == Op::kShuffle || now.op == Op::kMma) return State::kInWarp;
      if (now.op == Op::kBranch) {
        at_ = now.target;
      } else if (!Step(now)) {
        problem_ = "line " + std::to_string(now.line) + ": " +
                   (problem_.empty() ? "an instruction of a type that it does not have" : problem_);
        return State::kFault;
      }
    }
    problem_ = "it does not end";
    return State::kFault;
  }

  // Notes accesses to global memory from now on.
  void NoteAccesses(std::vector<GlobalAccess>& accesses) { accesses_ = &accesses; }
  const std::string& problem() const { return problem_; }
  const Counts& counts() const { return counts_; }
  // Returns the instruction at which the thread waits.
  const Instruction& waits_at() const { return entry_.code[at_ - 1]; }
  uint32_t Offered(size_t operand) const { return static_cast<uint32_t>(Value(waits_at().from[operand])); }
  void Take(size_t result, uint32_t value) { registers_[waits_at().to[result]] = value; }

 private:
  uint64_t Value(const Operand& operand) const {
    switch (operand.from) {
      case Operand::From::kRegister: return registers_[operand.value];
      case Operand::From::kNumber: return operand.value;
      case Operand::From::kSpecial: return special_[operand.value];
    }
    return 0;
  }
  template <typename T>
  T Get(const Instruction& now, size_t i) const {
    return As<T>(Value(now.from[i]));
  }
  template <typename T>
  bool Put(const Instruction& now, T value) {
    registers_[now.to[0]] = Bits(value);
    return true;
  }

  bool Step(const Instruction& now) {
    constexpr Op kBits[] = {Op::kMove,    Op::kSelect, Op::kSetPredicate, Op::kAnd, Op::kOr,
                            Op::kXor,     Op::kNot,    Op::kShl,          Op::kShr, Op::kClz,
                            Op::kExtract, Op::kInsert, Op::kPopCount};
    auto is_of = [&](std::span<const Op> ops) { return std::find(ops.begin(), ops.end(), now.op) != ops.end(); };
    if (is_of({{Op::kLoadParam, Op::kLoad, Op::kStore}})) return Access(now);
    if (is_of(kBits)) return BitStep(now);
    if (now.op == Op::kConvert) return Convert(now);
    if (now.op == Op::kToTf32) return RoundToTf32(now);
    if (is_of({{Op::kMulHigh, Op::kMulWide, Op::kMadWide}})) return WideStep(now);
    if (now.type.kind == Kind::kFloat && now.type.bytes == 2) return ComputeHalf(now);
    return WithNumber(now.type, [&](auto zero) { return Compute<decltype(zero)>(now); });
  }

  bool Access(const Instruction& now) {
    size_t bytes = now.type.bytes, lanes = now.op == Op::kStore ? now.from.size() - 1 : now.to.size();
    uint8_t* place = nullptr;
    if (now.op == Op::kLoadParam) {
      size_t offset = static_cast<size_t>(now.offset);
      if (offset + bytes * lanes > 8 * params_.size()) {
        problem_ = "a parameter that was not given";
        return false;
      }
      place = reinterpret_cast<uint8_t*>(const_cast<uint64_t*>(params_.data())) + offset;
    } else {
      uint64_t address = Value(now.from[0]) + static_cast<uint64_t>(now.offset);
      const char* what = now.op == Op::kStore ? "a store to " : "a load from ";
      if (address % (bytes * lanes) != 0) {
        problem_ = what + std::string("an address that is no multiple of ") + std::to_string(bytes * lanes);
        return false;
      }
      if (now.op == Op::kLoad && !now.is_shared) counts_.loaded += lanes;
      if (accesses_ != nullptr && !now.is_shared) accesses_->push_back({&now, address, bytes * lanes});
      place = now.is_shared ? shared_.At(address, bytes * lanes, special_[0], now.op == Op::kStore, problem_)
                            : memory_.At(address, bytes * lanes, problem_);
      if (place == nullptr) {
        problem_ = what + problem_;
        return false;
      }
    }
    for (size_t i = 0; i < lanes; ++i, place += bytes) {
      if (now.op == Op::kStore) {
        uint64_t value = Value(now.from[i + 1]);
        std::memcpy(place, &value, bytes);
        continue;
      }
      uint64_t value = 0;
      std::memcpy(&value, place, bytes);
      if (now.type.kind == Kind::kSigned) {  // fills the register
        unsigned shift = 64 - 8 * static_cast<unsigned>(bytes);
        value = static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
      }
      registers_[now.to[i]] = value;
    }
    return true;
  }

  bool BitStep(const Instruction& now) {
    uint64_t x = Value(now.from[0]), y = now.from.size() > 1 ? Value(now.from[1]) : 0;
    bool is_predicate = now.type.kind == Kind::kPredicate;
    uint64_t mask = is_predicate ? 1 : ~uint64_t{0} >> (64 - 8 * now.type.bytes);
    unsigned bits = 8u * now.type.bytes;
    auto put = [&](uint64_t value) {
      registers_[now.to[0]] = value;
      return true;
    };
    if (now.op == Op::kMove) return put(x & mask);
    if (now.op == Op::kSelect) return put((Value(now.from[2]) == 1 ? x : y) & mask);
    if (now.op == Op::kAnd) return put(x & y & mask);
    if (now.op == Op::kOr) return put((x | y) & mask);
    if (now.op == Op::kXor) return put((x ^ y) & mask);
    if (now.op == Op::kNot) return put(~x & mask);
    if (now.op == Op::kClz) return put(static_cast<uint64_t>(std::countl_zero(x & mask)) - (64 - bits));
    if (now.op == Op::kPopCount) return put(static_cast<uint64_t>(std::popcount(x & mask)));
    if (now.op == Op::kExtract) {
      uint64_t count = Value(now.from[2]) & 0xff;
      y &= 0xff;
      bool is_integer = now.type.kind == Kind::kUnsigned || now.type.kind == Kind::kSigned;
      if (!is_integer || y + count > bits || count == 0 || count >= bits) return false;
      uint64_t kept = (uint64_t{1} << count) - 1, field = (x & mask) >> y & kept;
      bool is_negative = now.type.kind == Kind::kSigned && (field >> (count - 1)) != 0;
      return put((is_negative ? field | ~kept : field) & mask);
    }
    if (now.op == Op::kInsert) {
      uint64_t first = Value(now.from[2]) & 0xff, count = Value(now.from[3]) & 0xff;
      if (now.type.kind != Kind::kBits || first + count > bits || count == 0 || count >= bits) return false;
      uint64_t field = ((uint64_t{1} << count) - 1) << first;
      return put((y & mask & ~field) | (x << first & field));
    }
    if (now.op == Op::kShl) return put((y & 0xffffffff) >= bits ? 0 : (x << (y & 0xffffffff)) & mask);
    if (now.op == Op::kShr) {
      // Beyond the width it shifts by the width.
      return WithInteger(now.type, [&](auto zero) {
        using T = decltype(zero);
        uint64_t by = std::min<uint64_t>(y & 0xffffffff, bits);
        T value = static_cast<T>(x);
        if (by == bits) return Put<T>(now, value < 0 ? static_cast<T>(-1) : T{0});
        return Put<T>(now, static_cast<T>(value >> by));
      });
    }
    // kSetPredicate.
    if (now.type.kind == Kind::kFloat && now.type.bytes == 2) {
      return put(Holds(now.compare, FloatOf(now.type, x), FloatOf(now.type, y)) ? 1 : 0);
    }
    return WithNumber(now.type, [&](auto zero) {
      using T = decltype(zero);
      return put(Holds(now.compare, As<T>(x), As<T>(y)) ? 1 : 0);
    });
  }

  bool WideStep(const Instruction& now) {
    if (now.type.kind == Kind::kFloat) return false;
    return WithInteger(now.type, [&](auto zero) {
      using T = decltype(zero);
      using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      Wide product = static_cast<Wide>(Get<T>(now, 0)) * static_cast<Wide>(Get<T>(now, 1));
      unsigned bits = 8 * sizeof(T);
      if (now.op == Op::kMulHigh) return Put<T>(now, static_cast<T>(product >> bits));
      uint64_t sum = static_cast<uint64_t>(product) + (now.op == Op::kMadWide ? Value(now.from[2]) : 0);
      registers_[now.to[0]] = bits == 32 ? sum : sum & (~uint64_t{0} >> (64 - 2 * bits));
      return bits <= 32;
    });
  }

  bool Convert(const Instruction& now) {
    uint64_t x = Value(now.from[0]);
    bool to_float = now.type.kind == Kind::kFloat, from_float = now.source.kind == Kind::kFloat;
    if (from_float) {
      bool narrows = to_float && now.type.bytes < now.source.bytes;
      bool rounds_to_int = now.rounding >= Rounding::kNearestInt;
      if (rounds_to_int == to_float && now.type.bytes != now.source.bytes && !(narrows && !rounds_to_int)) return false;
      if (narrows && now.rounding != Rounding::kNearest) return false;
      double value = RoundToInt(now.rounding, FloatOf(now.source, x));
      if (to_float) return PutFloat(now, value);
      return WithInteger(now.type, [&](auto zero) { return PutExtended(now, ToInteger<decltype(zero)>(value)); });
    }
    return WithInteger(now.source, [&](auto zero) {
      auto value = static_cast<decltype(zero)>(x);
      if (to_float) {
        if (now.rounding != Rounding::kNearest) return false;
        // Rounded once: a float holds all integers that are finite in 16 bits.
        if (now.type.bytes == 2)
          return Put(now, std::bit_cast<uint16_t>(static_cast<_Float16>(static_cast<float>(value))));
        if (now.type.bytes == 4) return Put(now, static_cast<float>(value));
        return now.type.bytes == 8 ? Put(now, static_cast<double>(value)) : false;
      }
      return PutExtended(now, value);
    });
  }

  // To 10 bits of fraction, ties away from zero; NaNs and infinities stay.
  bool RoundToTf32(const Instruction& now) {
    auto bits = static_cast<uint32_t>(Value(now.from[0]));
    bool is_finite = (bits & 0x7f800000) != 0x7f800000;
    registers_[now.to[0]] = (is_finite ? bits + 0x1000 : bits | (bits & 0x7fffff ? 0x400000 : 0)) & ~0x1fffu;
    return true;
  }

  // An integer, which fills a register that is wider than its type.
  template <typename From>
  bool PutExtended(const Instruction& now, From value) {
    return WithInteger(now.type, [&](auto to) {
      using T = decltype(to);
      registers_[now.to[0]] = static_cast<uint64_t>(static_cast<int64_t>(static_cast<T>(value)));
      return true;
    });
  }

  bool PutFloat(const Instruction& now, double value) {
    if (now.type.bytes == 8) return Put(now, value);
    if (now.type.bytes == 4) return Put(now, static_cast<float>(value));
    // The source is a float: a double is never rounded to 16 bits by way of one.
    if (now.source.bytes == 8) return false;
    registers_[now.to[0]] = std::bit_cast<uint16_t>(static_cast<_Float16>(static_cast<float>(value)));
    return true;
  }

  // Returns the result of max or min: a NaN wins or loses, and -0 is less than +0.
  template <typename T>
  static T Extreme(const Instruction& now, T x, T y) {
    if (now.keeps_nan && (std::isnan(x) || std::isnan(y))) return std::numeric_limits<T>::quiet_NaN();
    if (std::isnan(x)) return y;
    if (std::isnan(y)) return x;
    if (x == y) return std::signbit(x) == (now.op == Op::kMax) ? y : x;
    return now.op == Op::kMax ? std::max(x, y) : std::min(x, y);
  }

  // In float64, where sums and products of 16-bit floats are exact.
  bool ComputeHalf(const Instruction& now) {
    double x = FloatOf(now.type, Value(now.from[0])),
           y = now.from.size() > 1 ? FloatOf(now.type, Value(now.from[1])) : 0;
    auto put = [&](double result) {
      registers_[now.to[0]] = std::bit_cast<uint16_t>(static_cast<_Float16>(result));
      return true;
    };
    if (now.op == Op::kAbs) return put(std::fabs(x));
    if (now.op == Op::kNeg) return put(-x);
    if (now.op == Op::kAdd) return put(x + y);
    if (now.op == Op::kSub) return put(x - y);
    if (now.op == Op::kMul) return put(x * y);
    if (now.op == Op::kMax || now.op == Op::kMin) return put(Extreme(now, x, y));
    // Finite results are exact in float64 before they are rounded to 16 bits.
    return now.op == Op::kFma && put(std::fma(x, y, FloatOf(now.type, Value(now.from[2]))));
  }

  template <typename T>
  bool Compute(const Instruction& now) {
    T x = Get<T>(now, 0), y = now.from.size() > 1 ? Get<T>(now, 1) : T{0};
    if constexpr (std::is_floating_point_v<T>) {
      bool rounded = now.rounding == Rounding::kNearest;
      if (now.op == Op::kAbs) return Put<T>(now, std::fabs(x));
      if (now.op == Op::kNeg) return Put<T>(now, -x);
      if (now.op == Op::kAdd) return Put<T>(now, x + y);
      if (now.op == Op::kSub) return Put<T>(now, x - y);
      if (now.op == Op::kMul) return Put<T>(now, x * y);
      if (now.op == Op::kFma) return rounded && Put<T>(now, std::fma(x, y, Get<T>(now, 2)));
      if (now.op == Op::kDiv) return rounded && Put<T>(now, x / y);
      if (now.op == Op::kRcp) return rounded && Put<T>(now, T{1} / x);
      if (now.op == Op::kSqrt) return rounded && Put<T>(now, std::sqrt(x));
      if (now.op == Op::kMax || now.op == Op::kMin) return Put<T>(now, Extreme(now, x, y));
      return false;
    } else {
      using U = std::make_unsigned_t<T>;
      using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
      auto wrap = [&](Wide value) { return Put<T>(now, static_cast<T>(value)); };
      Wide a = static_cast<Wide>(static_cast<U>(x)), b = static_cast<Wide>(static_cast<U>(y));
      bool least = std::is_signed_v<T> && y == static_cast<T>(-1);
      if (now.op == Op::kAbs) return wrap(x < 0 ? 0 - a : a);
      if (now.op == Op::kNeg) return wrap(0 - a);
      if (now.op == Op::kAdd) return wrap(a + b);
      if (now.op == Op::kSub) return wrap(a - b);
      if (now.op == Op::kMul) return wrap(a * b);
      if (now.op == Op::kMad) return wrap(a * b + static_cast<Wide>(static_cast<U>(Get<T>(now, 2))));
      // By 0 the result is not specified.
      if (now.op == Op::kDiv)
        return y == 0 ? Put<T>(now, static_cast<T>(0x5a)) : least ? wrap(0 - a) : Put<T>(now, static_cast<T>(x / y));
      if (now.op == Op::kRem)
        return y == 0 ? Put<T>(now, static_cast<T>(0x5a)) : least ? Put<T>(now, 0) : Put<T>(now, static_cast<T>(x % y));
      if (now.op == Op::kMax) return Put<T>(now, std::max(x, y));
      if (now.op == Op::kMin) return Put<T>(now, std::min(x, y));
      return false;
    }
  }

  std::vector<GlobalAccess>* accesses_ = nullptr;  // null: nobody asks
  const Entry& entry_;
  const std::vector<uint64_t>& params_;
  Memory& memory_;
  Shared& shared_;
  std::vector<uint64_t> registers_;
  uint32_t special_[4] = {};
  size_t at_ = 0;  // the next instruction
  Counts counts_;
  std::string problem_;
};

// The threads of a block.
class Block {
 public:
  // `counts_sectors`: it takes time.
  Block(const Entry& entry, Grid grid, const std::vector<uint64_t>& params, uint32_t seed, Memory& memory,
        bool counts_sectors)
      : grid_(grid), shared_(entry.shared_bytes), random_(seed), states_(grid.threads), order_(grid.threads) {
    for (uint32_t i = 0; i < grid.threads; ++i) threads_.emplace_back(entry, params, memory, shared_);
    std::iota(order_.begin(), order_.end(), 0u);
    if (counts_sectors) accesses_.resize(grid.threads);
  }

  // "" or the fault.
  std::string Run(uint32_t block) {
    shared_.Clear();
    for (uint32_t i = 0; i < grid_.threads; ++i) threads_[i].Begin(i, block, grid_);
    for (size_t i = 0; i < accesses_.size(); ++i) {
      accesses_[i].clear();
      threads_[i].NoteAccesses(accesses_[i]);
    }
    std::vector<bool> is_ready(grid_.threads, true);
    for (;;) {
      std::shuffle(order_.begin(), order_.end(), random_);
      bool runs = false;
      for (uint32_t i : order_) {
        if (!is_ready[i]) continue;
        runs = true;
        is_ready[i] = false;
        states_[i] = threads_[i].Run();
        if (states_[i] == State::kFault) return threads_[i].problem() + " (thread " + std::to_string(i) + ")";
      }
      if (!runs) break;
      bool goes_on = false;
      for (uint32_t first = 0; first < grid_.threads; first += kWarp) {
        if (std::string fault = RunWarp(first, is_ready, goes_on); !fault.empty()) return fault;
      }
      if (goes_on) continue;
      if (std::string fault = PassBarrier(is_ready); !fault.empty()) return fault;
    }
    for (const Thread& thread : threads_) {
      counts_.instructions += thread.counts().instructions;
      counts_.loaded += thread.counts().loaded;
    }
    for (size_t first = 0; first < accesses_.size(); first += kWarp) CountSectors(first);
    return "";
  }
  const Counts& counts() const { return counts_; }  // of all blocks that ran

 private:
  using State = Thread::State;
  static constexpr uint32_t kWarp = 32;

  // Lanes that come to an instruction for the nth time are taken to do so at once.
  void CountSectors(size_t first) {
    std::map<std::pair<const Instruction*, size_t>, std::set<uint64_t>> sectors;
    for (size_t i = first; i < std::min(first + kWarp, accesses_.size()); ++i) {
      std::map<const Instruction*, size_t> times;
      for (const GlobalAccess& access : accesses_[i]) {
        std::set<uint64_t>& of_warp = sectors[{access.instruction, times[access.instruction]++}];
        for (uint64_t at = access.address / 32; at <= (access.address + access.bytes - 1) / 32; ++at)
          of_warp.insert(at);
      }
    }
    for (const auto& [instruction, of_warp] : sectors) counts_.sectors += of_warp.size();
  }

  // Runs the lanes of a warp together.
  std::string RunWarp(uint32_t first, std::vector<bool>& is_ready, bool& goes_on) {
    uint32_t end = std::min(first + kWarp, grid_.threads), waiting = 0;
    const Instruction* at = nullptr;
    bool is_together = true;
    for (uint32_t i = first; i < end; ++i) {
      if (states_[i] != State::kInWarp || is_ready[i]) continue;
      if (at == nullptr) at = &threads_[i].waits_at();
      is_together &= at == &threads_[i].waits_at();
      ++waiting;
    }
    if (waiting == 0) return "";
    bool multiplies = at->op == Op::kMma;
    std::string place = " (warp " + std::to_string(first / kWarp) + ")";
    if (waiting != kWarp || !is_together) {
      return "line " + std::to_string(at->line) + ": lanes of a warp " +
             (multiplies ? "multiply matrices" : "exchange values") + " without the others" + place;
    }
    if (!multiplies) {
      Exchange(first);
    } else if (std::string fault = Multiply(*at, first); !fault.empty()) {
      return "line " + std::to_string(at->line) + ": " + fault + place;
    }
    std::fill(is_ready.begin() + first, is_ready.begin() + first + kWarp, true);
    goes_on = true;
    return "";
  }

  void Exchange(uint32_t first) {
    uint32_t offered[kWarp];
    for (uint32_t i = 0; i < kWarp; ++i) offered[i] = threads_[first + i].Offered(0);
    for (uint32_t i = 0; i < kWarp; ++i) {
      threads_[first + i].Take(0, offered[(i ^ threads_[first + i].Offered(1)) % kWarp]);
    }
  }

  // Element `number` of the words of a fragment, which begin at an operand of the lane.
  static double Element(const Thread& lane, MmaType type, size_t operand, size_t number) {
    size_t bytes = type == MmaType::kTf32 ? 4 : type == MmaType::kFloat16 || type == MmaType::kBFloat16 ? 2 : 1;
    uint32_t word = lane.Offered(operand + number * bytes / 4);
    uint32_t bits = word >> (8 * (number * bytes % 4));
    switch (type) {
      case MmaType::kFloat16: return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
      case MmaType::kBFloat16: return std::bit_cast<float>(bits << 16);
      case MmaType::kTf32: return std::bit_cast<float>(bits);
      case MmaType::kSigned8: return static_cast<int8_t>(bits);
      case MmaType::kUnsigned8: return static_cast<uint8_t>(bits);
    }
    return 0;
  }

  // The fragments are those of the sections "Matrix Fragments for mma.m8n8k16", "m16n8k8", "m16n8k16" and "m16n8k32".
  // Of a word's 32 bits, lane i has those of the row (of a) and the column (of b) i / 4.
  std::string Multiply(const Instruction& at, uint32_t first) {
    const MmaShape& mma = at.mma;
    size_t pack = mma.a == MmaType::kTf32 ? 1 : at.type.kind == Kind::kFloat ? 2 : 4;  // elements of a word
    size_t groups = mma.depth / (4 * pack), halves = mma.rows / 8;
    std::vector<double> a(mma.rows * mma.depth), b(mma.depth * 8);
    for (uint32_t i = 0; i < kWarp; ++i) {
      const Thread& lane = threads_[first + i];
      for (size_t group = 0; group < groups; ++group) {
        for (size_t e = 0; e < pack; ++e) {
          size_t depth = group * 4 * pack + i % 4 * pack + e;
          // Words of a: both rows of a group of depths, then those of the next.
          for (size_t half = 0; half < halves; ++half) {
            a[(i / 4 + 8 * half) * mma.depth + depth] = Element(lane, mma.a, 0, (group * halves + half) * pack + e);
          }
          b[depth * 8 + i / 4] = Element(lane, mma.b, groups * halves, group * pack + e);
        }
      }
      for (size_t word = 0; mma.a == MmaType::kTf32 && word < groups * (halves + 1); ++word) {
        if ((lane.Offered(word) & 0x1fff) != 0) return "a factor that is not rounded to TF32";
      }
    }
    for (uint32_t i = 0; i < kWarp; ++i) {
      for (size_t j = 0; j < at.to.size(); ++j) {
        size_t row = i / 4 + 8 * (j / 2), column = i % 4 * 2 + j % 2;
        uint32_t before = threads_[first + i].Offered(groups * (halves + 1) + j);
        bool is_float = at.type.kind == Kind::kFloat;
        double sum = is_float ? double{std::bit_cast<float>(before)} : static_cast<int32_t>(before);
        for (size_t k = 0; k < mma.depth; ++k) sum += a[row * mma.depth + k] * b[k * 8 + column];
        threads_[first + i].Take(j, is_float ? std::bit_cast<uint32_t>(static_cast<float>(sum))
                                             : static_cast<uint32_t>(static_cast<int64_t>(sum)));
      }
    }
    return "";
  }

  std::string PassBarrier(std::vector<bool>& is_ready) {
    uint32_t waiting = 0;
    const Instruction* at = nullptr;
    for (uint32_t i = 0; i < grid_.threads; ++i) {
      if (states_[i] != State::kAtBarrier) continue;
      if (at != nullptr && at != &threads_[i].waits_at())
        return "threads wait at different barriers, in lines " + std::to_string(at->line) + " and " +
               std::to_string(threads_[i].waits_at().line);
      at = &threads_[i].waits_at();
      ++waiting;
    }
    if (waiting == 0) return "";
    if (waiting < grid_.threads)
      return "line " + std::to_string(at->line) + ": " + std::to_string(waiting) + " of " +
             std::to_string(grid_.threads) + " threads wait at a barrier, and the others have ended";
    is_ready.assign(grid_.threads, true);
    shared_.PassBarrier();
    return "";
  }

  Grid grid_;
  Shared shared_;
  std::mt19937 random_;
  std::vector<Thread> threads_;
  std::vector<State> states_;
  std::vector<uint32_t> order_;
  std::vector<std::vector<GlobalAccess>> accesses_;  // by thread; empty if nobody asks
  Counts counts_;
};

}  // namespace

std::string Run(const Entry& entry, Grid grid, const std::vector<uint64_t>& params, uint32_t seed, Memory& memory,
                Counts* counts) {
  if (entry.threads != 0 && entry.threads != grid.threads)
    return "`" + entry.name + "` runs in blocks of " + std::to_string(entry.threads) + " threads";
  Block threads(entry, grid, params, seed, memory, counts != nullptr);
  std::vector<uint32_t> order(grid.blocks);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  for (uint32_t block : order) {
    std::string fault = threads.Run(block);
    if (!fault.empty()) return "`" + entry.name + "`, " + fault + " (block " + std::to_string(block) + ")";
  }
  if (counts != nullptr) *counts = threads.counts();
  return "";
}

}  // namespace ptx
