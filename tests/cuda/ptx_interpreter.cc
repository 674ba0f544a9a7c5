#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <type_traits>
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

class Thread {
 public:
  Thread(const Entry& entry, const std::vector<uint64_t>& params, Memory& memory)
      : entry_(entry), params_(params), memory_(memory), registers_(entry.num_registers) {}

  // "" or the fault.
  std::string Run(const uint32_t (&special)[4]) {
    constexpr uint64_t kMaxSteps = 500'000'000;
    special_ = special;
    std::fill(registers_.begin(), registers_.end(), 0xcdcdcdcdcdcdcdcd);
    problem_.clear();
    size_t at = 0;
    for (uint64_t steps = 0; steps < kMaxSteps; ++steps) {
      const Instruction& now = entry_.code[at++];
      if (now.guard >= 0 && (registers_[static_cast<size_t>(now.guard)] == 1) == now.is_guard_negated) continue;
      if (now.op == Op::kReturn) return "";
      if (now.op == Op::kBranch) {
        at = now.target;
      } else if (!Step(now)) {
        return "`" + entry_.name + "`, line " + std::to_string(now.line) + ": " +
               (problem_.empty() ? "an instruction of a type that it does not have" : problem_);
      }
    }
    return "`" + entry_.name + "` does not end";
  }

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
    constexpr Op kBits[] = {Op::kMove, Op::kSelect, Op::kSetPredicate, Op::kAnd, Op::kOr,      Op::kXor,
                            Op::kNot,  Op::kShl,    Op::kShr,          Op::kClz, Op::kExtract, Op::kPopCount};
    auto is_of = [&](std::span<const Op> ops) { return std::find(ops.begin(), ops.end(), now.op) != ops.end(); };
    if (is_of({{Op::kLoadParam, Op::kLoad, Op::kStore}})) return Access(now);
    if (is_of(kBits)) return BitStep(now);
    if (now.op == Op::kConvert) return Convert(now);
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
      place = memory_.At(address, bytes * lanes, problem_);
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
      return WithInteger(now.type, [&](auto zero) { return Put(now, ToInteger<decltype(zero)>(value)); });
    }
    return WithInteger(now.source, [&](auto zero) {
      auto value = static_cast<decltype(zero)>(x);
      if (to_float) {
        if (now.rounding != Rounding::kNearest) return false;
        // Rounded once.
        if (now.type.bytes == 4) return Put(now, static_cast<float>(value));
        return now.type.bytes == 8 ? Put(now, static_cast<double>(value)) : false;
      }
      return WithInteger(now.type, [&](auto to) { return Put(now, static_cast<decltype(to)>(value)); });
    });
  }

  bool PutFloat(const Instruction& now, double value) {
    if (now.type.bytes == 8) return Put(now, value);
    if (now.type.bytes == 4) return Put(now, static_cast<float>(value));
    // Of a float: a double is never rounded to 16 bits by way of one.
    if (now.source.bytes == 8) return false;
    registers_[now.to[0]] = std::bit_cast<uint16_t>(static_cast<_Float16>(static_cast<float>(value)));
    return true;
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
      // A NaN loses; -0 is less than +0.
      if (now.op == Op::kMax)
        return Put<T>(now, std::isnan(x) ? y : std::isnan(y) ? x : x == y ? (std::signbit(x) ? y : x) : std::max(x, y));
      if (now.op == Op::kMin)
        return Put<T>(now, std::isnan(x) ? y : std::isnan(y) ? x : x == y ? (std::signbit(x) ? x : y) : std::min(x, y));
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

  const Entry& entry_;
  const std::vector<uint64_t>& params_;
  Memory& memory_;
  std::vector<uint64_t> registers_;
  const uint32_t* special_ = nullptr;
  std::string problem_;
};

}  // namespace

std::string Run(const Entry& entry, Grid grid, const std::vector<uint64_t>& params, uint32_t seed, Memory& memory) {
  Thread thread(entry, params, memory);
  std::vector<uint32_t> order(grid.blocks);
  for (uint32_t i = 0; i < grid.blocks; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  for (uint32_t block : order) {
    for (uint32_t i = 0; i < grid.threads; ++i) {
      uint32_t index = seed % 2 == 0 ? i : grid.threads - 1 - i;
      std::string fault = thread.Run({index, grid.threads, block, grid.blocks});
      if (!fault.empty()) return fault + " (block " + std::to_string(block) + ", thread " + std::to_string(index) + ")";
    }
  }
  return "";
}

}  // namespace ptx
