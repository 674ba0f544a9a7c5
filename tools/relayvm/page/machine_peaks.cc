#include "tools/relayvm/page/machine_peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace rvm::tools {
namespace {

constexpr int kRounds = 5;
constexpr int64_t kMemoryBytes = int64_t{128} << 20;    // of all threads; beyond all caches
constexpr int64_t kMinThreadBytes = int64_t{16} << 20;  // of each, where there are many
constexpr int64_t kSteps = 200'000;                     // of the loop of multiply-adds

// Independent sums, more than the units of any processor have in flight.
template <typename Vector>
[[gnu::always_inline]] inline float MultiplyAdd(int64_t steps) {
  constexpr int kSums = 12;
  Vector sums[kSums], factor = Vector{} + 0.999F, term = Vector{} + 1e-3F;
  for (int i = 0; i < kSums; ++i) sums[i] = Vector{} + static_cast<float>(i);
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * factor + term;
  }
  Vector total = sums[0];
  for (int i = 1; i < kSums; ++i) total += sums[i];
  return total[0];
}

template <typename Vector>
[[gnu::always_inline]] inline uint64_t Sum(const std::byte* bytes, int64_t size) {
  Vector sums[4] = {};
  for (int64_t i = 0; i + int64_t{sizeof(sums)} <= size; i += int64_t{sizeof(sums)}) {
    Vector read[4];
    std::memcpy(&read, bytes + i, sizeof(read));
    for (int k = 0; k < 4; ++k) sums[k] += read[k];
  }
  return (sums[0] + sums[1] + sums[2] + sums[3])[0];
}

struct Loops {
  float (*multiply_add)(int64_t steps);
  double operations;  // of a step
  uint64_t (*sum)(const std::byte* bytes, int64_t size);
};

template <size_t bytes>
using Floats [[gnu::vector_size(bytes)]] = float;
template <size_t bytes>
using Words [[gnu::vector_size(bytes)]] = uint64_t;

#ifdef __x86_64__
[[gnu::target("avx512f,avx512vl")]] float MultiplyAdd512(int64_t steps) { return MultiplyAdd<Floats<64>>(steps); }
[[gnu::target("avx512f,avx512vl")]] uint64_t Sum512(const std::byte* bytes, int64_t size) {
  return Sum<Words<64>>(bytes, size);
}
[[gnu::target("avx2,fma")]] float MultiplyAdd256(int64_t steps) { return MultiplyAdd<Floats<32>>(steps); }
[[gnu::target("avx2,fma")]] uint64_t Sum256(const std::byte* bytes, int64_t size) {
  return Sum<Words<32>>(bytes, size);
}
#endif
float MultiplyAdd128(int64_t steps) { return MultiplyAdd<Floats<16>>(steps); }
uint64_t Sum128(const std::byte* bytes, int64_t size) { return Sum<Words<16>>(bytes, size); }

Loops LoopsOfThisMachine() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    return {MultiplyAdd512, 2.0 * 12 * 16, Sum512};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {MultiplyAdd256, 2.0 * 12 * 8, Sum256};
#endif
  return {MultiplyAdd128, 2.0 * 12 * 4, Sum128};
}

// Returns the shortest time, in seconds, in which all threads have called `work` with their numbers.
double LeastSeconds(int64_t threads, const std::function<void(int64_t)>& work) {
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    auto began = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int64_t i = 1; i < threads; ++i) others.emplace_back(work, i);
    work(0);
    for (std::thread& other : others) other.join();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return least;
}

}  // namespace

MachinePeaks MeasurePeaks(int64_t threads) {
  const Loops loops = LoopsOfThisMachine();
  MachinePeaks peaks = {.threads = threads};
  std::atomic<float> seen_float = 0;  // keeps the loops
  std::atomic<uint64_t> seen = 0;
  const auto count = static_cast<double>(threads);
  double seconds = LeastSeconds(threads, [&](int64_t) { seen_float = loops.multiply_add(kSteps); });
  peaks.flops = loops.operations * static_cast<double>(kSteps) * count / seconds;

  const int64_t bytes_each = std::max(kMemoryBytes / threads, kMinThreadBytes);
  std::vector<std::vector<std::byte>> memory(static_cast<size_t>(threads));
  for (std::vector<std::byte>& bytes : memory) bytes.assign(static_cast<size_t>(bytes_each), std::byte{1});
  seconds =
      LeastSeconds(threads, [&](int64_t i) { seen = loops.sum(memory[static_cast<size_t>(i)].data(), bytes_each); });
  peaks.memory_bytes = static_cast<double>(bytes_each) * count / seconds;

  constexpr int64_t kPasses = 400;
  seconds = LeastSeconds(threads, [&](int64_t i) {
    const std::byte* bytes = memory[static_cast<size_t>(i)].data();
    for (int64_t pass = 0; pass < kPasses; ++pass) seen = loops.sum(bytes, MachinePeaks::kCacheBytes);
  });
  peaks.cache_bytes = static_cast<double>(MachinePeaks::kCacheBytes * kPasses) * count / seconds;
  return peaks;
}

}  // namespace rvm::tools
